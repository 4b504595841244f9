"""Asking for the jobs of social recording."""

from __future__ import annotations

from typing import Annotated

from flask import Response
from flask_openapi import APIBlueprint, Tag
from pydantic import ConfigDict, Field

from app.api.rendering import accepted
from app.process import this_process
from app.request_part import RequestPart
from app.specification import NEEDS_KEY, SUBMIT_ANSWERS, json_body
from workers.social_recording.job_kinds import RECONCILE, RETRY, ReconcileRequest, RetryRequest

blueprint = APIBlueprint(
    "social_recording",
    __name__,
    url_prefix="/api/v1/internal/social-recording",
    abp_tags=[Tag(name="social recording")],
    abp_security=NEEDS_KEY,
)


class SubmitHeaders(RequestPart):
    """What a caller may say beside the body."""

    prefer: Annotated[
        str | None,
        Field(
            alias="Prefer",
            description="`wait=30` holds the answer until the job has ended, 60 seconds at most (RFC 7240)",
            examples=["wait=30"],
        ),
    ] = None
    idempotency_key: Annotated[
        Annotated[str, Field(max_length=200, pattern="^[!-~]([ -~]*[!-~])?$")] | None,
        Field(
            alias="Idempotency-Key",
            description="a second POST with the same key and body is the same job",
            examples=["night-2026-01-31"],
        ),
    ] = None


# Callers write camelCase; the snake_case names are for our own code.
class ReconcileBody(ReconcileRequest):
    __doc__ = ReconcileRequest.__doc__
    model_config = ConfigDict(
        populate_by_name=False,
        json_schema_extra={
            "examples": [
                {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-01-02T00:00:00Z", "limit": 20},
            ]
        },
    )


class RetryBody(RetryRequest):
    __doc__ = RetryRequest.__doc__
    model_config = ConfigDict(
        populate_by_name=False,
        json_schema_extra={"examples": [{"statuses": ["exhausted"], "minIntervalMinutes": 0}]},
    )


@blueprint.post(
    "/reconcile",
    summary="Record the tokens of a range that were missed",
    operation_id="reconcileTokens",
    request_body=json_body(ReconcileBody, is_required=True),
    responses=SUBMIT_ANSWERS,
)
def reconcile(body: ReconcileBody, header: SubmitHeaders) -> Response:
    """Put a reconcile job on its queue."""
    access = this_process().access
    complete = body.with_defaults(access.settings)
    job = access.jobs.submit(RECONCILE, complete, idempotency_key=header.idempotency_key)
    return accepted(job, header.prefer)


@blueprint.post(
    "/retry",
    summary="Try again the URLs that have not converged",
    operation_id="retryURLs",
    request_body=json_body(RetryBody, is_required=False),
    responses=SUBMIT_ANSWERS,
)
def retry(body: RetryBody, header: SubmitHeaders) -> Response:
    """Put a retry job on its queue; no body is what the hourly sweep does."""
    access = this_process().access
    complete = body.with_defaults(access.settings)
    job = access.jobs.submit(RETRY, complete, idempotency_key=header.idempotency_key)
    return accepted(job, header.prefer)
