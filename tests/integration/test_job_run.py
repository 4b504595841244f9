"""The frame around every job: it runs once, under its lease, with a heartbeat, and always ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from celery import Celery
from celery.exceptions import Ignore
from pydantic import BaseModel
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.waiting import wait_until
from workers.celery_app import GuardedTask
from workers.clock import Clock
from workers.errors import (
    BrokerUnavailable,
    BudgetExceeded,
    InvalidInput,
    JobFailed,
    LeaseLost,
    LockUnavailable,
    NotFound,
    RetryableError,
    UpstreamFailed,
)
from workers.jobs.kinds import JobKind
from workers.jobs.record import JobRecord, JobState, JobStore, alive_lease
from workers.jobs.run import CutOff, JobResult, JobRunner, RunningJob, SecondDelivery, StoppedBy, to_meta
from workers.leases import KEY_PREFIX, LeaseStore


class Request(BaseModel):
    """A request of the kind under test."""

    limit: int


KIND = JobKind(name="test.kind", task="t", queue="jobs", lease="test-lease", request_model=Request)
NEVER = datetime(2026, 1, 1, tzinfo=UTC)
DONE = JobResult(data=[], meta={"stoppedBy": "drained"})


@dataclass
class Frame:
    """A runner, the job that it is to run, and how often the use case was called."""

    redis: Redis
    leases: LeaseStore
    store: JobStore
    runner: JobRunner
    calls: list[Request] = field(default_factory=list)

    def run(self, use_case: Callable[[RunningJob], JobResult], *, job_id: str = "job-1") -> dict[str, object]:
        def counted(job: RunningJob, request: Request) -> JobResult:
            self.calls.append(request)
            return use_case(job)

        return self.runner.run(KIND, job_id, {"limit": 3}, counted)

    def record(self, job_id: str = "job-1") -> JobRecord:
        found = self.store.get(job_id)
        assert found is not None
        return found

    def held(self) -> list[str]:
        keys = [key for key in self.redis.keys(f"{KEY_PREFIX}*") if isinstance(key, bytes)]
        return sorted(key.decode().removeprefix(KEY_PREFIX) for key in keys)


def make_runner(store: JobStore, leases: LeaseStore, clock: Clock | None = None) -> JobRunner:
    return JobRunner(
        store,
        leases,
        clock or Clock(),
        heartbeat_ttl_ms=1500,
        lease_ttls_ms={KIND.name: 1500},
        shutdown=threading.Event(),
    )


@pytest.fixture
def frame(redis: Redis) -> Frame:
    leases = LeaseStore(redis, Clock())
    store = JobStore(redis, retention_s=60)
    store.create("job-1", KIND.name, {"limit": 3}, expires_s=60, claim=None)
    return Frame(redis=redis, leases=leases, store=store, runner=make_runner(store, leases))


def test_a_job_runs_its_use_case_and_notes_start_and_end(frame: Frame) -> None:
    assert frame.run(lambda _: DONE) == {"data": [], "meta": {"stoppedBy": "drained"}}
    assert frame.calls == [Request(limit=3)]
    record = frame.record()
    assert record.outcome is JobState.SUCCEEDED
    assert record.started_at is not None
    assert record.finished_at is not None
    assert record.started_at <= record.finished_at
    assert frame.held() == []


def test_a_heartbeat_and_the_lease_are_held_while_the_job_runs_and_no_longer(frame: Frame) -> None:
    def look(job: RunningJob) -> JobResult:
        assert frame.held() == [alive_lease("job-1"), "test-lease"]
        assert frame.redis.get(f"{KEY_PREFIX}test-lease") == job.lease.owner.encode()
        assert job.lease.owner.startswith("job-1:")
        assert frame.record().is_alive
        # Longer than their time to live: they are renewed.
        threading.Event().wait(2.0)
        assert frame.held() == [alive_lease("job-1"), "test-lease"]
        assert job.stop_reason() is None
        return DONE

    frame.run(look)
    assert frame.held() == []


def test_a_second_delivery_runs_nothing_while_the_first_one_works(frame: Frame) -> None:
    def deliver_again(_: RunningJob) -> JobResult:
        with pytest.raises(SecondDelivery):
            frame.run(lambda _: DONE)
        assert frame.record().is_alive, "the first one keeps its heartbeat"
        return DONE

    frame.run(deliver_again)
    assert len(frame.calls) == 1
    assert frame.record().outcome is JobState.SUCCEEDED


def test_a_second_delivery_runs_nothing_after_the_first_one_has_ended(frame: Frame) -> None:
    frame.run(lambda _: DONE)
    before = replace(frame.record(), read_at=NEVER)
    with pytest.raises(SecondDelivery):
        frame.run(lambda _: DONE)
    assert len(frame.calls) == 1
    assert replace(frame.record(), read_at=NEVER) == before
    assert frame.held() == []


def test_without_the_noted_start_a_second_delivery_would_run(frame: Frame) -> None:
    frame.run(lambda _: DONE)
    frame.redis.hdel("converge:job:job-1", "started_ms", "started_by")
    frame.run(lambda _: DONE)
    assert len(frame.calls) == 2


def test_a_job_without_a_record_does_not_run(frame: Frame) -> None:
    with pytest.raises(SecondDelivery):
        frame.run(lambda _: DONE, job_id="never issued")
    assert frame.calls == []
    assert frame.held() == []


def test_a_job_that_was_cancelled_while_it_waited_does_not_run(frame: Frame) -> None:
    frame.store.request_cancel("job-1")
    with pytest.raises(SecondDelivery):
        frame.run(lambda _: DONE)
    assert frame.calls == []


def test_a_job_whose_kind_is_running_is_skipped_successfully(frame: Frame) -> None:
    with frame.leases.hold(KIND.lease, ttl_ms=60_000) as other:
        assert frame.run(lambda _: DONE) == {"data": [], "meta": {"skipped": "already running"}}
        assert frame.redis.get(f"{KEY_PREFIX}test-lease") == other.owner.encode()
    assert frame.calls == []
    assert frame.record().outcome is JobState.SUCCEEDED
    assert frame.held() == []


@pytest.mark.parametrize(
    ("error", "code", "detail"),
    [
        (UpstreamFailed("the tracker: said no"), "UPSTREAM_FAILED", "the tracker: said no"),
        (LockUnavailable("away"), "LOCK_UNAVAILABLE", "away"),
        (InvalidInput("too small", field="limit"), "INVALID_REQUEST", "limit: too small"),
        (RetryableError("the store failed on tokens"), "STORE_UNAVAILABLE", "the store failed on tokens"),
        (BrokerUnavailable("away"), "STORE_UNAVAILABLE", "away"),
        (NotFound("no such thing"), "STORE_UNAVAILABLE", "no such thing"),
        (LeaseLost("gone"), "STORE_UNAVAILABLE", "gone"),
        (BudgetExceeded("over"), "STORE_UNAVAILABLE", "over"),
        (ValueError("a secret"), "INTERNAL", "ValueError"),
    ],
)
def test_every_error_fails_the_job_with_its_code_and_leaves_no_lease(
    frame: Frame, error: Exception, code: str, detail: str
) -> None:
    def fail(_: RunningJob) -> JobResult:
        raise error

    with pytest.raises(JobFailed) as caught:
        frame.run(fail)
    assert (caught.value.code, caught.value.detail) == (code, detail)
    assert caught.value.args == (f"{code}: {detail}",), "it has to survive the result backend"
    assert frame.record().outcome is JobState.FAILED
    assert frame.held() == []


def test_a_request_of_an_older_version_fails_with_the_field_named(frame: Frame) -> None:
    with pytest.raises(JobFailed) as caught:
        frame.runner.run(KIND, "job-1", {"limit": "many"}, lambda *_: DONE)
    assert caught.value.code == "INVALID_REQUEST"
    assert caught.value.detail.startswith("limit: ")
    assert "many" not in caught.value.detail.removeprefix("limit: ").split()
    assert frame.record().outcome is JobState.FAILED


def test_a_cancel_ends_the_wait_of_a_running_job_and_is_its_outcome(frame: Frame) -> None:
    def work(job: RunningJob) -> JobResult:
        job.done, job.total = 1, 9
        assert job.stop_reason() is None
        frame.store.request_cancel("job-1")
        assert job.stopping.wait(5), "the job looks by itself, whatever it waits for"
        assert job.stop_reason() is StoppedBy.CANCELLED
        return JobResult(data=[], meta=to_meta({"stoppedBy": job.stop_reason()}))

    assert frame.run(work)["meta"] == {"stoppedBy": "cancelled"}
    record = frame.record()
    assert (record.outcome, record.done, record.total) == (JobState.CANCELLED, 1, 9)


def test_a_shutdown_ends_the_wait_of_a_running_job(frame: Frame) -> None:
    def work(job: RunningJob) -> JobResult:
        job.shutdown.set()
        assert job.stopping.wait(5)
        assert job.stop_reason() is StoppedBy.SHUTDOWN
        return DONE

    frame.run(work)


@pytest.mark.parametrize("error", [None, ValueError("x")], ids=["ends", "fails"])
def test_a_job_that_is_cut_off_is_lost_and_not_ended(
    frame: Frame, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    caplog.set_level("INFO", "workers.jobs.run")

    def work(job: RunningJob) -> JobResult:
        frame.runner.cut_off()
        frame.leases.give_back_all()
        assert job.stop_reason() is StoppedBy.LEASE_LOST
        if error is not None:
            raise error
        return DONE

    with pytest.raises(CutOff):
        frame.run(work)
    lines = {line.message for line in caplog.records if line.name == "workers.jobs.run"}
    assert "job cut off" in lines
    assert "job ended" not in lines
    record = frame.record()
    assert (record.outcome, record.finished_at, record.is_alive) == (None, None, False)
    assert frame.held() == []


def test_a_job_that_only_lost_its_leases_is_noted_as_ended(frame: Frame) -> None:
    """The twin of the above."""

    def work(job: RunningJob) -> JobResult:
        frame.leases.give_back_all()
        assert job.stop_reason() is StoppedBy.LEASE_LOST
        return DONE

    frame.run(work)
    assert frame.record().outcome is JobState.SUCCEEDED


def test_progress_is_written_while_the_job_runs_and_once_more_at_its_end(frame: Frame) -> None:
    def work(job: RunningJob) -> JobResult:
        job.done, job.total = 2, 9
        wait_until(lambda: frame.record().done == 2, "the progress is written")
        job.done = 9
        return DONE

    frame.run(work)
    assert (frame.record().done, frame.record().total) == (9, 9)


def test_counts_of_a_kind_are_written_while_the_job_runs_also_before_the_total_is_known(frame: Frame) -> None:
    def work(job: RunningJob) -> JobResult:
        job.counts = {"pages": 3}
        wait_until(lambda: frame.record().counts == {"pages": 3}, "the counts are written")
        assert frame.record().total is None
        job.counts, job.total = {"pages": 4, "selected": 9}, 9
        return DONE

    frame.run(work)
    assert frame.record().counts == {"pages": 4, "selected": 9}


def test_a_job_without_counts_has_none(frame: Frame) -> None:
    frame.run(lambda _: DONE)
    assert frame.record().counts == {}


def test_a_job_notices_the_loss_of_its_lease(frame: Frame) -> None:
    def work(job: RunningJob) -> JobResult:
        frame.redis.set(f"{KEY_PREFIX}test-lease", "thief")
        wait_until(lambda: job.stop_reason() is StoppedBy.LEASE_LOST, "the loss is noticed")
        return DONE

    frame.run(work)
    assert frame.redis.get(f"{KEY_PREFIX}test-lease") == b"thief"


def nobody() -> Redis:
    """A Redis that refuses connections."""
    return Redis(host="127.0.0.1", port=9, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))


def test_without_the_lock_store_a_job_fails_and_does_nothing(frame: Frame) -> None:
    frame.runner = make_runner(frame.store, LeaseStore(nobody(), Clock()))
    with pytest.raises(JobFailed) as caught:
        frame.run(lambda _: DONE)
    assert caught.value.code == "LOCK_UNAVAILABLE"
    assert frame.calls == []


def test_without_the_store_of_records_a_job_fails_and_does_nothing(frame: Frame) -> None:
    frame.runner = make_runner(JobStore(nobody(), retention_s=60), frame.leases)
    with pytest.raises(JobFailed) as caught:
        frame.run(lambda _: DONE)
    assert caught.value.code == "LOCK_UNAVAILABLE"
    assert frame.calls == []
    assert frame.held() == []


class ShortWaits(Clock):
    """The system's clock, for which every pause of a second is over at once."""

    def __init__(self) -> None:
        self.pauses = 0

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        if timeout_s == 1.0:
            self.pauses += 1
            timeout_s = 0
        return super().wait(event, timeout_s)


