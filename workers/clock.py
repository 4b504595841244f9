"""Time: the one place that reads a clock or waits.

Wall time is aware UTC cut to milliseconds, which is what MongoDB stores, so that a value compares equal
after a round trip. Durations use the monotonic clock.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from workers.errors import BudgetExceeded


class Clock:
    """The system's clock. Tests pass a subclass that they move by hand."""

    def now(self) -> datetime:
        """Now, aware, in UTC, in whole milliseconds."""
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until `event` is set or `timeout_s` has passed; return whether it is set."""
        return event.wait(timeout_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """The time one piece of work may take; handed to every call that can block.

    `stop` ends waits early, e.g. when the worker shuts down.
    """

    clock: Clock
    ends_at: float
    stop: threading.Event

    @classmethod
    def of(cls, clock: Clock, seconds: float, stop: threading.Event | None = None) -> Budget:
        """A budget of `seconds` from now."""
        return cls(clock=clock, ends_at=clock.monotonic() + seconds, stop=stop or threading.Event())

    @property
    def remaining_s(self) -> float:
        """Seconds left, 0 when used up."""
        return max(0.0, self.ends_at - self.clock.monotonic())

    def check(self) -> None:
        """Raise `BudgetExceeded` when the time is used up."""
        if self.remaining_s <= 0:
            raise BudgetExceeded("the time for this piece of work is used up")

    def sleep(self, seconds: float) -> None:
        """Wait `seconds`, but not past the end; raise `BudgetExceeded` if the end or a stop comes first."""
        if seconds > self.remaining_s or self.clock.wait(self.stop, seconds):
            raise BudgetExceeded("the wait would outlast the time for this piece of work")


def to_iso(moment: datetime) -> str:
    """Render an aware time as UTC with `Z` and milliseconds, the API's and the message's form."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> datetime:
    """Read a time that `to_iso` wrote.

    Raises `ValueError` for text that is no time or has no zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)
