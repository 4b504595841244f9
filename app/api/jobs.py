"""Jobs of every kind: look at one, list them, cancel one."""

from __future__ import annotations

import uuid
from typing import Annotated

from flask import Response, jsonify, url_for
from flask_openapi import APIBlueprint, Tag
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app import documents
from app.api.rendering import job_response, listed_job_document
from app.process import this_process
from app.request_part import RequestPart
from app.specification import ETAG, NEEDS_KEY, RETRY_AFTER, answer, problems
from workers.errors import NotFound
from workers.jobs.record import JobState
from workers.jobs.service import JobService

PAGE_SIZE_MAX = 200

blueprint = APIBlueprint(
    "jobs", __name__, url_prefix="/api/v1/jobs", abp_tags=[Tag(name="jobs")], abp_security=NEEDS_KEY
)


def _known_kind(name: str) -> str:
    if name not in documents.JOB_KIND_NAMES:
        raise ValueError(f"must be one of {', '.join(documents.JOB_KIND_NAMES)}")
    return name


class JobPath(BaseModel):
    """Which job."""

    job_id: Annotated[documents.JobID, Field(alias="jobId", description="the id that the POST answered")]

    def to_id(self) -> str:
        """The id in the form in which jobs are stored. Raises `NotFound` for what no job can have."""
        try:
            job_id = str(uuid.UUID(self.job_id))
        except ValueError:
            job_id = ""
        if job_id != self.job_id.lower():
            raise NotFound("there is no such job: an id is a UUID")
        return job_id


class JobHeaders(RequestPart):
    """Cheap polling."""

    if_none_match: Annotated[
        str | None,
        Field(alias="If-None-Match", description="the ETag of the last answer; 304 when nothing changed"),
    ] = None


class JobQuery(RequestPart):
    """Which jobs; a page is cut to 200."""

    model_config = ConfigDict(extra="forbid")

    kind: Annotated[documents.KindName, AfterValidator(_known_kind)] | None = None
    state: JobState | None = None
    limit: Annotated[int, Field(ge=1, le=1_000_000, description="cut to 200")] = 50
    # Every text of this form is a place in the index, so that no cursor is half valid.
    cursor: (
        Annotated[str, Field(pattern="^[0-9a-f]{1,16}$", description="`meta.cursor` of the page before")]
        | None
    ) = None


def _jobs() -> JobService:
    return this_process().access.jobs


@blueprint.get(
    "/<jobId>",
    summary="One job with its progress, and its result when it has ended",
    operation_id="getJob",
    responses={
        200: answer(documents.Job, "The job. `Retry-After` is there until it has ended.", RETRY_AFTER | ETAG),
        304: answer(None, "The job is as it was.", RETRY_AFTER | ETAG),
        **problems(401, 404, 500, 503),
    },
)
def get_job(path: JobPath, header: JobHeaders) -> Response:  # noqa: ARG001 (the answer looks at it itself)
    """Show one job."""
    return job_response(_jobs().get(path.to_id()))


@blueprint.get(
    "",
    summary="Jobs, newest first",
    operation_id="listJobs",
    responses={200: answer(documents.JobList, "A page of jobs."), **problems(400, 401, 500, 503)},
)
def list_jobs(query: JobQuery) -> Response:
    """List jobs, newest first, a page at a time, each without the rows of its result."""
    found, before = _jobs().list_jobs(
        kind=query.kind,
        state=query.state,
        limit=min(query.limit, PAGE_SIZE_MAX),
        before=None if query.cursor is None else int(query.cursor, 16),
    )
    cursor = None if before is None else f"{before:x}"
    page = documents.JobList(
        data=[listed_job_document(job) for job in found], meta=documents.PageMeta(cursor=cursor)
    )
    if cursor is not None:
        asked = query.model_dump(mode="json", exclude_none=True)
        following = url_for("jobs.list_jobs", **{**asked, "cursor": cursor})
        page.links = documents.PageLinks(next=following)
    return jsonify(page.to_json())


@blueprint.post(
    "/<jobId>/cancel",
    summary="Ask a job to stop; what is in work is finished",
    operation_id="cancelJob",
    responses={
        202: answer(documents.Job, "The job, asked to stop.", RETRY_AFTER),
        **problems(401, 404, 409, 500, 503),
    },
)
def cancel_job(path: JobPath) -> Response:
    """Cancel one job; asking again changes nothing, a job that has ended answers 409."""
    return job_response(_jobs().cancel(path.to_id()), status=202)
