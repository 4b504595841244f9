"""The nightly run: one request a night however many schedulers tick, and three tries when it goes wrong."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab
from redis import Redis

import celeryconfig
from tests.conftest import FakeClock, make_settings
from workers.errors import BrokerUnavailable
from workers.funding.nightly import NightlyReconciliation
from workers.jobs.record import JobState, JobStore
from workers.jobs.service import JobService, StoredResult

IN_ORDER = {"failed": 0, "remaining": 0}


class Celery:
    """Takes messages, and holds the results that the test gives."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.results: dict[str, StoredResult] = {}
        self.is_away = False

    def publish(self, *, task: str, job_id: str, request: dict[str, object], queue: str) -> None:
        if self.is_away:
            raise BrokerUnavailable("away")
        assert (task, queue) == ("converge.funding.reconcile", "jobs")
        self.published.append(job_id)

    def result(self, job_id: str) -> StoredResult | None:
        return self.results.get(job_id)


class Night:
    """One night, one job service, any number of schedulers."""

    def __init__(self, redis: Redis, **settings: Any) -> None:
        self.redis = redis
        self.celery = Celery()
        self.clock = FakeClock(datetime(2026, 1, 16, 2, 30, tzinfo=UTC))
        self.store = JobStore(redis, retention_s=600)
        self.settings = make_settings(
            **{"schedule_enabled": True, "funding_database_url": "postgresql://nowhere/x", **settings}
        )
        self.jobs = JobService(
            self.store, self.celery, self.clock, kinds=["funding.reconcile"], queue_expires_s=600
        )

    def tick(self) -> str | None:
        return NightlyReconciliation(
            redis=self.redis, jobs=self.jobs, clock=self.clock, settings=self.settings
        ).run()

    def end(self, job_id: str | None, meta: dict[str, Any] | None) -> None:
        """End a job with these counts, or as a failure."""
        assert job_id is not None
        assert self.store.begin(job_id, "test")
        self.store.finish(job_id, JobState.SUCCEEDED if meta is not None else JobState.FAILED)
        value: object = "STORE_UNAVAILABLE: away" if meta is None else {"data": [], "meta": meta}
        self.celery.results[job_id] = StoredResult(succeeded=meta is not None, value=value)


@pytest.fixture
def night(redis: Redis) -> Night:
    return Night(redis)


def test_the_first_tick_of_a_night_asks_for_the_job_that_an_empty_body_asks_for(night: Night) -> None:
    job_id = night.tick()
    assert job_id is not None
    assert night.celery.published == [job_id]
    record = night.store.get(job_id)
    assert record is not None
    assert record.request == {"propertyIds": None, "deadlineMs": 240_000, "dryRun": False}


def test_ticks_of_two_schedulers_ask_for_one_job(night: Night) -> None:
    assert [night.tick() is None for _ in range(4)] == [False, True, True, True]
    assert len(night.celery.published) == 1


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {"failed": 1, "remaining": 0},
        {"failed": 0, "remaining": 2},
        {"skipped": "already running"},
    ],
)
def test_a_night_that_goes_wrong_has_three_tries_and_no_more(
    night: Night, meta: dict[str, Any] | None
) -> None:
    for number in range(1, 4):
        job_id = night.tick()
        assert len(night.celery.published) == number
        assert night.tick() is None, "it is running"
        night.end(job_id, meta)
    assert night.tick() is None
    assert len(night.celery.published) == 3


def test_a_night_in_order_has_one_try(night: Night) -> None:
    night.end(night.tick(), IN_ORDER)
    assert night.tick() is None


def test_a_second_try_that_repairs_the_night_is_the_last(night: Night) -> None:
    night.end(night.tick(), {"failed": 3, "remaining": 0})
    night.end(night.tick(), IN_ORDER)
    assert night.tick() is None
    assert len(night.celery.published) == 2


def test_a_job_that_was_lost_or_never_taken_up_is_asked_for_again(night: Night) -> None:
    lost = night.tick()
    assert lost is not None
    assert night.store.begin(lost, "a worker that died")
    assert night.jobs.get(lost).state is JobState.LOST
    assert night.tick() is not None


def test_a_job_that_somebody_cancelled_is_not_asked_for_again(night: Night) -> None:
    job_id = night.tick()
    assert job_id is not None
    night.jobs.cancel(job_id)
    assert night.jobs.get(job_id).state is JobState.CANCELLED
    assert night.tick() is None


def test_the_next_night_begins_anew(night: Night) -> None:
    night.end(night.tick(), IN_ORDER)
    night.clock.advance(86_400)
    assert night.tick() is not None


def test_a_broker_that_is_away_leaves_the_try_to_the_next_tick(night: Night) -> None:
    night.celery.is_away = True
    with pytest.raises(BrokerUnavailable):
        night.tick()
    night.celery.is_away = False
    assert night.tick() is not None


@pytest.mark.parametrize("settings", [{"schedule_enabled": False}, {"funding_database_url": None}])
def test_without_schedule_or_fundings_a_tick_does_nothing(redis: Redis, settings: dict[str, Any]) -> None:
    night = Night(redis, **settings)
    assert night.tick() is None
    assert night.celery.published == []


def test_the_schedule_ticks_at_half_past_two_and_leaves_time_between_the_tries() -> None:
    entry = celeryconfig.SCHEDULE["funding-counter-reconciliation"]
    again = celeryconfig.SCHEDULE["funding-counter-reconciliation-again"]
    assert entry["schedule"] == crontab(hour=2, minute=30)
    assert entry["task"] == again["task"] == "converge.schedule.funding_reconciliation"
    minutes = sorted({30, *again["schedule"].minute})
    assert len(minutes) == 3
    assert again["schedule"].hour == {2}
    deadline_s = make_settings().funding_deadline_ms / 1000
    assert all((later - earlier) * 60 > deadline_s for earlier, later in itertools.pairwise(minutes))


@pytest.mark.parametrize("day", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)])
def test_on_the_days_when_clocks_are_set_it_is_due_once(day: datetime) -> None:
    """The schedule is in UTC, so an hour that is left out or comes twice elsewhere is nothing to it."""
    assert celeryconfig.enable_utc is True
    assert celeryconfig.timezone == "UTC"
    offsets = {day.replace(hour=hour).astimezone(ZoneInfo("Europe/Paris")).utcoffset() for hour in range(24)}
    assert len(offsets) == 2, "it is such a day"
    schedule = crontab(hour=2, minute=30)
    due = [
        minute
        for minute in range(0, 24 * 60)
        if minute % 60 in schedule.minute and minute // 60 in schedule.hour
    ]
    assert due == [150]
