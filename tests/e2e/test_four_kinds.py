"""The four kinds of jobs side by side: one envelope, and none is in another one's way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
import requests

from devstack.sandbox.solana_names import reserved_address
from devstack.stack import Stack
from tests.e2e.conftest import QUICK
from tests.integration.funding_place import Channel, FundingPlace, emptied_engine, open_channel
from tests.operator import DAY, Operator, sites
from tests.waiting import wait_until
from workers.clock import Clock
from workers.services import JOB_KINDS

PARTS = ("valkey", "mongo", "postgres", "sandbox", "migrate", "worker", "api")
PLACES = {
    "social.reconcile": "/api/v1/internal/social-recording/reconcile",
    "social.retry": "/api/v1/internal/social-recording/retry",
    "solana.backfill": "/api/v1/internal/solana-backfill/campaigns",
    "funding.reconcile": "/api/v1/internal/funding/reconcile",
}
SLOW_MS = 4000


@pytest.fixture(scope="module")
def channel() -> Iterator[Channel]:
    with open_channel() as channel:
        yield channel


@pytest.fixture(scope="module")
def stack(channel: Channel) -> Iterator[Stack]:
    environ = {
        **QUICK,
        "HTTP_READ_TIMEOUT_MS": "10000",
        "TRACKER_TIMEOUT_MS": "10000",
        "FUNDING_ALERT_WEBHOOK_URL": channel.url,
        "FUNDING_COUNTER_RECONCILIATION_STABILIZATION_DELAY_MS": str(SLOW_MS // 2),
    }
    with Stack(parts=PARTS, worker_threads=16, environ=environ) as stack:
        yield stack


@pytest.fixture
def bodies(stack: Stack, operator: Operator, channel: Channel) -> Iterator[Mapping[str, dict[str, Any]]]:
    """What to ask of each kind, so that there is something to do and it takes some seconds."""
    [broken] = operator.set_tokens([{"website": "https://github.com/four-owner/anchor"}])
    operator.sandbox.set_faults({"route": "/github/", "body": "<html></html>"})
    operator.run("reconcile")
    operator.set_tokens(sites(1))
    operator.sandbox.set_faults({"route": "/github/|by-addresses|getTransaction", "latency_ms": SLOW_MS})
    with emptied_engine(stack.environ["FUNDING_DATABASE_URL"]) as engine:
        place = FundingPlace(engine, operator.redis, channel, clock=Clock())
        place.add_property(10, sold=9, counters=(10, 0))
        yield {
            "social.reconcile": {
                "startDate": DAY.isoformat(),
                "endDate": (DAY + timedelta(days=1)).isoformat(),
            },
            "social.retry": {"tokenAddresses": [broken["tokenAddress"]], "minIntervalMinutes": 0},
            "solana.backfill": {
                "mode": "program",
                "address": reserved_address("short", seed="four kinds"),
                "limit": 2,
            },
            "funding.reconcile": {},
        }


def post(operator: Operator, kind: str, body: dict[str, Any]) -> requests.Response:
    return operator.session.post(operator.stack.api_url + PLACES[kind], json=body, timeout=10)


def test_four_kinds_that_are_asked_for_at_once_work_at_once_and_answer_in_one_form(
    operator: Operator, bodies: Mapping[str, dict[str, Any]]
) -> None:
    assert PLACES.keys() == JOB_KINDS.keys()
    answers = {kind: post(operator, kind, body) for kind, body in bodies.items()}
    assert {answer.status_code for answer in answers.values()} == {202}, answers
    ids = {kind: str(answer.json()["id"]) for kind, answer in answers.items()}

    def states() -> set[str]:
        return {operator.job(job_id)["state"] for job_id in ids.values()}

    wait_until(lambda: states() == {"running"}, "all four are at work at the same time", timeout_s=30)
    jobs = {kind: operator.ended(job_id) for kind, job_id in ids.items()}
    assert {job["state"] for job in jobs.values()} == {"succeeded"}
    assert max(job["startedAt"] for job in jobs.values()) < min(job["finishedAt"] for job in jobs.values())
    forms = {(*sorted(job), *sorted(job["result"]), *sorted(job["links"])) for job in jobs.values()}
    assert len(forms) == 1
    for kind, job in jobs.items():
        meta = job["result"]["meta"]
        assert "skipped" not in meta, kind
        assert job["kind"] == kind
        assert (meta["stoppedBy"], job["progress"]["done"]) in {("drained", 1), ("limit", 2)}, kind
        assert {"queuedMs", "elapsedMs"} <= meta.keys(), kind
    listed = operator.session.get(f"{operator.stack.api_url}/api/v1/jobs", timeout=10).json()["data"]
    assert set(ids.values()) <= {job["id"] for job in listed}
