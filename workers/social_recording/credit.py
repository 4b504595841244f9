"""Which sources have run out of credit or quota, as far as one job has found out.

The flag belongs to a job: its other URLs of that source are left for another day without a call, and the next
job asks again. A flag that cannot be read or written is no reason to fail a URL: the source itself says no
once more.
"""

from __future__ import annotations

import logging

from redis import Redis
from redis.exceptions import RedisError

from workers.jobs.record import KEY_PREFIX

log = logging.getLogger(__name__)

# Longer than any job runs.
FLAG_TTL_S = 86_400


class CreditFlags:
    """The flags of all jobs, in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def is_out(self, job_id: str | None, source: str) -> bool:
        """Whether this job has found the source out of credit. Without a job there is no flag."""
        if job_id is None:
            return False
        try:
            return bool(self._redis.sismember(_key(job_id), source))
        except RedisError:
            log.warning(
                "it is not known whether a source has credit", extra={"job": job_id, "source": source}
            )
            return False

    def mark(self, job_id: str | None, source: str) -> None:
        """Note that the source is out of credit for the rest of the job."""
        if job_id is None:
            return
        try:
            with self._redis.pipeline() as pipe:
                pipe.sadd(_key(job_id), source)
                pipe.expire(_key(job_id), FLAG_TTL_S)
                pipe.execute()
        except RedisError:
            log.warning("a source out of credit could not be noted", extra={"job": job_id, "source": source})


def _key(job_id: str) -> str:
    return f"{KEY_PREFIX}{job_id}:out-of-credit"
