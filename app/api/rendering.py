"""How a job looks on the wire."""

from __future__ import annotations

import re

from flask import Response, jsonify, request, url_for

from app.problems import JOB_STATUS, Problem
from workers.clock import to_iso
from workers.jobs.record import JobState
from workers.jobs.service import Job, JobService

WAIT_MAX_S = 60
POLL_AGAIN_S = 1


def job_body(job: Job) -> dict[str, object]:
    """The job as JSON."""
    record = job.record
    path = url_for("jobs.get_job", job_id=record.id)

    links = {"self": path}
    if not job.state.is_final:
        links["cancel"] = url_for("jobs.cancel_job", job_id=record.id)
    return {
        "id": record.id,
        "kind": record.kind,
        "state": job.state.value,
        "createdAt": to_iso(record.created_at),
        "startedAt": to_iso(record.started_at) if record.started_at else None,
        "finishedAt": to_iso(job.finished_at) if job.finished_at and job.state.is_final else None,
        "cancelRequestedAt": to_iso(record.cancel_requested_at) if record.cancel_requested_at else None,
        "request": record.request,
        "progress": {"done": record.done, "total": record.total},
        "result": job.result,
        "error": job.error,
        "links": links,
    }


def job_response(job: Job, *, status: int = 200) -> Response:
    """One job; while it is not done with `Retry-After` and an ETag for cheap polling."""
    response = jsonify(job_body(job))
    response.status_code = status
    if not job.state.is_final:
        response.headers["Retry-After"] = str(POLL_AGAIN_S)
        response.headers["Cache-Control"] = "no-cache"
    if status == 200:
        response.add_etag()
        response.make_conditional(request)
    return response


def accepted(jobs: JobService, job: Job) -> Response:
    """Answer a submit: 202 with the job, or, when the caller prefers to wait, how it ended."""
    wait_s = preferred_wait_s(request.headers.get("Prefer", ""))
    if wait_s is not None:
        job = jobs.wait(job.record.id, wait_s)
    is_answer = wait_s is not None and job.state.is_final
    response = _ended(job) if is_answer else job_response(job, status=202)
    response.headers["Location"] = url_for("jobs.get_job", job_id=job.record.id)
    if wait_s is not None:
        response.headers["Preference-Applied"] = f"wait={wait_s}"
    return response


def preferred_wait_s(prefer: str) -> int | None:
    """Seconds a caller is willing to wait (RFC 7240), at most 60; None when it does not say so."""
    for part in prefer.split(","):
        match = re.fullmatch(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*(;.*)?", part, flags=re.IGNORECASE)
        if match:
            return min(int(match[1]), WAIT_MAX_S)
    return None


def _ended(job: Job) -> Response:
    """A finished job, or the problem of one that failed, with the status that fits."""
    if job.state in (JobState.SUCCEEDED, JobState.CANCELLED):
        return job_response(job)
    error = job.error or {
        "code": f"JOB_{job.state.value.upper()}",
        "detail": f"the job ended {job.state.value}",
    }
    return Problem(
        status=JOB_STATUS.get(error["code"], 500),
        code=error["code"],
        detail=error["detail"],
        more={"job": job_body(job)},
    ).to_response()
