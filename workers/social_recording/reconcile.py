"""Reconcile: record the tokens of a range that were never recorded.

    one call to the tracker -> those above the floor -> those without a document -> one task per token

Its progress is the existence of token documents; nothing else is remembered, except when a token was last
tried, so that tokens which always fail cannot fill every batch.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Budget, Clock
from workers.errors import BudgetExceeded, UpstreamFailed
from workers.jobs.fan_out import Assignment, FanOut, FanOutLimits, FanOutResult, Target
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.run import JobResult, RunningJob, StoppedBy, dry_run_of, to_meta
from workers.social_graph.token import TokenRepository
from workers.social_recording.job_kinds import CompleteReconcileRequest
from workers.social_recording.recording import TokenOutcome
from workers.social_recording.tracker import TrackedToken, TrackerClient

log = logging.getLogger(__name__)

RECORD_TOKEN_TASK = "converge.social_recording.record_token"
TRIED_KEY = "converge:reconcile:tried"
TRIED_TTL_S = 30 * 86_400
# Three tries of five seconds and the waits between them, with room to spare.
LIST_BUDGET_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenTarget:
    """One token to record; each is a group of its own."""

    key: str

    @property
    def group(self) -> str:
        """The token itself."""
        return self.key


class TriedTokens:
    """When each token was last tried, for a fair order.

    Losing it, or not reaching it, costs nothing but fairness; so no error of Redis leaves this class.
    """

    def __init__(self, redis: Redis, clock: Clock) -> None:
        self._redis = redis
        self._clock = clock

    def order(self, tokens: Sequence[TrackedToken]) -> list[TrackedToken]:
        """Never tried ones first (in the tracker's order), then by the time of the last try."""
        if not tokens:
            return []
        try:
            scores = self._redis.zmscore(TRIED_KEY, [token.address for token in tokens])
        except RedisError:
            log.warning("the order of tries is not known")
            return list(tokens)
        tried_at = {
            token.address: score for token, score in zip(tokens, scores, strict=True) if score is not None
        }
        return sorted(tokens, key=lambda token: tried_at.get(token.address, 0.0))

    def note(self, address: str) -> None:
        """Note a try, before it begins, so that a token that kills its worker counts as tried."""
        try:
            self._redis.zadd(TRIED_KEY, {address: self._clock.now().timestamp()})
        except RedisError:
            log.warning("a try could not be noted", extra={"token": address})

    def forget_old(self) -> None:
        """Forget the tries of more than a month ago."""
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.expire(TRIED_KEY, TRIED_TTL_S)
                pipe.zremrangebyscore(TRIED_KEY, "-inf", self._clock.now().timestamp() - TRIED_TTL_S)
                pipe.execute()
        except RedisError:
            log.warning("old tries could not be forgotten")


class Reconcile:
    """The use case; see the module docstring."""

    def __init__(
        self,
        *,
        redis: Redis,
        tracker: TrackerClient,
        tokens: TokenRepository,
        messenger: CeleryMessenger,
        clock: Clock,
        limits: FanOutLimits,
    ) -> None:
        self._redis = redis
        self._tracker = tracker
        self._tokens = tokens
        self._messenger = messenger
        self._clock = clock
        self._limits = limits
        self._tried = TriedTokens(redis, clock)

    def run(self, job: RunningJob, request: CompleteReconcileRequest) -> JobResult:
        """Run the job. Raises `UpstreamFailed` when the tracker finally fails; then nothing is written."""
        job.deadline_s = request.deadline_ms / 1000
        listed = self._list(job, request)
        cut_short = job.stop_reason() if listed is None else None
        listed = listed or []
        # The tracker may name a token twice, e.g. for two of the groups.
        passed = {token.address: token for token in listed if token.investor_count >= request.min_af_count}
        known = self._tokens.find_existing_addresses(passed)
        missing = self._tried.order([token for address, token in passed.items() if address not in known])
        batch = missing[: request.limit]
        result = FanOutResult() if request.dry_run else self._fan_out(job, batch)
        if not request.dry_run:
            self._tried.forget_old()
        meta = {
            "scanned": len(listed),
            "filtered": len(passed),
            "alreadySeen": len(known),
            "targeted": len(missing),
            **_count(result, targeted=len(missing)),
            "stoppedBy": cut_short
            or result.stopped_by
            or (StoppedBy.LIMIT if len(missing) > len(batch) else StoppedBy.DRAINED),
            "queuedMs": job.queued_ms,
            "elapsedMs": job.elapsed_ms,
        }
        symbols = {token.address: token.symbol for token in batch}
        if request.dry_run:
            return dry_run_of([{"address": token.address, "symbol": token.symbol} for token in batch], meta)
        return JobResult(data=_rows(result, symbols), meta=to_meta(meta))

    def _list(self, job: RunningJob, request: CompleteReconcileRequest) -> list[TrackedToken] | None:
        """Ask the tracker for the range; None when the job was stopped meanwhile."""
        budget = Budget.of(self._clock, LIST_BUDGET_S, job.stopping)
        try:
            return self._tracker.tokens_in_range(request.start_date, request.end_date, budget)
        except BudgetExceeded as exc:
            if job.stopping.is_set():
                return None
            raise UpstreamFailed("the tracker did not answer in time") from exc

    def _fan_out(self, job: RunningJob, batch: Iterable[TrackedToken]) -> FanOutResult:
        fan_out = FanOut(
            self._redis,
            job,
            send=self._send,
            limits=self._limits,
            clock=self._clock,
            together=self._messenger.together,
        )
        return fan_out.run([TokenTarget(key=token.address) for token in batch])

    def _send(self, _: Target, assignment: Assignment) -> None:
        self._tried.note(assignment.target)
        self._messenger.publish_member(
            task=RECORD_TOKEN_TASK, arguments={"assignment": assignment.to_json()}, queue="records"
        )


def _count(result: FanOutResult, *, targeted: int) -> dict[str, object]:
    """Count outcomes so that `targeted = processed + remaining` and `processed` is the sum of its parts.

    A token that the live stream recorded between the look and the task counts as recorded: it is there.
    """
    counts = Counter(str(outcome["outcome"]) for outcome in result.outcomes.values())
    recorded = counts[TokenOutcome.RECORDED] + counts[TokenOutcome.ALREADY_SEEN]
    processed = recorded + counts[TokenOutcome.FAILED] + counts[TokenOutcome.UNRESOLVED]
    return {
        "processed": processed,
        "recorded": recorded,
        "failed": counts[TokenOutcome.FAILED],
        "unresolved": counts[TokenOutcome.UNRESOLVED],
        "lockedOut": counts[TokenOutcome.LOCKED_OUT],
        "lost": len(result.lost),
        "remaining": targeted - processed,
    }


def _rows(result: FanOutResult, symbols: Mapping[str, str | None]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {"address": address, "symbol": symbols.get(address), **outcome}
        for address, outcome in result.outcomes.items()
    ]
    rows += [
        {"address": address, "symbol": symbols.get(address), "outcome": TokenOutcome.LOST.value}
        for address in result.lost
    ]
    return rows
