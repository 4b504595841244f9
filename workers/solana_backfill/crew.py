"""Threads of one session that the session can leave behind.

A read from a socket cannot be cut short, and a stop must not wait for it. So every call is made on a thread
of a crew, and the job's own thread only waits: for the crew, or for a stop. Those that are in a call then are
left alone; they end by the call's own time limit, and find the ledger closed and the session halted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from workers.solana_backfill.pacer import Halted

TICK_S = 0.05
# Long enough for what is in the middle of writing to finish, short enough for a stop within a second.
GRACE_S = 0.3


class Crew:
    """See the module docstring. `stopping` is the job's, `halt` the session's; the first sets the second."""

    def __init__(
        self, *, stopping: threading.Event, halt: threading.Event, on_tick: Callable[[], None]
    ) -> None:
        self._stopping = stopping
        self._halt = halt
        self._on_tick = on_tick

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Do each work on a thread of its own, until all have ended or, shortly after a halt, without them.

        `on_tick` is called all the while. Raises the first error of a work, which has halted the others,
        unless the job was stopped.
        """
        errors: list[BaseException] = []
        all_ended = threading.Event()
        guard = threading.Lock()
        left = len(works)

        def do(work: Callable[[], None]) -> None:
            nonlocal left
            try:
                work()
            except Halted:
                pass
            except BaseException as exc:  # noqa: BLE001 - the job's own thread raises it again
                errors.append(exc)
                self._halt.set()
            finally:
                with guard:
                    left -= 1
                    if left == 0:
                        all_ended.set()

        for number, work in enumerate(works):
            threading.Thread(target=do, args=(work,), name=f"backfill-{number}", daemon=True).start()
        while not (self._halt.is_set() or all_ended.wait(TICK_S)):
            self._on_tick()
            if self._stopping.is_set():
                self._halt.set()
        all_ended.wait(GRACE_S)
        self._on_tick()
        if errors and not self._stopping.is_set():
            raise errors[0]
