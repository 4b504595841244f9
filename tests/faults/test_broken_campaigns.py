"""Backfills whose worker or stores go away in the middle: the job ends, and the next one fetches the rest."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest

from devstack.sandbox.solana_history import history_of
from devstack.sandbox.solana_names import reserved_address
from tests.e2e.test_backfill import newest, started
from tests.faults.crew import Crew, assert_given_back, leases_of
from tests.operator import Operator
from tests.waiting import wait_until

COUNT = 300
QUICK = {
    "SOLANA_BACKFILL_LOCK_TTL_MS": "2000",
    # So long the places of requests that died with their worker are kept, and ten seconds.
    "SOLANA_RPC_TIMEOUT_MS": "1000",
    "MONGO_TIMEOUT_MS": "1000",
}
ENOUGH_RUNS = 5


def body_of(seed: str) -> dict[str, object]:
    return {"mode": "program", "address": reserved_address("big", seed=seed), "limit": COUNT}


def begin(operator: Operator, seed: str) -> str:
    """Start a campaign and wait until it has stored something."""
    job_id = started(operator, **body_of(seed))
    wait_until(lambda: operator.job(job_id)["progress"]["done"] > 20, "something is stored")
    return job_id


def assert_converges(operator: Operator, seed: str) -> None:
    """Ask for the same again until nothing is missing; each transaction is stored once."""
    for _ in range(ENOUGH_RUNS):
        job = operator.ended(started(operator, **body_of(seed)), timeout_s=60)
        meta = job["result"]["meta"] if job["result"] else {}
        if meta.get("completed") == COUNT and not meta["failed"]:
            break
    else:
        raise AssertionError(f"not converged: {job}")
    wanted = newest(reserved_address("big", seed=seed), COUNT)
    assert len(history_of(reserved_address("big", seed=seed)).places) > COUNT
    rows = operator.database.raw_transactions.find({"signature": {"$in": wanted}}, {"signature": 1})
    assert Counter(row["signature"] for row in rows) == Counter(wanted)
    assert_given_back(operator)


def test_a_campaign_whose_worker_was_killed_is_lost_and_the_next_one_fetches_the_rest(
    operator: Operator, crew: Crew
) -> None:
    worker = crew.hire(**QUICK)
    job_id = begin(operator, "killed")
    worker.kill()
    wait_until(lambda: operator.job(job_id)["state"] == "lost", "it is lost")
    wait_until(lambda: leases_of(operator) == [], "no lease is left")
    crew.hire(**QUICK)
    assert_converges(operator, "killed")


def test_a_worker_that_is_told_to_end_ends_its_campaign_soon(operator: Operator, crew: Crew) -> None:
    operator.sandbox.set_faults({"route": "getTransaction", "latency_ms": 100})
    worker = crew.hire(**QUICK)
    job_id = begin(operator, "told")
    os.kill(worker.pid, signal.SIGTERM)
    job = operator.ended(job_id, timeout_s=10)
    meta = job["result"]["meta"]
    assert (job["state"], meta["stoppedBy"]) == ("succeeded", "shutdown")
    assert meta["selected"] == meta["started"] + meta["notStarted"] == COUNT
    assert meta["started"] == meta["completed"] + meta["cancelled"]
    wait_until(lambda: not worker.running, "the process ends")
    operator.sandbox.clear_faults()
    crew.hire(**QUICK)
    assert_converges(operator, "told")


@pytest.mark.parametrize("store", ["valkey", "mongo"])
def test_a_campaign_whose_store_was_restarted_ends_and_converges(
    operator: Operator, crew: Crew, store: str
) -> None:
    operator.sandbox.set_faults({"route": "getTransaction", "latency_ms": 100})
    crew.hire(**QUICK)
    job_id = begin(operator, store)
    getattr(operator.stack, store).restart()
    job = operator.ended(job_id, timeout_s=60)
    assert job["state"] in ("succeeded", "failed", "lost"), job
    if job["state"] == "failed":
        assert job["error"]["code"] in ("STORE_UNAVAILABLE", "LOCK_UNAVAILABLE"), job["error"]
    operator.sandbox.clear_faults()
    wait_until(lambda: leases_of(operator) == [], "no lease is left")
    assert_converges(operator, store)
