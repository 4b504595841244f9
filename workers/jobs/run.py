"""How a job task runs: the frame that every job kind shares.

    first delivery? -> heartbeat -> lease of the kind -> the use case -> final state

A second delivery of the same message raises `SecondDelivery` and changes nothing. A lease that somebody
else holds ends the job as a success with `meta.skipped`. Nothing ever runs without the lease.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from pydantic import ValidationError
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from workers.clock import Clock
from workers.errors import (
    BrokerUnavailable,
    Busy,
    ConvergeError,
    InvalidInput,
    JobFailed,
    LockUnavailable,
    UpstreamFailed,
)
from workers.jobs.kinds import JobKind, RequestT
from workers.jobs.record import JobRecord, JobState, JobStore, alive_lease
from workers.leases import Lease, LeaseStore
from workers.logs import about
from workers.telemetry import Meter

log = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT")

LOOK_EVERY_S = 0.25
FINISH_TRIES = 5
FINISH_PAUSE_S = 1.0


class StoppedBy(StrEnum):
    """Why a job handed out no more work."""

    LIMIT = "limit"
    MAX_PAGES = "max_pages"
    DEADLINE = "deadline"
    DRAINED = "drained"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease_lost"


class SecondDelivery(ConvergeError):
    """This message was delivered before, its job was cancelled while it waited, or its record is gone."""


class CutOff(ConvergeError):
    """The process is about to be gone with the job unfinished. What it came to is not to be told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobResult:
    """What a job returns for its caller; plain JSON values only."""

    data: list[dict[str, object]]
    meta: dict[str, object]

    def to_json(self) -> dict[str, object]:
        """The form that the result backend stores. Flower shows the first thousand letters: the counts."""
        return {"meta": self.meta, "data": self.data}


