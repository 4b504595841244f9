"""Retry: try again the URLs that have not converged.

The candidates are streamed from the status index, oldest attempt first. What cannot be processed now is
counted and costs nothing; what was tried too recently waits; the rest is handed out, one task per URL and
never two URLs of one token at once. The tracker is never asked.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from redis import Redis

from workers.clock import Budget, Clock, from_iso, to_iso
from workers.errors import Busy
from workers.jobs.fan_out import Assignment, FanOut, FanOutLimits, FanOutResult, LeaseWish, Target
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.run import JobResult, RunningJob, StoppedBy, dry_run_of, to_meta
from workers.leases import Lease, LeaseStore
from workers.logs import about
from workers.social_graph.token import RetryableURL, TokenRepository
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.due import RetryInterval
from workers.social_recording.fetch_status import (
    EarlierTry,
    FetchOutcome,
    is_out_of_attempts,
    resolve_final_status,
)
from workers.social_recording.job_kinds import CompleteRetryRequest
from workers.social_recording.recording import reason_of, token_lease
from workers.social_recording.routing import route
from workers.social_recording.url_collection import RecordingLimits, URLCollector, URLOrder
from workers.telemetry import Meter
from workers.telemetry_table import URLS

log = logging.getLogger(__name__)

RETRY_URL_TASK = "converge.social_recording.retry_url"
STOP_ASKED_EVERY = 200
RATE_LIMITED = "rate_limited"
CONVERGED = frozenset({FetchStatus.OK, FetchStatus.NOT_FOUND, FetchStatus.BLOCKED, FetchStatus.INVALID})


@dataclass(frozen=True, kw_only=True, slots=True)
class URLTarget:
    """One URL to try again. URLs of one token are one group: they share its lease."""

    candidate: RetryableURL

    @property
    def key(self) -> str:
        """Token and URL together, since tokens share URLs."""
        return f"{self.candidate.address} {self.candidate.url}"

    @property
    def group(self) -> str:
        """The token."""
        return self.candidate.address


@dataclass(kw_only=True)
class Selection:
    """What one pass over the candidates found; only the targets are kept in memory."""

    targets: list[URLTarget] = field(default_factory=list)
    candidates: int = 0
    skipped_by_interval: int = 0
    not_processable: int = 0
    is_cut_short: bool = False


def select(
    candidates: Iterable[RetryableURL],
    *,
    is_processable: Callable[[str], bool],
    is_due: Callable[[RetryableURL], bool],
    limit: int,
    must_stop: Callable[[], bool] = lambda: False,
) -> Selection:
    """Pick the first `limit` candidates that are due and can be processed; count all of them.

    `must_stop` is asked now and then; when it says yes, what has not been looked at is not counted.
    """
    selection = Selection()
    for candidate in candidates:
        if selection.candidates % STOP_ASKED_EVERY == 0 and must_stop():
            selection.is_cut_short = True
            break
        selection.candidates += 1
        if not is_processable(candidate.url):
            selection.not_processable += 1
        elif not is_due(candidate):
            selection.skipped_by_interval += 1
        elif len(selection.targets) < limit:
            selection.targets.append(URLTarget(candidate=candidate))
    return selection


class Retry:
    """The use case; see the module docstring."""

    def __init__(
        self,
        *,
        redis: Redis,
        tokens: TokenRepository,
        collector: URLCollector,
        messenger: CeleryMessenger,
        clock: Clock,
        limits: FanOutLimits,
        backoff_factor: float = 1.0,
    ) -> None:
        self._redis = redis
        self._tokens = tokens
        self._collector = collector
        self._messenger = messenger
        self._clock = clock
        self._limits = limits
        self._backoff_factor = backoff_factor

    def run(self, job: RunningJob, request: CompleteRetryRequest) -> JobResult:
        """Run the job."""
        job.deadline_s = request.deadline_ms / 1000
        selection = select(
            self._tokens.iterate_retryable_urls(request.statuses, request.token_addresses),
            is_processable=lambda url: self._collector.obstacle_to(url) is None,
            is_due=self._is_due(request),
            limit=request.limit,
            must_stop=lambda: job.stop_reason() is not None,
        )
        cut_short = job.stop_reason() if selection.is_cut_short else None
        result = FanOutResult() if request.dry_run else self._fan_out(job, selection)
        meta = {
            "candidateUrls": selection.candidates,
            "skippedByInterval": selection.skipped_by_interval,
            "notProcessable": selection.not_processable,
            **_count(result, selection),
            "stoppedBy": cut_short or result.stopped_by or _end_of(selection),
            "queuedMs": job.queued_ms,
            "elapsedMs": job.elapsed_ms,
        }
        if request.dry_run:
            planned = [target.candidate for target in selection.targets]
            return dry_run_of([{"address": each.address, "url": each.url} for each in planned], meta)
        return JobResult(data=_rows(result), meta=to_meta(meta))

    def _is_due(self, request: CompleteRetryRequest) -> Callable[[RetryableURL], bool]:
        now = self._clock.now()
        shortest = timedelta(minutes=request.min_interval_minutes)
        interval = RetryInterval(shortest=shortest, factor=self._backoff_factor)
        return lambda candidate: interval.is_due(candidate, now)

    def _fan_out(self, job: RunningJob, selection: Selection) -> FanOutResult:
        fan_out = FanOut(
            self._redis,
            job,
            send=self._send,
            limits=self._limits,
            clock=self._clock,
            together=self._messenger.together,
        )
        return fan_out.run(selection.targets)

    def _send(self, target: Target, assignment: Assignment) -> None:
        if not isinstance(target, URLTarget):
            raise TypeError("the retry hands out URLs only")
        self._messenger.publish_member(
            task=RETRY_URL_TASK,
            arguments={"assignment": assignment.to_json(), "candidate": candidate_to_json(target.candidate)},
            queue="records",
        )


class URLRetrier:
    """Tries one URL again, under its token's lease and a claim on its element."""

    def __init__(
        self,
        *,
        leases: LeaseStore,
        tokens: TokenRepository,
        collector: URLCollector,
        clock: Clock,
        limits: RecordingLimits,
        meter: Meter | None = None,
    ) -> None:
        self._meter = meter or Meter(clock)
        self._leases = leases
        self._tokens = tokens
        self._collector = collector
        self._clock = clock
        self._limits = limits

    def lease_of(self, candidate: RetryableURL) -> LeaseWish:
        """The lease that trying the URL begins with."""
        return LeaseWish(name=token_lease(candidate.address), ttl_ms=self._limits.token_lease_ttl_ms)

    def retry(self, candidate: RetryableURL, job_id: str | None = None) -> dict[str, object]:
        """Try the URL and return `{outcome, status?, reason?}`; never raises for one URL's trouble.

        `job_id` is the job that asks, if one does.
        """
        with about(job=job_id, token=candidate.address, url=candidate.url):
            result = self._retry_guarded(candidate, job_id)
        if result["outcome"] == "processed":
            self._meter.count(URLS, "retried", route(candidate.url).platform, str(result["status"]))
        return result

    def _retry_guarded(self, candidate: RetryableURL, job_id: str | None) -> dict[str, object]:
        budget = Budget.of(self._clock, self._limits.budget_s)
        wish = self.lease_of(candidate)
        try:
            with self._leases.hold(wish.name, ttl_ms=wish.ttl_ms, is_released_behind=True) as lease:
                return self._retry_alone(candidate, job_id, lease, budget)
        except Busy:
            return {"outcome": "lockedOut"}
        except Exception as exc:
            log.warning(
                "a URL was not retried",
                extra={"token": candidate.address, "url": candidate.url},
                exc_info=exc,
            )
            return {"outcome": "failed", "reason": reason_of(exc)}

    def _retry_alone(
        self, candidate: RetryableURL, job_id: str | None, lease: Lease, budget: Budget
    ) -> dict[str, object]:
        """Claim, collect, decide, write. The claim counts the attempt before the call is made, so a URL
        that kills its worker is still counted."""
        if is_out_of_attempts(candidate.status, candidate.attempts, self._limits.max_attempts):
            return self._exhaust(candidate)
        claimed_at = self._clock.now()
        is_ours = self._tokens.claim_social_url(
            candidate.address,
            candidate.url,
            expected_status=candidate.status,
            expected_attempts=candidate.attempts,
            attempted_at=claimed_at,
        )
        if not is_ours:
            is_there = self._tokens.has_social_url(candidate.address, candidate.url)
            return {"outcome": "changed" if is_there else "url_gone"}
        order = URLOrder(
            token_address=candidate.address,
            token_name=candidate.symbol,
            first_transfer_at=candidate.first_transfer_at,
            url=candidate.url,
            earlier=EarlierTry(reason=candidate.reason, at=candidate.attempted_at),
            job_id=job_id,
        )
        outcome = self._collector.collect(order, lease, budget)
        status = resolve_final_status(
            candidate.attempts,
            outcome.status,
            attempted=outcome.attempted,
            max_attempts=self._limits.max_attempts,
        )
        lease.check()
        if not self._store(candidate, claimed_at, outcome, status):
            return {"outcome": "changed"}
        if _is_opened_in_vain(candidate, outcome):
            return {"outcome": "given_back", "reason": outcome.reason}
        return {"outcome": "processed", "status": status.value, "reason": outcome.reason}

    def _exhaust(self, candidate: RetryableURL) -> dict[str, object]:
        """End a URL whose last allowed attempt was counted and never ended: it took its worker with it."""
        status = FetchStatus.EXHAUSTED
        is_ended = candidate.attempted_at is not None and self._tokens.finish_claimed_url(
            candidate.address,
            candidate.url,
            claimed_attempts=candidate.attempts,
            claimed_at=candidate.attempted_at,
            status=status,
            reason="cut_off",
        )
        if not is_ended:
            return {"outcome": "changed"}
        return {"outcome": "processed", "status": status.value, "reason": "cut_off"}

    def _store(
        self, candidate: RetryableURL, claimed_at: datetime, outcome: FetchOutcome, status: FetchStatus
    ) -> bool:
        if outcome.attempted:
            return self._tokens.finish_claimed_url(
                candidate.address,
                candidate.url,
                claimed_attempts=candidate.attempts + 1,
                claimed_at=claimed_at,
                status=status,
                reason=outcome.reason,
            )
        is_closed_again = _is_opened_in_vain(candidate, outcome)
        return self._tokens.give_back_claim(
            candidate.address,
            candidate.url,
            claimed_attempts=candidate.attempts + 1,
            claimed_at=claimed_at,
            attempts=candidate.attempts,
            # A source that lets nobody in for a while would keep its URLs, the longest untried ones, in front
            # of everybody else; so they rest like tried ones.
            attempted_at=claimed_at if outcome.reason == RATE_LIMITED else candidate.attempted_at,
            status=candidate.status if is_closed_again else status,
            reason=candidate.reason if is_closed_again else outcome.reason,
        )


