"""The record of a job: what was asked for and how far it has come, in Redis.

It is written before the message is published, because Celery answers PENDING for any id at all. It only
tells people; it never decides what is to be done, so losing every record costs nothing but the view.
Results and errors live in the result backend, not here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import cast

from redis import Redis
from redis.exceptions import RedisError

from workers.errors import BrokerUnavailable
from workers.leases import KEY_PREFIX as LEASE_PREFIX

KEY_PREFIX = "converge:job:"
# Not `converge:jobs`: that is the queue, and both may live in one database.
INDEX_KEY = "converge:job-index"

# Every time in a record is the server's, so that the clocks of hosts do not matter. Every script may run
# twice: the client repeats a command whose answer got lost.
_NOW = """
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
"""
# KEYS: record, index, idempotency. ARGV: id, retention in s, body hash, time to wait in s, kind, request.
# Returns the id and body hash of the job that stands under the idempotency key, or the time of the creation.
_CREATE = (
    _NOW
    + """
if KEYS[3] ~= '' then
  local known = redis.call('HMGET', KEYS[3], 'id', 'body')
  if known[1] and known[1] ~= ARGV[1] then return known end
  redis.call('HSET', KEYS[3], 'id', ARGV[1], 'body', ARGV[3])
  redis.call('EXPIRE', KEYS[3], ARGV[2])
end
redis.call('HSET', KEYS[1], 'kind', ARGV[5], 'request', ARGV[6], 'created_ms', now_ms,
  'expires_ms', now_ms + ARGV[4] * 1000)
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[2], string.format('%.0f', now_us), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', now_us - ARGV[2] * 1000000))
return now_ms
"""
)
# KEYS: record. ARGV: who starts it, or '' to look without starting. Returns 1 for the first start of a job
# that has a record, still waits and was not cancelled; else 0.
_BEGIN = (
    _NOW
    + """
