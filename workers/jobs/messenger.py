"""Celery as the job service uses it: publish by name, read a stored result."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from celery import Celery, states
from kombu import Producer
from kombu.exceptions import BatchPublishError, OperationalError  # type: ignore[attr-defined]
from kombu.utils.functional import LRUCache
from redis.exceptions import RedisError

from workers.errors import BrokerUnavailable
from workers.jobs.service import StoredResult

# What a publish or a read raises when Redis is away. Celery's Redis backend gives up with a RuntimeError.
AWAY = (OperationalError, RedisError, RuntimeError, OSError, BatchPublishError)
# So many members go to the broker at once.
BATCH_MAX = 8
# The result of a job that succeeded does not change any more, and lists and their pages ask for the same ones
# again and again.
RESULTS_KEPT = 64
# A result of so many rows takes some 100 KB; that of a backfill may have five times as many.
KEPT_ROWS_MAX = 200


class CeleryMessenger:
    """Publishes jobs and members, and reads results; never waits for a task."""

    def __init__(self, celery: Celery) -> None:
        self._celery = celery
        self._local = threading.local()
        self._kept: LRUCache[str, StoredResult] = LRUCache(limit=RESULTS_KEPT)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let members that are published in the body, by this thread, go to the broker a few at a time.

        Raises `BrokerUnavailable` when it is not certain that all of them have got there; some may have.
        """
        try:
            with self._celery.producer_pool.acquire(block=True) as producer, producer.batch(BATCH_MAX):  # type: ignore[attr-defined]
                self._local.producer = producer
                yield
        except AWAY as exc:
            raise BrokerUnavailable("the broker did not take all tasks", retry_in_s=5) from exc
        finally:
            self._local.producer = None

    def publish(self, *, task: str, job_id: str, request: dict[str, object], queue: str) -> None:
        """Put a job on its queue. Raises `BrokerUnavailable` when that is not certain.

        Celery's own expiry compares the clocks of two hosts, so it is not used: whether a job or a member may
        still start is decided on the store's clock.
        """
        try:
            self._celery.send_task(task, kwargs={"request": request}, task_id=job_id, queue=queue)
        except AWAY as exc:
            raise BrokerUnavailable("the broker did not take the job", retry_in_s=5) from exc

    def publish_member(
        self, *, task: str, arguments: dict[str, object], queue: str, priority: int = 0
    ) -> None:
        """Put a task that leaves no result on its queue, such as a member of a job.

        On Redis the `priority` 0 is served first, 9 last. Raises `BrokerUnavailable`.
        """
        producer: Producer | None = getattr(self._local, "producer", None)
        try:
            self._celery.send_task(
                task,
                kwargs=arguments,
                queue=queue,
                priority=priority,
                ignore_result=True,
                producer=producer,
            )
        except AWAY as exc:
            raise BrokerUnavailable("the broker did not take the task", retry_in_s=5) from exc

    def result(self, job_id: str) -> StoredResult | None:
        """What the result backend holds for an ended job, else None. Raises `BrokerUnavailable`.

        Callers share what is returned, so they do not change it.
        """
        try:
            return self._kept[job_id]
        except KeyError:
            found = self._read_result(job_id)
        if found is not None and _is_worth_keeping(found):
            self._kept[job_id] = found
        return found

    def _read_result(self, job_id: str) -> StoredResult | None:
        try:
            stored = self._celery.backend.get_task_meta(job_id, cache=False)
        except AWAY as exc:
            raise BrokerUnavailable("the result backend cannot be reached", retry_in_s=5) from exc
        if stored["status"] not in (states.SUCCESS, states.FAILURE):
            return None
        return StoredResult(succeeded=stored["status"] == states.SUCCESS, value=stored["result"])


def _is_worth_keeping(result: StoredResult) -> bool:
    rows = result.value.get("data", ()) if isinstance(result.value, dict) else ()
    return result.succeeded and len(rows) <= KEPT_ROWS_MAX
