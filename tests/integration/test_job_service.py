"""Asking for jobs, looking at them, and the state that a caller sees."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from pydantic import BaseModel
from redis import Redis

from tests.conftest import FakeClock
from workers.clock import Clock
from workers.errors import BrokerUnavailable, InvalidInput, NotFound
from workers.jobs.kinds import JobKind
from workers.jobs.record import (
    IdempotencyClaim,
    JobRecord,
    JobState,
    JobStore,
    KnownJob,
    alive_lease,
)
from workers.jobs.service import AlreadyFinished, IdempotencyConflict, JobService, StoredResult
from workers.leases import LeaseStore


class Request(BaseModel):
    """A request of the kind under test."""

    limit: int = 20


KIND = JobKind(name="test.kind", task="test.task", queue="jobs", lease="test", request_model=Request)
OTHER = JobKind(name="test.other", task="test.other", queue="jobs", lease="other", request_model=Request)


@dataclass
class StandInMessenger:
    """Celery, reduced to what the service sees of it."""

    published: list[str] = field(default_factory=list)
    results: dict[str, StoredResult] = field(default_factory=dict)
    is_down: bool = False

    def publish(self, *, task: str, job_id: str, request: object, queue: str) -> None:
        if self.is_down:
            raise BrokerUnavailable("down")
        self.published.append(job_id)

    def result(self, job_id: str) -> StoredResult | None:
        return self.results.get(job_id)


@pytest.fixture
def messenger() -> StandInMessenger:
    return StandInMessenger()


@pytest.fixture
def store(redis: Redis) -> JobStore:
    return JobStore(redis, retention_s=7 * 86_400)


def age(redis: Redis, job_id: str, seconds: int) -> None:
    """Make the job older: all its times move back."""
    key = f"converge:job:{job_id}"
    for name, value in redis.hgetall(key).items():
        if name.endswith(b"_ms"):
            redis.hset(key, name, int(value) - seconds * 1000)


@pytest.fixture
def jobs(store: JobStore, messenger: StandInMessenger, clock: FakeClock) -> JobService:
    return JobService(store, messenger, clock, kinds={KIND.name, OTHER.name}, queue_expires_s=900)


def test_a_new_job_is_queued_and_has_one_message(jobs: JobService, messenger: StandInMessenger) -> None:
    job = jobs.submit(KIND, Request(limit=3))
    assert messenger.published == [job.record.id]
    seen = jobs.get(job.record.id)
    assert (seen.state, seen.record.kind, seen.record.request) == ("queued", "test.kind", {"limit": 3})
    assert replace(seen.record, read_at=job.record.read_at) == job.record
    assert job.state is JobState.QUEUED


def test_a_job_that_ends_between_two_looks_is_told_with_its_last_progress(
    store: JobStore, messenger: StandInMessenger, clock: FakeClock
) -> None:
    class EndsMeanwhile(StandInMessenger):
        """The job finishes its record and stores its result just before the result is looked at."""

        def result(self, job_id: str) -> StoredResult | None:
            if job_id not in self.results:
                store.report(job_id, done=5, total=5)
                store.finish(job_id, JobState.SUCCEEDED)
                self.results[job_id] = StoredResult(succeeded=True, value={"data": [], "meta": {}})
            return self.results[job_id]

    jobs = JobService(store, EndsMeanwhile(), clock, kinds={KIND.name}, queue_expires_s=900)
    store.create("j", KIND.name, {}, expires_s=900, claim=None)
    assert store.begin("j", "somebody")
    store.report("j", done=3, total=5)
    job = jobs.get("j")
    assert (job.state, job.record.done) == (JobState.SUCCEEDED, 5)
    assert job.finished_at is not None


def test_an_id_that_was_never_issued_is_not_found(jobs: JobService) -> None:
    with pytest.raises(NotFound):
        jobs.get("00000000-0000-4000-8000-000000000000")


def test_a_job_past_its_retention_is_not_found(jobs: JobService, redis: Redis) -> None:
    job = jobs.submit(KIND, Request())
    key = f"converge:job:{job.record.id}"
    assert 7 * 86_400 - 5 <= int(redis.ttl(key)) <= 7 * 86_400
    redis.delete(key)
    with pytest.raises(NotFound):
        jobs.get(job.record.id)


def test_nothing_remains_of_a_job_that_the_broker_did_not_take(
    jobs: JobService, messenger: StandInMessenger, redis: Redis
) -> None:
    messenger.is_down = True
    with pytest.raises(BrokerUnavailable):
        jobs.submit(KIND, Request(), idempotency_key="k")
    assert redis.keys("converge:job*") == []
    assert redis.keys("converge:idempotency*") == []


def test_a_job_that_nobody_picked_up_expires_and_does_not_start_any_more(
    jobs: JobService, store: JobStore, redis: Redis
) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    age(redis, job_id, 890)
    assert jobs.get(job_id).state is JobState.QUEUED
    age(redis, job_id, 11)
    assert jobs.get(job_id).state is JobState.EXPIRED
    assert store.begin(job_id, "late") is False


def test_a_job_whose_heartbeat_stopped_is_lost_and_not_running(
    jobs: JobService, store: JobStore, redis: Redis
) -> None:
    job = jobs.submit(KIND, Request())
    heartbeat = LeaseStore(redis, Clock()).acquire(alive_lease(job.record.id), ttl_ms=60_000)
    assert store.begin(job.record.id, "w")
    assert jobs.get(job.record.id).state is JobState.RUNNING
    LeaseStore(redis, Clock()).release(heartbeat)
    assert jobs.get(job.record.id).state is JobState.LOST


def test_a_job_starts_once(jobs: JobService, store: JobStore) -> None:
    job = jobs.submit(KIND, Request())
    assert store.begin(job.record.id, "first") is True
    assert store.begin(job.record.id, "second") is False
    assert store.begin("no such job", "first") is False


def test_a_start_whose_answer_got_lost_may_be_noted_again(jobs: JobService, store: JobStore) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    assert store.begin(job_id, "first") is True
    assert store.begin(job_id, "first") is True


def test_a_record_whose_answer_got_lost_is_written_again_and_published(
    jobs: JobService, store: JobStore, redis: Redis
) -> None:
    claim = IdempotencyClaim(key="k", body_hash="h")
    for _ in range(2):
        assert isinstance(store.create("id-1", "test.kind", {}, expires_s=9, claim=claim), JobRecord)
    known = KnownJob(id="id-1", body_hash="h")
    assert store.create("id-2", "test.kind", {}, expires_s=9, claim=claim) == known


def test_a_job_that_failed_before_its_start_was_noted_has_failed(
    jobs: JobService, messenger: StandInMessenger
) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    messenger.results[job_id] = StoredResult(succeeded=False, value="LOCK_UNAVAILABLE: Redis is away")
    assert jobs.get(job_id).error == {"code": "LOCK_UNAVAILABLE", "detail": "Redis is away"}


def test_an_error_that_is_none_of_a_jobs_own_is_not_shown(
    jobs: JobService, messenger: StandInMessenger
) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    messenger.results[job_id] = StoredResult(succeeded=False, value="the password of x: is secret")
    error = jobs.get(job_id).error
    assert error is not None
    assert error["code"] == "INTERNAL"
    assert "password" not in error["detail"]


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        (StoredResult(succeeded=True, value={"data": [], "meta": {}}), "succeeded"),
        (StoredResult(succeeded=True, value={"data": [], "meta": {"stoppedBy": "cancelled"}}), "cancelled"),
        (StoredResult(succeeded=False, value="UPSTREAM_FAILED: the tracker: said no"), "failed"),
    ],
)
def test_the_stored_result_decides_how_a_job_ended(
    jobs: JobService, store: JobStore, messenger: StandInMessenger, stored: StoredResult, state: str
) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    store.begin(job_id, "w")
    messenger.results[job_id] = stored
    job = jobs.get(job_id)
    assert job.state == state
    if state == "failed":
        assert job.error == {"code": "UPSTREAM_FAILED", "detail": "the tracker: said no"}


def test_a_finished_job_whose_result_is_gone_is_still_finished(
    jobs: JobService, store: JobStore, redis: Redis
) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    store.begin(job_id, "w")
    store.finish(job_id, JobState.SUCCEEDED)
    assert jobs.get(job_id).state is JobState.RUNNING, "its result may be on its way"
    age(redis, job_id, 11)
    assert jobs.get(job_id).state is JobState.SUCCEEDED


def test_the_same_key_and_body_is_the_same_job(jobs: JobService, messenger: StandInMessenger) -> None:
    first = jobs.submit(KIND, Request(), idempotency_key="k")
    second = jobs.submit(KIND, Request(), idempotency_key="k")
    assert second.record.id == first.record.id
    assert messenger.published == [first.record.id]


def test_the_same_key_with_another_body_is_refused(jobs: JobService) -> None:
    jobs.submit(KIND, Request(), idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        jobs.submit(KIND, Request(limit=1), idempotency_key="k")
    jobs.submit(OTHER, Request(limit=1), idempotency_key="k")


def test_a_list_pages_without_overlap_newest_first(jobs: JobService) -> None:
    ids = [jobs.submit(KIND, Request()).record.id for _ in range(100)]
    seen: list[str] = []
    before = None
    pages = 0
    while True:
        page, before = jobs.list_jobs(kind=None, state=None, limit=40, before=before)
        seen += [job.record.id for job in page]
        pages += 1
        if before is None:
            break
    assert seen == ids[::-1]
    assert pages == 3


def test_a_list_is_filtered_by_kind_and_state(jobs: JobService, store: JobStore) -> None:
    wanted = [jobs.submit(KIND if n % 2 else OTHER, Request()).record.id for n in range(20)][1::2]
    store.begin(wanted[0], "w")
    queued, cursor = jobs.list_jobs(kind=KIND.name, state=JobState.QUEUED, limit=50, before=None)
    assert [job.record.id for job in queued] == wanted[:0:-1]
    assert cursor is None
    lost, _ = jobs.list_jobs(kind=KIND.name, state=JobState.LOST, limit=50, before=None)
    assert [job.record.id for job in lost] == wanted[:1]
    with pytest.raises(InvalidInput):
        jobs.list_jobs(kind="no.such", state=None, limit=50, before=None)


def test_a_queued_job_that_is_cancelled_never_starts(jobs: JobService, store: JobStore) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    assert jobs.cancel(job_id).state is JobState.CANCELLED
    assert store.begin(job_id, "w") is False


def test_a_running_job_is_told_of_a_cancel_and_a_finished_one_refuses(
    jobs: JobService, store: JobStore, redis: Redis, messenger: StandInMessenger
) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    LeaseStore(redis, Clock()).acquire(alive_lease(job_id), ttl_ms=60_000)
    store.begin(job_id, "w")
    assert store.report(job_id, done=1, total=3) is False
    assert jobs.cancel(job_id).state is JobState.RUNNING
    assert jobs.cancel(job_id).state is JobState.RUNNING
    assert store.report(job_id, done=2, total=3) is True
    messenger.results[job_id] = StoredResult(succeeded=True, value={"data": [], "meta": {}})
    with pytest.raises(AlreadyFinished):
        jobs.cancel(job_id)


def test_waiting_ends_with_the_job_or_with_the_time(
    jobs: JobService, store: JobStore, messenger: StandInMessenger, clock: FakeClock
) -> None:
    job_id = jobs.submit(KIND, Request()).record.id
    before = clock.monotonic()
    assert jobs.wait(job_id, 5).state is JobState.QUEUED
    assert clock.monotonic() - before == pytest.approx(5)
    store.begin(job_id, "w")
    messenger.results[job_id] = StoredResult(succeeded=True, value={"data": [], "meta": {}})
    assert jobs.wait(job_id, 5).state is JobState.SUCCEEDED


def test_an_unreachable_store_is_an_error_that_says_so(messenger: StandInMessenger, clock: FakeClock) -> None:
    nobody = Redis(host="127.0.0.1", port=9, socket_connect_timeout=1)
    store = JobStore(nobody, retention_s=60)
    jobs = JobService(store, messenger, clock, kinds=set(), queue_expires_s=1)
    with pytest.raises(BrokerUnavailable):
        jobs.submit(KIND, Request())
    assert messenger.published == []
