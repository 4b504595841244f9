"""Finds or stores the rows of one collection, whatever other workers store at the same time.

A row is found by one of its URLs, else by its platform key, else it is stored. The key is asked only when the
unique index has refused the row: an index that answers "there is one" costs nothing when there is none. A
refusal, or a change that somebody else made first, means that the store has moved on: everything is looked up
again, which leaves what is done alone and repeats the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from bson import ObjectId

from workers.errors import RetryableError
from workers.social_graph.object_repository import ObjectRepository, RowT, RowWrite

# Each try settles at least one row or follows another worker's success; graphs have a handful of rows.
TRIES_MAX = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedRow(Generic[RowT]):
    """An object that must have a row.

    `build` makes a new row from those of the batch that stand before it. `observe` says what this observation
    changes on a stored row; it gets the URLs that may be added. `is_absent` is a hint that the row is new, so
    that the first look-up is left out; a wrong hint costs one more round trip and nothing else.
    """

    urls: tuple[str, ...]
    build: Callable[[Sequence[RowT]], RowT]
    observe: Callable[[RowT, tuple[str, ...]], RowT]
    find_by_key: Callable[[], RowT | None]
    is_absent: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedRows(Generic[RowT]):
    """The rows in the order asked for, and the ids of those that were stored just now."""

    rows: tuple[RowT, ...]
    inserted: frozenset[ObjectId]


def resolve_rows(
    repository: ObjectRepository[RowT],
    wanted: Sequence[WantedRow[RowT]],
    before_write: Callable[[], None],
) -> ResolvedRows[RowT]:
    """Bring all rows into the store. `before_write` is called before each write and may raise.

    Raises `RetryableError` when other workers keep changing the same rows.
    """
    inserted: set[ObjectId] = set()
    refused: set[int] = set()
    for attempt in range(TRIES_MAX):
        rows, writes = _look_up(repository, wanted, refused, trust_hints=attempt == 0)
        batch = list(writes.values())
        if batch:
            before_write()
        outcome = repository.write_batch(batch)
        inserted |= {write.row.id for write in batch[: outcome.duplicate_at] if write.since is None}
        if outcome.is_complete:
            return ResolvedRows(rows=tuple(rows), inserted=frozenset(inserted))
        if outcome.duplicate_at is not None:
            refused.add(list(writes)[outcome.duplicate_at])
    raise RetryableError(f"other workers keep changing the same {repository.kind}")


def _look_up(
    repository: ObjectRepository[RowT],
    wanted: Sequence[WantedRow[RowT]],
    refused: set[int],
    *,
    trust_hints: bool,
) -> tuple[list[RowT], dict[int, RowWrite[RowT]]]:
    """The rows as they shall be, and the writes that are still needed for it, by position."""
    known = repository.find_by_source_urls(
        url for each in wanted if not (trust_hints and each.is_absent) for url in each.urls
    )
    rows: list[RowT] = []
    writes: dict[int, RowWrite[RowT]] = {}
    for position, each in enumerate(wanted):
        stored = next((known[url] for url in each.urls if url in known), None)
        if stored is None and position in refused:
            stored = each.find_by_key()
        if stored is None:
            row = each.build(rows)
            writes[position] = RowWrite(row=row)
        else:
            # A URL under which another row is known stays there: it can lead to one row only.
            free = tuple(url for url in each.urls if url not in known or known[url].id == stored.id)
            row = each.observe(stored, free)
            if row != stored:
                writes[position] = RowWrite(row=row, since=stored)
        rows.append(row)
    return rows, writes
