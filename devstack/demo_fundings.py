"""The demo's fundings: four properties whose counters are off, and what is right after one reconciliation."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from redis import Redis
from sqlalchemy import Connection, insert

from devstack.stack import Stack
from workers.funding.counters import FundingCounters, auto_invest_key, purchased_key
from workers.funding.database import open_database
from workers.funding.fundings import Fundings
from workers.funding.tables import FUNDINGS, PROPERTIES, PURCHASES
from workers.funding.vocabulary import PublishStatus, PurchaseStatus

# A quick look between two readings will do: nobody else sells here.
ENVIRON = {"FUNDING_COUNTER_RECONCILIATION_STABILIZATION_DELAY_MS": "1000"}
TIMEOUT_MS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sample:
    """A property, how much of it is sold and counted, and what a reconciliation has to make of it."""

    name: str
    capacity: int
    sold: int
    counted: int
    outcome: str | None
    counted_after: int


SAMPLES = (
    # A buyer's process died between its two writes.
    _Sample(name="harbour-quay", capacity=1000, sold=999, counted=1000, outcome="fixed", counted_after=999),
    # A refund was counted twice: the counter would sell two bricks once more.
    _Sample(name="old-mill", capacity=500, sold=500, counted=498, outcome="fixed", counted_after=500),
    # Far from the end a difference does no harm.
    _Sample(name="lake-view", capacity=500, sold=200, counted=202, outcome=None, counted_after=202),
    # No counter repairs that; it stays blocked until somebody has seen to it.
    _Sample(name="glass-house", capacity=200, sold=201, counted=200, outcome="failed", counted_after=200),
)


class DemoFundings:
    """The samples in the stores of a running stack."""

    def __init__(self, stack: Stack) -> None:
        self._engine = open_database(stack.environ["FUNDING_DATABASE_URL"], timeout_ms=TIMEOUT_MS)
        self._redis = Redis.from_url(stack.environ["REDIS_URL"])

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
        self._redis.close()

    def fill(self) -> None:
        """Put the samples into the stores."""
        with self._engine.begin() as connection:
            for sample in SAMPLES:
                _insert(connection, sample)
        for sample in SAMPLES:
            self._redis.set(purchased_key(sample.name), sample.counted)
            self._redis.set(auto_invest_key(sample.name), 0)

    def checks(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
        """Whether the job's rows, the counters and the blocks are what they have to be."""
        outcomes = {row["propertyId"]: row["outcome"] for row in rows}
        counters = FundingCounters(self._redis).read_many([sample.name for sample in SAMPLES])
        found = {sample.name: both.purchased.number for sample, both in zip(SAMPLES, counters, strict=True)}
        blocked = [state.property_id for state in Fundings(self._engine).blocked(limit=len(SAMPLES))]
        expected = {sample.name: sample.outcome for sample in SAMPLES if sample.outcome}
        return {
            "each funding that needs it is reconciled": outcomes == expected,
            "counters are the truth or untouched": found
            == {each.name: each.counted_after for each in SAMPLES},
            "only what cannot be repaired is blocked": blocked
            == [sample.name for sample in SAMPLES if sample.outcome == "failed"],
        }


def _insert(connection: Connection, sample: _Sample) -> None:
    now = datetime.now(UTC)
    connection.execute(
        insert(PROPERTIES).values(
            id=sample.name,
            publish_status=PublishStatus.PUBLISHED.value,
            total_brick_count=sample.capacity,
        )
    )
    connection.execute(
        insert(FUNDINGS).values(
            property_id=sample.name,
            capacity_brick_count=sample.capacity,
            brick_price_cents=1000,
            started_at=now - timedelta(days=30),
        )
    )
    connection.execute(
        insert(PURCHASES).values(
            id=uuid.uuid4(),
            property_id=sample.name,
            investor_id="demo",
            brick_count=sample.sold,
            price_cents=sample.sold * 1000,
            is_auto_invest=False,
            status=PurchaseStatus.ASSIGNED.value,
            created_at=now,
            updated_at=now,
        )
    )
