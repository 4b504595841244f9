"""Several writes of one collection in one command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pymongo import UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from workers.mongo import Document
from workers.social_graph.store_errors import DUPLICATE_KEY_CODE, translated


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchResult:
    """How many updates found their row, how many inserted one, and which a unique index refused."""

    matched: int
    inserted: int
    duplicates: tuple[int, ...] = ()


def run_updates(
    collection: Collection[Document], updates: Sequence[UpdateOne], *, ordered: bool
) -> BatchResult:
    """Run the updates; an ordered batch stops at the first that is refused.

    A refusal by a unique index is a result, not an error. Raises `RetryableError` for everything else.
    """
    with translated(collection.name):
        try:
            result = collection.bulk_write(updates, ordered=ordered)
        except BulkWriteError as exc:
            return _refused(exc)
    return BatchResult(matched=result.matched_count, inserted=result.upserted_count)


def run_inserts(
    collection: Collection[Document], documents: Sequence[Document], *, ordered: bool
) -> BatchResult:
    """Insert the documents; refusals are handled as `run_updates` does."""
    with translated(collection.name):
        try:
            result = collection.insert_many(documents, ordered=ordered)
        except BulkWriteError as exc:
            return _refused(exc)
    return BatchResult(matched=0, inserted=len(result.inserted_ids))


def _refused(error: BulkWriteError) -> BatchResult:
    details = error.details
    failures = details.get("writeErrors", [])
    codes = {failure.get("code") for failure in failures}
    if codes != {DUPLICATE_KEY_CODE} or details.get("writeConcernErrors"):
        raise error
    return BatchResult(
        matched=details["nMatched"],
        inserted=details["nUpserted"] + details["nInserted"],
        duplicates=tuple(int(failure["index"]) for failure in failures),
    )
