"""What the repositories of contents, accounts and venues share: finding, creating and changing rows.

Rows are never deleted, so an id that was once returned stays valid. A change is written only when the fields
that it replaces still hold what was read; so two writers never overwrite each other. There is no
find-or-create: a caller that gets `DuplicateKey` looks the row up again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from bson import ObjectId
from pymongo import InsertOne, UpdateOne

from workers.clock import Clock
from workers.mongo import Document, Filter, MongoDatabase
from workers.social_graph.source_url import SourceURL
from workers.social_graph.vocabulary import ObjectKind
from workers.social_graph.write_batch import Write
from workers.store_errors import translated


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

    def insertion(self, row: RowT) -> Write:
        """The write that stores a new row."""
        return InsertOne(self._new_document(row), namespace=self._collection.full_name)

    def change(self, row: RowT, *, since: RowT) -> Write:
        """The write of what changed since the row was read; it finds no row when somebody else was faster."""
        condition, update = self._change(row, since)
        touch: Document = {"$set": {"updated_at": self._clock.now()}}
        return UpdateOne(condition, update or touch, namespace=self._collection.full_name)

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
