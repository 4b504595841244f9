"""Celery as the job service uses it: publish by name, read a stored result."""

from __future__ import annotations

from celery import Celery, states
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from workers.errors import BrokerUnavailable
from workers.jobs.service import StoredResult

# What a publish or a read raises when Redis is away. Celery's Redis backend gives up with a RuntimeError.
AWAY = (OperationalError, RedisError, RuntimeError, OSError)


class CeleryMessenger:
    """Publishes jobs and members, and reads results; never waits for a task."""

    def __init__(self, celery: Celery) -> None:
        self._celery = celery

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
        try:
            self._celery.send_task(task, kwargs=arguments, queue=queue, priority=priority, ignore_result=True)
        except AWAY as exc:
            raise BrokerUnavailable("the broker did not take the task", retry_in_s=5) from exc

    def result(self, job_id: str) -> StoredResult | None:
        """What the result backend holds for an ended job, else None. Raises `BrokerUnavailable`."""
        try:
            stored = self._celery.backend.get_task_meta(job_id, cache=False)
        except AWAY as exc:
            raise BrokerUnavailable("the result backend cannot be reached", retry_in_s=5) from exc
        if stored["status"] not in (states.SUCCESS, states.FAILURE):
            return None
        return StoredResult(succeeded=stored["status"] == states.SUCCESS, value=stored["result"])
