"""Wires the funding context from the settings; `workers.services` calls it. Opens no connection.

Without `FUNDING_DATABASE_URL` there are no fundings: whoever asks for them is told so.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from redis import Redis
from sqlalchemy import Engine, text

from workers.clock import Clock, to_iso
from workers.errors import BrokerUnavailable, JobFailed
from workers.funding.alerts import FundingAlerts
from workers.funding.counters import FundingCounters
from workers.funding.database import open_database, translated
from workers.funding.errors import FundingNotConfigured, PropertyNotFound
from workers.funding.evaluate import Counters
from workers.funding.fundings import Fundings, FundingState
from workers.funding.job_kinds import CompleteFundingReconcileRequest, FundingReconcileRequest
from workers.funding.migrations import FundingMigrationReport, migrate
from workers.funding.nightly import NightlyReconciliation
from workers.funding.reconcile import FundingReconcile
from workers.funding.reconciliation import (
    Outcome,
    PropertyOutcome,
    PropertyReconciler,
    ReconciliationLimits,
)
from workers.funding.vocabulary import AlertReason
from workers.http.client import OutboundClient
from workers.jobs.fan_out import FanOutLimits
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.record import JobStore
from workers.jobs.run import JobResult, RunningJob
from workers.jobs.service import JobService
from workers.leases import LeaseStore
from workers.settings import Settings

# Somebody waits for the answer and holds a thread.
IMPATIENT_MS = 3000
NOT_CONFIGURED = "FUNDING_NOT_CONFIGURED"


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockedFunding:
    """A blocked funding with both sides as they are now."""

    state: FundingState
    counters: Counters

    def to_json(self) -> dict[str, object]:
        """The funding as the API and the command line show it."""
        block = self.state.block
        return {
            "propertyId": self.state.property_id,
            "reason": None if block is None else block.reason.value,
            "blockedAt": None if block is None or block.at is None else to_iso(block.at),
            "capacity": self.state.capacity,
            "waiting": self.state.waiting,
            "counters": self.counters.to_json(),
            "truth": self.state.truth.to_json(),
        }


class FundingAccess:
    """What the API and the command line need of fundings."""

    def __init__(self, settings: Settings, redis: Redis) -> None:
        self._settings = settings
        self._engine = _open(settings, is_impatient=True)
        self._counters = FundingCounters(redis)

    @property
    def is_configured(self) -> bool:
        """Whether there are fundings here at all."""
        return self._engine is not None

    def close(self) -> None:
        """Close the connections."""
        if self._engine is not None:
            self._engine.dispose()

    def complete(self, request: FundingReconcileRequest) -> CompleteFundingReconcileRequest:
        """Fill in the defaults of a request. Raises `PropertyNotFound` naming every id that no funding has.

        Raises `FundingNotConfigured`, and `RetryableError` when the database does not answer.
        """
        fundings = self._fundings()
        complete = request.with_defaults(self._settings)
        if complete.property_ids is not None and (unknown := fundings.unknown_of(complete.property_ids)):
            raise PropertyNotFound(unknown)
        return complete

    def blocked(self, *, limit: int, after: str = "") -> list[BlockedFunding]:
        """Blocked fundings that have not ended, by property, from behind `after` on.

        Raises `FundingNotConfigured`, and `RetryableError` when a store does not answer.
        """
        states = self._fundings().blocked(limit=limit, after=after)
        counters = self._counters.read_many([state.property_id for state in states])
        return [
            BlockedFunding(state=state, counters=both) for state, both in zip(states, counters, strict=True)
        ]

    def active(self, now: datetime) -> list[tuple[FundingState, Counters]]:
        """Every funding that is on sale at `now`, by property, with its counters read right afterwards.

        Raises `FundingNotConfigured`, and `RetryableError` when a store does not answer.
        """
        states = self._fundings().active(now)
        counters = self._counters.read_many([state.property_id for state in states])
        return list(zip(states, counters, strict=True))

    def ping(self) -> None:
        """Ask the database for a sign of life. Raises `RetryableError`, or `FundingNotConfigured`."""
        if self._engine is None:
            raise FundingNotConfigured
        with translated(), self._engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def _fundings(self) -> Fundings:
        if self._engine is None:
            raise FundingNotConfigured
        return Fundings(self._engine)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """What there is where there are fundings."""

    engine: Engine
    job: FundingReconcile
    reconciler: PropertyReconciler


class FundingWork:
    """What a worker process needs of fundings."""

    def __init__(
        self,
        settings: Settings,
        *,
        redis: Redis,
        clock: Clock,
        leases: LeaseStore,
        http: OutboundClient,
        messenger: CeleryMessenger,
        store: JobStore,
        jobs: JobService,
        limits: FanOutLimits,
    ) -> None:
        self._store = store
        self._parts: _Parts | None = None
        self.nightly = NightlyReconciliation(redis=redis, jobs=jobs, clock=clock, settings=settings)
        engine = _open(settings)
        if engine is None:
            return
        fundings, counters = Fundings(engine), FundingCounters(redis)
        webhook = settings.funding_alert_webhook_url
        alerts = FundingAlerts(
            redis=redis,
            http=http,
            clock=clock,
            webhook_url=None if webhook is None else webhook.get_secret_value(),
        )
        self._parts = _Parts(
            engine=engine,
            job=FundingReconcile(
                redis=redis,
                fundings=fundings,
                counters=counters,
                alerts=alerts,
                messenger=messenger,
                clock=clock,
                limits=limits,
                ratio=settings.funding_near_completion_ratio,
            ),
            reconciler=PropertyReconciler(
                fundings=fundings,
                counters=counters,
                leases=leases,
                alerts=alerts,
                clock=clock,
                limits=ReconciliationLimits(
                    delay_s=settings.funding_counter_reconciliation_stabilization_delay_ms / 1000,
                    budget_s=settings.job_target_budget_s,
                    lease_ttl_ms=settings.funding_property_lock_ttl_ms,
                    is_write_skipped=settings.funding_counter_reconciliation_skip_redis_counter_write,
                ),
            ),
        )

    def reconcile(self, job: RunningJob, request: CompleteFundingReconcileRequest) -> JobResult:
        """Run the reconciliation job. Raises `JobFailed` where there are no fundings."""
        if self._parts is None:
            raise JobFailed.because(NOT_CONFIGURED, str(FundingNotConfigured()))
        return self._parts.job.run(job, request)

    def reconcile_property(self, property_id: str, job_id: str) -> dict[str, object]:
        """Reconcile one property for its job; return the row of the job's result."""
        if self._parts is None:
            # Another process of ours knows a database, so the job has to hear of it.
            outcome = PropertyOutcome(
                outcome=Outcome.FAILED, reason=AlertReason.UNEXPECTED, detail=str(FundingNotConfigured())
            )
        else:
            outcome = self._parts.reconciler.reconcile(property_id, lambda: self._is_cancelled(job_id))
        return outcome.to_json()

    def close(self) -> None:
        """Close the connections; for processes that go on without them, such as tests."""
        if self._parts is not None:
            self._parts.engine.dispose()

    def _is_cancelled(self, job_id: str) -> bool:
        try:
            record = self._store.get(job_id)
        except BrokerUnavailable:
            return False
        return record is not None and record.cancel_requested_at is not None


def migrate_fundings(settings: Settings) -> FundingMigrationReport | None:
    """Bring the tables up to date; None where there are no fundings. Raises `RetryableError`."""
    engine = _open(settings)
    if engine is None:
        return None
    try:
        return migrate(engine)
    finally:
        engine.dispose()


def _open(settings: Settings, *, is_impatient: bool = False) -> Engine | None:
    if settings.funding_database_url is None:
        return None
    timeout_ms = settings.funding_database_timeout_ms
    return open_database(
        settings.funding_database_url,
        timeout_ms=min(timeout_ms, IMPATIENT_MS) if is_impatient else timeout_ms,
    )
