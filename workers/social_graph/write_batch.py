"""Several writes, to any of the collections, in one command.

The store makes them in their order and stops at the first that a unique index refuses. Once it has the
command it goes on whether or not the caller lives; a store that dies itself has made the first so many of
them. So writes stand in the order in which each may be the last one.

This is the `bulkWrite` command, which MongoDB has since 8.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pymongo import DeleteMany, InsertOne, UpdateOne
from pymongo.errors import ClientBulkWriteException

from workers.mongo import Document, MongoDatabase
from workers.store_errors import DUPLICATE_KEY_CODE, translated

# Each names its collection itself (`namespace`).
Write: TypeAlias = InsertOne[Document] | UpdateOne | DeleteMany


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchResult:
    """What came of a batch. Writes before `refused_at` were made, that one and those after it were not.

    `missed` counts the updates that found no row, since somebody else had changed what they ask for.
    """

    refused_at: int | None = None
    missed: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether every write was made and found what it was meant for."""
        return self.refused_at is None and not self.missed


def write_in_order(database: MongoDatabase, writes: Sequence[Write]) -> BatchResult:
    """Make the writes; none at all is no command.

    A refusal by a unique index is a result, not an error. Raises `InvalidInput` for a value that no document
    can hold, and `RetryableError` for everything else.
    """
    if not writes:
        return BatchResult()
    with translated(database.name):
        try:
            result = database.client.bulk_write(writes, ordered=True)
        except ClientBulkWriteException as exc:
            refused_at = _refused_at(exc)
            if refused_at is None:
                raise
            return BatchResult(refused_at=refused_at)
    updates = sum(1 for write in writes if isinstance(write, UpdateOne))
    return BatchResult(missed=updates - result.matched_count - result.upserted_count)


def _refused_at(error: ClientBulkWriteException) -> int | None:
    """The place of the write that a unique index refused; None when the command failed in another way."""
    if error.error is not None or error.write_concern_errors:
        return None
    failures = error.details.get("writeErrors") or []
    if not failures or any(failure.get("code") != DUPLICATE_KEY_CODE for failure in failures):
        return None
    return int(failures[0]["idx"])