def _is_opened_in_vain(candidate: RetryableURL, outcome: FetchOutcome) -> bool:
    """Whether a URL that somebody has opened again was not tried after all; it stays closed then."""
    return candidate.status.is_absorbing and not outcome.attempted and not outcome.status.is_absorbing


def candidate_to_json(candidate: RetryableURL) -> dict[str, object]:
    """The form that travels in the message of one member."""
    return {
        "address": candidate.address,
        "symbol": candidate.symbol,
        "first_transfer_at": to_iso(candidate.first_transfer_at) if candidate.first_transfer_at else None,
        "url": candidate.url,
        "status": candidate.status.value,
        "attempts": candidate.attempts,
        "attempted_at": to_iso(candidate.attempted_at) if candidate.attempted_at else None,
        "reason": candidate.reason,
    }


def candidate_from_json(values: dict[str, str | int | None]) -> RetryableURL:
    """Read what `candidate_to_json` wrote."""
    first_transfer_at, attempted_at = values["first_transfer_at"], values["attempted_at"]
    symbol, reason = values["symbol"], values["reason"]
    return RetryableURL(
        address=str(values["address"]),
        symbol=None if symbol is None else str(symbol),
        first_transfer_at=from_iso(str(first_transfer_at)) if first_transfer_at else None,
        url=str(values["url"]),
        status=FetchStatus(str(values["status"])),
        attempts=int(values["attempts"] or 0),
        attempted_at=from_iso(str(attempted_at)) if attempted_at else None,
        reason=None if reason is None else str(reason),
    )


