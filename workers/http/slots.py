"""Bounds how many calls one process has open at a time.

A worker holds more targets than it makes calls: while some of them wait for the stores, others call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from workers.clock import Budget
from workers.errors import BudgetExceeded


class CallSlots:
    """As many slots as calls may be open at once. Safe for any number of threads."""

    def __init__(self, count: int) -> None:
        self._free = threading.BoundedSemaphore(count)

    @contextmanager
    def hold(self, budget: Budget) -> Iterator[None]:
        """Hold a slot for the body; wait for one as long as the budget lasts.

        Raises `BudgetExceeded` when none comes free in that time.
        """
        if not self._free.acquire(timeout=budget.remaining_s):
            raise BudgetExceeded("no call could be made in the time for this piece of work")
        try:
            yield
        finally:
            self._free.release()
