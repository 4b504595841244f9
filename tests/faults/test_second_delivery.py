"""A message that comes twice: the second delivery makes no call and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.stack import Stack
from tests.conftest import make_settings
from tests.faults.crew import Crew
from tests.operator import Operator, sites
from tests.waiting import wait_until
from workers.celery_app import create_celery
from workers.jobs.messenger import CeleryMessenger
from workers.social_recording.job_kinds import RECONCILE, RETRY

TASKS = {"reconcile": RECONCILE.task, "retry": RETRY.task}


@pytest.fixture
def messenger(stack: Stack) -> Iterator[CeleryMessenger]:
    addresses = {name: stack.environ[name.upper()] for name in ("broker_url", "result_backend_url")}
    celery = create_celery(lambda: make_settings(**addresses), polls_only=True)
    yield CeleryMessenger(celery)
    celery.close()


def deliver_again(messenger: CeleryMessenger, operator: Operator, kind: str, job_id: str) -> None:
    messenger.publish(
        task=TASKS[kind],
        job_id=job_id,
        request=operator.job(job_id)["request"],
        queue="jobs",
    )


def test_a_second_delivery_of_a_running_and_of_an_ended_job_does_nothing(
    operator: Operator, crew: Crew, messenger: CeleryMessenger
) -> None:
    tokens = operator.set_tokens(sites(4))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 1000})
    worker = crew.hire()
    job_id = operator.start("reconcile")
    wait_until(lambda: operator.calls().matching("plain-site"), "the job works")
    deliver_again(messenger, operator, "reconcile", job_id)
    wait_until(lambda: worker.logged(f"[{job_id}] ignored"), "the second delivery is over")
    assert operator.job(job_id)["state"] == "running"
    job = operator.ended(job_id)
    assert job["result"]["meta"]["recorded"] == 4
    calls, documents = operator.calls(), operator.documents(tokens)

    before = worker.log_file.read_text().count(f"[{job_id}] ignored")
    deliver_again(messenger, operator, "reconcile", job_id)
    wait_until(
        lambda: worker.log_file.read_text().count(f"[{job_id}] ignored") > before, "the third one is over"
    )
    assert operator.job(job_id) == job
    assert operator.calls() == calls
    assert operator.documents(tokens) == documents
    assert {row["social_urls"][0]["attempts"] for row in documents.values()} == {1}


def test_a_second_delivery_of_a_retry_counts_no_attempt(
    operator: Operator, crew: Crew, messenger: CeleryMessenger
) -> None:
    [token] = operator.set_tokens([{"website": "https://github.com/fault-owner/delivered-twice"}])
    # A page where JSON is due is an error at once, without further tries.
    operator.sandbox.set_faults({"route": "/github/", "body": "<html></html>"})
    worker = crew.hire()
    operator.run("reconcile")
    assert (operator.url_of(token)["status"], operator.url_of(token)["attempts"]) == ("error", 1)
    job = operator.run("retry", {"tokenAddresses": [token["tokenAddress"]], "minIntervalMinutes": 0})
    calls, url = operator.calls(), operator.url_of(token)
    deliver_again(messenger, operator, "retry", job["id"])
    wait_until(lambda: worker.logged(f"[{job['id']}] ignored"), "the second delivery is over")
    assert operator.calls() == calls
    assert operator.url_of(token) == url
    assert url["attempts"] == 2
    assert operator.job(job["id"]) == job


def test_a_second_delivery_of_a_failed_job_leaves_its_error(
    operator: Operator, crew: Crew, messenger: CeleryMessenger
) -> None:
    operator.set_tokens(sites(1))
    operator.sandbox.set_faults({"route": r"^GET /tracker/", "status": 400})
    worker = crew.hire()
    job = operator.ended(operator.start("reconcile"))
    assert job["error"]["code"] == "UPSTREAM_FAILED"
    calls = operator.calls()
    deliver_again(messenger, operator, "reconcile", job["id"])
    wait_until(lambda: worker.logged(f"[{job['id']}] ignored"), "the second delivery is over")
    assert operator.job(job["id"]) == job
    assert operator.calls() == calls
