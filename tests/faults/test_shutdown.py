"""A worker that is told to end: what is in work is finished, nothing new starts, no lease is left."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.faults.crew import Crew, assert_recorded_once, leases_of
from tests.operator import Operator, sites
from tests.waiting import wait_until


@pytest.mark.parametrize("threads", [4, 24])
def test_a_worker_that_is_told_to_end_finishes_what_is_in_work_and_starts_nothing(
    operator: Operator, crew: Crew, threads: int
) -> None:
    tokens = operator.set_tokens(sites(80))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 400})
    worker = crew.hire(threads=threads)
    job_id = operator.start("reconcile", {"limit": 80})
    wait_until(lambda: operator.job(job_id)["progress"]["done"], "something is done")
    os.kill(worker.pid, signal.SIGTERM)
    told_at = time.monotonic()
    wait_until(lambda: not worker.running, "the worker ends", timeout_s=20)
    assert time.monotonic() - told_at < 8
    assert leases_of(operator) == []
    job = operator.job(job_id)
    assert job["state"] == "succeeded"
    meta = job["result"]["meta"]
    assert meta["stoppedBy"] == "shutdown"
    assert 0 < meta["recorded"] < 80
    assert meta["remaining"] == 80 - meta["recorded"]
    assert (meta["lost"], meta["failed"], meta["lockedOut"]) == (0, 0, 0)
    assert len(operator.documents(tokens)) == meta["recorded"]

    operator.sandbox.clear_faults()
    crew.hire()
    again = operator.meta("reconcile", {"limit": 80})
    assert (again["alreadySeen"], again["recorded"]) == (meta["recorded"], meta["remaining"])
    assert_recorded_once(operator, tokens)
