"""Every error as an RFC 9457 problem: one table from error family to status and code.

A problem names what the caller can act on; it never shows a stack, a secret or an address of ours.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from flask import Flask, Response, jsonify
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from workers.errors import BrokerUnavailable, ConvergeError, InvalidInput, NotFound
from workers.jobs.service import AlreadyFinished, IdempotencyConflict
from workers.social_recording.job_kinds import StatusNotRetryable

log = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 5

# The first family that fits decides; narrower ones stand first.
TABLE: tuple[tuple[type[ConvergeError], int, str], ...] = (
    (StatusNotRetryable, 422, "STATUS_NOT_RETRYABLE"),
    (IdempotencyConflict, 422, "IDEMPOTENCY_KEY_REUSED"),
    (AlreadyFinished, 409, "JOB_ALREADY_FINISHED"),
    (NotFound, 404, "JOB_NOT_FOUND"),
    (InvalidInput, 400, "VALIDATION"),
    (BrokerUnavailable, 503, "BROKER_UNAVAILABLE"),
)
# How a job that failed is answered to a caller that waited for it.
JOB_STATUS = {
    "UPSTREAM_FAILED": 502,
    "LOCK_UNAVAILABLE": 503,
    "STORE_UNAVAILABLE": 503,
    "JOB_EXPIRED": 503,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem; `errors` names offending fields as `{pointer, detail, code}`."""

    status: int
    code: str
    detail: str
    title: str = ""
    errors: Sequence[dict[str, str]] = ()
    more: dict[str, object] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def to_response(self) -> Response:
        """Render the problem."""
        body: dict[str, object] = {
            "type": "about:blank",
            "title": self.title or self.code.replace("_", " ").capitalize(),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }
        if self.errors:
            body["errors"] = list(self.errors)
        response = jsonify(body)
        response.status_code = self.status
        response.content_type = PROBLEM_TYPE
        response.headers.update(self.headers)
        return response


def of_validation(error: ValidationError) -> Response:
    """The 400 for a body, a query or a path that does not fit its model."""
    errors = [
        {
            "pointer": "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in row["loc"]),
            "detail": row["msg"].removeprefix("Value error, "),
            "code": row["type"],
        }
        for row in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    fields = ", ".join(sorted({row["pointer"].lstrip("/") or "body" for row in errors}))
    detail = f"not acceptable: {fields}"
    return Problem(status=400, code="VALIDATION", detail=detail, errors=errors).to_response()


def of_converge_error(error: ConvergeError) -> Response:
    """The problem of one of our own errors; an unlisted family is our fault."""
    row = next(((status, code) for family, status, code in TABLE if isinstance(error, family)), None)
    if row is None:
        return of_unexpected(error)
    status, code = row
    errors = []
    if isinstance(error, InvalidInput):
        errors = [{"pointer": f"/{error.field}", "detail": str(error), "code": code.lower()}]
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    return Problem(status=status, code=code, detail=str(error), errors=errors, headers=headers).to_response()


def of_http_exception(error: HTTPException) -> Response:
    """The problem of a routing or protocol error (404, 405, 413, ...)."""
    if error.response is not None and isinstance(error.response, Response):
        return error.response
    status = error.code or 500
    code = (error.name or "error").upper().replace(" ", "_").replace("-", "_")
    headers = {key: value for key, value in error.get_headers() if key.lower() in ("allow", "retry-after")}
    return Problem(
        status=status, code=code, title=error.name, detail=error.description or error.name, headers=headers
    ).to_response()


def of_unexpected(error: Exception) -> Response:
    """The 500. The log has the cause, the caller only the fact."""
    log.exception("a request failed in our own code", exc_info=error)
    return Problem(status=500, code="INTERNAL", detail="the request failed in our own code").to_response()


def register(app: Flask) -> None:
    """Make every error of the app a problem."""
    app.register_error_handler(ConvergeError, of_converge_error)
    app.register_error_handler(HTTPException, of_http_exception)
    # The broad one: nothing may leave the API as an HTML page or a stack.
    app.register_error_handler(Exception, of_unexpected)
