"""How a process of ours is told to end: once, and it finishes what it has begun; twice, and it is gone.

Owns what signals do after the first one, and the limit of a clean end. Never decides what has to be finished.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

log = logging.getLogger(__name__)

# What a supervisor and a terminal send. As process 1 of a container we cannot die of them, so we exit.
TOLD_BY = (signal.SIGTERM, signal.SIGINT)
CUT_OFF = 1


def end_when_told(ending: threading.Event) -> None:
    """Set `ending` at the first SIGTERM or SIGINT, and be gone at the second.

    For the main thread, before it starts another one. A thread waits for the signals, because a handler runs
    inside whatever the main thread is doing, which may be the waiting for `ending` itself.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, TOLD_BY)

    def listen() -> None:
        signal.sigwait(TOLD_BY)
        ending.set()
        _end_at_once(signal.sigwait(TOLD_BY), None)

    threading.Thread(target=listen, name="end-signals", daemon=True).start()


def end_at_once_when_told_again() -> None:
    """Be gone at the next SIGTERM, SIGINT or SIGQUIT. For the main thread."""
    for number in (*TOLD_BY, signal.SIGQUIT):
        end_at_once_at(number)


def end_at_once_at(number: signal.Signals) -> None:
    """Be gone at this signal; leases and messages in hand come free by their times. For the main thread."""
    signal.signal(number, _end_at_once)


def _end_at_once(number: int, _frame: FrameType | None) -> NoReturn:
    # No logging: the thread that was interrupted may hold the log's lock.
    os.write(2, b'{"level": "warning", "message": "told again to end: the process ends at once"}\n')
    os._exit(128 + number)


def cut_off_after(ending: threading.Event, limit_s: float, give_back: Callable[[], None]) -> None:
    """Watch that the process ends within `limit_s` seconds after `ending` was set.

    When it does not, `give_back` is called and the process ends with code 1, whatever it is doing.
    """

    def watch() -> None:
        ending.wait()
        # A process that ends in time takes this thread with it.
        threading.Event().wait(limit_s)
        log.error("the process did not end in time and is cut off", extra={"limit_s": limit_s})
        try:
            give_back()
        finally:
            os._exit(CUT_OFF)

    threading.Thread(target=watch, name="end-watch", daemon=True).start()
