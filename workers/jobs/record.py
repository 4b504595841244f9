"""The record of a job: what was asked for and how far it has come, in Redis.

It is written before the message is published, because Celery answers PENDING for any id at all. It only
tells people; it never decides what is to be done, so losing every record costs nothing but the view.
Results and errors live in the result backend, not here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import cast

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Clock, from_iso, to_iso
from workers.errors import BrokerUnavailable
from workers.leases import KEY_PREFIX as LEASE_PREFIX

KEY_PREFIX = "converge:job:"
INDEX_KEY = "converge:jobs"

# KEYS: record, index, idempotency. ARGV: id, retention in s, body hash, then field-value pairs.
# Returns the id and body hash of the job that stands under the idempotency key, or nothing when created.
# The place in the index is the server's time in microseconds, so no two jobs share one.
_CREATE = """
if KEYS[3] ~= '' then
  local known = redis.call('HMGET', KEYS[3], 'id', 'body')
  if known[1] then return known end
  redis.call('HSET', KEYS[3], 'id', ARGV[1], 'body', ARGV[3])
  redis.call('EXPIRE', KEYS[3], ARGV[2])
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
redis.call('EXPIRE', KEYS[1], ARGV[2])
local time = redis.call('TIME')
local place = time[1] * 1000000 + time[2]
redis.call('ZADD', KEYS[2], string.format('%.0f', place), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', place - ARGV[2] * 1000000))
return false
"""
# KEYS: record. ARGV: the time. Returns 1 for the first delivery of a job that has a record and was not
# cancelled while it waited, else 0.
_BEGIN = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('HEXISTS', KEYS[1], 'cancel_requested_at') == 1 then return 0 end
return redis.call('HSETNX', KEYS[1], 'started_at', ARGV[1])
"""
# KEYS: record. ARGV: field-value pairs. Writes nothing when the record is gone.
_UPDATE = """
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
redis.call('HSET', KEYS[1], unpack(ARGV))
return redis.call('HGET', KEYS[1], 'cancel_requested_at')
"""


class JobState(StrEnum):
    """The state of a job as a caller sees it."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    EXPIRED = "expired"

    @property
    def is_final(self) -> bool:
        """Whether the job will not change any more."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """One job's record; `outcome` is the final state that the job itself wrote at its end."""

    id: str
    kind: str
    request: Mapping[str, object]
    created_at: datetime
    expires_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    outcome: JobState | None = None
    cancel_requested_at: datetime | None = None
    done: int = 0
    total: int | None = None
    is_alive: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyClaim:
    """The caller's idempotency key and a hash of the request that came with it."""

    key: str
    body_hash: str


def alive_lease(job_id: str) -> str:
    """Name of the lease that the running job holds; its absence means that the process died."""
    return f"job-alive:{job_id}"


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except RedisError as exc:
        raise BrokerUnavailable("the store of job records cannot be reached", retry_in_s=5) from exc


class JobStore:
    """Reads and writes job records. Raises `BrokerUnavailable` when Redis cannot be reached."""

    def __init__(self, redis: Redis, clock: Clock, *, retention_s: int) -> None:
        self._redis = redis
        self._clock = clock
        self._retention_s = retention_s
        self._create = redis.register_script(_CREATE)
        self._begin = redis.register_script(_BEGIN)
        self._update = redis.register_script(_UPDATE)

    def create(self, record: JobRecord, claim: IdempotencyClaim | None) -> tuple[str, str] | None:
        """Write a new record, unless the claim's key is known: then return that job's id and body hash."""
        fields = {
            "kind": record.kind,
            "request": json.dumps(record.request),
            "created_at": to_iso(record.created_at),
            "expires_at": to_iso(record.expires_at),
            "idempotency_key": claim.key if claim else "",
        }
        args: list[str | int] = [record.id, self._retention_s, claim.body_hash if claim else ""]
        keys = [KEY_PREFIX + record.id, INDEX_KEY, self._idempotency_key(record.kind, claim)]
        with _reachable():
            known = self._create(keys=keys, args=[*args, *(part for pair in fields.items() for part in pair)])
        return None if known is None else (known[0].decode(), known[1].decode())

    def discard(self, record: JobRecord, claim: IdempotencyClaim | None) -> None:
        """Take back a record whose message could not be published."""
        with _reachable(), self._redis.pipeline() as pipe:
            pipe.delete(KEY_PREFIX + record.id)
            pipe.zrem(INDEX_KEY, record.id)
            if claim:
                pipe.delete(self._idempotency_key(record.kind, claim))
            pipe.execute()

    def get(self, job_id: str) -> JobRecord | None:
        """The record, or None for an id that was never issued or is past its retention."""
        return next(iter(self.get_many([job_id])), None)

    def get_many(self, job_ids: Sequence[str]) -> list[JobRecord]:
        """The records that still exist, in the order asked for, in one round trip."""
        with _reachable(), self._redis.pipeline(transaction=False) as pipe:
            for job_id in job_ids:
                pipe.hgetall(KEY_PREFIX + job_id)
                pipe.exists(LEASE_PREFIX + alive_lease(job_id))
            answers = pipe.execute()
        found = zip(job_ids, answers[::2], answers[1::2], strict=True)
        return [_from_fields(job_id, fields, bool(alive)) for job_id, fields, alive in found if fields]

    def newest_ids(self, *, before: int | None, limit: int) -> list[tuple[str, int]]:
        """Ids and their places in the index, newest first, from `before` (exclusive) on."""
        upper = "+inf" if before is None else f"({before}"
        with _reachable():
            rows = cast(
                list[tuple[bytes, float]],
                self._redis.zrevrangebyscore(INDEX_KEY, upper, "-inf", start=0, num=limit, withscores=True),
            )
        return [(member.decode(), int(place)) for member, place in rows]

    def begin(self, job_id: str) -> bool:
        """Note the start. False when the job has started before, was cancelled, or is not known."""
        with _reachable():
            return bool(self._begin(keys=[KEY_PREFIX + job_id], args=[to_iso(self._clock.now())]))

    def report(self, job_id: str, *, done: int, total: int) -> bool:
        """Write progress; return whether a cancel has been asked for."""
        with _reachable():
            answer = self._update(keys=[KEY_PREFIX + job_id], args=["done", done, "total", total])
        return answer is not None

    def finish(self, job_id: str, outcome: JobState) -> None:
        """Write the final state."""
        with _reachable():
            args = ["outcome", outcome.value, "finished_at", to_iso(self._clock.now())]
            self._update(keys=[KEY_PREFIX + job_id], args=args)

    def request_cancel(self, job_id: str) -> None:
        """Ask the job to stop; it looks between targets and inside its waits."""
        with _reachable():
            self._update(keys=[KEY_PREFIX + job_id], args=["cancel_requested_at", to_iso(self._clock.now())])

    @staticmethod
    def _idempotency_key(kind: str, claim: IdempotencyClaim | None) -> str:
        return f"converge:idempotency:{kind}:{claim.key}" if claim else ""


def _from_fields(job_id: str, fields: Mapping[bytes, bytes], is_alive: bool) -> JobRecord:
    text = {key.decode(): value.decode() for key, value in fields.items()}

    def time_of(name: str) -> datetime | None:
        return from_iso(text[name]) if name in text else None

    return JobRecord(
        id=job_id,
        kind=text["kind"],
        request=json.loads(text["request"]),
        created_at=from_iso(text["created_at"]),
        expires_at=from_iso(text["expires_at"]),
        started_at=time_of("started_at"),
        finished_at=time_of("finished_at"),
        outcome=JobState(text["outcome"]) if "outcome" in text else None,
        cancel_requested_at=time_of("cancel_requested_at"),
        done=int(text.get("done", 0)),
        total=int(text["total"]) if "total" in text else None,
        is_alive=is_alive,
    )
