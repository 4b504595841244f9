"""Apify: runs other people's scrapers ("actors") for money and reads what they found.

A run is started, waited for and read in three kinds of calls, and only the first costs money. The run is
noted before and after that call (`apify_runs`), so an attempt that dies leaves a run that the next attempt
finds again. The invariant: one attempt starts at most one run, and none while an earlier one may be of use.

Facts: https://docs.apify.com/api/v2/act-runs-post, /actor-run-get, /dataset-items-get, /act-runs-get.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from workers.clock import to_iso
from workers.errors import FetchFailed, RetryableError
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.http.retry import PAID
from workers.settings import Settings
from workers.social_recording.generators.apify.answers import (
    REASONS_OF_ENDS,
    SOURCE,
    Findings,
    Item,
    Question,
    Run,
    is_unknown_record,
    judge,
    read_items,
    read_run,
    read_runs,
    record_path,
)
from workers.social_recording.generators.apify.runs import RunMemory, RunNote
from workers.social_recording.generators.generator import FetchContext

log = logging.getLogger(__name__)

T = TypeVar("T")

# The most that one run may cost, in dollars, and how long it may go on, in seconds.
CHARGE_MAX_USD = "0.05"
RUN_TIMEOUT_S = 120
# How long one attempt waits for a run. The run's own end comes first, unless Apify keeps it waiting.
RUN_WAIT_MAX_S = 150.0
# The longest wait that Apify grants to one question about a run.
POLL_WAIT_MAX_S = 60
# Runs are not asked about more often than this, however fast the answers come.
POLL_EVERY_S = 1.0
# What a call may take beyond the wait that it asks for, and what is left of a budget to read the result in.
ANSWER_MARGIN_S = 10.0
READING_RESERVE_S = 5.0
# A run that nobody has read is kept for the next day's attempts; one that was read only for the case that its
# reader died before it could store what it read.
UNREAD_RUN_KEPT_S = 86_400
READ_RUN_KEPT_S = 10_800
# A dataset holds a few items of up to some hundred kilobytes.
DATASET_BYTES_MAX = 8_388_608
DATASET_ITEMS_MAX = 100
# Among how many runs one is looked for whose id was lost, and by how much clocks may differ.
LOST_AMONG_MAX = 20
CLOCK_SKEW = timedelta(minutes=2)


class _NothingFound(FetchFailed):
    """A run is over and says nothing about what was asked."""


class Apify:
    """Asks actors. One for a process; safe for any number of threads."""

    def __init__(self, http: OutboundClient, settings: Settings, runs: RunMemory) -> None:
        self._http = http
        self._runs = runs
        self._base_url = settings.apify_base_url
        self.has_key = settings.apify_token is not None
        self._headers = {"Accept": "application/json"}
        if settings.apify_token is not None:
            self._headers["Authorization"] = f"Bearer {settings.apify_token.get_secret_value()}"

    def ask(self, question: Question, read: Callable[[Findings], T], context: FetchContext) -> T:
        """Find what an earlier attempt paid for, else pay for a run; wait for it and return what `read` makes
        of its findings.

        When `read` raises `FetchFailed`, the run is of no use and the next attempt pays for another one.

        Raises what `read` raises; `FetchFailed` (`run_unfinished` when the run goes on longer than an attempt
        may wait; `empty_dataset`, `run_failed`, `run_aborted`, `run_timed_out` when it is over and says
        nothing about the target; and what any source may fail with); `CreditExhausted`; `BudgetExceeded`; and
        `RetryableError` when the memory of runs cannot be asked.
        """
        earlier = self._earlier_run(question, context)
        if earlier is not None:
            with suppress(_NothingFound):
                return self._reading_of(earlier, question, read, context)
        return self._reading_of(self._start(question, context), question, read, context)

    def text_of_record(self, url: str, context: FetchContext) -> str | None:
        """A text that an actor stored beside its dataset; None when it is not there (any more).

        `url` is its address at Apify, as in an item. Raises as any call does.
        """
        path = record_path(url)
        if path is None:
            return None
        response = self._get(path, context)
        if response.status == 200:
            return response.text()
        if not is_unknown_record(response):
            judge(response)
        return None

    def _earlier_run(self, question: Question, context: FetchContext) -> Run | None:
        note = self._runs.recall(question.name)
        if note is None:
            return None
        if note.run_id is not None:
            run = self._known_run(note.run_id, context)
        else:
            run = self._lost_run(question, note, context)
            if run is not None:
                self._note(question, replace(note, run_id=run.id), UNREAD_RUN_KEPT_S)
        if run is not None:
            log.info("a run that was paid for is taken up again", extra=_facts(question, run))
        return run

    def _known_run(self, run_id: str, context: FetchContext) -> Run | None:
        response = self._get(f"/actor-runs/{run_id}", context)
        return None if is_unknown_record(response) else read_run(judge(response))

    def _lost_run(self, question: Question, note: RunNote, context: FetchContext) -> Run | None:
        """The run whose start was never answered: the first one since then with the same input."""
        begun_at = note.begun_at - CLOCK_SKEW
        query = {"limit": str(LOST_AMONG_MAX), "startedAfter": to_iso(begun_at)}
        listed = read_runs(judge(self._get(f"/acts/{question.actor}/runs", context, query=query)))
        for run in listed[:LOST_AMONG_MAX]:
            if run.started_at is None or run.started_at < begun_at or run.default_key_value_store_id is None:
                continue
            response = self._get(f"/key-value-stores/{run.default_key_value_store_id}/records/INPUT", context)
            if not is_unknown_record(response) and question.is_input(judge(response)):
                return run
        return None

    def _start(self, question: Question, context: FetchContext) -> Run:
        """Start a run, the one call that costs money. It is never repeated."""
        context.budget.check()
        note = RunNote(begun_at=context.budget.clock.now())
        self._runs.keep(question.name, note, ttl_s=UNREAD_RUN_KEPT_S)
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            method="POST",
            url=f"{self._base_url}/acts/{question.actor}/runs",
            query={
                "maxItems": str(question.items_max),
                "maxTotalChargeUsd": CHARGE_MAX_USD,
                "timeout": str(RUN_TIMEOUT_S),
            },
            headers=self._headers,
            json_body=dict(question.input),
            retry=PAID,
        )
        response = self._http.fetch(request, context.budget, context.calls.add)
        if 400 <= response.status < 500 and response.status != 408:
            # Apify says that it has not started anything; any other failure leaves that open.
            self._runs.forget(question.name)
        run = read_run(judge(response))
        log.info("a paid run was started", extra=_facts(question, run))
        self._note(question, replace(note, run_id=run.id), UNREAD_RUN_KEPT_S)
        return run

    def _reading_of(
        self, run: Run, question: Question, read: Callable[[Findings], T], context: FetchContext
    ) -> T:
        """What `read` makes of a run, once it is over, however it ended."""
        run = self._wait_for(run, context)
        items, received_at = self._items_of(run, context)
        self._note(question, RunNote(begun_at=received_at, run_id=run.id), READ_RUN_KEPT_S)
        answers = tuple(item for item in items if question.is_answered_by(item))
        try:
            if not answers:
                raise _NothingFound(
                    f"a run of {question.actor} ended without a word about what was asked",
                    reason=REASONS_OF_ENDS[run.status],
                )
            return read(Findings(items=answers, looked_at=min(run.finished_at or received_at, received_at)))
        except FetchFailed:
            self._runs.forget(question.name)
            log.warning("a paid run was of no use", extra={**_facts(question, run), "items": len(items)})
            raise

    def _wait_for(self, run: Run, context: FetchContext) -> Run:
        clock, budget = context.budget.clock, context.budget
        give_up_at = clock.monotonic() + RUN_WAIT_MAX_S
        while not run.is_over:
            asked_at = clock.monotonic()
            wait_s = int(min(POLL_WAIT_MAX_S, give_up_at - asked_at, budget.remaining_s - READING_RESERVE_S))
            if wait_s < 1:
                raise FetchFailed("a run takes longer than an attempt may wait", reason="run_unfinished")
            response = self._get(
                f"/actor-runs/{run.id}",
                context,
                query={"waitForFinish": str(wait_s)},
                timeout_s=wait_s + ANSWER_MARGIN_S,
            )
            run = read_run(judge(response))
            pause_s = POLL_EVERY_S - (clock.monotonic() - asked_at)
            if not run.is_over and pause_s > 0:
                budget.sleep(pause_s)
        return run

    def _items_of(self, run: Run, context: FetchContext) -> tuple[list[Item], datetime]:
        if run.default_dataset_id is None:
            raise FetchFailed("a run of apify names no dataset", reason="unexpected_shape")
        response = self._get(
            f"/datasets/{run.default_dataset_id}/items",
            context,
            query={"clean": "true", "limit": str(DATASET_ITEMS_MAX)},
        )
        return read_items(judge(response)), response.received_at

    def _get(
        self,
        path: str,
        context: FetchContext,
        *,
        query: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """One of the calls that cost nothing and may be repeated."""
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}{path}",
            query=query or {},
            headers=self._headers,
            body_max_bytes=DATASET_BYTES_MAX,
            timeout_s=timeout_s,
            read_timeout_s=timeout_s,
        )
        return self._http.fetch(request, context.budget, context.calls.add)

    def _note(self, question: Question, note: RunNote, ttl_s: int) -> None:
        """Note what is known of a run that is there already; it is worth more than the note about it."""
        try:
            self._runs.keep(question.name, note, ttl_s=ttl_s)
        except RetryableError as exc:
            log.warning("a paid run could not be noted", extra={"error": repr(exc)})


def _facts(question: Question, run: Run) -> dict[str, object]:
    return {"actor": question.actor, "target": question.target, "run": run.id, "run_status": run.status}
