"""Commands to Redis that nobody waits for, sent in their order by a thread of their own.

What a task does last (give back its permit and its leases, report its outcome) needs no answer. All that is
waiting at a time goes out as one transaction, so many tasks share one round trip, and none of them stands
still for it.

The invariant: commands are carried out in the order in which they were handed in. It never keeps what could
not be sent: whoever handed it in is told, and the time to live of what it would have ended has to do.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from redis import Redis

log = logging.getLogger(__name__)

# So many go out at once; a worker that has more waiting sends them in a few turns.
BATCH_MAX = 200
IDLE_S = 60.0
# How long the first that waits is held for others to go with it. A task hands in the lease of its URL, that
# of its token and its outcome within a few milliseconds, and other threads end theirs meanwhile.
LINGER_S = 0.05

Command = Sequence[str | int | bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    """Commands that belong together. `done` is told at the end whether Redis has carried them out."""

    commands: tuple[Command, ...]
    done: Callable[[bool], None]


class WriteBehind:
    """Sends commands behind the back of whoever hands them in. One per process."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._guard = threading.Condition()
        self._waiting: list[_Entry] = []
        self._handed_in = 0
        self._ended = 0
        self._in_a_hurry = 0
        self._sender: threading.Thread | None = None

    def add(self, *commands: Command, done: Callable[[bool], None] = lambda _: None) -> None:
        """Hand in commands that may be sent twice. `done` is called by the sending thread; it is quick."""
        with self._guard:
            self._waiting.append(_Entry(commands=commands, done=done))
            self._handed_in += 1
            if self._sender is None or not self._sender.is_alive():
                self._sender = threading.Thread(
                    target=_send_while_there_is, args=[weakref.ref(self)], name="write-behind", daemon=True
                )
                self._sender.start()
            self._guard.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was handed in before has been sent or given up; False when time ran out."""
        with self._guard:
            last = self._handed_in
            self._in_a_hurry += 1
            self._guard.notify_all()
            try:
                return self._guard.wait_for(lambda: self._ended >= last, timeout_s)
            finally:
                self._in_a_hurry -= 1

    def send_what_waits(self) -> None:
        """Wait a while for something to send, and send it."""
        with self._guard:
            if self._guard.wait_for(lambda: self._waiting, IDLE_S):
                is_full = lambda: self._in_a_hurry or len(self._waiting) >= BATCH_MAX  # noqa: E731
                self._guard.wait_for(is_full, LINGER_S)
            batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
        try:
            self._send(batch)
        finally:
            with self._guard:
                self._ended += len(batch)
                self._guard.notify_all()

    def _send(self, batch: Sequence[_Entry]) -> None:
        if not batch:
            return
        try:
            with self._redis.pipeline() as pipe:
                for entry in batch:
                    for command in entry.commands:
                        pipe.execute_command(*command)  # type: ignore[no-untyped-call]
                answers = pipe.execute(raise_on_error=False)
        except Exception as exc:  # noqa: BLE001 - were this thread to die, what is behind would wait for nothing
            log.warning("commands were not sent", extra={"entries": len(batch), "error": repr(exc)})
            answers = None
        at = 0
        for entry in batch:
            own = None if answers is None else answers[at : at + len(entry.commands)]
            at += len(entry.commands)
            entry.done(own is not None and not any(isinstance(answer, Exception) for answer in own))


def _send_while_there_is(reference: weakref.ref[WriteBehind]) -> None:
    """The sending thread. It ends when its owner is gone, at the latest after one more idle wait."""
    while (owner := reference()) is not None:
        owner.send_what_waits()
        del owner
