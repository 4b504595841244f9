"""The nightly run: asks for the reconciliation job, and again when the night is not in order yet.

It goes through the job service like every other caller. The schedule ticks once at half past two and twice
shortly after; a tick asks for the next try only when the last one has ended and left something to do. A mark
per try lets one request through, however many schedulers tick.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Clock
from workers.errors import BrokerUnavailable, NotFound
from workers.funding.job_kinds import FUNDING_RECONCILE, FundingReconcileRequest
from workers.jobs.record import JobState
from workers.jobs.service import Job, JobService
from workers.settings import Settings

log = logging.getLogger(__name__)

TRIES_MAX = 3
MARK_TTL_S = 2 * 86_400


class NightlyReconciliation:
    """The use case; see the module docstring."""

    def __init__(self, *, redis: Redis, jobs: JobService, clock: Clock, settings: Settings) -> None:
        self._redis = redis
        self._jobs = jobs
        self._clock = clock
        self._settings = settings

    def run(self) -> str | None:
        """Ask for the next try of this night; return its job's id, or None when there is nothing to ask for.

        That is when the schedule is off, there are no fundings here, the last try is running or has left
        nothing to do, or the night has had all its tries. Raises `BrokerUnavailable`.
        """
        if not self._settings.schedule_is_on or self._settings.funding_database_url is None:
            return None
        night = self._clock.now().date().isoformat()
        number = self._next_try(night)
        if number is None:
            return None
        mark = _mark(night, number)
        try:
            if not self._redis.set(mark, "", nx=True, ex=MARK_TTL_S):
                return None
            job = self._submit(mark)
        except RedisError as exc:
            raise BrokerUnavailable("the marks of the night cannot be reached", retry_in_s=5) from exc
        log.info(
            "nightly reconciliation asked for", extra={"job": job.record.id, "night": night, "try": number}
        )
        return job.record.id

    def _submit(self, mark: str) -> Job:
        try:
            job = self._jobs.submit(
                FUNDING_RECONCILE, FundingReconcileRequest().with_defaults(self._settings)
            )
        except BrokerUnavailable:
            self._redis.delete(mark)
            raise
        self._redis.set(mark, job.record.id, ex=MARK_TTL_S)
        return job

    def _next_try(self, night: str) -> int | None:
        """The number of the try that is due, from 1; None when none is."""
        try:
            marks = self._redis.mget([_mark(night, number) for number in range(1, TRIES_MAX + 1)])
        except RedisError as exc:
            raise BrokerUnavailable("the marks of the night cannot be reached", retry_in_s=5) from exc
        made = [mark for mark in marks if isinstance(mark, bytes)]
        if not made:
            return 1
        if len(made) == TRIES_MAX or not self._has_left_something(made[-1].decode()):
            return None
        return len(made) + 1

    def _has_left_something(self, job_id: str) -> bool:
        """Whether the job has ended and the night is not in order.

        An empty id is a try that is just being asked for.
        """
        if not job_id:
            return False
        try:
            job = self._jobs.get(job_id)
        except NotFound:
            return True
        if not job.state.is_final or job.state is JobState.CANCELLED:
            # Somebody who cancels it does not want it again five minutes later.
            return False
        return job.state is not JobState.SUCCEEDED or not _is_in_order(job.result)


def _is_in_order(result: Mapping[str, object] | None) -> bool:
    """Whether a job that succeeded was the one that ran and brought every funding to its end."""
    meta = (result or {}).get("meta")
    if not isinstance(meta, Mapping) or "skipped" in meta:
        return False
    return meta.get("failed") == 0 and meta.get("remaining") == 0


def _mark(night: str, number: int) -> str:
    return f"converge:funding:night:{night}:{number}"
