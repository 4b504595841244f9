"""What the repositories of contents, accounts and venues share: finding, creating and changing rows.

Rows are never deleted, so an id that was once returned stays valid. A change is written only when the fields
that it replaces still hold what was read; so two writers never overwrite each other. There is no
find-or-create: a caller that gets `DuplicateKey` looks the row up again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from bson import ObjectId
from pymongo import UpdateOne

from workers.clock import Clock
from workers.mongo import Document, Filter, MongoDatabase
from workers.social_graph.source_url import SourceURL
from workers.social_graph.store_errors import translated
from workers.social_graph.update_batch import run_inserts, run_updates
from workers.social_graph.vocabulary import ObjectKind


class GraphRow(Protocol):
    """A model that is stored as one document of its kind's collection."""

    @property
    def id(self) -> ObjectId:
        """The row's identity, issued by us."""

    @property
    def source_urls(self) -> tuple[SourceURL, ...]:
        """Where it was seen."""

    def to_document(self) -> Document:
        """The stored form."""


RowT = TypeVar("RowT", bound=GraphRow)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowWrite(Generic[RowT]):
    """One write: a new row, or what changed since the row was read."""

    row: RowT
    since: RowT | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchOutcome:
    """What came of a batch. Writes before `duplicate_at` were made, the others were not.

    `is_contested` says that a change was not made because somebody else had changed the same fields.
    """

    inserted: int
    changed: int
    duplicate_at: int | None = None
    is_contested: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every write was made."""
        return self.duplicate_at is None and not self.is_contested


class ObjectRepository(Generic[RowT]):
    """One collection of the graph's objects."""

    def __init__(
        self, database: MongoDatabase, clock: Clock, kind: ObjectKind, read: Callable[[Document], RowT]
    ) -> None:
        self.kind = kind
        self._collection = database[kind.value]
        self._clock = clock
        self._read = read

    def create(self, row: RowT) -> None:
        """Store a new row. Raises `DuplicateKey` when its URL or its key is stored already."""
        with translated(self.kind):
            self._collection.insert_one(self._new_document(row))

    def save(self, row: RowT, *, since: RowT) -> bool:
        """Write what changed since the row was read.

        Returns False when somebody else has changed the same fields: read again and apply the change again.
        Raises `DuplicateKey` when a new source URL belongs to another row.
        """
        condition, update = self._change(row, since)
        if not update:
            return True
        with translated(self.kind):
            return self._collection.update_one(condition, update).matched_count == 1

    def write_batch(self, writes: Sequence[RowWrite[RowT]]) -> BatchOutcome:
        """Make all writes in order with one command; stop at the first that a unique index refuses.

        Only writes of one form travel in one command, so beside changes of other rows an insert is an upsert
        of an id that nobody else has.
        """
        if not writes:
            return BatchOutcome(inserted=0, changed=0)
        if all(write.since is None for write in writes):
            documents = [self._new_document(write.row) for write in writes]
            result = run_inserts(self._collection, documents, ordered=True)
        else:
            operations = [self._operation(write) for write in writes]
            result = run_updates(self._collection, operations, ordered=True)
        duplicate_at = result.duplicates[0] if result.duplicates else None
        changes = sum(1 for write in writes[:duplicate_at] if write.since is not None)
        return BatchOutcome(
            inserted=result.inserted,
            changed=result.matched,
            duplicate_at=duplicate_at,
            is_contested=result.matched < changes,
        )

    def find_by_id(self, row_id: ObjectId) -> RowT | None:
        """The row, or None."""
        return self._find_one({"_id": row_id})

    def find_by_ids(self, row_ids: Iterable[ObjectId]) -> list[RowT]:
        """The rows that exist, in no particular order."""
        wanted = list(row_ids)
        return self._find_many({"_id": {"$in": wanted}}) if wanted else []

    def find_by_source_url(self, url: str) -> RowT | None:
        """The row that was seen under this canonical URL."""
        return self._find_one({"source_urls.url": url})

    def find_by_source_urls(self, urls: Iterable[str]) -> dict[str, RowT]:
        """The rows that were seen under these URLs, by URL; one query."""
        wanted = set(urls)
        if not wanted:
            return {}
        rows = self._find_many({"source_urls.url": {"$in": sorted(wanted)}})
        return {entry.url: row for row in rows for entry in row.source_urls if entry.url in wanted}

    def _find_one(self, condition: Filter) -> RowT | None:
        with translated(self.kind):
            document = self._collection.find_one(condition)
        return None if document is None else self._read(document)

    def _find_many(
        self, condition: Filter, *, sort: Sequence[tuple[str, int]] = (), limit: int = 0
    ) -> list[RowT]:
        with translated(self.kind):
            cursor = self._collection.find(condition, limit=limit)
            documents = list(cursor.sort(list(sort)) if sort else cursor)
        return [self._read(document) for document in documents]

    def _operation(self, write: RowWrite[RowT]) -> UpdateOne:
        if write.since is None:
            document = self._new_document(write.row)
            return UpdateOne({"_id": document.pop("_id")}, {"$setOnInsert": document}, upsert=True)
        condition, update = self._change(write.row, write.since)
        return UpdateOne(condition, update or {"$set": {"updated_at": self._clock.now()}})

    def _new_document(self, row: RowT) -> Document:
        now = self._clock.now()
        return {**row.to_document(), "created_at": now, "updated_at": now}

    def _change(self, row: RowT, since: RowT) -> tuple[Document, Document]:
        """The condition under which the change may be made, and the update; empty when nothing changed."""
        before, after = since.to_document(), row.to_document()
        changed = {name: value for name, value in after.items() if before.get(name) != value}
        expected = {name: before.get(name, {"$exists": False}) for name in changed}
        if not changed:
            return {"_id": row.id}, {}
        return {"_id": row.id, **expected}, {"$set": {**changed, "updated_at": self._clock.now()}}
