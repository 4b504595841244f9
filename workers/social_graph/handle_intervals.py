"""The periods in which an account had a handle. Pure.

Handles are given back and taken by others, so only the period says who had one. A period goes from the first
to the last time we saw the handle; the time between two periods belongs to nobody, because nobody was seen.
Handles compare without case, as the platforms do; they are kept as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class HandleInterval:
    """One period; both ends belong to it."""

    value: str
    first_seen: datetime
    last_seen: datetime

    def is_of(self, handle: str) -> bool:
        """Whether this period is about `handle`."""
        return self.value.casefold() == handle.casefold()

    def covers(self, at: datetime) -> bool:
        """Whether `at` lies in the period."""
        return self.first_seen <= at <= self.last_seen

    def to_document(self) -> dict[str, Any]:
        """The stored form."""
        return {"value": self.value, "first_seen": self.first_seen, "last_seen": self.last_seen}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> HandleInterval:
        """Read the stored form."""
        return cls(
            value=document["value"], first_seen=document["first_seen"], last_seen=document["last_seen"]
        )


Intervals = tuple[HandleInterval, ...]


def with_observation(intervals: Intervals, handle: str, at: datetime) -> Intervals:
    """Add one sighting. The result is ordered by time and no two periods overlap by more than an instant."""
    if not intervals or at >= intervals[-1].first_seen:
        return _with_recent(intervals, handle, at)
    return _with_late(intervals, handle, at)


def with_return(intervals: Intervals, handle: str, at: datetime) -> Intervals:
    """Add a sighting of a handle that somebody else had meanwhile: the time in between belongs to them."""
    if not intervals or at <= intervals[-1].last_seen:
        return with_observation(intervals, handle, at)
    return (*intervals, HandleInterval(value=handle, first_seen=at, last_seen=at))


def had_handle_at(intervals: Intervals, handle: str, at: datetime) -> bool:
    """Whether `handle` was held at `at`. Where two periods meet in an instant, the newer one has it."""
    covering = next((interval for interval in reversed(intervals) if interval.covers(at)), None)
    return covering is not None and covering.is_of(handle)


def _with_recent(intervals: Intervals, handle: str, at: datetime) -> Intervals:
    if not intervals:
        return (HandleInterval(value=handle, first_seen=at, last_seen=at),)
    *earlier, last = intervals
    if last.is_of(handle):
        return (*earlier, replace(last, last_seen=max(last.last_seen, at)))
    # The one change to an older period: a sighting from inside it ends it there.
    ended = replace(last, last_seen=min(last.last_seen, at))
    return (*earlier, ended, HandleInterval(value=handle, first_seen=at, last_seen=at))


def _with_late(intervals: Intervals, handle: str, at: datetime) -> Intervals:
    """Put a sighting older than the last period where it belongs."""
    position = sum(1 for interval in intervals if interval.first_seen <= at)
    before, after = intervals[:position], intervals[position:]
    if before and before[-1].is_of(handle):
        return (*before[:-1], replace(before[-1], last_seen=max(before[-1].last_seen, at)), *after)
    if before and before[-1].covers(at):
        # Two sightings contradict each other; what came in order stands.
        return intervals
    if after[0].is_of(handle):
        return (*before, replace(after[0], first_seen=at), *after[1:])
    return (*before, HandleInterval(value=handle, first_seen=at, last_seen=at), *after)
