"""Reconcile the counters of one property with the truth.

    block -> drain -> stabilise -> oversold? -> fix by compare-and-set -> unblock

The block stops whatever could move the counters; draining waits until the purchases that wait for bricks have
them or are declined; stabilising makes sure that what is left of a difference is real. Whatever goes wrong on
the way, the property stays blocked, people are told once, and the next run begins anew: nothing is resumed.

Of the database only the block is written, of Redis only the two counters, and those only while they are as
they were read and the lease of the property is ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from workers.clock import Budget, Clock
from workers.errors import Busy, ConvergeError, LeaseLost, LockUnavailable
from workers.funding.alerts import Alert, FundingAlerts
from workers.funding.counters import FundingCounters, Written
from workers.funding.evaluate import (
    READS_MAX,
    BrickCounts,
    CounterFault,
    Counters,
    Decision,
    Reading,
    Readings,
    decide,
    delta_of,
    is_oversold,
    targets_of,
)
from workers.funding.fundings import Fundings, FundingState
from workers.funding.vocabulary import AlertReason
from workers.leases import Lease, LeaseStore

log = logging.getLogger(__name__)

# Waits are cut into pieces, so that a cancel is seen in between.
LOOK_EVERY_S = 0.5
_FAULT_ALERTS = {
    CounterFault.NEGATIVE: AlertReason.COUNTER_NEGATIVE,
    CounterFault.NOT_A_NUMBER: AlertReason.COUNTER_NOT_A_NUMBER,
}


class Outcome(StrEnum):
    """What came of one property."""

    SYNCED = "synced"
    FIXED = "fixed"
    WOULD_FIX = "wouldFix"
    FAILED = "failed"
    IGNORED = "ignored"
    CANCELLED = "cancelled"
    LOCKED_OUT = "lockedOut"
    LOST = "lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class PropertyOutcome:
    """What came of one property, with what was seen. `reason` is that of the alert, if one was sent."""

    outcome: Outcome
    reason: AlertReason | None = None
    capacity: int | None = None
    delta: dict[str, int | None] | None = None
    readings: Readings = ()
    detail: str = ""

    def to_json(self) -> dict[str, object]:
        """The row of a job's result."""
        found: dict[str, object] = {"outcome": self.outcome.value}
        if self.reason is not None:
            found["reason"] = self.reason.value
        if self.capacity is not None:
            found["capacity"] = self.capacity
        if self.delta is not None:
            found["delta"] = self.delta
        if self.readings:
            found["reads"] = len(self.readings)
            found["readings"] = [reading.to_json() for reading in self.readings]
        if self.detail:
            found["detail"] = self.detail
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ReconciliationLimits:
    """`delay_s` is the wait between two reads, `budget_s` what one property may take in all.

    With `is_write_skipped` everything is done but the write to Redis.
    """

    delay_s: float
    budget_s: float
    lease_ttl_ms: int
    is_write_skipped: bool = False


class StaysBlocked(ConvergeError):
    """The property cannot be repaired now; `reason` says why."""

    def __init__(self, message: str, *, reason: AlertReason) -> None:
        super().__init__(message)
        self.reason = reason


class _Cancelled(ConvergeError):
    """The job was cancelled while we waited."""


@dataclass(kw_only=True)
class _Work:
    """One property in work. `was_blocked` and `capacity` are known once it is blocked."""

    property_id: str
    lease: Lease
    budget: Budget
    is_cancelled: Callable[[], bool]
    readings: list[Reading] = field(default_factory=list)
    capacity: int | None = None
    was_blocked: bool = False

    @property
    def run(self) -> str:
        """The name of this run, which no other one has."""
        return self.lease.owner


def property_lease(property_id: str) -> str:
    """Name of the lease that whoever reconciles the property holds."""
    return f"funding:{property_id}"


