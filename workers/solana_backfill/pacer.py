"""Lets the threads of this process start their requests one after the other, when the endpoint's schedule
says so.

One thread at a time asks the schedule and waits; the others stand behind it. Every wait ends with the
session's halt, so a request that was not started by then never is. After a rate limit the endpoint is left
alone by everybody, and ever longer when it goes on refusing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workers.clock import Clock
from workers.errors import ConvergeError, LockUnavailable
from workers.solana_backfill.schedule import PAUSE_MAX_S, EndpointSchedule, Turn

log = logging.getLogger(__name__)

# Half of what the schedule's headroom has room for within a second.
LATE_TOLERATED_S = 0.01
# How often a place among the open requests is looked for. Nobody can tell when one becomes free.
POLL_S = 0.05
STORE_TRIES = 5
STORE_PAUSE_S = 1.0
# A pause without a hint is longer by up to this part, so that hosts do not come back at the same moment.
JITTER = 0.25


class Halted(ConvergeError):
    """The session has ended, so nothing more is asked or written for it."""


class Permit:
    """The right to make one request. `granted_at` is on the monotonic clock."""

    def __init__(self, clock: Clock, turn: Turn) -> None:
        self.turn = turn
        self.granted_at = clock.monotonic()
        self._clock = clock
        self._started_at: float | None = None

    def start(self) -> None:
        """Note that the request is on its way now; only the first time counts."""
        if self._started_at is None:
            self._started_at = self._clock.monotonic()

    @property
    def late_s(self) -> float:
        """How much later than it may be the request started after it was granted, on a busy machine."""
        started_at = self.granted_at if self._started_at is None else self._started_at
        return max(0.0, started_at - self.granted_at - LATE_TOLERATED_S)


class Pacer:
    """The pacer of one endpoint; one for a process. `random` gives numbers in [0, 1)."""

    def __init__(
        self, schedule: EndpointSchedule, clock: Clock, *, pause_s: float, random: Callable[[], float]
    ) -> None:
        self._schedule = schedule
        self._clock = clock
        self._pause_s = pause_s
        self._random = random
        self._turn = threading.Lock()
        self._ready_at = 0.0
        self._refusals = threading.Lock()
        self._refusals_in_a_row = 0
        self._paused_at = float("-inf")

    @contextmanager
    def permit(self, halt: threading.Event) -> Iterator[Permit]:
        """Wait for the right to start a request and hold it for the body, which notes the start.

        Raises `Halted`, and `LockUnavailable` when Redis stays away: nothing is asked uncounted.
        """
        owner = self._schedule.new_owner()
        # Whoever has the lock leaves at once when the halt is set, so those behind it need no time limit.
        with self._turn:
            permit = Permit(self._clock, self._await_turn(owner, halt))
        try:
            yield permit
        finally:
            try:
                self._schedule.give_back(owner, permit.turn, late_s=permit.late_s)
            except LockUnavailable:
                log.warning("a place among the open requests is left to expiry")

    def refused(self, permit: Permit, hint_s: float | None) -> None:
        """Note a rate limit in answer to a request, and have everybody pause.

        `hint_s` is the wait that the endpoint asks for. Without one each further refusal doubles the pause;
        those of requests that had started before the last pause are all one refusal.
        """
        with self._refusals:
            if permit.granted_at > self._paused_at:
                self._refusals_in_a_row += 1
                self._paused_at = self._clock.monotonic()
            seconds = self._pause_s * 2.0 ** min(self._refusals_in_a_row - 1, 20)
            seconds *= 1 + JITTER * self._random()
        seconds = min(seconds if hint_s is None else hint_s, PAUSE_MAX_S)
        log.warning("the endpoint is left alone", extra={"wait_s": round(seconds, 3)})
        try:
            self._schedule.pause(seconds)
        except LockUnavailable:
            log.warning("a pause could not be noted")

    def accepted(self, permit: Permit) -> None:
        """Note an answer to a request. To one that started after the last pause, it ends the row of
        refusals.
        """
        with self._refusals:
            if permit.granted_at > self._paused_at:
                self._refusals_in_a_row = 0

    def _await_turn(self, owner: str, halt: threading.Event) -> Turn:
        while True:
            self._wait(self._ready_at - self._clock.monotonic(), halt)
            turn = self._ask(owner, halt)
            self._ready_at = self._clock.monotonic() + (POLL_S if turn.wait_s is None else turn.wait_s)
            if turn.is_granted:
                return turn

    def _ask(self, owner: str, halt: threading.Event) -> Turn:
        for _ in range(STORE_TRIES - 1):
            try:
                return self._schedule.take(owner)
            except LockUnavailable:
                self._wait(STORE_PAUSE_S, halt)
        return self._schedule.take(owner)

    def _wait(self, seconds: float, halt: threading.Event) -> None:
        if halt.is_set() or (seconds > 0 and self._clock.wait(halt, seconds)):
            raise Halted("the session has ended")
