"""Results as the messenger reads them from a real result backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import states
from redis import Redis

from devstack.valkey import ValkeyServer
from tests.conftest import make_settings
from workers.celery_app import create_celery
from workers.jobs import messenger
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.service import StoredResult

# Celery stores results with a command that redis-py would rather have spelt differently.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex")


class Place:
    """A messenger over the session's server, and what a worker stores there."""

    def __init__(self, url: str) -> None:
        settings = make_settings(broker_url=url, result_backend_url=url)
        self.celery = create_celery(lambda: settings, polls_only=True)
        self.messenger = CeleryMessenger(self.celery)

    def store(self, job_id: str, result: object, state: str = states.SUCCESS) -> None:
        self.celery.backend.store_result(job_id, result, state)


@pytest.fixture
def place(valkey: ValkeyServer, redis: Redis) -> Iterator[Place]:
    place = Place(valkey.url)
    yield place
    place.celery.close()


def reads(redis: Redis) -> int:
    """How many results the server has been asked for."""
    stats: dict[str, dict[str, int]] = redis.info("commandstats")
    return stats.get("cmdstat_get", {}).get("calls", 0)


def test_the_result_of_a_job_that_succeeded_is_read_once(place: Place, redis: Redis) -> None:
    assert place.messenger.result("job") is None
    place.store("job", {"data": [], "meta": {"processed": 3}})
    first = place.messenger.result("job")
    before = reads(redis)
    assert place.messenger.result("job") == first
    assert first == StoredResult(succeeded=True, value={"data": [], "meta": {"processed": 3}})
    assert reads(redis) == before


def test_a_failure_is_read_anew_each_time(place: Place) -> None:
    place.store("job", ValueError("away"), states.FAILURE)
    failed = place.messenger.result("job")
    assert failed is not None
    assert not failed.succeeded
    place.store("job", {"meta": {}})
    assert place.messenger.result("job") == StoredResult(succeeded=True, value={"meta": {}})


def test_a_result_of_very_many_rows_is_not_kept(place: Place, redis: Redis) -> None:
    for job_id, rows in (("few", 200), ("many", 201)):
        place.store(job_id, {"data": [{}] * rows, "meta": {}})
        place.messenger.result(job_id)
    before = reads(redis)
    place.messenger.result("few")
    assert reads(redis) == before
    place.messenger.result("many")
    assert reads(redis) == before + 1


def test_only_the_results_asked_for_last_are_kept(
    place: Place, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messenger, "RESULTS_KEPT", 2)
    place.messenger = CeleryMessenger(place.celery)
    for job_id in ("a", "b", "c"):
        place.store(job_id, {"meta": {}})
        place.messenger.result(job_id)
    before = reads(redis)
    place.messenger.result("c")
    place.messenger.result("b")
    assert reads(redis) == before
    place.messenger.result("a")
    assert reads(redis) == before + 1
