"""Which times are stored: aware ones, in UTC, in whole milliseconds, so that they compare equal when read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload

from workers.errors import InvalidInput


@overload
def stored_time(moment: datetime, field: str) -> datetime: ...
@overload
def stored_time(moment: datetime | None, field: str) -> datetime | None: ...
def stored_time(moment: object, field: str) -> datetime | None:
    """The time as it is stored.

    Raises `InvalidInput` naming `field` when it is no time, has no zone, or has no form in UTC.
    """
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{field} is no time but {type(moment).__name__}", field=field)
    if moment.utcoffset() is None:
        raise InvalidInput(f"{field} has no time zone", field=field)
    try:
        in_utc = moment.astimezone(UTC)
    except OverflowError as exc:
        raise InvalidInput(f"{field} lies before the first or after the last year", field=field) from exc
    return in_utc.replace(microsecond=in_utc.microsecond // 1000 * 1000)


def required_time(moment: datetime | None, field: str) -> datetime:
    """A time that must be there. Raises `InvalidInput` naming `field` as `stored_time` does, and for None."""
    known = stored_time(moment, field)
    if known is None:
        raise InvalidInput(f"{field} is missing", field=field)
    return known
