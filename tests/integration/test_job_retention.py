"""Jobs that are older than their retention are gone, and nothing of them is left."""

from __future__ import annotations

import pytest
from redis import Redis

from tests.conftest import FakeClock
from tests.integration.test_job_service import KIND, Request, StandInMessenger
from tests.waiting import wait_until
from workers.errors import NotFound
from workers.jobs.record import INDEX_KEY, KEY_PREFIX, JobStore
from workers.jobs.service import Job, JobService

RETENTION_S = 1


@pytest.fixture
def jobs(redis: Redis, clock: FakeClock) -> JobService:
    store = JobStore(redis, retention_s=RETENTION_S)
    return JobService(store, StandInMessenger(), clock, kinds={KIND.name}, queue_expires_s=900)


def test_a_job_that_is_past_its_retention_is_found_by_no_means_any_more(
    jobs: JobService, redis: Redis
) -> None:
    old = jobs.submit(KIND, Request(), idempotency_key="night-1").record.id
    assert [job.record.id for job in listed(jobs)] == [old]
    wait_until(lambda: not redis.exists(KEY_PREFIX + old), "its time is over", timeout_s=RETENTION_S + 5)
    assert listed(jobs) == []
    with pytest.raises(NotFound):
        jobs.get(old)
    with pytest.raises(NotFound):
        jobs.cancel(old)
    again = jobs.submit(KIND, Request(limit=1), idempotency_key="night-1").record.id
    assert again != old, "its idempotency key is free again as well"
    assert [job.record.id for job in listed(jobs)] == [again]


def test_the_index_forgets_what_is_past_its_retention_with_each_new_job(
    jobs: JobService, redis: Redis
) -> None:
    """Otherwise it would grow for ever: the members of a sorted set do not expire by themselves."""
    for _ in range(5):
        old = jobs.submit(KIND, Request()).record.id
    wait_until(lambda: not redis.exists(KEY_PREFIX + old), "their time is over", timeout_s=RETENTION_S + 5)
    assert redis.zcard(INDEX_KEY) > 0, "nobody has looked since"
    new = jobs.submit(KIND, Request()).record.id
    assert redis.zrange(INDEX_KEY, 0, -1) == [new.encode()]


def listed(jobs: JobService) -> list[Job]:
    found, cursor = jobs.list_jobs(kind=None, state=None, limit=50, before=None)
    assert cursor is None
    return found
