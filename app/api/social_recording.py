"""Asking for the jobs of social recording."""

from __future__ import annotations

from flask import Response, current_app, request
from flask_openapi import APIBlueprint, Tag

from app.api.rendering import accepted
from workers.errors import InvalidInput
from workers.services import JobAccess
from workers.social_recording.job_kinds import RECONCILE, RETRY, ReconcileRequest, RetryRequest

IDEMPOTENCY_KEY_MAX = 200

blueprint = APIBlueprint(
    "social_recording",
    __name__,
    url_prefix="/api/v1/internal/social-recording",
    abp_tags=[Tag(name="social recording")],
)


def _access() -> JobAccess:
    access: JobAccess = current_app.extensions["converge"]
    return access


def idempotency_key() -> str | None:
    """The caller's key, if any. Raises `InvalidInput` for one that is empty, too long or not ASCII."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 0 < len(key) <= IDEMPOTENCY_KEY_MAX or not key.isascii() or not key.isprintable():
        raise InvalidInput(
            f"must be 1 to {IDEMPOTENCY_KEY_MAX} printable ASCII characters", field="Idempotency-Key"
        )
    return key


@blueprint.post("/reconcile", summary="Record the tokens of a range that were missed")
def reconcile(body: ReconcileRequest) -> Response:
    """Put a reconcile job on its queue."""
    access = _access()
    complete = body.with_defaults(access.settings)
    return accepted(access.jobs, access.jobs.submit(RECONCILE, complete, idempotency_key=idempotency_key()))


@blueprint.post("/retry", summary="Try again the URLs that have not converged")
def retry(body: RetryRequest) -> Response:
    """Put a retry job on its queue; an empty body is what the hourly sweep does."""
    access = _access()
    complete = body.with_defaults(access.settings)
    return accepted(access.jobs, access.jobs.submit(RETRY, complete, idempotency_key=idempotency_key()))
