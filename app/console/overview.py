"""The first page: what is ready, what runs, what has not converged and why, and what will happen next.

Each part of it is read on its own, so that a store that is away takes only its own parts with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from flask import Flask, Response, abort, current_app, redirect, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from app.console.blueprint import blueprint, page, status_and_code
from app.console.history_charts import HOURS, chart_of_calls, chart_of_jobs, chart_of_paid_calls
from app.console.job_history import without_rows
from app.console.jobs import available_forms, headline, recent_jobs
from app.console.long_looks import expect_sign_of_life, hear_from_the_store, time_left_s
from app.console.upcoming import Upcoming, upcoming
from app.process import this_process
from celeryconfig import SCHEDULE
from workers.base58 import is_public_key
from workers.clock import Clock
from workers.errors import ConvergeError
from workers.jobs.service import Job
from workers.latest_look import LatestLook, Seen
from workers.services import JobAccess
from workers.social_graph.vocabulary import FetchStatus, Platform
from workers.social_recording.overview import URLCounts

HISTORY_GOOD_FOR_S = 60.0
HISTORY_JOBS_MAX = 500
JOBS_AT_ONCE = 100
REASONS_SHOWN = 12
FUNDINGS_COUNTED = 50
FUNDING_TASK = "converge.schedule.funding_reconciliation"
UNFINISHED = tuple(status for status in FetchStatus if status is not FetchStatus.OK)
# These two are a reason in themselves: nobody was asked, so nobody gave one.
NOBODY_ASKED = (FetchStatus.SKIPPED_PAID, FetchStatus.UNSUPPORTED)
_HISTORY = "converge.console.history"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Part(Generic[T]):
    """One part of the page: what was seen; or nothing yet; or why it cannot be seen."""

    value: T | None = None
    at: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """How many URLs of a platform are not ok for one reason; without a code the status says it all."""

    status: FetchStatus
    code: str | None
    platform: Platform
    urls: int


def prepare(app: Flask, access: JobAccess) -> None:
    """Give the app its memory of the last hours' jobs; asks nobody."""
    app.extensions[_HISTORY] = LatestLook(lambda: _history(access), Clock(), good_for_s=HISTORY_GOOD_FOR_S)


@blueprint.get("/")
def home() -> AnyResponse:
    """The first page under the address that people also type."""
    return redirect(url_for("console.overview"), 303)


@blueprint.get("")
def overview() -> Response:
    """Everything at a glance."""
    access = this_process().access
    hear_from_the_store()
    access.overview.begin()
    _history_of_jobs().begin()
    values = {**_current(), **_next(), **_urls(), **_past(), "forms": available_forms(access)}
    return page("overview.html", http_status=_status_of(values), **values)


@blueprint.get("/live/<part>")
def live_part(part: str) -> Response:
    """One part of the first page as it is now."""
    parts: Mapping[str, Callable[[], dict[str, Any]]] = {
        "jobs": _current,
        "next": _next,
        "urls": _urls,
        "reasons": _urls,
    }
    if part not in parts:
        abort(404, f"The overview has no part {part}.")
    values = parts[part]()
    return page(f"overview_{part}.html", http_status=_status_of(values), **values)


@blueprint.get("/find")
def find() -> AnyResponse:
    """Lead to the token with this address, or to the object that this URL leads to."""
    text = request.args.get("q", "").strip()
    if is_public_key(text):
        return redirect(url_for("console.show_token", address=text), 303)
    found = this_process().access.overview.find_object(text) if text else None
    if found is None:
        return page("nothing_found.html", http_status=404 if text else 200, text=text)
    kind, object_id = found
    return redirect(url_for("console.show_object", kind=kind.value, object_id=object_id), 303)


def _current() -> dict[str, Any]:
    """What runs and waits."""
    access = this_process().access
    return {
        "jobs": _part_of(lambda: recent_jobs(access)),
        "queues": _part_of(access.vitals.queue_lengths),
        "headline": headline,
    }


def _next() -> dict[str, Any]:
    """What is ready, and what will happen."""
    process = this_process()
    settings, overview = process.access.settings, process.access.overview
    funding = process.access.funding
    overview.begin()
    return {
        "blocked": _part_of(lambda: funding.blocked(limit=FUNDINGS_COUNTED) if funding.is_configured else []),
        "fundings_counted": FUNDINGS_COUNTED,
        "checks": process.readiness.latest(),
        "next_runs": _next_runs(),
        "schedule_is_on": settings.schedule_is_on,
        "retry_limit": settings.social_record_retry_limit,
        "forecast": _seen(lambda: overview.forecast(wait_s=time_left_s()), in_graph=True),
    }


