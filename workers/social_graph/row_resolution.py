"""Finds the rows of one collection, or plans to store them, whatever other workers store at the same time.

A row is found by one of its URLs, else by its platform key, else it shall be stored. The key is asked only
when the unique index has refused the row: an index that answers "there is one" costs nothing when there is
none. A refusal, or a change that somebody else made first, means that the store has moved on: everything is
looked up again, which leaves what is done alone and repeats the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from bson import ObjectId

from workers.errors import RetryableError
from workers.mongo import MongoDatabase
from workers.social_graph.object_repository import ObjectRepository, RowT
from workers.social_graph.vocabulary import ObjectKind
from workers.social_graph.write_batch import Write, write_in_order

# Each try settles at least one row or follows another worker's success; graphs have a handful of rows.
TRIES_MAX = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedRow(Generic[RowT]):
    """An object that must have a row.

    `build` makes a new row from those of the batch that stand before it. `observe` says what this observation
    changes on a stored row; it gets the URLs that may be added. `is_absent` is a hint that the row is new, so
    that the first look-up is left out; a wrong hint costs one more round trip and nothing else. `is_another`
    says that a row that is stored under one of the URLs is somebody else, who had the name before; `give_up`
    takes the URLs from it.
    """

    urls: tuple[str, ...]
    build: Callable[[Sequence[RowT]], RowT]
    observe: Callable[[RowT, tuple[str, ...]], RowT]
    find_by_key: Callable[[], RowT | None]
    is_absent: bool = False
    is_another: Callable[[RowT], bool] = lambda _: False
    give_up: Callable[[RowT, Collection[str]], RowT] = lambda row, _: row


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedRows(Generic[RowT]):
    """The rows as they shall be, in the order asked for, and the writes that make them so, by position."""

    rows: tuple[RowT, ...]
    writes: Mapping[int, Sequence[Write]]
    new_ids: frozenset[ObjectId]


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row of a batch: its kind and its position among the wanted rows of that kind."""

    kind: ObjectKind
    position: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusals:
    """What earlier tries of the same batch have taught: the rows that a unique index refused."""

    places: frozenset[RowPlace] = frozenset()
    is_first_try: bool = True

    def of(self, kind: ObjectKind) -> frozenset[int]:
        """The positions of the refused rows of one kind."""
        return frozenset(place.position for place in self.places if place.kind is kind)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedWrite:
    """A write and, where it stores or changes a row, which one."""

    write: Write
    place: RowPlace | None = field(default=None)


class PlannedBatch(Protocol):
    """Anything that comes with the writes that make it true."""

    @property
    def writes(self) -> Sequence[PlannedWrite]:
        """The writes in their order."""


BatchT = TypeVar("BatchT", bound=PlannedBatch)


def resolve_rows(
    repository: ObjectRepository[RowT], wanted: Sequence[WantedRow[RowT]], refusals: Refusals
) -> ResolvedRows[RowT]:
    """Look the rows up with one query, and plan the writes that are needed. Writes nothing."""
    known = repository.find_by_source_urls(
        url for each in wanted if not (refusals.is_first_try and each.is_absent) for url in each.urls
    )
    refused: Collection[int] = refusals.of(repository.kind)
    rows: list[RowT] = []
    writes: dict[int, list[Write]] = {}
    new_ids: set[ObjectId] = set()
    for position, each in enumerate(wanted):
        evictions = _evictions(repository, each, known)
        stored = next((known[url] for url in each.urls if url in known), None)
        if stored is None and (evictions or position in refused):
            stored = each.find_by_key()
        if stored is None:
            row = each.build(rows)
            writes[position] = [*evictions, repository.insertion(row)]
            new_ids.add(row.id)
        else:
            # A URL under which another row is known stays there: it can lead to one row only.
            free = tuple(url for url in each.urls if url not in known or known[url].id == stored.id)
            row = each.observe(stored, free)
            changes = [repository.change(row, since=stored)] if row != stored else []
            if evictions or changes:
                writes[position] = [*evictions, *changes]
        rows.append(row)
    return ResolvedRows(rows=tuple(rows), writes=writes, new_ids=frozenset(new_ids))


def _evictions(
    repository: ObjectRepository[RowT], wanted: WantedRow[RowT], known: dict[str, RowT]
) -> list[Write]:
    """Take the wanted row's URLs from those who had them before; `known` forgets them there."""
    taken: dict[ObjectId, list[str]] = {}
    for url in wanted.urls:
        if url in known and wanted.is_another(known[url]):
            taken.setdefault(known[url].id, []).append(url)
    evictions = []
    for urls in taken.values():
        owner = known[urls[0]]
        evictions.append(repository.change(wanted.give_up(owner, urls), since=owner))
        for url in urls:
            del known[url]
    return evictions


def settle(
    database: MongoDatabase, plan_batch: Callable[[Refusals], BatchT], before_write: Callable[[], None]
) -> BatchT:
    """Plan a batch and write it, again and again until the store has taken all of it; return the last plan.

    `before_write` is called before each command that writes and may raise. Raises `RetryableError` when other
    workers keep changing the same rows.
    """
    refusals = Refusals()
    for _ in range(TRIES_MAX):
        batch = plan_batch(refusals)
        if not batch.writes:
            return batch
        before_write()
        result = write_in_order(database, [each.write for each in batch.writes])
        if result.is_complete:
            return batch
        place = None if result.refused_at is None else batch.writes[result.refused_at].place
        refusals = Refusals(
            places=refusals.places if place is None else refusals.places | {place}, is_first_try=False
        )
    raise RetryableError("other workers keep changing the same rows")
