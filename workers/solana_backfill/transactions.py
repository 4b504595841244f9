"""The collection `raw_transactions`: each transaction once, in its canonical form.

What was stored first stands. Hydrating a signature again never changes its row: it confirms it, or it is
reported because its content differs. The unique index decides among writers that run at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from workers.clock import Clock
from workers.errors import RetryableError
from workers.mongo import MongoDatabase
from workers.solana_backfill.canonical_model import CanonicalTransaction
from workers.solana_backfill.indexes import RAW_TRANSACTIONS
from workers.store_errors import DuplicateKey, translated

SIGNATURES_PER_QUERY = 500


class StoreOutcome(StrEnum):
    """What storing a transaction came to."""

    STORED = "stored"
    PRESENT = "present"  # it was there, with the same content or in a form of another version
    DIFFERENT = "different"  # it was there with another content, and stays as it was


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreResult:
    """The outcome, the hash of what was to be stored and the hash of what is stored; they may differ."""

    outcome: StoreOutcome
    content_hash: str
    stored_hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredTransaction:
    """A row: the transaction, its content hash and when it was stored."""

    transaction: CanonicalTransaction
    content_hash: str
    stored_at: datetime


class TransactionRepository:
    """The collection. Rows are inserted, never changed and never deleted."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        self._collection = database[RAW_TRANSACTIONS]
        self._clock = clock

    def store(self, transaction: CanonicalTransaction) -> StoreResult:
        """Store the transaction unless its signature is there.

        Raises `RetryableError` when the store does not answer, and `InvalidInput` for one that is larger than
        a document may be.
        """
        content_hash = transaction.content_hash()
        row = {**transaction.to_json(), "content_hash": content_hash, "stored_at": self._clock.now()}
        try:
            with translated(RAW_TRANSACTIONS):
                self._collection.insert_one(row)
        except DuplicateKey:
            return self._compared(transaction, content_hash)
        return StoreResult(outcome=StoreOutcome.STORED, content_hash=content_hash, stored_hash=content_hash)

    def find_known(self, signatures: Iterable[str]) -> frozenset[str]:
        """Those of the signatures that are stored; one query for every 500."""
        wanted = list(signatures)
        known: set[str] = set()
        for start in range(0, len(wanted), SIGNATURES_PER_QUERY):
            condition = {"signature": {"$in": wanted[start : start + SIGNATURES_PER_QUERY]}}
            with translated(RAW_TRANSACTIONS):
                rows = list(self._collection.find(condition, {"_id": 0, "signature": 1}))
            known.update(row["signature"] for row in rows)
        return frozenset(known)

    def find_by_signature(self, signature: str) -> StoredTransaction | None:
        """The row, or None."""
        with translated(RAW_TRANSACTIONS):
            row = self._collection.find_one({"signature": signature})
        if row is None:
            return None
        return StoredTransaction(
            transaction=CanonicalTransaction.from_json(row),
            content_hash=row["content_hash"],
            stored_at=row["stored_at"],
        )

    def _compared(self, transaction: CanonicalTransaction, content_hash: str) -> StoreResult:
        with translated(RAW_TRANSACTIONS):
            row = self._collection.find_one(
                {"signature": transaction.signature}, {"content_hash": 1, "schema_version": 1}
            )
        if row is None:
            raise RetryableError("a transaction that was there has gone from the store")
        # Two versions of the form hash the same transaction differently, so only one version can be compared.
        is_comparable = row["schema_version"] == transaction.schema_version
        is_same = row["content_hash"] == content_hash
        return StoreResult(
            outcome=StoreOutcome.DIFFERENT if is_comparable and not is_same else StoreOutcome.PRESENT,
            content_hash=content_hash,
            stored_hash=row["content_hash"],
        )
