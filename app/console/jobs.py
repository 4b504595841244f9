"""Jobs: which there are, one with its progress, starting one, stopping one."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from flask import Response, abort, redirect, request, url_for
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from werkzeug.wrappers import Response as AnyResponse

from app.api.jobs import JobPath
from app.console.blueprint import blueprint, page, status_and_code
from app.console.forms import FORMS, JobForm, Refused, body_of, key_of, request_of
from app.console.job_history import meta_of
from app.process import this_process
from workers.clock import Clock
from workers.errors import ConvergeError, InvalidInput, LockUnavailable
from workers.funding.errors import PropertyNotFound
from workers.funding.job_kinds import FUNDING_RECONCILE, FundingReconcileRequest
from workers.jobs.record import JobState
from workers.jobs.service import Job
from workers.services import JOB_KINDS, JobAccess
from workers.social_recording.job_kinds import RECONCILE, RETRY, ReconcileRequest, RetryRequest
from workers.solana_backfill.job_kinds import BACKFILL, BackfillRequest

JOBS_PER_PAGE = 30
ROWS_PER_PAGE = 100
# A job that runs is among the newest ones, unless it runs for long; then the lease of its kind names it.
RECENT_JOBS = 30
ENDED_JOBS_SHOWN = 5
# What a line about an ended job tells of its counts, in this order, where there is anything to tell.
_HEADLINES = (
    "planned",
    "recorded",
    "converged",
    "persisted",
    "alreadyPresent",
    "synced",
    "fixed",
    "exhausted",
    "missing",
    "failed",
    "unresolved",
    "lockedOut",
    "lost",
    "remaining",
)
_CURSOR = re.compile("[0-9a-f]{1,16}")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTable:
    """The rows of a result, of which each may have other columns."""

    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, object]]
    first: int
    of: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RecentJobs:
    """The jobs that run or wait, and the last that ended; newest first."""

    current: Sequence[Job]
    ended: Sequence[Job]


@blueprint.get("/jobs")
def list_jobs() -> Response:
    """A page of jobs, newest first."""
    kind = request.args.get("kind") or None
    state = _state_of(request.args.get("state", ""))
    before = request.args.get("before", "")
    if before and not _CURSOR.fullmatch(before):
        abort(400, "There is no such place in the list.")
    found, following = this_process().access.jobs.list_jobs(
        kind=kind, state=state, limit=JOBS_PER_PAGE, before=int(before, 16) if before else None
    )
    asked: dict[str, Any] = {"kind": kind, "state": state and state.value}
    return page(
        "jobs.html",
        jobs=found,
        kinds=sorted(JOB_KINDS),
        kind=kind,
        state=state,
        is_first=not before,
        first_page=url_for("console.list_jobs", **asked),
        next_page=following and url_for("console.list_jobs", **asked, before=f"{following:x}"),
        headline=headline,
        forms=available_forms(this_process().access),
    )


@blueprint.get("/jobs/<job_id>")
def show_job(job_id: str) -> Response:
    """One job, and its result when it has ended."""
    return page("job.html", **_shown(job_id))


@blueprint.get("/jobs/<job_id>/live")
def live_job(job_id: str) -> Response:
    """The part of the job's page that changes."""
    return page("job_live.html", **_shown(job_id))


@blueprint.post("/jobs/<job_id>/cancel")
def cancel_job(job_id: str) -> AnyResponse:
    """Ask the job to stop; what is in work is finished."""
    job = this_process().access.jobs.cancel(_id_of(job_id))
    return redirect(url_for("console.show_job", job_id=job.record.id), 303)


@blueprint.get("/start/<slug>")
def start_form(slug: str) -> Response:
    """An empty form, or one with what the link to it says."""
    form = _form_of(slug)
    values = {each.name: request.args.getlist(each.name) for each in form.fields}
    if slug == "reconcile":
        values = _last_day() | {name: given for name, given in values.items() if given}
    return _form_page(form, values)


@blueprint.post("/start/<slug>")
def start_job(slug: str) -> AnyResponse:
    """Start the job and lead to it; or show the form again with what is not acceptable."""
    form = _form_of(slug)
    body = body_of(form, request.form, dry_run=request.form.get("what") == "look")
    values = {each.name: request.form.getlist(each.name) for each in form.fields}
    try:
        job = _submit(request_of(form, body), key_of(_ticket(request.form.get("ticket", "")), body))
    except Refused as exc:
        return _form_page(form, values, status=400, problems=exc.by_field)
    except PropertyNotFound as exc:
        return _form_page(form, values, status=404, problems={"propertyIds": str(exc)})
    except InvalidInput as exc:
        return _form_page(
            form, values, status=status_and_code(exc)[0], problems={to_camel(exc.field): str(exc)}
        )
    except ConvergeError as exc:
        status, code = status_and_code(exc)
        if status == 500:
            raise
        return _form_page(form, values, status=status, failure=f"{exc} ({code})")
    return redirect(url_for("console.show_job", job_id=job.record.id), 303)


def available_forms(access: JobAccess) -> list[JobForm]:
    """The forms of the kinds that can run here."""
    return [form for form in FORMS.values() if why_not(access, form) is None]


