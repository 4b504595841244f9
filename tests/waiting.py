"""Waiting for a condition with a deadline, instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PAUSE_MIN_S, PAUSE_MAX_S, PAUSE_GROWTH = 0.01, 0.1, 1.1


def wait_until(condition: Callable[[], T], what: str, *, timeout_s: float = 10.0) -> T:
    """Ask `condition` until its answer is true; return the answer, or fail naming `what`.

    What takes long is asked for less often: the asking itself would keep the processors busy.
    """
    pause_s = PAUSE_MIN_S
    deadline = time.monotonic() + timeout_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(pause_s)  # between two looks: the condition and the deadline say when it ends
        pause_s = min(pause_s * PAUSE_GROWTH, PAUSE_MAX_S)
