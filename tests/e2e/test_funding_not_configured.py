"""Without a database of purchases there are no fundings, and whoever asks for them is told so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from redis import Redis
from typer.testing import CliRunner

from app import create_app
from devstack.mongo import MongoServer
from devstack.valkey import ValkeyServer
from tests.conftest import PLAIN_SETTINGS, make_settings
from workers import cli
from workers.celery_app import create_celery
from workers.clock import Clock
from workers.errors import JobFailed
from workers.funding.job_kinds import FUNDING_RECONCILE, FundingReconcileRequest
from workers.jobs.messenger import CeleryMessenger
from workers.services import Services, open_job_access
from workers.settings import Settings

KEY = {"x-api-key": "test-key"}
RECONCILE = "/api/v1/internal/funding/reconcile"


@pytest.fixture
def settings(redis: Redis, valkey: ValkeyServer, mongo: MongoServer) -> Settings:
    return make_settings(
        broker_url=valkey.url_of(0),
        result_backend_url=valkey.url_of(1),
        redis_url=valkey.url_of(2),
        mongo_url=mongo.url,
    )


@pytest.fixture
def client(settings: Settings) -> Iterator[FlaskClient]:
    access = open_job_access(settings)
    yield create_app(access).test_client()
    access.close()


def test_the_api_says_so_and_queues_nothing(client: FlaskClient, redis: Redis) -> None:
    asked = [client.post(RECONCILE, headers=KEY, json=body) for body in ({}, {"propertyIds": ["a"]})]
    asked.append(client.get("/api/v1/internal/funding/blocked", headers=KEY))
    for answer in asked:
        assert (answer.status_code, answer.get_json()["code"]) == (501, "FUNDING_NOT_CONFIGURED")
        assert "FUNDING_DATABASE_URL" in answer.get_json()["detail"]
    assert redis.llen("converge:jobs") == 0


def test_readiness_does_not_ask_a_database_that_is_not_there(client: FlaskClient) -> None:
    assert "postgresql" not in client.get("/readyz").get_json()["checks"]


def test_a_job_from_a_process_that_has_one_fails_with_the_code(settings: Settings) -> None:
    celery = create_celery(lambda: settings, polls_only=True)
    services = Services(settings, CeleryMessenger(celery), Clock())
    access = open_job_access(settings)
    request = FundingReconcileRequest().with_defaults(settings)
    job = access.jobs.submit(FUNDING_RECONCILE, request)
    with pytest.raises(JobFailed) as error:
        services.runner.run(FUNDING_RECONCILE, job.record.id, job.record.request, services.funding.reconcile)
    assert error.value.code == "FUNDING_NOT_CONFIGURED"
    row = services.funding.reconcile_property("a", job.record.id)
    assert (row["outcome"], row["reason"]) == ("failed", "unexpected")
    assert services.funding.nightly.run() is None
    access.close()
    celery.close()


def test_the_command_line_says_so(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {**PLAIN_SETTINGS, "social_record_af_group_ids": "1"}
    values |= {name: getattr(settings, name) for name in ("broker_url", "result_backend_url", "redis_url")}
    for name, value in (values | {"mongo_url": settings.mongo_url}).items():
        monkeypatch.setenv(name.upper(), str(value))
    for command in (["funding", "blocked"], ["funding", "reconcile"]):
        done = CliRunner().invoke(cli.main, command)
        assert done.exit_code == 1, done.output
        assert "FUNDING_DATABASE_URL is not set" in done.output.replace("\n", " ")
