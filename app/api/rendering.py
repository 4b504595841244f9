"""How a job looks on the wire."""

from __future__ import annotations

import logging
import re

from flask import Response, jsonify, request, url_for

from app import documents
from app.problems import JOB_STATUS, Problem
from app.process import APIProcess, this_process
from workers.errors import BrokerUnavailable, NotFound
from workers.jobs.record import JobState
from workers.jobs.service import Job

log = logging.getLogger(__name__)

WAIT_MAX_S = 60
POLL_AGAIN_S = 1


def job_document(job: Job) -> documents.Job:
    """The job with its whole result."""
    result = job.result and {"data": job.result.get("data", []), "meta": job.result.get("meta", {})}
    return documents.Job.model_validate({"result": result, **_shared(job)})


def listed_job_document(job: Job) -> documents.JobInList:
    """The job as lists show it: the rows of a hundred results would be a hundred times too much."""
    result = job.result and {"meta": job.result.get("meta", {})}
    return documents.JobInList.model_validate({"result": result, **_shared(job)})


def _shared(job: Job) -> dict[str, object]:
    record = job.record
    progress = documents.JobProgress(done=record.done, total=record.total)
    if record.counts:
        progress.counts = dict(record.counts)
    links = documents.JobLinks(self_path=url_for("jobs.get_job", jobId=record.id))
    if not job.state.is_final:
        links.cancel = url_for("jobs.cancel_job", jobId=record.id)
    return {
        "id": record.id,
        "kind": record.kind,
        "state": job.state,
        "created_at": record.created_at,
        "started_at": record.started_at,
        "finished_at": job.finished_at if job.state.is_final else None,
        "cancel_requested_at": record.cancel_requested_at,
        "request": dict(record.request),
        "progress": progress,
        "error": _error_of(job),
        "links": links,
    }


def _error_of(job: Job) -> documents.JobError | None:
    """The job's error; what has no code of ours is the text of some library, which is for the log only."""
    if job.error is None:
        return None
    if not re.fullmatch(documents.ERROR_CODE, job.error["code"]):
        return documents.JobError(code="INTERNAL", detail="the job failed in our own code")
    return documents.JobError(code=job.error["code"], detail=job.error["detail"])


def job_response(job: Job, *, status: int = 200) -> Response:
    """One job; while it is not done with `Retry-After`, and for a GET an ETag for cheap polling."""
    response = jsonify(job_document(job).to_json())
    response.status_code = status
    if not job.state.is_final:
        response.headers["Retry-After"] = str(POLL_AGAIN_S)
        response.headers["Cache-Control"] = "no-cache"
    if request.method in ("GET", "HEAD"):
        response.add_etag()
        response.make_conditional(request)
    return response


def accepted(job: Job, prefer: str | None) -> Response:
    """Answer a submit: 202 with the job, or, when the caller prefers to wait, how it ended.

    A wait that cannot be kept, because too many wait already or Redis is away, changes nothing about the job:
    it is queued, and the caller is told where to look.
    """
    wait_s = preferred_wait_s(prefer or "")
    waited = None if wait_s is None else _after_waiting(this_process(), job, wait_s)
    if waited is None:
        response = job_response(job, status=202)
    else:
        response = _ended(waited) if waited.state.is_final else job_response(waited, status=202)
        response.headers["Preference-Applied"] = f"wait={wait_s}"
    response.headers["Location"] = url_for("jobs.get_job", jobId=job.record.id)
    return response


def _after_waiting(process: APIProcess, job: Job, wait_s: int) -> Job | None:
    """The job after the wait, or None when there was none."""
    if job.state.is_final:
        return job
    if not process.waiters.acquire(blocking=False):
        return None
    try:
        return process.access.jobs.wait(job.record.id, wait_s)
    except (BrokerUnavailable, NotFound) as exc:
        log.warning("a wait for a job broke off", extra={"job": job.record.id, "cause": str(exc)})
        return None
    finally:
        process.waiters.release()


def preferred_wait_s(prefer: str) -> int | None:
    """Seconds a caller is willing to wait (RFC 7240), at most 60; None when it does not say so."""
    for part in prefer.split(","):
        match = re.fullmatch(r"\s*wait\s*=\s*\"?([0-9]{1,9})\"?\s*(;.*)?", part, flags=re.IGNORECASE)
        if match:
            return min(int(match[1]), WAIT_MAX_S)
    return None


def _ended(job: Job) -> Response:
    """A finished job, or the problem of one that failed, with the status that fits."""
    if job.state in (JobState.SUCCEEDED, JobState.CANCELLED):
        return job_response(job)
    document = job_document(job)
    error = document.error or documents.JobError(
        code=f"JOB_{job.state.value.upper()}", detail=f"the job ended {job.state.value}"
    )
    return Problem(
        status=JOB_STATUS.get(error.code, 500), code=error.code, detail=error.detail, job=document
    ).to_response()
