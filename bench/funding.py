"""Reconciliation of funding counters: what the selection asks, and whether properties are done side by side.

A thousand fundings are active and twenty of them are nearly sold, each with a counter that is one too high.
Each of those takes two readings and the delay between them. The stores, the worker and the API are real.
Counted are the queries and the round trips of the selection; compared is the time of a job that finds and
repairs all twenty with that of a job over one of them, delays included. Prints one JSON object.

    python -m bench.funding [--properties 1000] [--qualify 20] [--delay-ms 5000] [--purchases 20]
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
from redis import Connection, ConnectionPool, Redis
from sqlalchemy import Engine, event, insert

from devstack.stack import Stack
from workers.funding.counters import FundingCounters, auto_invest_key, purchased_key
from workers.funding.database import open_database
from workers.funding.evaluate import Reading, is_near_completion
from workers.funding.fundings import Fundings
from workers.funding.tables import FUNDINGS, PROPERTIES, PURCHASES
from workers.funding.vocabulary import PublishStatus, PurchaseStatus

PARTS = ("valkey", "mongo", "postgres", "sandbox", "migrate", "worker", "api")
CAPACITY = 1000
RATIO = 0.999
ROUNDS = 3
WORKER_THREADS = 32


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--properties", type=int, default=1000)
    parser.add_argument("--qualify", type=int, default=20)
    parser.add_argument("--delay-ms", type=int, default=5000)
    parser.add_argument("--purchases", type=int, default=20, help="purchases of each property")
    options = parser.parse_args()
    print(json.dumps(measure(options.properties, options.qualify, options.delay_ms, options.purchases)))


def measure(properties: int, qualify: int, delay_ms: int, purchases: int) -> dict[str, Any]:
    """Look at `properties` fundings of which `qualify` are nearly sold; return the figures."""
    environ = {"FUNDING_COUNTER_RECONCILIATION_STABILIZATION_DELAY_MS": str(delay_ms)}
    with Stack(parts=PARTS, worker_threads=WORKER_THREADS, environ=environ) as stack:
        engine = open_database(stack.environ["FUNDING_DATABASE_URL"], timeout_ms=60_000)
        with Redis.from_url(stack.environ["REDIS_URL"]) as redis:
            ids = fill(engine, redis, properties, qualify, purchases)
            near = ids[:qualify]
            selection = measure_selection(engine, stack.environ["REDIS_URL"])
            _run_job(stack, {"dryRun": True})  # imports and first connections are not measured
            one_s = min(_time_jobs(stack, redis, near[:1], {"propertyIds": near[:1]}))
            all_s = min(_time_jobs(stack, redis, near, {}))
        engine.dispose()
    assert selection["qualify"] == qualify
    return {
        "properties": properties,
        "delay_ms": delay_ms,
        **selection,
        "one_s": round(one_s, 3),
        "all_s": round(all_s, 3),
        "one_to_delay": round(one_s * 1000 / delay_ms, 2),
        "all_to_one": round(all_s / one_s, 2),
        "one_by_one_to_all": round(qualify * one_s / all_s, 1),
    }


def fill(engine: Engine, redis: Redis, properties: int, qualify: int, purchases: int) -> list[str]:
    """Make active fundings, the first ones nearly sold and the others half; return their ids."""
    now = datetime.now(UTC)
    ids = [f"bench-{number:05d}" for number in range(properties)]
    sold = {each: CAPACITY - 1 if number < qualify else CAPACITY // 2 for number, each in enumerate(ids)}
    rows = [
        {
            "id": uuid.uuid4(),
            "property_id": each,
            "investor_id": "bench",
            # The first purchase has what is left over.
            "brick_count": sold[each] // purchases + (sold[each] % purchases if number == 0 else 0),
            "price_cents": 1,
            "is_auto_invest": False,
            "status": PurchaseStatus.ASSIGNED.value,
            "created_at": now,
            "updated_at": now,
        }
        for each in ids
        for number in range(purchases)
    ]
    published = {"publish_status": PublishStatus.PUBLISHED.value, "total_brick_count": CAPACITY}
    funding = {
        "capacity_brick_count": CAPACITY,
        "brick_price_cents": 1,
        "started_at": now - timedelta(days=1),
    }
    with engine.begin() as connection:
        connection.execute(insert(PROPERTIES), [{"id": each, **published} for each in ids])
        connection.execute(insert(FUNDINGS), [{"property_id": each, **funding} for each in ids])
        connection.execute(insert(PURCHASES), rows)
        connection.exec_driver_sql("ANALYZE property, funding, primary_purchase")
    with redis.pipeline(transaction=False) as pipe:
        for each in ids:
            pipe.set(purchased_key(each), sold[each])
            pipe.set(auto_invest_key(each), 0)
        pipe.execute()
    return ids


def measure_selection(engine: Engine, redis_url: str) -> dict[str, Any]:
    """Count what reading both sides of all active fundings asks of the stores."""
    counts = {"queries": 0, "round_trips": 0}

    class Counting(Connection):
        def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            counts["round_trips"] += 1
            super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

    redis = Redis(connection_pool=ConnectionPool.from_url(redis_url, connection_class=Counting))
    redis.ping()
    fundings, counters = Fundings(engine), FundingCounters(redis)
    with counted_queries(engine, counts):
        counts["round_trips"] = 0
        started_at = time.perf_counter()
        active = fundings.active(datetime.now(UTC))
        found = counters.read_many([state.property_id for state in active])
        elapsed_s = time.perf_counter() - started_at
    redis.close()
    readings = zip(active, found, strict=True)
    near = [
        state
        for state, both in readings
        if is_near_completion(Reading(counters=both, truth=state.truth), capacity=state.capacity, ratio=RATIO)
    ]
    return {
        "scanned": len(active),
        "qualify": len(near),
        "selection_queries": counts["queries"],
        "selection_round_trips": counts["round_trips"],
        "selection_ms": round(elapsed_s * 1000, 1),
    }


@contextmanager
def counted_queries(engine: Engine, counts: dict[str, int]) -> Iterator[None]:
    """Count the statements of the body."""

    def count(*_: object) -> None:
        counts["queries"] += 1

    event.listen(engine, "before_cursor_execute", count)
    yield
    event.remove(engine, "before_cursor_execute", count)


def _time_jobs(stack: Stack, redis: Redis, ids: list[str], body: dict[str, Any]) -> Iterator[float]:
    """The seconds of a few jobs of which each finds these counters off and repairs them."""
    for _ in range(ROUNDS):
        for each in ids:
            redis.incr(purchased_key(each))
        started_at = time.perf_counter()
        meta = _run_job(stack, body)
        yield time.perf_counter() - started_at
        assert meta["fixed"] == len(ids), meta


def _run_job(stack: Stack, body: dict[str, Any]) -> dict[str, Any]:
    url = f"{stack.api_url}/api/v1/internal/funding/reconcile"
    headers = {"x-api-key": stack.api_key, "Prefer": "wait=60"}
    response = requests.post(url, json=body, headers=headers, timeout=70)
    response.raise_for_status()
    found: dict[str, Any] = response.json()["result"]["meta"]
    return found


if __name__ == "__main__":
    main()