def _urls() -> dict[str, Any]:
    """Where the URLs stand, and why those that are not ok are not."""
    overview = this_process().access.overview
    counts = _seen(lambda: overview.counts(wait_s=time_left_s()), in_graph=True)
    return {
        "counts": counts,
        "matrix": _matrix_of(counts),
        "reasons": _reasons_of(counts),
        "statuses": list(FetchStatus),
        "pays": this_process().access.settings.social_record_enable_paid,
    }


def _past() -> dict[str, Any]:
    """What can be drawn of the last hours."""
    access = this_process().access
    history = _seen(lambda: _history_of_jobs().latest(wait_s=time_left_s()))
    calls = _part_of(lambda: access.telemetry.calls_by_hour(HOURS))
    charts = [
        chart_of_jobs(history.value or [], Clock().now()),
        chart_of_calls(calls.value or []),
        chart_of_paid_calls(calls.value or []),
    ]
    return {"history": history, "calls": calls, "charts": [chart for chart in charts if chart is not None]}


def _next_runs() -> list[Upcoming]:
    """What the schedule sends next, without what would find nothing to do here."""
    access = this_process().access
    if not access.settings.schedule_is_on:
        return []
    runs = upcoming(SCHEDULE, Clock().now())
    return [each for each in runs if access.funding.is_configured or each.task != FUNDING_TASK]


def _history_of_jobs() -> LatestLook[list[Job]]:
    found: LatestLook[list[Job]] = current_app.extensions[_HISTORY]
    return found


def _status_of(values: Mapping[str, object]) -> int:
    """A page of which a part cannot be read is no success, however much else is on it."""
    return 503 if any(isinstance(value, Part) and value.problem for value in values.values()) else 200


def _part_of(look: Callable[[], T]) -> Part[T]:
    """The part, or why it cannot be read now. Our own faults are no matter of a part."""
    try:
        return Part(value=look())
    except ConvergeError as exc:
        if status_and_code(exc)[0] < 500:
            raise
        return Part(problem=str(exc))


def _seen(look: Callable[[], Seen[T] | None], *, in_graph: bool = False) -> Part[T]:
    """The part as it was seen last. While nothing is known, the graph's store has to show that it lives."""
    part = _part_of(look)
    if part.value is None and not part.problem and in_graph:
        part = Part(problem=_part_of(expect_sign_of_life).problem)
    return Part(
        value=part.value.value if part.value else None,
        at=part.value.at if part.value else None,
        problem=part.problem,
    )


def _matrix_of(counts: Part[URLCounts]) -> list[tuple[Platform, list[int], int]]:
    """Platforms with their URLs by status, those that have any."""
    if counts.value is None:
        return []
    rows = [
        (platform, [counts.value.number(platform, status) for status in FetchStatus]) for platform in Platform
    ]
    return [(platform, numbers, sum(numbers)) for platform, numbers in rows if any(numbers)]


def _reasons_of(counts: Part[URLCounts]) -> list[Why]:
    """Why URLs are not ok, the most frequent reasons first."""
    if counts.value is None:
        return []
    given = counts.value.reasons(*UNFINISHED)
    unasked = [
        (status, None, platform, urls)
        for platform, status, code, urls in counts.value.groups
        if code is None and status in NOBODY_ASKED
    ]
    found = [
        Why(status=status, code=code, platform=platform, urls=urls)
        for status, code, platform, urls in (*given, *unasked)
    ]
    return sorted(found, key=lambda why: (-why.urls, why.status, why.code or "", why.platform))[
        :REASONS_SHOWN
    ]


def _history(access: JobAccess) -> list[Job]:
    """The newest jobs, a bounded number of them."""
    found: list[Job] = []
    before: int | None = None
    while len(found) < HISTORY_JOBS_MAX:
        jobs, before = access.jobs.list_jobs(kind=None, state=None, limit=JOBS_AT_ONCE, before=before)
        found += map(without_rows, jobs)
        if before is None:
            break
    return found
