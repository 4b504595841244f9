"""What Prometheus reads: names, labels, numbers, and what is left when a store is away."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from app import create_app
from app.api.metrics import GAUGES, STREAM_MESSAGES
from devstack.mongo import MongoServer
from devstack.valkey import ValkeyServer
from tests.conftest import make_settings
from tests.integration.funding_place import Channel, FundingPlace, emptied_engine
from tests.waiting import wait_until
from workers.clock import Clock
from workers.funding.vocabulary import BlockReason
from workers.jobs.record import JobState, JobStore, alive_lease
from workers.leases import LeaseStore
from workers.mongo import MongoDatabase
from workers.services import open_job_access
from workers.settings import Settings
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.stream_pulse import StreamPulse
from workers.telemetry import Meter, MeterWriter
from workers.telemetry_table import CALLS, COUNTERS, HISTOGRAMS, OTHER, PERMIT_WAITS

KEY = {"x-api-key": "test-key"}
NAMES = {
    *(spec.name for spec in COUNTERS),
    *(spec.name for spec in HISTOGRAMS),
    *(spec.name for spec in GAUGES),
    STREAM_MESSAGES,
}
SERIES_MAX = 3000


@pytest.fixture
def settings(redis: Redis, valkey: ValkeyServer, mongo: MongoServer, database: MongoDatabase) -> Settings:
    return make_settings(
        broker_url=valkey.url_of(0),
        result_backend_url=valkey.url_of(1),
        redis_url=valkey.url_of(2),
        mongo_url=mongo.url,
        mongo_database=database.name,
    )


@pytest.fixture
def store(settings: Settings) -> Iterator[Redis]:
    """The database that workers and API share."""
    client = Redis.from_url(settings.redis_url)
    yield client
    client.close()


@contextmanager
def scraping(settings: Settings) -> Iterator[FlaskClient]:
    access = open_job_access(settings)
    yield create_app(access).test_client()
    access.close()


@pytest.fixture
def client(settings: Settings) -> Iterator[FlaskClient]:
    with scraping(settings) as client:
        yield client


def scrape(client: FlaskClient) -> dict[str, Metric]:
    response = client.get("/metrics", headers=KEY)
    assert response.status_code == 200
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
    return {family.name: family for family in text_string_to_metric_families(response.text)}


def value(found: dict[str, Metric], name: str, **labels: str) -> float | None:
    """The one sample of this name with exactly these labels."""
    samples = [each for family in found.values() for each in family.samples if each.name == name]
    return next((each.value for each in samples if each.labels == labels), None)


def test_the_numbers_need_the_key_like_everything_else(client: FlaskClient) -> None:
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"x-api-key": "wrong"}).status_code == 401


def test_every_name_is_one_of_the_table_and_says_what_it_is(client: FlaskClient) -> None:
    found = scrape(client)
    assert found.keys() <= NAMES
    assert {spec.name for spec in COUNTERS} < found.keys()
    for family in found.values():
        assert family.name.startswith("converge_")
        assert family.documentation
    counters = {family.name for family in found.values() if family.type == "counter"}
    assert counters == {*(spec.name for spec in COUNTERS), STREAM_MESSAGES}


def test_the_queue_of_the_stream_is_told_as_its_consumers_saw_it(settings: Settings, store: Redis) -> None:
    """Without one nobody has seen the queue, which is something else than an empty one."""
    with scraping(settings) as client:
        found = scrape(client)
        assert value(found, "converge_stream_consumers") == 0
        assert value(found, "converge_stream_waiting_messages") is None
    StreamPulse(store, Clock()).beat(Counter(), waiting=7, held=2)
    with scraping(settings) as client:
        found = scrape(client)
        assert value(found, "converge_stream_consumers") == 1
        assert value(found, "converge_stream_waiting_messages") == 7


def test_a_worst_case_of_all_series_stays_small_and_quick(store: Redis, client: FlaskClient) -> None:
    """Everything that could ever be counted has been, and somebody has tried to put in more."""
    meter = Meter()
    for source in sorted(CALLS.labels[0].values):
        for outcome in sorted(CALLS.labels[1].values):
            for is_paid in ("yes", "no"):
                meter.count(CALLS, source, outcome, is_paid)
        meter.count(PERMIT_WAITS, f"https://{source}.example/")
    MeterWriter(meter, store, Clock()).flush()
    found = scrape(client)
    assert sum(len(family.samples) for family in found.values()) < SERIES_MAX
    assert len(found[PERMIT_WAITS.name].samples) == 1
    assert found[PERMIT_WAITS.name].samples[0].labels == {"source": OTHER}
    started = time.monotonic()
    scrape(client)
    assert time.monotonic() - started < 1, "a few hundredths where nobody else is at work"


def test_counts_and_durations_are_shown_as_prometheus_wants_them(store: Redis, client: FlaskClient) -> None:
    meter = Meter()
    meter.count(CALLS, "twitterapiio", "ok", "yes", amount=3)
    for seconds in (0.1, 0.7, 4000.0):
        meter.count_job("social.retry", "succeeded", seconds=seconds, meta={})
    MeterWriter(meter, store, Clock()).flush()
    found = scrape(client)
    calls = {"source": "twitterapiio", "outcome": "ok", "paid": "yes"}
    assert value(found, "converge_outbound_calls_total", **calls) == 3
    assert value(found, "converge_jobs_ended_total", kind="social.retry", state="succeeded") == 3
    buckets = [
        value(found, "converge_job_duration_seconds_bucket", kind="social.retry", le=bound)
        for bound in ("0.5", "1.0", "3600.0", "+Inf")
    ]
    assert buckets == [1, 2, 2, 3]
    assert value(found, "converge_job_duration_seconds_count", kind="social.retry") == 3
    assert value(found, "converge_job_duration_seconds_sum", kind="social.retry") == pytest.approx(4000.8)


def test_jobs_queues_and_leases_are_shown_as_they_are(
    settings: Settings, redis: Redis, store: Redis, client: FlaskClient
) -> None:
    jobs = JobStore(store, retention_s=60)
    leases = LeaseStore(store, Clock())
    for name in ("waits", "runs", "died", "failed", "cancelled"):
        jobs.create(name, "social.retry", {}, expires_s=60, claim=None)
        if name not in ("waits", "cancelled"):
            jobs.begin(name, "test")
    jobs.finish("failed", JobState.FAILED)
    jobs.request_cancel("cancelled")
    redis.lpush("converge:records", "a", "b")
    redis.lpush("converge:records:9", "c")
    redis.lpush("converge:jobs", "d")
    with leases.hold(alive_lease("runs"), ttl_ms=60_000), leases.hold("social-record:So1", ttl_ms=60_000):
        found = scrape(client)
    states = {
        state: value(found, "converge_jobs", kind="social.retry", state=state.value) for state in JobState
    }
    assert states == {
        JobState.QUEUED: 1,
        JobState.RUNNING: 1,
        JobState.LOST: 1,
        JobState.FAILED: 1,
        JobState.CANCELLED: 1,
        JobState.SUCCEEDED: 0,
        JobState.EXPIRED: 0,
    }
    assert value(found, "converge_queue_messages", queue="records") == 3
    assert value(found, "converge_queue_messages", queue="jobs") == 1
    assert value(found, "converge_leases_held", family="social-record") == 1
    assert value(found, "converge_leases_held", family="social-url") == 0
    for name in ("redis", "broker", "mongodb"):
        assert value(found, "converge_store_up", store=name) == 1
    assert value(found, "converge_store_up", store="postgresql") is None


def test_urls_are_counted_by_platform_and_status_with_their_age(
    database: MongoDatabase, client: FlaskClient
) -> None:
    clock = Clock()
    urls = {"https://github.com/a": FetchStatus.OK, "https://one.example/": FetchStatus.ERROR}
    TokenRepository(database, clock).insert(
        Token.of(
            address="So11111111111111111111111111111111111111112",
            symbol="A",
            first_transfer_at=clock.now(),
            social_urls=[
                TokenSocialURL(url=url, status=status, attempts=1, attempted_at=clock.now())
                for url, status in urls.items()
            ],
            created_at=clock.now(),
        )
    )
    found = scrape(client)
    assert value(found, "converge_urls", platform="gh", status="ok") == 1
    assert value(found, "converge_urls", platform="web", status="error") == 1
    assert value(found, "converge_urls", platform="web", status="ok") == 0
    age = value(found, "converge_urls_age_seconds")
    assert age is not None
    assert 0 <= age < 30


def test_the_drift_of_fundings_is_shown(settings: Settings, store: Redis, funding_database: str) -> None:
    with emptied_engine(funding_database) as engine:
        place = FundingPlace(engine, store, Channel(), clock=Clock())
        place.add_property(sold=3, auto_invest=1)
        place.add_property(sold=3, counters=(7, 0))
        place.add_property(sold=3, auto_invest=2, counters=(None, 1))
        place.set_block(place.add_property(sold=2), BlockReason.BRICKS_OVERSELL)
        with scraping(nowhere(settings, funding_database_url=funding_database)) as client:
            found = scrape(client)
    assert value(found, "converge_store_up", store="postgresql") == 1
    assert value(found, "converge_funding_drift_bricks", counter="purchased") == 4 + 3
    assert value(found, "converge_funding_drift_bricks", counter="auto_invest") == 1
    assert value(found, "converge_funding_drifted_properties") == 2
    assert value(found, "converge_funding_blocked_properties", reason="bricks-oversell") == 1
    assert value(found, "converge_funding_blocked_properties", reason="counter-reconciliation") == 0


def nowhere(settings: Settings, **changes: Any) -> Settings:
    return make_settings(**{**settings.model_dump(), **changes})


def test_without_mongodb_the_rest_is_there(settings: Settings) -> None:
    with scraping(nowhere(settings, mongo_url="mongodb://127.0.0.1:1")) as client:
        found = wait_until(
            lambda: (
                (seen := scrape(client)) and value(seen, "converge_store_up", store="mongodb") == 0 and seen
            ),
            "MongoDB is seen to be away",
        )
    assert value(found, "converge_store_up", store="redis") == 1
    assert "converge_urls" not in found
    assert "converge_outbound_calls" in found


def test_without_redis_the_rest_is_there_and_without_anything_the_answer_is_no_error(
    settings: Settings, database: MongoDatabase
) -> None:
    away = {"redis_url": "redis://127.0.0.1:1/2", "broker_url": "redis://127.0.0.1:1/0"}
    with scraping(nowhere(settings, **away)) as client:
        found = scrape(client)
        assert value(found, "converge_store_up", store="redis") == 0
        assert value(found, "converge_store_up", store="broker") == 0
        assert value(found, "converge_store_up", store="mongodb") == 1
        assert "converge_urls" in found
        assert not found.keys() & {"converge_outbound_calls", "converge_jobs", "converge_queue_messages"}
    with scraping(nowhere(settings, **away, mongo_url="mongodb://127.0.0.1:1")) as client:
        assert scrape(client).keys() == {"converge_store_up"}


def test_a_store_that_goes_away_is_seen_and_its_return_too(tmp_path: Path, settings: Settings) -> None:
    up = {"store": "redis"}
    with (
        ValkeyServer(tmp_path / "data") as server,
        scraping(nowhere(settings, redis_url=server.url_of(2))) as client,
    ):
        assert value(scrape(client), "converge_store_up", **up) == 1
        server.stop()
        wait_until(
            lambda: value(scrape(client), "converge_store_up", **up) == 0, "its absence is seen", timeout_s=20
        )
        server.start()
        wait_until(
            lambda: value(scrape(client), "converge_store_up", **up) == 1, "its return is seen", timeout_s=20
        )
