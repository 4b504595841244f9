"""The reconciliation job: find the fundings that need it, hand each to a task, count what came of them.

One query has the truth of all active fundings and one round trip their counters; nothing is asked one by one.
The fundings are independent: what happens to one stops none of the others.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from redis import Redis

from workers.clock import Clock
from workers.errors import ConvergeError
from workers.funding.alerts import Alert, FundingAlerts
from workers.funding.counters import FundingCounters
from workers.funding.evaluate import (
    CounterFault,
    Reading,
    delta_of,
    is_near_completion,
    is_oversold,
    targets_of,
)
from workers.funding.fundings import Fundings, FundingState
from workers.funding.job_kinds import CompleteFundingReconcileRequest
from workers.funding.reconciliation import Outcome
from workers.funding.vocabulary import AlertReason
from workers.jobs.fan_out import Assignment, FanOut, FanOutLimits, FanOutResult, Target
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.run import JobResult, RunningJob, StoppedBy, dry_run_of, to_meta

log = logging.getLogger(__name__)

RECONCILE_PROPERTY_TASK = "converge.funding.reconcile_property"
_REPAIRED_AT_ANY_RATIO = frozenset({CounterFault.NEGATIVE, CounterFault.NOT_A_NUMBER})


class Cause(StrEnum):
    """Why a funding is taken up."""

    NAMED = "named"
    BLOCKED = "blocked"
    NEAR_COMPLETION = "nearCompletion"
    FAULTY_COUNTER = "faultyCounter"


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A funding with both sides as the selection saw them."""

    state: FundingState
    reading: Reading
    cause: Cause

    @property
    def key(self) -> str:
        """The property."""
        return self.state.property_id

    @property
    def group(self) -> str:
        """The property: each is a group of its own."""
        return self.state.property_id

    def plan(self) -> dict[str, object]:
        """What a run would have to do, as far as can be told without blocking anything."""
        truth, capacity = self.state.truth, self.state.capacity
        plan: dict[str, object] = {"propertyId": self.key, "cause": self.cause.value, "capacity": capacity}
        plan |= self.reading.to_json()
        plan["waiting"] = self.state.waiting
        plan["isOversold"] = is_oversold(truth, capacity=capacity)
        plan["delta"] = delta_of(self.reading.counters, targets_of(truth, capacity=capacity))
        return plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """How many fundings were looked at, those to reconcile, and named ones that are not on sale."""

    scanned: int
    candidates: Sequence[Candidate]
    ignored: Sequence[str]


