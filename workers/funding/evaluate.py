"""What the counters and the truth of one property say when they are compared. Pure.

The truth is the sum of bricks over the purchases in PostgreSQL that are neither declined nor refunded; the
counters in Redis are a projection of it. Both have two numbers: all bricks, and those of auto-invest, which
the first includes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

READS_MAX = 3
# What Redis can count with; see https://redis.io/docs/latest/commands/incr/.
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_SHOWN_MAX = 40


class Holding(StrEnum):
    """What there is under a counter's key."""

    NOTHING = "nothing"
    TEXT = "text"
    OTHER = "other"


class CounterFault(StrEnum):
    """Why a counter cannot be right, whatever the truth is."""

    MISSING = "missing"
    NEGATIVE = "negative"
    NOT_A_NUMBER = "not-a-number"


@dataclass(frozen=True, kw_only=True, slots=True)
class Counter:
    """One counter as it was read. `text` is what Redis holds, byte for byte (Latin-1)."""

    holding: Holding
    text: str = ""

    @classmethod
    def of(cls, number: int) -> Counter:
        """The counter that holds this number."""
        return cls(holding=Holding.TEXT, text=str(number))

    @property
    def number(self) -> int | None:
        """The number that Redis would count on from; None when there is none."""
        if self.holding is not Holding.TEXT or not _WHOLE_NUMBER.fullmatch(self.text):
            return None
        number = int(self.text)
        return number if _INT64_MIN <= number <= _INT64_MAX else None

    @property
    def fault(self) -> CounterFault | None:
        """Why it cannot be right, or None. A counter that is merely not the truth has no fault."""
        if self.holding is Holding.NOTHING:
            return CounterFault.MISSING
        if self.number is None:
            return CounterFault.NOT_A_NUMBER
        return CounterFault.NEGATIVE if self.number < 0 else None

    def to_json(self) -> int | str | None:
        """The number; what else is there as a short text; None for a missing key."""
        if self.number is not None:
            return self.number
        if self.holding is Holding.OTHER:
            return "(no text)"
        return None if self.holding is Holding.NOTHING else self.text[:_SHOWN_MAX]


MISSING = Counter(holding=Holding.NOTHING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters:
    """Both counters of a property."""

    purchased: Counter = MISSING
    auto_invest: Counter = MISSING

    @property
    def faults(self) -> frozenset[CounterFault]:
        """The faults of either."""
        return frozenset(each.fault for each in (self.purchased, self.auto_invest) if each.fault is not None)

    def to_json(self) -> dict[str, int | str | None]:
        """Both, as `Counter.to_json` shows them."""
        return {"purchased": self.purchased.to_json(), "autoInvest": self.auto_invest.to_json()}


@dataclass(frozen=True, kw_only=True, slots=True)
class BrickCounts:
    """Both numbers of a property in bricks; `purchased` includes `auto_invest`."""

    purchased: int
    auto_invest: int

    def to_json(self) -> dict[str, int]:
        """Both, by the names callers see."""
        return {"purchased": self.purchased, "autoInvest": self.auto_invest}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Counters and truth, read one right after the other."""

    counters: Counters
    truth: BrickCounts

    @property
    def is_synced(self) -> bool:
        """Whether both counters hold the truth. A missing key does not, not even where the truth is 0."""
        return self.counters == counters_of(self.truth)

    def to_json(self) -> dict[str, object]:
        """The reading as results and alerts show it."""
        return {"counters": self.counters.to_json(), "truth": self.truth.to_json()}


class Decision(StrEnum):
    """What follows from the readings so far."""

    SYNCED = "synced"
    NEEDS_FIX = "needs-fix"
    RETRY = "retry"
    UNSTABLE = "unstable"


Readings: TypeAlias = tuple[Reading, ...]


def counters_of(counts: BrickCounts) -> Counters:
    """The counters that hold these numbers."""
    return Counters(purchased=Counter.of(counts.purchased), auto_invest=Counter.of(counts.auto_invest))


def decide(readings: Readings) -> Decision:
    """Decide from the readings so far, of which there is at least one.

    A first reading in which both sides agree is enough. Once they disagreed, only two equal readings in a row
    count: a single one may have caught a purchase between its two writes, and values that meet in passing are
    still moving.
    """
    current = readings[-1]
    if len(readings) == 1 and current.is_synced:
        return Decision.SYNCED
    if len(readings) > 1 and readings[-2] == current:
        return Decision.SYNCED if current.is_synced else Decision.NEEDS_FIX
    return Decision.RETRY if len(readings) < READS_MAX else Decision.UNSTABLE


def is_near_completion(reading: Reading, *, capacity: int, ratio: float) -> bool:
    """Whether the larger of counter and truth has reached `ratio` of the capacity, itself included.

    An under-count is the dangerous drift, so the counter alone may not decide. `capacity` is at least 1.
    """
    counted = reading.counters.purchased.number or 0
    return max(counted, reading.truth.purchased) / capacity >= ratio


def is_oversold(truth: BrickCounts, *, capacity: int) -> bool:
    """Whether more bricks are sold than there are. A full property is not oversold."""
    return truth.purchased > capacity


def targets_of(truth: BrickCounts, *, capacity: int) -> BrickCounts:
    """What the counters are to hold: the truth, and never more than the capacity."""
    return BrickCounts(purchased=min(truth.purchased, capacity), auto_invest=min(truth.auto_invest, capacity))


def delta_of(counters: Counters, targets: BrickCounts) -> dict[str, int | None]:
    """How far each counter is moved by a fix; None where there was no number to move."""
    moves = {"purchased": (counters.purchased, targets.purchased)}
    moves["autoInvest"] = (counters.auto_invest, targets.auto_invest)
    return {
        name: None if counter.number is None else target - counter.number
        for name, (counter, target) in moves.items()
    }
