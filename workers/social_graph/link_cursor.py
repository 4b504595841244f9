"""Where a page of links stopped and the next one starts. Pure.

A place is a time and, among what happened at the same time, a number that follows from what the row is about.
Both stay as they are when more links are stored, and when the links of a URL are written anew under new ids;
so whoever follows the pages meets no row twice and misses none that was there when they began.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

TIME_DIGITS, RANK_DIGITS, HASH_DIGITS = 11, 1, 16
# Every text of this form is a place, so that no cursor is half valid.
CURSOR_PATTERN = f"^[0-9a-f]{{{TIME_DIGITS + RANK_DIGITS + HASH_DIGITS}}}$"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

RowT = TypeVar("RowT")


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class LinkCursor:
    """A place in a list that is ordered by time; places compare as their rows stand."""

    at: datetime
    tie: str

    @classmethod
    def of(cls, at: datetime, *identity: str, rank: int = 0) -> LinkCursor:
        """The place of the row that `identity` names; `rank` 0..15 comes first among rows of one time.

        `at` lies between the years 1970 and 2527.
        """
        named = hashlib.blake2b("\0".join(identity).encode(), digest_size=HASH_DIGITS // 2).hexdigest()
        return cls(at=at, tie=f"{rank:0{RANK_DIGITS}x}{named}")

    def to_text(self) -> str:
        """The form that callers hand back; it says nothing to them."""
        return f"{(self.at - _EPOCH) // _MILLISECOND:0{TIME_DIGITS}x}{self.tie}"

    @classmethod
    def from_text(cls, text: str) -> LinkCursor:
        """Read what `to_text` wrote; `text` fits `CURSOR_PATTERN`."""
        return cls(at=_EPOCH + int(text[:TIME_DIGITS], 16) * _MILLISECOND, tie=text[TIME_DIGITS:])


def in_order(
    rows: Iterable[RowT], place_of: Callable[[RowT], LinkCursor], *, after: LinkCursor | None
) -> Iterator[RowT]:
    """Rows that come by time, in the order of their places, each place once; those up to `after` left out."""
    for _, together in itertools.groupby(rows, key=lambda row: place_of(row).at):
        by_place = {place_of(row): row for row in together}
        for place in sorted(by_place):
            if after is None or place > after:
                yield by_place[place]


def take_page(
    rows: Iterable[RowT], place_of: Callable[[RowT], LinkCursor], limit: int
) -> tuple[list[RowT], LinkCursor | None]:
    """The first `limit` rows, and the place after which the next page starts; None when nothing is left."""
    found = list(itertools.islice(rows, limit + 1))
    page = found[:limit]
    return page, place_of(page[-1]) if len(found) > limit else None
