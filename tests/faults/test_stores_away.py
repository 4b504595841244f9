"""Stores that go away in the middle of a job and come back: the job ends, the next one does the rest."""

from __future__ import annotations

from tests.faults.crew import Crew, assert_recorded_once
from tests.operator import Operator, sites
from tests.waiting import wait_until

ENOUGH_RUNS = 5


def run_until_nothing_is_missing(operator: Operator) -> None:
    """Ask for one job after the other, as a caller does who sees that something remains."""
    for _ in range(ENOUGH_RUNS):
        meta = operator.meta("reconcile", {"limit": 100})
        if meta.get("remaining") == 0 and meta["failed"] == 0:
            return
    raise AssertionError(f"not converged: {meta}")


def test_a_job_ends_and_converges_when_redis_is_restarted_in_its_middle(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens(sites(40))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 300})
    crew.hire("jobs")
    crew.hire("records", threads=4)
    job_id = operator.start("reconcile", {"limit": 40, "deadlineMs": 20_000})
    wait_until(lambda: operator.job(job_id)["progress"]["done"], "something is done")
    operator.stack.valkey.restart()
    job = operator.ended(job_id, timeout_s=40)
    assert job["state"] in ("succeeded", "lost"), job
    operator.sandbox.clear_faults()
    run_until_nothing_is_missing(operator)
    assert_recorded_once(operator, tokens)
    assert len(operator.documents(tokens)) == 40


def test_tokens_that_failed_while_mongodb_was_away_are_the_next_input(operator: Operator, crew: Crew) -> None:
    tokens = operator.set_tokens(sites(40))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 300})
    crew.hire("jobs", MONGO_TIMEOUT_MS="1000")
    crew.hire("records", threads=4, MONGO_TIMEOUT_MS="1000")
    job_id = operator.start("reconcile", {"limit": 40})
    done = wait_until(lambda: operator.job(job_id)["progress"]["done"], "something is done")
    operator.stack.mongo.kill()
    wait_until(lambda: operator.job(job_id)["progress"]["done"] > done + 8, "some have failed", timeout_s=30)
    operator.stack.mongo.start()
    job = operator.ended(job_id, timeout_s=60)
    assert job["state"] == "succeeded", job
    meta = job["result"]["meta"]
    assert meta["failed"] > 0
    assert meta["recorded"] + meta["failed"] == 40

    operator.sandbox.clear_faults()
    again = operator.meta("reconcile", {"limit": 40})
    # A token whose document was stored right before the kill has failed too: its answer got lost.
    assert 0 < again["targeted"] == 40 - again["alreadySeen"] <= meta["failed"]
    assert again["recorded"] == again["targeted"]
    assert_recorded_once(operator, tokens)