def _end_of(selection: Selection) -> StoppedBy:
    due = selection.candidates - selection.skipped_by_interval - selection.not_processable
    return StoppedBy.LIMIT if due > len(selection.targets) else StoppedBy.DRAINED


def _count(result: FanOutResult, selection: Selection) -> dict[str, object]:
    """Count outcomes so that the candidates are the sum of the four groups they fall into."""
    kinds = Counter(str(outcome["outcome"]) for outcome in result.outcomes.values())
    by_status = Counter(
        str(outcome["status"]) for outcome in result.outcomes.values() if outcome["outcome"] == "processed"
    )
    processed = kinds["processed"]
    skipped = selection.skipped_by_interval + selection.not_processable
    return {
        "processed": processed,
        "converged": sum(by_status[status] for status in CONVERGED),
        "exhausted": by_status[FetchStatus.EXHAUSTED],
        "lockedOut": kinds["lockedOut"],
        "lost": len(result.lost),
        "remaining": selection.candidates - skipped - processed,
        "byStatus": dict(by_status),
    }


def _rows(result: FanOutResult) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for key, outcome in [*result.outcomes.items(), *((key, {"outcome": "lost"}) for key in result.lost)]:
        address, _, url = key.partition(" ")
        rows.append({"address": address, "url": url, **outcome})
    return rows