def why_not(access: JobAccess, form: JobForm) -> str | None:
    """What keeps jobs of this kind from running here; None when nothing does."""
    if form.kind == BACKFILL.name and access.settings.solana_endpoints is None:
        return "SOLANA_ENDPOINTS is not set, so there is nobody to ask for transactions."
    if form.kind == FUNDING_RECONCILE.name and not access.funding.is_configured:
        return "FUNDING_DATABASE_URL is not set, so there are no fundings here."
    return None


def recent_jobs(access: JobAccess) -> RecentJobs:
    """What runs and what has just ended. Raises `BrokerUnavailable`."""
    recent, _ = access.jobs.list_jobs(kind=None, state=None, limit=RECENT_JOBS, before=None)
    known = {job.record.id: job for job in recent if not job.state.is_final}
    for kind in JOB_KINDS.values():
        job_id = _holder(access, kind.lease)
        if job_id is not None and job_id not in known:
            known |= {record.id: access.jobs.get(record.id) for record in access.store.get_many([job_id])}
    current = [job for job in known.values() if not job.state.is_final]
    return RecentJobs(
        current=sorted(current, key=lambda job: job.record.created_at, reverse=True),
        ended=[job for job in recent if job.state.is_final][:ENDED_JOBS_SHOWN],
    )


def headline(job: Job) -> list[tuple[str, int]]:
    """The counts that a line about the job shows; while it runs those that it tells meanwhile."""
    counts = meta_of(job) or job.record.counts
    found = [(name, counts.get(name)) for name in _HEADLINES]
    return [(name, value) for name, value in found if isinstance(value, int) and value]


def _holder(access: JobAccess, lease_name: str) -> str | None:
    """The job that holds the lease of a kind."""
    try:
        lease = access.leases.find(lease_name)
    except LockUnavailable:
        return None
    return None if lease is None else lease.holder.partition(":")[0]


def _shown(job_id: str) -> dict[str, Any]:
    job = this_process().access.jobs.get(_id_of(job_id))
    rows = job.result.get("data") if job.result else None
    return {
        "job": job,
        "meta": meta_of(job),
        "table": _table_of(rows if isinstance(rows, list) else []),
        "ended_after": _duration_of(job),
    }


def _id_of(text: str) -> str:
    """The id as jobs are stored under it. Raises `NotFound` for what no job can have."""
    return JobPath.model_validate({"jobId": text}).to_id()


def _duration_of(job: Job) -> float | None:
    """Seconds from the start to the end."""
    if job.record.started_at is None or job.finished_at is None:
        return None
    return (job.finished_at - job.record.started_at).total_seconds()


def _table_of(rows: Sequence[Mapping[str, object]]) -> JobTable:
    asked = request.args.get("rows", "")
    first = min(int(asked), len(rows)) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 0
    shown = rows[first : first + ROWS_PER_PAGE]
    columns = dict.fromkeys(name for row in shown for name in row)
    return JobTable(columns=tuple(columns), rows=shown, first=first, of=len(rows))


def _state_of(word: str) -> JobState | None:
    if not word:
        return None
    try:
        return JobState(word)
    except ValueError:
        abort(400, f"There is no state {word}.")


def _form_of(slug: str) -> JobForm:
    form = FORMS.get(slug)
    if form is None:
        abort(404, f"No kind of job is called {slug}.")
    return form


def _form_page(
    form: JobForm,
    values: Mapping[str, Sequence[str]],
    *,
    status: int = 200,
    problems: Mapping[str, str] | None = None,
    failure: str = "",
) -> Response:
    return page(
        "start.html",
        http_status=status,
        form=form,
        values=values,
        problems=problems or {},
        failure=failure,
        why_not=why_not(this_process().access, form),
        ticket=uuid.uuid4(),
    )


def _last_day() -> dict[str, list[str]]:
    """A range to begin with: the last 24 hours, as browsers write such times."""
    now = Clock().now()
    return {"startDate": [f"{now - timedelta(days=1):%Y-%m-%dT%H:%M}"], "endDate": [f"{now:%Y-%m-%dT%H:%M}"]}


def _ticket(text: str) -> str:
    """What makes one filled-in page one job, however often it is sent."""
    return text if re.fullmatch("[0-9a-f-]{36}", text) else str(uuid.uuid4())


def _submit(wanted: BaseModel, idempotency_key: str) -> Job:
    access = this_process().access
    settings, submit = access.settings, access.jobs.submit
    match wanted:
        case RetryRequest():
            return submit(RETRY, wanted.with_defaults(settings), idempotency_key=idempotency_key)
        case ReconcileRequest():
            return submit(RECONCILE, wanted.with_defaults(settings), idempotency_key=idempotency_key)
        case BackfillRequest():
            return submit(BACKFILL, wanted.with_defaults(settings), idempotency_key=idempotency_key)
        case FundingReconcileRequest():
            complete = access.funding.complete(wanted)
            return submit(FUNDING_RECONCILE, complete, idempotency_key=idempotency_key)
        case _:
            raise TypeError("no form makes such a request")
