"""Workers that die, hang or are paused: every job ends, and the next run finds what is missing."""

from __future__ import annotations

import time

from tests.faults.crew import Crew, assert_given_back, assert_recorded_once, by_addresses, leases_of, outcomes
from tests.operator import Operator, sites
from tests.pausing import paused
from tests.waiting import wait_until

REPO = "https://github.com/fault-owner/anchor"
TTL_AND_GRACE_S = 4.0


def test_a_job_whose_worker_was_killed_is_lost_and_the_next_one_does_the_rest(
    operator: Operator, crew: Crew
) -> None:
    links: list[dict[str, str | None]] = [{**each, "twitter": REPO} for each in sites(3)]
    tokens = operator.set_tokens(links)
    operator.sandbox.set_faults(*({"route": by_addresses(token), "hang": True} for token in tokens[1:]))
    worker = crew.hire()
    job_id = operator.start("reconcile")
    wait_until(lambda: len(operator.calls().by_address) == 3, "two tokens hang")
    wait_until(lambda: operator.documents(tokens), "the first one is recorded")
    # Given back a moment later; with a worker that is killed before that it would stay for half a minute.
    wait_until(lambda: not any("social-url" in name for name in leases_of(operator)), "its link is free")
    assert operator.job(job_id)["state"] == "running"
    worker.kill()
    killed_at = time.monotonic()
    wait_until(lambda: operator.job(job_id)["state"] == "lost", "it is lost", timeout_s=TTL_AND_GRACE_S)
    assert time.monotonic() - killed_at < TTL_AND_GRACE_S
    assert list(operator.documents(tokens)) == [tokens[0]["tokenAddress"]]
    wait_until(lambda: leases_of(operator) == [], "no lease is left", timeout_s=TTL_AND_GRACE_S)

    operator.sandbox.clear_faults()
    crew.hire()
    meta = operator.meta("reconcile")
    assert (meta["alreadySeen"], meta["targeted"], meta["recorded"], meta["remaining"]) == (1, 2, 2, 0)
    assert operator.job(job_id)["state"] == "lost"
    assert_given_back(operator)
    assert_recorded_once(operator, tokens)


def test_a_call_that_hangs_ends_with_the_budget_of_its_token(operator: Operator, crew: Crew) -> None:
    tokens = operator.set_tokens(sites(3))
    operator.sandbox.set_faults({"route": by_addresses(tokens[1]), "hang": True})
    crew.hire(JOB_TARGET_BUDGET_S="2")
    started = time.monotonic()
    job = operator.run("reconcile")
    assert time.monotonic() - started < 10
    row = next(row for row in job["result"]["data"] if row["address"] == tokens[1]["tokenAddress"])
    assert (row["outcome"], row["reason"]) == ("failed", "timeout")
    assert job["result"]["meta"]["recorded"] == 2
    assert_given_back(operator)
    operator.sandbox.clear_faults()
    assert operator.meta("reconcile")["recorded"] == 1


def test_a_paused_worker_loses_its_token_and_writes_nothing_when_it_wakes_up(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens(sites(1))
    operator.sandbox.set_faults({"route": by_addresses(tokens[0]), "latency_ms": 1500, "times": 1})
    crew.hire("jobs")
    sleeper = crew.hire("records")
    job_id = operator.start("reconcile")
    wait_until(lambda: operator.calls().by_address, "the token is in work")
    with paused(sleeper.pid):
        meta = operator.ended(job_id, timeout_s=20)["result"]["meta"]
        assert (meta["lost"], meta["recorded"], meta["remaining"]) == (1, 0, 1)

        crew.hire("records")
        assert operator.meta("reconcile")["recorded"] == 1
        before = operator.documents(tokens)
        links = list(operator.database.token_links.find({"token_address": tokens[0]["tokenAddress"]}))
    wait_until(lambda: sleeper.logged("a token was not recorded"), "the late result is refused")
    assert operator.documents(tokens) == before
    assert list(operator.database.token_links.find({"token_address": tokens[0]["tokenAddress"]})) == links


def test_one_bad_token_and_one_dead_worker_cost_only_what_was_in_work_there(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens(sites(20))
    seventh, twelfth = tokens[6], tokens[11]
    operator.sandbox.set_faults(
        {"route": by_addresses(seventh), "status": 500}, {"route": by_addresses(twelfth), "hang": True}
    )
    crew.hire("jobs")
    crew.hire("records")
    crew.hire("records")
    job_id = operator.start("reconcile")
    victim = crew.holder_of(operator, twelfth)
    wait_until(lambda: operator.job(job_id)["progress"]["done"] == 19, "all others are done", timeout_s=20)
    victim.kill()
    job = operator.ended(job_id, timeout_s=TTL_AND_GRACE_S + 2)
    found = outcomes(job)
    assert len(job["result"]["data"]) == len(found) == 20
    assert found.pop(seventh["tokenAddress"]) == "failed"
    assert found.pop(twelfth["tokenAddress"]) == "lost"
    assert set(found.values()) == {"recorded"}
    meta = job["result"]["meta"]
    assert meta["recorded"] + meta["failed"] + meta["lost"] == meta["targeted"] == 20
    assert all(row["reason"] for row in job["result"]["data"] if row["outcome"] == "failed")

    operator.sandbox.clear_faults()
    wait_until(lambda: leases_of(operator) == [], "no lease is left", timeout_s=TTL_AND_GRACE_S)
    again = operator.meta("reconcile")
    assert (again["alreadySeen"], again["targeted"], again["recorded"]) == (18, 2, 2)
    assert_recorded_once(operator, tokens)


def test_without_its_presence_a_dead_worker_is_waited_for(operator: Operator, crew: Crew) -> None:
    """The twin of the two above: a presence that outlives its worker hides the death."""
    tokens = operator.set_tokens(sites(1))
    operator.sandbox.set_faults({"route": by_addresses(tokens[0]), "hang": True})
    crew.hire("jobs")
    worker = crew.hire("records", JOB_HEARTBEAT_TTL_MS="600000")
    job_id = operator.start("reconcile")
    wait_until(lambda: operator.calls().by_address, "the token is in work")
    worker.kill()
    gone_at = time.monotonic()
    wait_until(
        lambda: time.monotonic() - gone_at > TTL_AND_GRACE_S,
        "the grace is over",
        timeout_s=TTL_AND_GRACE_S + 1,
    )
    assert operator.job(job_id)["state"] == "running"
