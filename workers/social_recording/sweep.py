"""The hourly sweep: asks for the retry job that an empty body would ask for.

It goes through the job service like every other caller. A mark per hour lets one request through however
many schedulers tick and however late a tick arrives.
"""

from __future__ import annotations

import logging

from redis import Redis

from workers.clock import Clock
from workers.errors import BrokerUnavailable
from workers.jobs.service import JobService
from workers.settings import Settings
from workers.social_recording.job_kinds import RETRY, RetryRequest

log = logging.getLogger(__name__)

MARK_TTL_S = 7200


class RetrySweep:
    """The use case; see the module docstring."""

    def __init__(self, *, redis: Redis, jobs: JobService, clock: Clock, settings: Settings) -> None:
        self._redis = redis
        self._jobs = jobs
        self._clock = clock
        self._settings = settings

    def run(self) -> str | None:
        """Ask for the job; return its id, or None when this hour has its sweep or the schedule is off."""
        if not self._settings.schedule_is_on:
            return None
        hour = self._clock.now().strftime("%Y-%m-%dT%H")
        mark = f"converge:sweep:{hour}"
        if not self._redis.set(mark, "1", nx=True, ex=MARK_TTL_S):
            return None
        try:
            job = self._jobs.submit(RETRY, RetryRequest().with_defaults(self._settings))
        except BrokerUnavailable:
            self._redis.delete(mark)
            raise
        log.info("sweep asked for", extra={"job": job.record.id, "hour": hour})
        return job.record.id
