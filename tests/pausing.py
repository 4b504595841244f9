"""Processes that hang for a while, as one does whose machine is overloaded or whose disk is away."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import wait_until


@contextmanager
def paused(*pids: int) -> Iterator[None]:
    """Let these processes do nothing until the block is left."""
    try:
        for pid in pids:
            _pause(pid)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _pause(pid: int) -> None:
    """Stop the process and wait until all its threads stand still: the signal alone is only a request."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: _states(pid) == {"T"}, f"process {pid} stands still")


def _states(pid: int) -> set[str]:
    # The state is the first field behind the name, which stands in parentheses and may hold any character.
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            states.add(stat.read_text().rpartition(")")[2].split()[0])
    return states
