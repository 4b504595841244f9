"""The URLs of all tokens, counted and listed for people. Reads only.

A URL is told by the host that stands in it: canonical URLs of one platform have few hosts, so that the store
can count and filter by platform without knowing how URLs are routed.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from bson import ObjectId

from workers.clock import Clock, from_iso, to_iso
from workers.errors import InvalidInput
from workers.mongo import Document, MongoDatabase
from workers.social_graph.token.model import RetryableURL, Token
from workers.social_graph.token.repository import COLLECTION
from workers.social_graph.token.stretches import stretches
from workers.social_graph.token.url_rows import IN_TURN, rows_in, url_of
from workers.social_graph.vocabulary import FetchStatus
from workers.store_errors import translated

# How far back the newest tokens are looked for, one stretch after the other; behind the last one everywhere.
STRETCHES = tuple(timedelta(minutes=8**power) for power in range(8))


class URLGroup(NamedTuple):
    """URLs with this host, status and reason; `host` is None for all that are not asked for."""

    host: str | None
    status: FetchStatus
    reason: str | None


class URLCount(NamedTuple):
    """How many URLs are in a group."""

    group: URLGroup
    urls: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HostChoice:
    """URLs on one of `hosts`; with `is_inverted` those on none of them."""

    hosts: frozenset[str]
    is_inverted: bool = False

    @property
    def pattern(self) -> str:
        """What the URLs on one of the hosts match."""
        return rf"^[^/]*/[^/]*/(?:{'|'.join(map(re.escape, sorted(self.hosts)))})(?:/|$)"

    def to_condition(self) -> Document:
        """As a condition on a field."""
        matches: Document = {"$regex": self.pattern}
        return {"$not": matches} if self.is_inverted else matches


@dataclass(frozen=True, kw_only=True, slots=True)
class URLPlace:
    """Where a page of URLs stopped; time and attempts count only in lists that are ordered by them."""

    address: str
    url: str
    attempted_at: datetime | None = None
    attempts: int = 0

    @classmethod
    def of(cls, row: RetryableURL) -> URLPlace:
        """The place of a row."""
        return cls(address=row.address, url=row.url, attempted_at=row.attempted_at, attempts=row.attempts)

    def to_text(self) -> str:
        """The form that callers hand back; it says nothing to them."""
        values = [self.attempted_at and to_iso(self.attempted_at), self.attempts, self.address, self.url]
        return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str) -> URLPlace:
        """Read what `to_text` wrote. Raises `InvalidInput` for anything else."""
        try:
            at, attempts, address, url = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            return cls(
                address=str(address),
                url=str(url),
                attempted_at=None if at is None else from_iso(at),
                attempts=int(attempts),
            )
        except (binascii.Error, ValueError, TypeError, RecursionError) as exc:
            raise InvalidInput("no place in this list", field="after") from exc


@dataclass(frozen=True, kw_only=True, slots=True)
class URLPage:
    """A page of URLs; `next_from` is where to go on, None at the end."""

    rows: tuple[RetryableURL, ...]
    next_from: URLPlace | None


@dataclass(frozen=True, kw_only=True, slots=True)
class URLFilter:
    """Which URLs; None leaves a side open."""

    status: FetchStatus
    hosts: HostChoice | None = None
    reason: str | None = None

    def to_condition(self) -> Document:
        """As a condition on the projected fields of one URL."""
        condition: Document = {"status": self.status.value}
        if self.hosts is not None:
            condition["url"] = self.hosts.to_condition()
        if self.reason is not None:
            condition["reason"] = self.reason
        return condition


class URLSurvey:
    """See the module docstring. Raises `RetryableError` when the store does not answer.

    What looks at all tokens does so in stretches of addresses; what is written meanwhile may count or not.
    """

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        self._collection = database[COLLECTION]
        self._clock = clock

    def ping(self) -> None:
        """Ask the store for a sign of life."""
        with translated(COLLECTION):
            self._collection.database.command("ping")

    def count(self, hosts: Sequence[str]) -> list[URLCount]:
        """Count all URLs by status, reason, and which of `hosts` they are on.

        The place of the host in a written list is the cheapest thing that a server can work out: the embedded
        one takes five times as long for a `$switch` over the platforms.
        """
        host = {"$arrayElemAt": [{"$split": ["$social_urls.url", "/"]}, 2]}
        group: Document = {
            "status": "$social_urls.status",
            "reason": "$social_urls.reason",
            "host": {"$indexOfArray": [{"$literal": list(hosts)}, host]},
        }
        sums = Counter[URLGroup]()
        for row in self._rows([{"$unwind": "$social_urls"}, {"$group": {"_id": group, "urls": {"$sum": 1}}}]):
            sums[_group_of(row["_id"], hosts)] += int(row["urls"])
        return [URLCount(group=group, urls=urls) for group, urls in sums.items()]

    def list_waiting(self, wanted: URLFilter, *, limit: int, after: URLPlace | None = None) -> URLPage:
        """A page of URLs in a status that a retry takes up, in the order in which it does."""
        pipeline = _rows_of(wanted)
        if after is not None:
            pipeline.append({"$match": _later_than(after)})
        pipeline += [{"$sort": IN_TURN}, {"$limit": limit + 1}]
        found = heapq.nsmallest(limit + 1, map(url_of, self._rows(pipeline)), key=_in_turn)
        page = found[:limit]
        return URLPage(rows=tuple(page), next_from=URLPlace.of(page[-1]) if len(found) > limit else None)

    def iterate_waiting(self, statuses: Iterable[FetchStatus]) -> Iterator[RetryableURL]:
        """All URLs in one of `statuses`, in no useful order."""
        return map(url_of, self._rows(rows_in(statuses)))

    def list_by_token(self, wanted: URLFilter, *, limit: int, after: URLPlace | None = None) -> URLPage:
        """A page of URLs in any status, by the address of their token.

        No token behind the page is looked at; where few URLs are wanted the page ends late.
        """
        pipeline = [*_rows_of(wanted), {"$sort": {"address": 1, "url": 1}}]
        rows: list[RetryableURL] = []
        for row in map(url_of, self._rows(pipeline, "" if after is None else after.address)):
            if after is not None and (row.address, row.url) <= (after.address, after.url):
                continue
            if len(rows) == limit:
                return URLPage(rows=tuple(rows), next_from=URLPlace.of(rows[-1]))
            rows.append(row)
        return URLPage(rows=tuple(rows), next_from=None)

    def newest_tokens(
        self, limit: int, *, now: datetime, before: tuple[datetime, ObjectId] | None = None
    ) -> list[Token]:
        """The tokens that were seen first last, newest first, from behind this time and id on.

        Looks back in growing stretches of time: the embedded server sorts all that a condition leaves before
        it takes a few of them.
        """
        found: list[Document] = []
        end: Document = {}
        if before is not None:
            at, token_id = before
            found = self._newest_of({"created_at": at, "_id": {"$lt": token_id}}, limit)
            now, end = at, {"$lt": at}
        for stretch in (*STRETCHES, None):
            if len(found) >= limit:
                break
            start = None if stretch is None else now - stretch
            since: Document = {} if start is None else {"$gte": start}
            when = {**since, **end}
            found += self._newest_of({"created_at": when} if when else {}, limit - len(found))
            end = {"$lt": start}
        return [Token.from_document(document) for document in found]

    def _newest_of(self, condition: Document, limit: int) -> list[Document]:
        with translated(COLLECTION):
            return list(self._collection.find(condition, limit=limit).sort({"created_at": -1, "_id": -1}))

    def _rows(self, pipeline: Sequence[Document], start: str = "") -> Iterator[Document]:
        """What the pipeline makes of all tokens from an address on, one stretch of them after the other."""
        for stretch in stretches(self._clock, start):
            with translated(COLLECTION):
                rows = list(self._collection.aggregate([{"$match": stretch}, *pipeline], allowDiskUse=True))
            yield from rows


def _rows_of(wanted: URLFilter) -> list[Document]:
    """Stages that leave each URL that the filter admits as a document of its own."""
    return [*rows_in([wanted.status]), {"$match": wanted.to_condition()}]


def _group_of(key: Document, hosts: Sequence[str]) -> URLGroup:
    place = key.get("host")
    return URLGroup(
        host=hosts[place] if place is not None and place >= 0 else None,
        status=FetchStatus(key["status"]),
        reason=key.get("reason"),
    )


def _in_turn(row: RetryableURL) -> tuple[bool, float, int, str, str]:
    """What the retry goes by: never tried ones first, then the longest untried."""
    at = row.attempted_at
    return (at is not None, 0.0 if at is None else at.timestamp(), row.attempts, row.address, row.url)


def _later_than(place: URLPlace) -> Document:
    """What stands behind a place in the order of the retry: never tried ones first, then by these values."""
    values: list[tuple[str, Any]] = [
        ("attempted_at", place.attempted_at),
        ("attempts", place.attempts),
        ("address", place.address),
        ("url", place.url),
    ]
    branches: list[Document] = []
    for position, (name, value) in enumerate(values):
        beyond = {"$ne": None} if value is None else {"$gt": value}
        branches.append({**dict(values[:position]), name: beyond})
    return {"$or": branches}
