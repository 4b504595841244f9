"""Queues that are full, and workers that hang or die in a retry: every job starts and ends all the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from celery import Celery
from redis import Redis

from devstack.processes import poll
from devstack.sandbox.tokens import address_of
from devstack.stack import Stack
from tests.conftest import make_settings
from tests.faults.crew import Crew, assert_given_back, leases_of
from tests.operator import Operator, sites
from tests.waiting import wait_until
from workers.celery_app import create_celery
from workers.clock import Clock
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.record import JobStore
from workers.leases import LeaseBook
from workers.social_recording.live import LiveRequests

RECORDS = "converge:records"
FLOOD = 500
SOON_S = 2.0
TRIES = 3
PAID_CALL = r"^GET /twitterapiio/twitter/user/info"
PAYING = {
    "SOCIAL_RECORD_ENABLE_PAID": "1",
    "TWITTERAPIIO_API_KEY": "reseller-secret-9",
    "SOCIAL_RECORD_URL_LOCK_WAIT_MS": "0",
}


@pytest.fixture
def broker(stack: Stack) -> Iterator[Redis]:
    with Redis.from_url(stack.environ["BROKER_URL"]) as found:
        yield found


@pytest.fixture
def celery(stack: Stack) -> Iterator[Celery]:
    addresses = {name: stack.environ[name.upper()] for name in ("broker_url", "result_backend_url")}
    found = create_celery(lambda: make_settings(**addresses), polls_only=True)
    yield found
    found.close()


def times(job: dict[str, str]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(job["createdAt"]), datetime.fromisoformat(job["startedAt"])


def waiting(broker: Redis) -> int:
    """How many members wait, whatever their priority."""
    return sum(int(broker.llen(key)) for key in broker.keys(f"{RECORDS}*"))


def test_a_full_queue_of_members_delays_the_start_of_no_job(
    operator: Operator, crew: Crew, celery: Celery, broker: Redis
) -> None:
    """The workers of `records` are busy for long; those of `jobs` are others."""
    live = LiveRequests(CeleryMessenger(celery))
    operator.set_tokens([])
    operator.sandbox.set_faults({"route": "by-addresses", "latency_ms": 1000})
    crew.hire("jobs", threads=2)
    crew.hire("records", threads=2)
    for number in range(FLOOD):
        live.ask_for(address_of("flood", str(number)))
    wait_until(lambda: operator.calls().matching("by-addresses"), "they are at work")
    waited_s = []
    for _ in range(TRIES):
        job_id = operator.start("retry", {"deadlineMs": 1000})
        wait_until(lambda job_id=job_id: operator.job(job_id)["startedAt"], "the job starts")  # type: ignore[misc]
        created, started = times(operator.ended(job_id))
        waited_s.append((started - created).total_seconds())
    assert min(waited_s) < SOON_S / 2, "once on a quiet moment of the machine"
    assert waiting(broker) > FLOOD / 2, "the queue was full all the while"


def test_members_of_a_job_go_before_the_flood_of_the_stream(
    operator: Operator, crew: Crew, celery: Celery, broker: Redis
) -> None:
    live = LiveRequests(CeleryMessenger(celery))
    tokens = operator.set_tokens(sites(4))
    operator.sandbox.set_faults({"route": "by-addresses", "latency_ms": 300})
    for number in range(FLOOD):
        live.ask_for(address_of("stream flood", str(number)))
    crew.hire("jobs", threads=2)
    crew.hire("records", threads=2)
    wait_until(lambda: operator.calls().matching("by-addresses"), "they are at work")
    meta = operator.meta("reconcile", {"deadlineMs": 30_000})
    assert (meta["recorded"], meta["remaining"]) == (4, 0)
    assert len(operator.documents(tokens)) == 4
    assert waiting(broker) > FLOOD / 2, "the flood waits behind"


def test_a_cancel_ends_a_job_with_many_waiting_members_within_two_seconds_and_nothing_starts_any_more(
    operator: Operator, crew: Crew, broker: Redis
) -> None:
    crew.hire("jobs", threads=2)
    crew.hire("records", threads=2)
    took_s = []
    for _ in range(TRIES):
        tokens = operator.set_tokens(sites(60))
        operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 300})
        job_id = operator.start("reconcile", {"limit": 60})
        wait_until(lambda job_id=job_id: operator.job(job_id)["progress"]["done"], "something is done")  # type: ignore[misc]
        assert waiting(broker) > 10, "most of those that were handed out wait"
        url = f"{operator.stack.api_url}/api/v1/jobs/{job_id}/cancel"
        assert operator.session.post(url, timeout=10).status_code == 202
        job = operator.ended(job_id)
        assert job["state"] == "cancelled"
        calls = operator.calls().total
        wait_until(lambda: waiting(broker) == 0, "the members that waited are gone", timeout_s=30)
        assert operator.calls().total == calls
        meta = job["result"]["meta"]
        assert len(operator.documents(tokens)) == meta["recorded"] == 60 - meta["remaining"]
        took_s.append(_cancelled_within_s(operator, job_id))
    assert min(took_s) < SOON_S


def _cancelled_within_s(operator: Operator, job_id: str) -> float:
    """The time between the wish and the end, by the clock of the store of jobs."""
    record = JobStore(operator.redis, retention_s=60).get(job_id)
    assert record is not None
    assert record.cancel_requested_at is not None
    assert record.finished_at is not None
    return (record.finished_at - record.cancel_requested_at).total_seconds()


def test_a_worker_that_is_killed_while_it_pays_in_a_retry_costs_one_call_and_one_attempt(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens([{"twitter": f"https://x.com/killed_payer_{n}"} for n in range(4)])
    crew.hire()
    operator.run("reconcile")
    assert operator.url_of(tokens[0])["status"] == "skipped_paid"
    crew.dismiss()
    crew.hire("jobs", threads=2, **PAYING)
    victim = crew.hire("records", threads=1, **PAYING)
    operator.sandbox.set_faults({"route": PAID_CALL, "hang": True, "times": 1})
    addresses = [token["tokenAddress"] for token in tokens]
    body = {"tokenAddresses": addresses, "minIntervalMinutes": 0, "deadlineMs": 3000}
    job_id = operator.start("retry", body)
    wait_until(lambda: operator.calls().matching(PAID_CALL) == 1, "one call is in the air")
    victim.kill()
    meta = operator.ended(job_id)["result"]["meta"]
    assert (meta["lost"], meta["processed"], meta["remaining"]) == (1, 0, 4)
    crew.hire("records", threads=1, **PAYING)
    wait_until(
        lambda: not [each for each in leases_of(operator) if each.startswith("social-record")],
        "the lease of the token has run out",
    )
    book = LeaseBook(operator.redis, Clock())
    for lease in book.held("social-url:"):
        assert book.release(lease.name, lease.holder), "an operator frees what nobody renews"
    assert operator.meta("retry", {**body, "deadlineMs": 30_000})["converged"] == 4
    assert operator.calls().matching(PAID_CALL) == len(tokens) + 1
    attempts = sorted(operator.url_of(token)["attempts"] for token in tokens)
    assert attempts == [1, 1, 1, 2]


def test_a_url_that_hangs_ends_as_timed_out_and_its_slot_and_token_are_free(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens([{"website": f"https://github.com/hang-owner/repo-{n}"} for n in range(3)])
    operator.sandbox.set_faults({"route": "/github/", "body": "<html></html>"})
    crew.hire("jobs", threads=1)
    crew.hire("records", threads=1, JOB_TARGET_BUDGET_S="2")
    operator.run("reconcile")
    operator.sandbox.set_faults({"route": "/github/.*repo-0", "hang": True})
    body = {
        "tokenAddresses": [token["tokenAddress"] for token in tokens],
        "minIntervalMinutes": 0,
    }
    job = operator.run("retry", body)
    reasons = {row["address"]: row["reason"] for row in job["result"]["data"]}
    assert reasons == dict(
        zip((token["tokenAddress"] for token in tokens), ("timeout", None, None), strict=True)
    )
    assert (operator.url_of(tokens[0])["status"], operator.url_of(tokens[0])["attempts"]) == ("error", 2)
    assert_given_back(operator)
    operator.sandbox.clear_faults()
    assert operator.meta("retry", body)["converged"] == 1


def test_a_worker_of_one_thread_does_a_job_and_its_targets(operator: Operator, crew: Crew) -> None:
    operator.set_tokens(sites(2))
    crew.hire(threads=1)
    assert operator.meta("reconcile")["recorded"] == 2


def test_a_worker_takes_up_half_as_many_targets_again_as_it_makes_calls(
    operator: Operator, crew: Crew
) -> None:
    operator.set_tokens(sites(10))
    operator.sandbox.set_faults({"route": "by-addresses", "latency_ms": 10_000})
    crew.hire(threads=4, TRACKER_TIMEOUT_MS="9000")
    operator.start("reconcile")
    wait_until(
        lambda: sum(name.startswith("social-record:") for name in leases_of(operator)) == 6,
        "six are taken up",
    )
    wait_until(lambda: operator.calls().matching("by-addresses") >= 4, "four are asked about")
    # The others have everything else behind them, so they would ask at once.
    assert not poll(lambda: operator.calls().matching("by-addresses") > 4, timeout_s=1)


def test_a_job_on_the_only_thread_of_celerys_own_pool_waits_for_its_targets_in_vain(
    operator: Operator, crew: Crew
) -> None:
    operator.set_tokens(sites(2))
    crew.hire(threads=1, app="tests.faults.shared_pool_worker")
    meta = operator.meta("reconcile", {"deadlineMs": 2000})
    assert (meta["recorded"], meta["stoppedBy"]) == (0, "deadline")
