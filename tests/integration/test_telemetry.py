"""Counts on a real server: written once whatever happens to the answer, kept while Redis is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from devstack.valkey import ValkeyServer
from tests.conftest import FakeClock, make_settings
from tests.integration.http_site import Site, head, page
from tests.integration.limited_client import ask
from tests.waiting import wait_until
from workers.clock import Clock
from workers.errors import Busy, FetchFailed, LockUnavailable, RetryableError
from workers.http.client import OutboundClient
from workers.leases import LeaseStore
from workers.telemetry import (
    BATCH_KEY_PREFIX,
    HOUR_KEY_PREFIX,
    HOURS_KEPT,
    KEY_PREFIX,
    Meter,
    MeterWriter,
    TelemetryReader,
)
from workers.telemetry_table import (
    CALLS,
    JOB_SECONDS,
    JOBS_ENDED,
    LEASE_WAIT_SECONDS,
    LEASE_WAITS,
    LEASES,
    CounterSpec,
)

GITHUB = ("github", "ok", "no")


@pytest.fixture
def meter(clock: FakeClock) -> Meter:
    return Meter(clock)


@pytest.fixture
def writer(meter: Meter, redis: Redis, clock: FakeClock) -> MeterWriter:
    return MeterWriter(meter, redis, clock)


@pytest.fixture
def reader(redis: Redis, clock: FakeClock) -> TelemetryReader:
    return TelemetryReader(redis, clock)


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def counted(meter: Meter, spec: CounterSpec) -> dict[str, float]:
    batch = meter.take()
    return {} if batch is None else batch.totals.get(spec.name, {})


def test_counts_of_several_processes_add_up(redis: Redis, clock: FakeClock, reader: TelemetryReader) -> None:
    for _ in range(3):
        meter = Meter(clock)
        meter.count(CALLS, *GITHUB)
        meter.count_job("social.retry", "succeeded", seconds=4, meta={})
        assert MeterWriter(meter, redis, clock).flush()
    found = reader.read()
    assert found.counters[CALLS] == {GITHUB: 3}
    assert found.counters[JOBS_ENDED] == {("social.retry", "succeeded"): 3}
    histogram = found.histograms[JOB_SECONDS]["social.retry",]
    assert histogram.sum_s == 12
    assert {bound: number for bound, number in histogram.buckets.items() if number} == {"5.0": 3}


def test_a_flush_of_nothing_writes_nothing(redis: Redis, writer: MeterWriter) -> None:
    assert writer.flush()
    assert redis.keys("*") == []


class LosesAnswers(Redis):
    """A client whose next scripts run, and whose answers are lost."""

    lost = 0

    def evalsha(self, *args: Any, **kwargs: Any) -> Any:
        answer = super().evalsha(*args, **kwargs)
        if self.lost:
            self.lost -= 1
            raise RedisConnectionError("the answer got lost")
        return answer


def test_a_batch_whose_answer_got_lost_is_counted_once(
    redis: Redis, valkey: ValkeyServer, meter: Meter, clock: FakeClock, reader: TelemetryReader
) -> None:
    client = LosesAnswers.from_url(valkey.url)
    assert isinstance(client, LosesAnswers)
    writer = MeterWriter(meter, client, clock)
    meter.count(CALLS, *GITHUB)
    client.lost = 2
    assert not writer.flush()
    meter.count(CALLS, *GITHUB)
    assert not writer.flush()
    assert writer.flush()
    assert reader.read().counters[CALLS] == {GITHUB: 2}
    client.close()


def test_without_the_mark_of_a_batch_the_same_loss_counts_it_twice(
    redis: Redis, valkey: ValkeyServer, meter: Meter, clock: FakeClock, reader: TelemetryReader
) -> None:
    client = LosesAnswers.from_url(valkey.url)
    assert isinstance(client, LosesAnswers)
    writer = MeterWriter(meter, client, clock)
    meter.count(CALLS, *GITHUB)
    client.lost = 1
    assert not writer.flush()
    [mark] = redis.keys(f"{BATCH_KEY_PREFIX}*")
    redis.delete(mark)
    assert writer.flush()
    assert reader.read().counters[CALLS] == {GITHUB: 2}
    client.close()


def test_counts_are_kept_while_redis_is_away_and_written_when_it_is_back(
    tmp_path: Path, clock: FakeClock, meter: Meter
) -> None:
    with ValkeyServer(tmp_path / "data") as server:
        client = Redis.from_url(server.url, retry=Retry(NoBackoff(), 0), socket_connect_timeout=1)
        writer, reader = MeterWriter(meter, client, clock), TelemetryReader(client, clock)
        meter.count(CALLS, *GITHUB)
        server.stop()
        assert not writer.flush()
        meter.count(CALLS, *GITHUB)
        assert not writer.flush()
        with pytest.raises(RetryableError):
            reader.read()
        server.start()
        assert writer.flush()
        assert reader.read().counters[CALLS] == {GITHUB: 2}
        client.close()


def test_something_else_under_a_name_of_ours_takes_no_other_count_with_it(
    redis: Redis, meter: Meter, writer: MeterWriter, reader: TelemetryReader
) -> None:
    redis.set(f"{KEY_PREFIX}{LEASES.name}", "no hash")
    redis.hset(
        f"{KEY_PREFIX}{CALLS.name}",
        mapping={"github|ok|no": "1", "github|ok": "5", "nobody|ok|no": "7", "github|redirect|no": "text"},
    )
    meter.count(LEASES, "social-url", "taken")
    meter.count(CALLS, "github", "redirect", "no")
    meter.count(CALLS, *GITHUB)
    assert writer.flush()
    found = reader.read()
    assert found.counters[CALLS] == {GITHUB: 2}
    assert found.counters[LEASES] == {}


def test_hours_are_kept_for_a_week_and_totals_for_ever(
    redis: Redis, meter: Meter, writer: MeterWriter, reader: TelemetryReader, clock: FakeClock
) -> None:
    meter.count(CALLS, *GITHUB)
    meter.count(CALLS, "twitterapiio", "ok", "yes", amount=2)
    clock.advance(3600)
    meter.count(CALLS, "github", "timeout", "no")
    writer.flush()
    *_, before, last = reader.calls_by_hour(3)
    assert (dict(before.calls), dict(before.paid)) == ({"github": 1, "twitterapiio": 2}, {"twitterapiio": 2})
    assert (dict(last.calls), dict(last.paid)) == ({"github": 1}, {})
    assert (last.at - before.at).total_seconds() == 3600
    hours = redis.keys(f"{HOUR_KEY_PREFIX}*")
    assert len(hours) == 2
    assert all(HOURS_KEPT * 3600 - 60 < redis.ttl(key) <= HOURS_KEPT * 3600 for key in hours)
    assert redis.ttl(f"{KEY_PREFIX}{CALLS.name}") == -1
    assert len(reader.calls_by_hour(10_000)) == HOURS_KEPT


def test_the_writer_writes_by_itself_and_for_the_last_time_at_its_end(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.telemetry.FLUSH_EVERY_S", 0.02)
    clock = Clock()
    meter = Meter(clock)
    reader = TelemetryReader(redis, clock)
    writer = MeterWriter(meter, redis, clock)
    writer.start()
    meter.count(CALLS, *GITHUB)
    wait_until(lambda: reader.read().counters[CALLS].get(GITHUB) == 1, "the count is written")
    writer.close()
    meter.count(CALLS, *GITHUB)
    assert reader.read().counters[CALLS] == {GITHUB: 1}, "nobody writes any more"
    writer.close()
    assert reader.read().counters[CALLS] == {GITHUB: 2}


def test_a_lease_that_is_free_busy_or_out_of_reach_is_counted(redis: Redis, valkey: ValkeyServer) -> None:
    meter = Meter()
    leases = LeaseStore(redis, Clock(), meter=meter)
    with leases.hold("social-url:a", ttl_ms=60_000):
        with pytest.raises(Busy), leases.hold("social-url:a", ttl_ms=60_000):
            pass
        with pytest.raises(Busy), leases.hold("social-url:a", ttl_ms=60_000, wait_s=0.1):
            pass
    nowhere = Redis.from_url("redis://127.0.0.1:1/0", retry=Retry(NoBackoff(), 0))
    with pytest.raises(LockUnavailable), LeaseStore(nowhere, Clock(), meter=meter).hold("x", ttl_ms=1000):
        pass
    batch = meter.take()
    assert batch is not None
    assert batch.totals[LEASES.name] == {
        "social-url|taken": 1,
        "social-url|busy": 2,
        "other|unavailable": 1,
    }
    assert batch.totals[LEASE_WAITS.name] == {"social-url": 1}
    assert batch.totals[LEASE_WAIT_SECONDS.name]["social-url"] >= 0.1


def test_a_lease_that_comes_free_is_counted_with_the_wait_for_it(redis: Redis) -> None:
    meter = Meter()
    leases = LeaseStore(redis, Clock(), meter=meter)
    first = leases.acquire("social-url:a", ttl_ms=60_000)
    release = threading.Timer(0.1, leases.release, [first])
    release.start()
    with leases.hold("social-url:a", ttl_ms=60_000, wait_s=5):
        pass
    release.join()
    batch = meter.take()
    assert batch is not None
    assert batch.totals[LEASES.name] == {"social-url|taken": 2}
    assert batch.totals[LEASE_WAITS.name] == {"social-url": 1}
    assert batch.totals[LEASE_WAIT_SECONDS.name]["social-url"] > 0


def metered(site: Site, meter: Meter) -> OutboundClient:
    settings = make_settings(github_base_url=site.url, http_total_timeout_ms=2000)
    return OutboundClient(settings, Clock(), meter=meter)


def test_each_call_on_the_wire_is_counted_once_by_what_came_back(site: Site) -> None:
    meter = Meter()
    client = metered(site, meter)
    site.pages["/good"] = page(b"{}")
    site.pages["/refused"] = page(b"", status=429)
    site.pages["/broken"] = page(b"", status=502)
    site.pages["/huge"] = page(b"x" * 2_000, status=200)
    site.pages["/lies"] = lambda _, __, send: send(head(200, Content_Encoding="br", Content_Length="0"))
    for path in ("/good", "/refused", "/broken", "/nothing"):
        ask(client, site.url + path)
    for path in ("/huge", "/lies"):
        with pytest.raises(FetchFailed):
            ask(client, site.url + path, body_max_bytes=100)
    assert counted(meter, CALLS) == {
        "github|ok|no": 1,
        "github|rate_limited|no": 1,
        "github|server_error|no": 1,
        "github|not_found|no": 1,
        "github|bad_answer|no": 2,
    }


def test_a_connection_that_fails_is_counted_as_such(site: Site) -> None:
    meter = Meter()
    client = metered(site, meter)
    site.close()
    with pytest.raises(FetchFailed):
        ask(client, site.url + "/good")
    assert counted(meter, CALLS) == {"github|connection_failed|no": 1}
