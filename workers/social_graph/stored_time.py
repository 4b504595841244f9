"""Which times are stored: aware ones, in UTC, in whole milliseconds, so that they compare equal when read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload

from workers.errors import InvalidInput


@overload
def stored_time(moment: datetime, field: str) -> datetime: ...
@overload
def stored_time(moment: datetime | None, field: str) -> datetime | None: ...
def stored_time(moment: datetime | None, field: str) -> datetime | None:
    """The time as it is stored. Raises `InvalidInput` naming `field` when it has no zone."""
    if moment is None:
        return None
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidInput(f"{field} has no time zone", field=field)
    in_utc = moment.astimezone(UTC)
    return in_utc.replace(microsecond=in_utc.microsecond // 1000 * 1000)