def test_the_end_of_a_job_is_written_after_a_short_outage(frame: Frame) -> None:
    class Flaky(JobStore):
        """Cannot be reached for the first two tries to write the end."""

        failures = 2

        def finish(self, job_id: str, outcome: JobState) -> None:
            if self.failures:
                self.failures -= 1
                raise BrokerUnavailable("away")
            super().finish(job_id, outcome)

    clock = ShortWaits()
    frame.runner = make_runner(Flaky(frame.redis, retention_s=60), frame.leases, clock)
    frame.run(lambda _: DONE)
    assert frame.record().outcome is JobState.SUCCEEDED
    assert clock.pauses == 2


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_what_would_end_the_thread_of_a_worker_fails_the_task_instead(error: type[BaseException]) -> None:
    celery = Celery("t", task_cls=GuardedTask, set_as_current=False)

    @celery.task(name="bad")
    def bad() -> None:
        raise error

    with pytest.raises(RuntimeError, match=error.__name__):
        bad()


def test_a_second_delivery_and_a_cut_off_one_are_ignored_by_celery_and_other_errors_are_not() -> None:
    celery = Celery("t", task_cls=GuardedTask, set_as_current=False)

    @celery.task(name="again")
    def again(error: Exception | None) -> str:
        if error is not None:
            raise error
        return "done"

    assert again(None) == "done"
    with pytest.raises(Ignore):
        again(SecondDelivery("it ran before"))
    with pytest.raises(Ignore):
        again(CutOff("the process ends"))
    with pytest.raises(JobFailed):
        again(JobFailed.because("INTERNAL", "x"))
