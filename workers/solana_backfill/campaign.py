"""The backfill job: one campaign, from signatures to stored transactions.

    discovery (pages) -> what is stored already -> hydration (a pool of threads) -> summary

Its progress is the existence of stored transactions; nothing else is remembered. So a campaign that was
stopped, or failed half-way, is simply asked for again: with the same parameters, or from where the summary
says that everything before is settled. The job's own thread never calls anybody, so a stop ends it within a
second, whatever its threads are waiting for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workers.clock import Clock
from workers.errors import JobFailed, UpstreamFailed
from workers.jobs.run import JobResult, RunningJob, StoppedBy, to_meta
from workers.solana_backfill.campaign_words import (
    CandidateOutcome,
    Direction,
    HistoryEnd,
    Mode,
    filter_code_of,
)
from workers.solana_backfill.crew import Crew
from workers.solana_backfill.discovery import Discovery, Found, Search, TooManyPages, UnknownBound
from workers.solana_backfill.hydration import Hydration, ObservedAs
from workers.solana_backfill.job_kinds import (
    BACKFILL_NOT_CONFIGURED,
    BackfillNotConfigured,
    CompleteBackfillRequest,
    EndpointNotFound,
)
from workers.solana_backfill.ledger import Ledger, Settled
from workers.solana_backfill.observations import ObservationRepository
from workers.solana_backfill.rpc import RPCClient, RPCSession
from workers.solana_backfill.signature_page import ListedSignature
from workers.solana_backfill.transactions import TransactionRepository

ANCHOR_NOT_FOUND = "ANCHOR_NOT_FOUND"
MAX_PAGES_REACHED = "MAX_PAGES_REACHED"
UPSTREAM_FAILED = "UPSTREAM_FAILED"
# A result is kept for polling; what it does not show is in the observations.
ROWS_MAX = 1000
_TO_LOOK_AT = (CandidateOutcome.MISSING, CandidateOutcome.FAILED, CandidateOutcome.CANCELLED)


@dataclass(frozen=True, kw_only=True, slots=True)
class BackfillParts:
    """What a campaign works with; `clients` by their endpoint's role."""

    clients: Mapping[str, RPCClient]
    transactions: TransactionRepository
    observations: ObservationRepository
    clock: Clock
    random: Callable[[], float]


class Backfill:
    """The use case; see the module docstring."""

    def __init__(self, parts: BackfillParts) -> None:
        self._parts = parts

    def run(self, job: RunningJob, request: CompleteBackfillRequest) -> JobResult:
        """Run the job.

        Raises `JobFailed` with `ANCHOR_NOT_FOUND`, `MAX_PAGES_REACHED` or `UPSTREAM_FAILED`, and what the
        stores raise; what was stored by then stays.
        """
        client = self._parts.clients.get(request.role)
        if client is None:
            not_there = EndpointNotFound(request.role) if self._parts.clients else BackfillNotConfigured()
            raise JobFailed.because(BACKFILL_NOT_CONFIGURED, str(not_there))
        campaign = _Campaign(self._parts, job, request, client)
        try:
            return campaign.run()
        except UnknownBound as exc:
            raise JobFailed.because(ANCHOR_NOT_FOUND, str(exc)) from exc
        except TooManyPages as exc:
            raise JobFailed.because(MAX_PAGES_REACHED, str(exc)) from exc
        except UpstreamFailed as exc:
            raise JobFailed.because(UPSTREAM_FAILED, f"{exc}; {campaign.how_far()}") from exc


