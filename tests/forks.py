"""Children that do one thing in a process of their own, forked from one that has loaded what they need.

There is one such process for each test process, and it loads its modules before it forks the first child. So
all of them are named here: what is missing each child would load by itself, which takes a second.
"""

from __future__ import annotations

import multiprocessing

PRELOADED = (
    "tests.faults.crashing",
    "tests.faults.funding_crashing",
    "tests.faults.paying",
    "tests.faults.streaming",
    "tests.integration.pace_takers",
    "tests.integration.permit_takers",
)
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(list(PRELOADED))