local record = redis.call('HMGET', KEYS[1], 'expires_ms', 'cancel_requested_ms', 'started_by')
if record[3] then return record[3] == ARGV[1] and 1 or 0 end
if not record[1] or record[2] or now_ms > tonumber(record[1]) then return 0 end
if ARGV[1] == '' then return 1 end
redis.call('HSET', KEYS[1], 'started_ms', now_ms, 'started_by', ARGV[1])
return 1
"""
)
# KEYS: record. ARGV: the name of a time field or '', then field-value pairs. Writes nothing when the record
# is gone. Returns when a cancel was asked for, if it was.
_UPDATE = (
    _NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
if ARGV[1] ~= '' then redis.call('HSET', KEYS[1], ARGV[1], now_ms) end
if #ARGV > 1 then redis.call('HSET', KEYS[1], unpack(ARGV, 2)) end
return redis.call('HGET', KEYS[1], 'cancel_requested_ms')
"""
)
# KEYS: of each job its record and its heartbeat. Returns the time, then of each job its fields and whether it
# has a heartbeat. A script, because it costs both sides half of what a pipeline of the same commands does.
_LOOK = (
    _NOW
    + """
local found = {now_ms}
for place = 1, #KEYS, 2 do
  found[#found + 1] = redis.call('HGETALL', KEYS[place])
  found[#found + 1] = redis.call('EXISTS', KEYS[place + 1])
end
return found
"""
)


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
    """One job's record, as it was at `read_at` on the store's clock, which all its times come from.

    `outcome` is the final state that the job itself wrote at its end. `counts` is what a kind tells of its
    work beside `done` and `total`, by names of its own.
    """

    id: str
    kind: str
    request: Mapping[str, object]
    created_at: datetime
    expires_at: datetime
    read_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    outcome: JobState | None = None
    cancel_requested_at: datetime | None = None
    done: int = 0
    total: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    is_alive: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class IdempotencyClaim:
    """The caller's idempotency key and a hash of the request that came with it."""

    key: str
    body_hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownJob:
    """The job that stands under an idempotency key."""

    id: str
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

    def __init__(self, redis: Redis, *, retention_s: int) -> None:
        self._redis = redis
        self._retention_s = retention_s
        self._create = redis.register_script(_CREATE)
        self._begin = redis.register_script(_BEGIN)
        self._update = redis.register_script(_UPDATE)
        self._look = redis.register_script(_LOOK)

    def create(
        self,
        job_id: str,
        kind: str,
        request: Mapping[str, object],
        *,
        expires_s: int,
        claim: IdempotencyClaim | None,
    ) -> JobRecord | KnownJob:
        """Write a new record and return it, or what stands under the claim's key already."""
        keys = [KEY_PREFIX + job_id, INDEX_KEY, _idempotency_key(kind, claim)]
        body_hash = claim.body_hash if claim else ""
        args: list[str | int] = [
            job_id,
            self._retention_s,
            body_hash,
            expires_s,
            kind,
            json.dumps(request),
        ]
        with _reachable():
            answer = self._create(keys=keys, args=args)
        if not isinstance(answer, int):
            return KnownJob(id=answer[0].decode(), body_hash=answer[1].decode())
        created_at = _moment(answer)
        return JobRecord(
            id=job_id,
            kind=kind,
            request=request,
            created_at=created_at,
            expires_at=created_at + timedelta(seconds=expires_s),
            read_at=created_at,
        )

    def discard(self, job_id: str, kind: str, claim: IdempotencyClaim | None) -> None:
        """Take back a record whose message could not be published."""
        with _reachable(), self._redis.pipeline() as pipe:
            pipe.delete(KEY_PREFIX + job_id)
            pipe.zrem(INDEX_KEY, job_id)
            if claim:
                pipe.delete(_idempotency_key(kind, claim))
            pipe.execute()

    def get(self, job_id: str) -> JobRecord | None:
        """The record, or None for an id that was never issued or is past its retention."""
        return next(iter(self.get_many([job_id])), None)

    def get_many(self, job_ids: Sequence[str]) -> list[JobRecord]:
        """The records that still exist, in the order asked for, in one round trip."""
        keys = [(KEY_PREFIX + job_id, LEASE_PREFIX + alive_lease(job_id)) for job_id in job_ids]
        with _reachable():
            now_ms, *answers = self._look(keys=list(chain.from_iterable(keys)))
        read_at = _moment(now_ms)
        found = zip(job_ids, answers[::2], answers[1::2], strict=True)
        return [
            _from_fields(job_id, dict(zip(fields[::2], fields[1::2], strict=True)), bool(alive), read_at)
            for job_id, fields, alive in found
            if fields
        ]

    def newest_ids(self, *, before: int | None, limit: int) -> list[tuple[str, int]]:
        """Ids and their places in the index, newest first, from `before` (exclusive) on."""
        upper = "+inf" if before is None else f"({before}"
        with _reachable():
            rows = cast(
                list[tuple[bytes, float]],
                self._redis.zrevrangebyscore(INDEX_KEY, upper, "-inf", start=0, num=limit, withscores=True),
            )
        return [(member.decode(), int(place)) for member, place in rows]

    def is_waiting(self, job_id: str) -> bool:
        """Whether `begin` would start the job now; see there. Changes nothing."""
        with _reachable():
            return bool(self._begin(keys=[KEY_PREFIX + job_id], args=[""]))

    def begin(self, job_id: str, starter: str) -> bool:
        """Note the start by `starter`, a name that nobody else uses.

        False when somebody else has started the job, or it was cancelled, has expired, or is not known.
        """
        with _reachable():
            return bool(self._begin(keys=[KEY_PREFIX + job_id], args=[starter]))

    def report(
        self, job_id: str, *, done: int, total: int | None, counts: Mapping[str, int] | None = None
    ) -> bool:
        """Write progress; return whether a cancel has been asked for."""
        progress: list[str | int] = [] if total is None else ["done", done, "total", total]
        progress += ["counts", json.dumps(counts)] if counts else []
        with _reachable():
            answer = self._update(keys=[KEY_PREFIX + job_id], args=["", *progress])
        return answer is not None

    def finish(self, job_id: str, outcome: JobState) -> None:
        """Write the final state."""
        with _reachable():
            self._update(keys=[KEY_PREFIX + job_id], args=["finished_ms", "outcome", outcome.value])

    def request_cancel(self, job_id: str) -> None:
        """Ask the job to stop; it looks between targets and inside its waits."""
        with _reachable():
            self._update(keys=[KEY_PREFIX + job_id], args=["cancel_requested_ms"])


def _idempotency_key(kind: str, claim: IdempotencyClaim | None) -> str:
    return f"converge:idempotency:{kind}:{claim.key}" if claim else ""


def _moment(unix_ms: int) -> datetime:
    return datetime.fromtimestamp(unix_ms // 1000, UTC) + timedelta(milliseconds=unix_ms % 1000)


def _from_fields(job_id: str, fields: Mapping[bytes, bytes], is_alive: bool, read_at: datetime) -> JobRecord:
    text = {key.decode(): value.decode() for key, value in fields.items()}

    def time_of(name: str) -> datetime | None:
        return _moment(int(text[name])) if name in text else None

    return JobRecord(
        id=job_id,
        kind=text["kind"],
        request=json.loads(text["request"]),
        created_at=_moment(int(text["created_ms"])),
        expires_at=_moment(int(text["expires_ms"])),
        read_at=read_at,
        started_at=time_of("started_ms"),
        finished_at=time_of("finished_ms"),
        outcome=JobState(text["outcome"]) if "outcome" in text else None,
        cancel_requested_at=time_of("cancel_requested_ms"),
        done=int(text.get("done", 0)),
        total=int(text["total"]) if "total" in text else None,
        counts=json.loads(text.get("counts", "{}")),
        is_alive=is_alive,
    )
