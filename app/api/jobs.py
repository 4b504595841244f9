"""Jobs of every kind: look at one, list them, cancel one."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from flask import Response, current_app, jsonify, url_for
from flask_openapi import APIBlueprint, Tag
from pydantic import BaseModel, ConfigDict, Field

from app.api.rendering import job_body, job_response
from workers.errors import InvalidInput
from workers.jobs.record import JobState
from workers.services import JobAccess

PAGE_SIZE_MAX = 200

blueprint = APIBlueprint("jobs", __name__, url_prefix="/api/v1/jobs", abp_tags=[Tag(name="jobs")])


class JobPath(BaseModel):
    """Which job."""

    job_id: Annotated[str, Field(max_length=100, description="the id that the POST answered")]


class JobQuery(BaseModel):
    """Which jobs; a page is cut to 200."""

    model_config = ConfigDict(extra="forbid")

    kind: str | None = None
    state: JobState | None = None
    limit: Annotated[int, Field(ge=1)] = 50
    cursor: Annotated[str, Field(max_length=100)] | None = None


def _access() -> JobAccess:
    access: JobAccess = current_app.extensions["converge"]
    return access


@blueprint.get("/<job_id>", summary="One job with its progress, and its result when it has ended")
def get_job(path: JobPath) -> Response:
    """Show one job."""
    return job_response(_access().jobs.get(path.job_id))


@blueprint.get("", summary="Jobs, newest first")
def list_jobs(query: JobQuery) -> Response:
    """List jobs, newest first, a page at a time."""
    found, before = _access().jobs.list_jobs(
        kind=query.kind,
        state=query.state,
        limit=min(query.limit, PAGE_SIZE_MAX),
        before=_from_cursor(query.cursor),
    )
    cursor = _to_cursor(before)
    page = {"data": [job_body(job) for job in found], "meta": {"cursor": cursor}}
    if cursor is not None:
        asked = query.model_dump(mode="json", exclude_none=True)
        page["links"] = {"next": url_for("jobs.list_jobs", **{**asked, "cursor": cursor})}
    return jsonify(page)


@blueprint.post("/<job_id>/cancel", summary="Ask a job to stop; what is in work is finished")
def cancel_job(path: JobPath) -> Response:
    """Cancel one job; asking again changes nothing, a job that has ended answers 409."""
    return job_response(_access().jobs.cancel(path.job_id), status=202)


def _to_cursor(before: int | None) -> str | None:
    return None if before is None else base64.urlsafe_b64encode(str(before).encode()).decode()


def _from_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    try:
        return int(base64.urlsafe_b64decode(cursor.encode()))
    except (binascii.Error, ValueError) as exc:
        raise InvalidInput("the cursor is not one that a list answered", field="cursor") from exc