class PropertyReconciler:
    """See the module docstring."""

    def __init__(
        self,
        *,
        fundings: Fundings,
        counters: FundingCounters,
        leases: LeaseStore,
        alerts: FundingAlerts,
        clock: Clock,
        limits: ReconciliationLimits,
    ) -> None:
        self._fundings = fundings
        self._counters = counters
        self._leases = leases
        self._alerts = alerts
        self._clock = clock
        self._limits = limits

    def reconcile(
        self, property_id: str, is_cancelled: Callable[[], bool] = lambda: False
    ) -> PropertyOutcome:
        """Reconcile one property; never raises for one property's trouble.

        `is_cancelled` is asked during the waits. A cancel lifts the block that was set here.
        """
        try:
            with self._leases.hold(property_lease(property_id), ttl_ms=self._limits.lease_ttl_ms) as lease:
                budget = Budget.of(self._clock, self._limits.budget_s)
                return self._under_lease(
                    _Work(property_id=property_id, lease=lease, budget=budget, is_cancelled=is_cancelled)
                )
        except Busy:
            return PropertyOutcome(outcome=Outcome.LOCKED_OUT)
        except LockUnavailable as exc:
            self._alerts.send(Alert(reason=AlertReason.UNEXPECTED, property_id=property_id, detail=str(exc)))
            return PropertyOutcome(outcome=Outcome.FAILED, reason=AlertReason.UNEXPECTED, detail=str(exc))

    def _under_lease(self, work: _Work) -> PropertyOutcome:
        try:
            return self._reconcile(work)
        except _Cancelled:
            return PropertyOutcome(outcome=Outcome.CANCELLED, readings=tuple(work.readings))
        except StaysBlocked as exc:
            return self._failed(work, exc.reason, str(exc))
        except ConvergeError as exc:
            return self._failed(work, AlertReason.UNEXPECTED, str(exc))
        except Exception as exc:
            # The guard of one target: whatever went wrong with it, the others are not to suffer.
            log.exception("a property was not reconciled", extra={"property": work.property_id})
            return self._failed(work, AlertReason.UNEXPECTED, type(exc).__name__)

    def _failed(self, work: _Work, reason: AlertReason, detail: str) -> PropertyOutcome:
        self._alert(work, reason, detail=detail)
        return PropertyOutcome(
            outcome=Outcome.FAILED,
            reason=reason,
            capacity=work.capacity,
            readings=tuple(work.readings),
            detail=detail,
        )

    def _reconcile(self, work: _Work) -> PropertyOutcome:
        work.lease.check()
        blocked = self._fundings.block(work.property_id, run=work.run, now=self._clock.now())
        if blocked is None:
            return PropertyOutcome(outcome=Outcome.IGNORED, detail="not on sale")
        work.capacity, before = blocked
        work.was_blocked = before is not None
        try:
            self._drain(work)
            decision = self._stabilise(work)
        except _Cancelled:
            self._restore(work)
            raise
        truth = work.readings[-1].truth
        if is_oversold(truth, capacity=work.capacity):
            raise StaysBlocked(
                f"{truth.purchased} bricks are sold of {work.capacity}",
                reason=AlertReason.PG_OVERSELL_AFTER_DRAIN,
            )
        if decision is Decision.SYNCED:
            self._unblock(work)
            return self._ended(work, Outcome.SYNCED)
        return self._fix(work, targets_of(truth, capacity=work.capacity))

    def _drain(self, work: _Work) -> None:
        """Wait until no purchase waits for its bricks. Raises `StaysBlocked` after the last look."""
        for look in range(READS_MAX):
            if look:
                self._pause(work)
            waiting = self._state(work).waiting
            if waiting == 0:
                return
        raise StaysBlocked(
            f"{waiting} purchases still wait for their bricks", reason=AlertReason.ASSIGNATION_DRAIN_TIMEOUT
        )

    def _stabilise(self, work: _Work) -> Decision:
        """Read both sides until they tell something. Raises `StaysBlocked` when they do not."""
        decision = self._read(work)
        while decision is Decision.RETRY:
            self._pause(work)
            decision = self._read(work)
        if decision is Decision.UNSTABLE:
            raise StaysBlocked(
                "the counters were still moving at the last read", reason=AlertReason.COUNTER_UNSTABLE
            )
        return decision

    def _read(self, work: _Work) -> Decision:
        counters = self._counters.read(work.property_id)
        self._alarm(work, counters)
        work.readings.append(Reading(counters=counters, truth=self._state(work).truth))
        return decide(tuple(work.readings))

    def _state(self, work: _Work) -> FundingState:
        """The funding, which is still blocked by us: else somebody sells while we read."""
        state = self._fundings.state_of(work.property_id)
        if state.block is None:
            raise ConvergeError("the block was lifted by somebody else")
        if state.block.run != work.run:
            raise LeaseLost(f"the block of property {work.property_id} belongs to another run")
        return state

    def _alarm(self, work: _Work, counters: Counters) -> None:
        """A number that no sale can lead to is told about, though it is repaired."""
        for fault in counters.faults & _FAULT_ALERTS.keys():
            self._alert(work, _FAULT_ALERTS[fault], detail=f"it was {counters.to_json()}")

    def _fix(self, work: _Work, targets: BrickCounts) -> PropertyOutcome:
        """Bring the counters to their targets, or only say that they would be."""
        expected = work.readings[-1].counters
        delta = delta_of(expected, targets)
        reason, outcome = AlertReason.WOULD_FIX, Outcome.WOULD_FIX
        if not self._limits.is_write_skipped:
            reason, outcome = AlertReason.FIXED, Outcome.FIXED
            self._write(work, expected, targets)
        self._unblock(work)
        self._alert(work, reason, delta=delta)
        return self._ended(work, outcome, reason=reason, delta=delta)

    def _write(self, work: _Work, expected: Counters, targets: BrickCounts) -> None:
        work.lease.check()
        written = self._counters.compare_and_set(
            work.property_id, expected=expected, targets=targets, lease=work.lease
        )
        if written is Written.NOT_OURS:
            raise LeaseLost(f"the lease {work.lease.name} was lost")
        if written is Written.MOVED:
            raise StaysBlocked(
                "a counter moved between the last read and the write", reason=AlertReason.COUNTER_UNSTABLE
            )

    def _unblock(self, work: _Work) -> None:
        work.lease.check()
        self._fundings.unblock(work.property_id, run=work.run)

    def _restore(self, work: _Work) -> None:
        """After a cancel: what was on sale before is on sale again."""
        if not work.was_blocked:
            self._unblock(work)

    def _pause(self, work: _Work) -> None:
        """Wait for the delay between two reads. Raises `_Cancelled` or `BudgetExceeded`."""
        left_s = self._limits.delay_s
        while left_s > 0:
            if work.is_cancelled():
                raise _Cancelled("the job was cancelled")
            step_s = min(left_s, LOOK_EVERY_S)
            work.budget.sleep(step_s)
            left_s -= step_s

    def _ended(
        self,
        work: _Work,
        outcome: Outcome,
        *,
        reason: AlertReason | None = None,
        delta: dict[str, int | None] | None = None,
    ) -> PropertyOutcome:
        return PropertyOutcome(
            outcome=outcome,
            reason=reason,
            capacity=work.capacity,
            delta=delta,
            readings=tuple(work.readings),
        )

    def _alert(
        self,
        work: _Work,
        reason: AlertReason,
        *,
        delta: dict[str, int | None] | None = None,
        detail: str = "",
    ) -> None:
        self._alerts.send(
            Alert(
                reason=reason,
                property_id=work.property_id,
                capacity=work.capacity,
                delta=delta,
                readings=tuple(work.readings),
                detail=detail,
            )
        )