class FundingReconcile:
    """The use case; see the module docstring. `ratio` is how much of a funding has to be sold."""

    def __init__(
        self,
        *,
        redis: Redis,
        fundings: Fundings,
        counters: FundingCounters,
        alerts: FundingAlerts,
        messenger: CeleryMessenger,
        clock: Clock,
        limits: FanOutLimits,
        ratio: float,
    ) -> None:
        self._redis = redis
        self._fundings = fundings
        self._counters = counters
        self._alerts = alerts
        self._messenger = messenger
        self._clock = clock
        self._limits = limits
        self._ratio = ratio

    def run(self, job: RunningJob, request: CompleteFundingReconcileRequest) -> JobResult:
        """Run the job. Raises `RetryableError` when a store does not answer; then nothing is blocked."""
        job.deadline_s = request.deadline_ms / 1000
        selection = self._select_and_tell(request)
        candidates = selection.candidates
        result = FanOutResult() if request.dry_run else self._fan_out(job, candidates)
        self._tell_of_the_lost(result)
        causes = Counter(each.cause for each in candidates)
        counts = count_outcomes(result, targeted=len(candidates))
        # A property may see the cancel before its job does.
        end = StoppedBy.CANCELLED if counts["cancelled"] else StoppedBy.DRAINED
        meta = {
            "scanned": selection.scanned,
            **{cause.value: causes[cause] for cause in Cause},
            "notOnSale": len(selection.ignored),
            "targeted": len(candidates),
            **counts,
            "stoppedBy": result.stopped_by or end,
            "queuedMs": job.queued_ms,
            "elapsedMs": job.elapsed_ms,
        }
        if request.dry_run:
            return dry_run_of([each.plan() for each in candidates], meta)
        return JobResult(data=_rows(result, selection), meta=to_meta(meta))

    def select(self, request: CompleteFundingReconcileRequest) -> Selection:
        """Find what is to be reconciled, blocked ones first: nothing of theirs can be sold meanwhile."""
        active = self._fundings.active(self._clock.now(), request.property_ids)
        counters = self._counters.read_many([state.property_id for state in active])
        candidates = []
        for state, both in zip(active, counters, strict=True):
            reading = Reading(counters=both, truth=state.truth)
            cause = Cause.NAMED if request.property_ids else self._cause(state, reading)
            if cause is not None:
                candidates.append(Candidate(state=state, reading=reading, cause=cause))
        found = {state.property_id for state in active}
        return Selection(
            scanned=len(active),
            candidates=sorted(candidates, key=lambda each: each.state.block is None),
            ignored=[each for each in request.property_ids or () if each not in found],
        )

    def _cause(self, state: FundingState, reading: Reading) -> Cause | None:
        if state.block is not None:
            return Cause.BLOCKED
        if is_near_completion(reading, capacity=state.capacity, ratio=self._ratio):
            return Cause.NEAR_COMPLETION
        return Cause.FAULTY_COUNTER if reading.counters.faults & _REPAIRED_AT_ANY_RATIO else None

    def _select_and_tell(self, request: CompleteFundingReconcileRequest) -> Selection:
        """Select; when that fails, no property will ever tell, so the run does."""
        try:
            return self.select(request)
        except ConvergeError as exc:
            if not request.dry_run:
                self._alerts.send(Alert(reason=AlertReason.UNEXPECTED, detail=str(exc)))
            raise

    def _fan_out(self, job: RunningJob, candidates: Sequence[Candidate]) -> FanOutResult:
        fan_out = FanOut(
            self._redis,
            job,
            send=self._send,
            limits=self._limits,
            clock=self._clock,
            together=self._messenger.together,
        )
        return fan_out.run(candidates)

    def _send(self, _: Target, assignment: Assignment) -> None:
        self._messenger.publish_member(
            task=RECONCILE_PROPERTY_TASK, arguments={"assignment": assignment.to_json()}, queue="records"
        )

    def _tell_of_the_lost(self, result: FanOutResult) -> None:
        """A worker that died may have left a block and could tell nobody."""
        for property_id in result.lost:
            detail = "its worker died or took too long; the property may be blocked"
            self._alerts.send(Alert(reason=AlertReason.UNEXPECTED, property_id=property_id, detail=detail))


def count_outcomes(result: FanOutResult, *, targeted: int) -> dict[str, object]:
    """Count so that `targeted = processed + remaining` and `processed` is the sum of its five parts.

    Those that were locked out, cancelled or lost were not brought to an end, so they remain.
    """
    outcomes = result.outcomes.values()
    counts = Counter(str(each["outcome"]) for each in outcomes)
    parts = (Outcome.SYNCED, Outcome.FIXED, Outcome.WOULD_FIX, Outcome.FAILED, Outcome.IGNORED)
    processed = sum(counts[part] for part in parts)
    reasons = Counter(str(each["reason"]) for each in outcomes if each["outcome"] == Outcome.FAILED)
    return {
        "processed": processed,
        **{part.value: counts[part] for part in parts},
        "lockedOut": counts[Outcome.LOCKED_OUT],
        "cancelled": counts[Outcome.CANCELLED],
        "lost": len(result.lost),
        "remaining": targeted - processed,
        "byReason": dict(reasons),
    }


def _rows(result: FanOutResult, selection: Selection) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {"propertyId": property_id, **outcome} for property_id, outcome in result.outcomes.items()
    ]
    rows += [{"propertyId": each, "outcome": Outcome.LOST.value} for each in result.lost]
    not_on_sale = {"outcome": Outcome.IGNORED.value, "detail": "not on sale"}
    return rows + [{"propertyId": each, **not_on_sale} for each in selection.ignored]
