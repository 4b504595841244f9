"""Everything at once, and every moment of a cancel: the end state is the same as without any trouble."""

from __future__ import annotations

import random
import threading
from functools import partial

import pytest

from tests.faults.convergence import assert_converged, is_anything_running, run_until_nothing_changes
from tests.faults.crew import Crew
from tests.operator import Operator, sites
from tests.pausing import paused
from tests.waiting import wait_until

REPO = "https://github.com/chaos-owner/anchor"
KILLS = 3


def test_workers_that_are_killed_and_paused_at_random_reach_the_end_state_of_quiet_ones(
    operator: Operator, crew: Crew
) -> None:
    """Two workers share the queues; whoever is killed is replaced, whoever is paused goes on later."""
    chance = random.Random(1)  # noqa: S311 - no secret is made of it
    links: list[dict[str, str | None]] = [{**each, "twitter": REPO} for each in sites(30)]
    tokens = operator.set_tokens(links)
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 60})
    workers = [crew.hire(threads=4, JOB_TARGET_BUDGET_S="5") for _ in range(2)]
    for _ in range(KILLS):
        enough = operator.calls().total + chance.randint(1, 40)
        operator.start("reconcile", {"limit": 100, "deadlineMs": 5000})
        operator.start("retry", {"minIntervalMinutes": 0})
        wait_until(partial(_is_far_enough, operator, enough), "the work goes on", timeout_s=30)
        victim = chance.randrange(2)
        if chance.random() < 0.5:
            workers[victim].kill()
            workers[victim] = crew.hire(threads=4, JOB_TARGET_BUDGET_S="5")
        else:
            with paused(workers[victim].pid):
                # Longer than its leases live.
                threading.Event().wait(2.5)
    operator.sandbox.clear_faults()
    run_until_nothing_changes(operator)
    assert_converged(operator, tokens, deaths=KILLS * 4)
    statuses = {e["status"] for row in operator.documents(tokens).values() for e in row["social_urls"]}
    assert statuses == {"ok"}


def _is_far_enough(operator: Operator, calls: int) -> bool:
    return operator.calls().total >= calls or not is_anything_running(operator)


@pytest.mark.parametrize("done", [0, 1, 4, 7])
def test_a_job_that_is_cancelled_at_any_moment_keeps_what_is_done_and_the_next_one_does_the_rest(
    operator: Operator, crew: Crew, done: int
) -> None:
    tokens = operator.set_tokens(sites(8))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 150})
    crew.hire(threads=3)
    job_id = operator.start("reconcile")
    wait_until(lambda: operator.job(job_id)["progress"]["done"] >= done, "so many are done")
    operator.session.post(f"{operator.stack.api_url}/api/v1/jobs/{job_id}/cancel", timeout=10)
    job = operator.ended(job_id, timeout_s=10)
    assert job["state"] in ("cancelled", "succeeded")
    if job["state"] == "cancelled":
        rows = (job["result"] or {"data": []})["data"]
        assert len(operator.documents(tokens)) == sum(row["outcome"] == "recorded" for row in rows)
    operator.sandbox.clear_faults()
    run_until_nothing_changes(operator)
    assert_converged(operator, tokens)


def test_an_upstream_that_is_slow_silent_or_talks_nonsense_costs_runs_and_nothing_else(
    operator: Operator, crew: Crew
) -> None:
    """Each rule hits some calls; afterwards the outside world is well again."""
    tokens = operator.set_tokens([{**each, "twitter": REPO} for each in sites(12)])
    page = "<!doctype html><html><title>Just a moment</title></html>"
    operator.sandbox.set_faults(
        {
            "route": "GET /tracker",
            "status": 200,
            "body": page,
            "headers": {"content-type": "text/html"},
            "times": 1,
        },
        {"route": "GET /tracker", "body": '{"data": [', "times": 1},
        {"route": "GET /tracker", "body": {"data": [], "meta": {"total": 12}}, "times": 1},
        {"route": "GET /tracker", "drop": True, "times": 2},
        {"route": "by-addresses", "body": {"data": "nonsense"}, "times": 2},
        {"route": "by-addresses", "status": 503, "times": 4},
        {"route": "GET https://plain-site", "body": page, "times": 2},
        {"route": "GET https://plain-site", "drop": True, "times": 7},
        {"route": "GET https://plain-site", "status": 500, "times": 7},
        {"route": "/github/", "body": "[]", "times": 3},
        {"route": "/github/", "body": {"id": "x"}, "times": 3},
        {"route": "plain-site", "latency_ms": 400, "times": 6},
    )
    crew.hire(threads=6)
    run_until_nothing_changes(operator)
    assert_converged(operator, tokens)