class _Campaign:
    """One run of the job."""

    def __init__(
        self, parts: BackfillParts, job: RunningJob, request: CompleteBackfillRequest, client: RPCClient
    ) -> None:
        self._parts = parts
        self._job = job
        self._request = request
        self._halt = threading.Event()
        self._session: RPCSession = client.open_session(request.commitment, self._halt)
        self._filter_code = filter_code_of(request.mode, request.direction, request.anchor)
        self._found = Found(end=HistoryEnd.REACHED, is_finished=True)
        self._known: frozenset[str] = frozenset()
        self._ledger = Ledger(())

    def run(self) -> JobResult:
        """Search, hydrate, sum up."""
        crew = Crew(stopping=self._job.stopping, halt=self._halt, on_tick=self._report)
        try:
            candidates = self._select(crew)
            self._ledger = Ledger(candidates)
            self._job.total = len(candidates)
            if not self._halt.is_set():
                crew.run([self._look_up(candidates)])
            if not self._request.dry_run and not self._halt.is_set():
                self._hydrate(crew, candidates)
        finally:
            self._halt.set()
            self._ledger.close()
            self._report()
        return self._planned(candidates) if self._request.dry_run else self._summary()

    def how_far(self) -> str:
        """For people who read why it failed: how far it came, and how it goes on."""
        counts = self._ledger.counts()
        points = [f"{name} {signature}" for name, signature in self._resume_points().items() if signature]
        return ", ".join([f"{counts.completed} of {counts.selected} signatures were completed", *points])

    def _select(self, crew: Crew) -> Sequence[ListedSignature]:
        request = self._request
        if request.signatures is not None:
            return [ListedSignature(signature=signature) for signature in request.signatures]
        search = Search(
            address=request.address or "",
            direction=request.direction or Direction.BEFORE,
            anchor=request.anchor,
            limit=request.limit or 0,
            pages_max=request.max_pages or 0,
            include_failed=request.include_failed,
        )
        discovery = Discovery(
            self._session, self._parts.transactions, self._parts.clock, search, random=self._parts.random
        )
        self._found = discovery.found
        crew.run([discovery.run])
        return discovery.selected

    def _look_up(self, candidates: Sequence[ListedSignature]) -> Callable[[], None]:
        def look_up() -> None:
            self._known = self._parts.transactions.find_known([each.signature for each in candidates])

        return look_up

    def _hydrate(self, crew: Crew, candidates: Sequence[ListedSignature]) -> None:
        hydration = Hydration(
            session=self._session,
            ledger=self._ledger,
            known=self._known,
            transactions=self._parts.transactions,
            observations=self._parts.observations,
            clock=self._parts.clock,
            observed_as=ObservedAs(
                session_id=self._job.id,
                filter_code=self._filter_code,
                is_listed=self._request.mode is not Mode.SIGNATURES,
            ),
            random=self._parts.random,
        )
        threads = min(self._session.endpoint.max_concurrent_requests, len(candidates))
        if not threads:
            return
        try:
            crew.run([hydration.work] * threads)
        except UpstreamFailed:
            self._ledger.close(reopened=hydration.doubtful)
            raise

    def _report(self) -> None:
        """Show the progress; the job's watcher writes it out."""
        counts = self._ledger.counts()
        self._job.done = counts.completed
        self._job.counts = {
            "pages": self._found.pages,
            "inspected": self._found.inspected,
            "selected": counts.selected,
            "started": counts.started,
            "completed": counts.completed,
        }

    def _planned(self, candidates: Sequence[ListedSignature]) -> JobResult:
        """The result of a job that only looked."""
        wanted = [each for each in candidates if each.signature not in self._known]
        rows = [{**_row(each), "outcome": "planned"} for each in wanted[:ROWS_MAX]]
        meta = {
            **self._meta(),
            "alreadyPresent": len(candidates) - len(wanted),
            "dryRun": True,
            "planned": len(wanted),
            "rowsLeftOut": len(wanted) - len(rows),
        }
        return JobResult(data=rows, meta=to_meta(meta))

    def _summary(self) -> JobResult:
        started = list(self._ledger.started())
        shown = started
        if len(started) > ROWS_MAX:
            shown = [each for each in started if each[1].outcome in _TO_LOOK_AT][:ROWS_MAX]
        rows = [_row(listed, settled) for listed, settled in shown]
        meta = {**self._meta(), "rowsLeftOut": len(started) - len(rows)}
        return JobResult(data=rows, meta=to_meta(meta))

    def _meta(self) -> dict[str, object]:
        found, counts = self._found, self._ledger.counts()
        return {
            "mode": self._request.mode,
            "filterCode": self._filter_code,
            "commitment": self._request.commitment,
            "role": self._request.role,
            "provider": self._session.endpoint.provider,
            "endpoint": self._session.endpoint.address,
            "pages": found.pages,
            "inspected": found.inspected,
            "repeated": found.repeated,
            "leftOut": found.left_out,
            "historyEnd": found.end,
            "note": found.note,
            "selected": counts.selected,
            "started": counts.started,
            "completed": counts.completed,
            "cancelled": counts.cancelled,
            "notStarted": counts.not_started,
            **{
                outcome.value: counts.by_outcome[outcome]
                for outcome in CandidateOutcome
                if outcome is not CandidateOutcome.CANCELLED
            },
            "calls": dict(sorted(self._session.calls.items())),
            "rateLimited": self._session.refusals,
            **self._resume_points(),
            "stoppedBy": self._stopped_by(),
            "queuedMs": self._job.queued_ms,
            "elapsedMs": self._job.elapsed_ms,
        }

    def _resume_points(self) -> dict[str, str | None]:
        """The anchor of a next campaign of the same direction, by its name. An explicit list needs none."""
        direction, point = self._request.direction, self._ledger.resume_point(self._request.anchor)
        return {
            "resumeBeforeSignature": point if direction is Direction.BEFORE else None,
            "resumeAfterSignature": point if direction is Direction.AFTER else None,
        }

    def _stopped_by(self) -> StoppedBy:
        counts = self._ledger.counts()
        is_cut_short = counts.cancelled or counts.not_started or not self._found.is_finished
        reason = self._job.stop_reason()
        if reason is not None and is_cut_short:
            return reason
        if self._found.is_limited:
            return StoppedBy.LIMIT
        is_at_end = self._found.end is not HistoryEnd.NOT_REACHED
        return StoppedBy.DRAINED if is_at_end else StoppedBy.MAX_PAGES


def _row(listed: ListedSignature, settled: Settled | None = None) -> dict[str, object]:
    row: dict[str, object] = {"signature": listed.signature, "slot": listed.slot}
    if settled is not None:
        row["outcome"] = settled.outcome.value
    if settled is not None and settled.reason is not None:
        row["reason"] = settled.reason
    return row
