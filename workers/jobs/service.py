"""What callers do with jobs: ask for one, look at it, list them, cancel one.

The API, the command line and the schedule all come through here, so a job behaves the same whoever asked.
It never does a job's work and never waits for a task by Celery's means.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from workers.clock import Budget, Clock
from workers.errors import BrokerUnavailable, ConvergeError, InvalidInput, NotFound
from workers.jobs.kinds import JobKind, RequestT
from workers.jobs.record import IdempotencyClaim, JobRecord, JobState, JobStore, KnownJob

# A finished job writes its record before Celery stores its result; this long the result may lag behind.
RESULT_LAG = timedelta(seconds=10)
POLL_S = 0.1
# A filter may pass few of many jobs, so they are read in pages of this size at least.
SCANNED_AT_ONCE = 100


class IdempotencyConflict(ConvergeError):
    """The idempotency key stands for a job with another body."""


class AlreadyFinished(ConvergeError):
    """The job has ended, so it cannot be cancelled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredResult:
    """What the result backend holds for a job that ended."""

    succeeded: bool
    value: object


class Messenger(Protocol):
    """Celery, as far as this service uses it."""

    def publish(self, *, task: str, job_id: str, request: dict[str, object], queue: str) -> None:
        """Put the job on its queue; raise `BrokerUnavailable` when that is not certain."""

    def result(self, job_id: str) -> StoredResult | None:
        """The stored result, or None while there is none; raise `BrokerUnavailable` when unreachable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job as callers see it. `error` is `{code, detail}`."""

    record: JobRecord
    state: JobState
    result: Mapping[str, object] | None = None
    error: Mapping[str, str] | None = None

    @property
    def finished_at(self) -> datetime | None:
        """When it ended; None for a job that was lost or has not ended."""
        return self.record.finished_at


class JobService:
    """See the module docstring."""

    def __init__(
        self,
        store: JobStore,
        messenger: Messenger,
        clock: Clock,
        *,
        kinds: Collection[str],
        queue_expires_s: int,
    ) -> None:
        self._store = store
        self._messenger = messenger
        self._clock = clock
        self._kinds = kinds
        self._queue_expires_s = queue_expires_s

    def submit(
        self, kind: JobKind[RequestT], request: RequestT, *, idempotency_key: str | None = None
    ) -> Job:
        """Put a job on its queue, or return the one that stands under the idempotency key.

        The new job is returned as it was put there; a worker may have begun it since.

        Raises `IdempotencyConflict` when that one has another body, and `BrokerUnavailable` when the
        message could not be published; then nothing of the job remains.
        """
        body = request.model_dump(mode="json", by_alias=True)
        claim = None
        if idempotency_key is not None:
            digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
            claim = IdempotencyClaim(key=idempotency_key, body_hash=digest)
        job_id = str(uuid.uuid4())
        created = self._store.create(job_id, kind.name, body, expires_s=self._queue_expires_s, claim=claim)
        if isinstance(created, KnownJob):
            if claim is None or created.body_hash != claim.body_hash:
                raise IdempotencyConflict(f"the key {idempotency_key!r} was used with another body")
            return self.get(created.id)
        try:
            self._messenger.publish(task=kind.task, job_id=job_id, request=body, queue=kind.queue)
        except BrokerUnavailable:
            self._store.discard(job_id, kind.name, claim)
            raise
        return Job(record=created, state=JobState.QUEUED)

    def get(self, job_id: str) -> Job:
        """The job with its state, and its result or error when it has ended. Raises `NotFound`."""
        record = self._store.get(job_id)
        if record is None:
            raise NotFound(f"there is no job {job_id}")
        job = self._view(record)
        if job.state.is_final and record.finished_at is None:
            # It may have ended between the two looks; its record was complete before its result was stored.
            job = self._view(self._store.get(job_id) or record)
        return job

    def wait(self, job_id: str, seconds: float) -> Job:
        """The job as soon as it has ended, or as it is after `seconds`. Raises `NotFound`."""
        budget = Budget.of(self._clock, seconds)
        job = self.get(job_id)
        while not job.state.is_final and budget.remaining_s > 0:
            self._clock.wait(threading.Event(), min(POLL_S, budget.remaining_s))
            job = self.get(job_id)
        return job

    def list_jobs(
        self, *, kind: str | None, state: JobState | None, limit: int, before: int | None
    ) -> tuple[list[Job], int | None]:
        """Jobs, newest first, and the `before` of the next page (None at the end).

        Raises `InvalidInput` for an unknown kind.
        """
        if kind is not None and kind not in self._kinds:
            raise InvalidInput(f"there is no job kind {kind!r}", field="kind")
        found: list[Job] = []
        while page := self._store.newest_ids(before=before, limit=max(limit, SCANNED_AT_ONCE)):
            places = dict(page)
            for record in self._store.get_many([job_id for job_id, _ in page]):
                job = self._view(record)
                if (kind is None or record.kind == kind) and (state is None or job.state is state):
                    if len(found) == limit:
                        return found, before
                    found.append(job)
                before = places[record.id]
            before = page[-1][1]
        return found, None

    def cancel(self, job_id: str) -> Job:
        """Ask a job to stop; repeatable. Raises `NotFound` and `AlreadyFinished`."""
        job = self.get(job_id)
        if job.state.is_final:
            raise AlreadyFinished(f"the job {job_id} has ended: {job.state}")
        self._store.request_cancel(job_id)
        return self.get(job_id)

    def _view(self, record: JobRecord) -> Job:
        """Decide the state from the record, the stored result and the heartbeat, in this order.

        A result counts even without a noted start: a job that could not get at its record has failed.
        """
        if record.started_at is None and record.cancel_requested_at is not None:
            return Job(record=record, state=JobState.CANCELLED)
        stored = self._messenger.result(record.id)
        if stored is not None:
            return _ended(record, stored)
        if record.started_at is None:
            is_late = record.read_at > record.expires_at
            return Job(record=record, state=JobState.EXPIRED if is_late else JobState.QUEUED)
        if record.finished_at is None or record.outcome is None:
            return Job(record=record, state=JobState.RUNNING if record.is_alive else JobState.LOST)
        if record.read_at - record.finished_at < RESULT_LAG:
            return Job(record=record, state=JobState.RUNNING)
        return Job(record=record, state=record.outcome)


def _ended(record: JobRecord, stored: StoredResult) -> Job:
    if not stored.succeeded:
        return Job(record=record, state=JobState.FAILED, error=_error(str(stored.value)))
    result = stored.value if isinstance(stored.value, dict) else {}
    meta = result.get("meta", {})
    is_cancelled = isinstance(meta, dict) and meta.get("stoppedBy") == "cancelled"
    state = JobState.CANCELLED if is_cancelled else JobState.SUCCEEDED
    return Job(record=record, state=state, result=result)


def _error(text: str) -> dict[str, str]:
    """Code and detail of a failed job; an error that is none of a job's own says nothing to callers."""
    code, _, detail = text.partition(":")
    if not re.fullmatch(r"[A-Z][A-Z_]*", code):
        return {"code": "INTERNAL", "detail": "the job failed in our own code"}
    return {"code": code, "detail": detail.strip()}