@dataclass(kw_only=True)
class RunningJob:
    """The job from the inside: its limits, and where it reports to.

    `stopping` is set when no more work may start for a reason other than the deadline. It ends every wait of
    the job that is given it. `counts` tells more of the progress than `done` and `total`, by names of the
    kind; it is replaced, never changed, because another thread writes it out.
    """

    record: JobRecord
    lease: Lease
    clock: Clock
    store: JobStore
    shutdown: threading.Event
    started_at_s: float
    deadline_s: float | None = None
    done: int = 0
    total: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    is_cancelled: bool = False
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def id(self) -> str:
        """The job's id, which is also its Celery task's."""
        return self.record.id

    @property
    def elapsed_ms(self) -> int:
        """Milliseconds since the job task started."""
        return round((self.clock.monotonic() - self.started_at_s) * 1000)

    @property
    def queued_ms(self) -> int:
        """Milliseconds between the request and the start of the task."""
        started_at = self.record.started_at or self.record.created_at
        return max(0, round((started_at - self.record.created_at).total_seconds() * 1000))

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; infinite without one."""
        if self.deadline_s is None:
            return float("inf")
        return self.started_at_s + self.deadline_s - self.clock.monotonic()

    def stop_reason(self) -> StoppedBy | None:
        """Why no more work may start, or None. A person's wish comes first."""
        if self.is_cancelled:
            return StoppedBy.CANCELLED
        if not self.lease.is_held:
            return StoppedBy.LEASE_LOST
        if self.shutdown.is_set():
            return StoppedBy.SHUTDOWN
        return StoppedBy.DEADLINE if self.remaining_s <= 0 else None

    def look(self) -> None:
        """Write the progress, and see whether the job has to stop."""
        try:
            self.is_cancelled |= self.store.report(
                self.id, done=self.done, total=self.total, counts=self.counts
            )
        except BrokerUnavailable:
            log.warning("progress could not be written", extra={"job": self.id})
        if self.stop_reason() not in (None, StoppedBy.DEADLINE):
            self.stopping.set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look four times a second while the body runs, whatever it waits for, and once at its end."""
        ended = threading.Event()

        def watch() -> None:
            while not self.clock.wait(ended, LOOK_EVERY_S):
                self.look()

        self.look()
        watcher = threading.Thread(target=watch, name=f"watch-{self.id}", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            self.look()


class JobRunner:
    """Runs job tasks in the shared frame. `lease_ttls_ms` has the time to live of each kind's lease."""

    def __init__(
        self,
        store: JobStore,
        leases: LeaseStore,
        clock: Clock,
        *,
        heartbeat_ttl_ms: int,
        lease_ttls_ms: Mapping[str, int],
        shutdown: threading.Event,
        meter: Meter | None = None,
    ) -> None:
        self._store = store
        self._leases = leases
        self._clock = clock
        self._heartbeat_ttl_ms = heartbeat_ttl_ms
        self._lease_ttls_ms = lease_ttls_ms
        self._shutdown = shutdown
        self._meter = meter or Meter(clock)
        self._is_cut_off = False

    def cut_off(self) -> None:
        """Let no job of this process be noted as ended any more: they are lost with it.

        For a process that gives its leases back and is gone the moment after. Its jobs find their leases
        lost, and one that is quick could otherwise end as if it had been told to stop.
        """
        self._is_cut_off = True

    def run(
        self,
        kind: JobKind[RequestT],
        job_id: str,
        request: Mapping[str, object],
        use_case: Callable[[RunningJob, RequestT], JobResult],
    ) -> dict[str, object]:
        """Run one job to its end and return its result as JSON.

        Raises `SecondDelivery` when there is nothing to run, `CutOff` after `cut_off`, and `JobFailed` with a
        code otherwise.
        """
        with about(job=job_id, kind=kind.name):
            return self._run(kind, job_id, request, use_case)

    def _run(
        self,
        kind: JobKind[RequestT],
        job_id: str,
        request: Mapping[str, object],
        use_case: Callable[[RunningJob, RequestT], JobResult],
    ) -> dict[str, object]:
        started_at_s = self._clock.monotonic()
        heartbeat = self._take_up(job_id)
        outcome = JobState.FAILED
        meta: Mapping[str, object] = {}
        try:
            record = self._ask(lambda: self._store.get(job_id))
            if record is None:
                raise SecondDelivery(f"the record of job {job_id} is gone")
            body = _parse(kind, request)
            result = self._under_lease(kind, record, started_at_s, lambda job: use_case(job, body))
            is_cancelled = result.meta.get("stoppedBy") == StoppedBy.CANCELLED
            outcome = JobState.CANCELLED if is_cancelled else JobState.SUCCEEDED
            meta = result.meta
            facts = {"job": job_id, "kind": kind.name, "state": outcome, "meta": meta}
            if not self._is_cut_off:
                log.info("job ended", extra=facts)
            return result.to_json()
        except JobFailed as exc:
            facts = {"job": job_id, "kind": kind.name, "state": outcome, "code": exc.code}
            if not self._is_cut_off:
                log.warning("job ended", extra={**facts, "detail": exc.detail})
            raise
        finally:
            if self._is_cut_off:
                log.warning("job cut off", extra={"job": job_id, "kind": kind.name})
                raise CutOff(f"the process ends in the middle of job {job_id}")
            self._finish(job_id, outcome)
            self._leases.release(heartbeat)
            took_s = self._clock.monotonic() - started_at_s
            self._meter.count_job(kind.name, outcome, seconds=took_s, meta=meta)

    def _take_up(self, job_id: str) -> Lease:
        """Take the heartbeat, then note the start: a job that has started is never seen without one."""
        unwanted = SecondDelivery(f"the job {job_id} has started before or is not wanted any more")
        # Whoever comes back after a long time finds thousands of these in the queue; a look makes them cheap.
        if not self._ask(lambda: self._store.is_waiting(job_id)):
            raise unwanted
        try:
            heartbeat = self._leases.acquire(alive_lease(job_id), ttl_ms=self._heartbeat_ttl_ms, owner=job_id)
        except Busy as exc:
            raise SecondDelivery(f"the job {job_id} is running") from exc
        except LockUnavailable as exc:
            raise JobFailed.because("LOCK_UNAVAILABLE", str(exc)) from exc
        try:
            is_first = self._ask(lambda: self._store.begin(job_id, heartbeat.owner))
        except JobFailed:
            self._leases.release(heartbeat)
            raise
        if not is_first:
            self._leases.release(heartbeat)
            raise unwanted
        return heartbeat

    def _ask(self, question: Callable[[], AnswerT]) -> AnswerT:
        """The store's answer. Raises `JobFailed` when there is none."""
        try:
            return question()
        except BrokerUnavailable as exc:
            raise JobFailed.because("LOCK_UNAVAILABLE", str(exc)) from exc

    def _under_lease(
        self,
        kind: JobKind[RequestT],
        record: JobRecord,
        started_at_s: float,
        use_case: Callable[[RunningJob], JobResult],
    ) -> JobResult:
        ttl_ms = self._lease_ttls_ms[kind.name]
        try:
            with self._leases.hold(kind.lease, ttl_ms=ttl_ms, owner=record.id) as lease:
                job = RunningJob(
                    record=record,
                    lease=lease,
                    clock=self._clock,
                    store=self._store,
                    shutdown=self._shutdown,
                    started_at_s=started_at_s,
                )
                with job.watched():
                    return use_case(job)
        except Busy:
            return JobResult(data=[], meta={"skipped": "already running"})
        except LockUnavailable as exc:
            raise JobFailed.because("LOCK_UNAVAILABLE", str(exc)) from exc
        except UpstreamFailed as exc:
            raise JobFailed.because("UPSTREAM_FAILED", str(exc)) from exc
        except InvalidInput as exc:
            raise JobFailed.because("INVALID_REQUEST", f"{exc.field}: {exc}") from exc
        except JobFailed:
            # A use case may know a code of its own.
            raise
        except ConvergeError as exc:
            raise JobFailed.because("STORE_UNAVAILABLE", str(exc)) from exc
        except Exception as exc:
            # The last guard of a job: whatever went wrong, the caller gets an end and the log the cause.
            log.exception("job failed", extra={"job": record.id, "kind": kind.name})
            raise JobFailed.because("INTERNAL", type(exc).__name__) from exc

    def _finish(self, job_id: str, outcome: JobState) -> None:
        """Write the final state, through a short outage of Redis; without it the job is shown as lost."""
        tries = Retrying(
            stop=stop_after_attempt(FINISH_TRIES),
            wait=wait_fixed(FINISH_PAUSE_S),
            retry=retry_if_exception_type(BrokerUnavailable),
            sleep=self._pause,
        )
        try:
            tries(self._store.finish, job_id, outcome)
        except RetryError:
            log.exception("the end of a job could not be written", extra={"job": job_id, "outcome": outcome})

    def _pause(self, seconds: float) -> None:
        self._clock.wait(threading.Event(), seconds)


def _parse(kind: JobKind[RequestT], request: Mapping[str, object]) -> RequestT:
    """Read the request; one that an older version has queued may not fit any more."""
    try:
        return kind.request_model.model_validate(request)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise JobFailed.because("INVALID_REQUEST", f"{place}: {first['msg']}") from exc


def dry_run_of(targets: Sequence[Mapping[str, object]], meta: Mapping[str, object]) -> JobResult:
    """The result of a job that only looked: the targets that a real run would take up, in its order."""
    return JobResult(
        data=[{**target, "outcome": "planned"} for target in targets],
        meta=to_meta({**meta, "dryRun": True, "planned": len(targets)}),
    )


def to_meta(values: Mapping[str, object]) -> dict[str, object]:
    """Turn enum members into their words, so that the result is plain JSON."""
    return {key: str(value) if isinstance(value, StrEnum) else value for key, value in values.items()}
