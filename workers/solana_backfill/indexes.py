"""The indexes of the backfill's two collections: the written list.

The unique one is what makes a transaction be stored once, however many workers hydrate its signature.
"""

from __future__ import annotations

from workers.mongo_indexes import IndexSpec, index

RAW_TRANSACTIONS = "raw_transactions"
TRANSACTION_OBSERVATIONS = "transaction_observations"

INDEXES: tuple[IndexSpec, ...] = (
    index(RAW_TRANSACTIONS, "uniq_raw_transactions_signature", "signature", unique=True),
    index(RAW_TRANSACTIONS, "idx_raw_transactions_slot", "slot", "transaction_index"),
    index(TRANSACTION_OBSERVATIONS, "idx_observations_signature", "signature", "started_at"),
    index(TRANSACTION_OBSERVATIONS, "idx_observations_session", "session_id", "started_at"),
    index(TRANSACTION_OBSERVATIONS, "idx_observations_session_status", "session_id", "status", "started_at"),
)
