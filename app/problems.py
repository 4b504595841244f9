"""Every error as an RFC 9457 problem: one table from error family to status and code.

A problem names what the caller can act on; it never shows a stack, a secret or an address of ours.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, TypeAlias

from flask import Flask, Response, jsonify
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from app import documents
from workers.errors import BrokerUnavailable, ConvergeError, InvalidInput, NotFound, RetryableError
from workers.funding.assembly import NOT_CONFIGURED
from workers.funding.errors import FundingNotConfigured, PropertyNotFound
from workers.jobs.service import AlreadyFinished, IdempotencyConflict
from workers.social_graph.graph_reader import ObjectNotFound, TokenNotFound
from workers.social_recording.explain import URLNotFound
from workers.social_recording.job_kinds import StatusNotRetryable
from workers.solana_backfill.job_kinds import BACKFILL_NOT_CONFIGURED, BackfillNotConfigured, EndpointNotFound

log = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"
RETRY_AFTER_S = 5

# The first family that fits decides; narrower ones stand first.
TABLE: tuple[tuple[type[ConvergeError], int, str], ...] = (
    (StatusNotRetryable, 422, "STATUS_NOT_RETRYABLE"),
    (IdempotencyConflict, 422, "IDEMPOTENCY_KEY_REUSED"),
    (AlreadyFinished, 409, "JOB_ALREADY_FINISHED"),
    (TokenNotFound, 404, "TOKEN_NOT_FOUND"),
    (URLNotFound, 404, "URL_NOT_FOUND"),
    (ObjectNotFound, 404, "OBJECT_NOT_FOUND"),
    (PropertyNotFound, 404, "PROPERTY_NOT_FOUND"),
    (NotFound, 404, "JOB_NOT_FOUND"),
    (FundingNotConfigured, 501, NOT_CONFIGURED),
    (BackfillNotConfigured, 501, BACKFILL_NOT_CONFIGURED),
    (EndpointNotFound, 404, "ENDPOINT_NOT_FOUND"),
    (InvalidInput, 400, "VALIDATION"),
    (BrokerUnavailable, 503, "BROKER_UNAVAILABLE"),
    # What is left of this family here is a store that a look-up needs and that does not answer.
    (RetryableError, 503, "STORE_UNAVAILABLE"),
)
# How a job that failed is answered to a caller that waited for it.
JOB_STATUS = {
    "UPSTREAM_FAILED": 502,
    "LOCK_UNAVAILABLE": 503,
    "STORE_UNAVAILABLE": 503,
    "JOB_EXPIRED": 503,
    NOT_CONFIGURED: 501,
    BACKFILL_NOT_CONFIGURED: 501,
    "ANCHOR_NOT_FOUND": 422,
    "MAX_PAGES_REACHED": 422,
}
Place: TypeAlias = Literal["pointer", "parameter", "header"]
# Which part of a request a model reads, by the last word of the model's name; any other model is a body.
PLACES: Mapping[str, Place] = {"Query": "parameter", "Path": "parameter", "Headers": "header"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem, told by its status and code."""

    status: int
    code: str
    detail: str
    errors: Sequence[documents.ProblemError] = ()
    job: documents.Job | None = None
    checks: Mapping[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_response(self) -> Response:
        """Render the problem. A 503 always says when to come back."""
        document = documents.Problem(
            type="about:blank",
            title=_phrase(self.status),
            status=self.status,
            code=self.code,
            detail=self.detail,
        )
        if self.errors:
            document.errors = list(self.errors)
        if self.job is not None:
            document.job = self.job
        if self.checks is not None:
            document.checks = dict(self.checks)
        response = jsonify(document.to_json())
        response.status_code = self.status
        response.content_type = PROBLEM_TYPE
        response.headers.update(self.headers)
        if self.status == 503:
            response.headers.setdefault("Retry-After", str(RETRY_AFTER_S))
        return response


def _phrase(status: int) -> str:
    """The title that belongs to `about:blank`, see RFC 9457, section 4.2.1."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def in_body(place: Sequence[str | int], *, detail: str, code: str) -> documents.ProblemError:
    """An offending value of the body, by the keys and indexes that lead to it."""
    steps = (str(step).replace("~", "~0").replace("/", "~1") for step in place)
    return documents.ProblemError(pointer="".join(f"/{step}" for step in steps), detail=detail, code=code)


def of_validation(error: ValidationError) -> Response:
    """The 400 for a body, a query, a header or a path that does not fit its model."""
    part = next((part for word, part in PLACES.items() if error.title.endswith(word)), "pointer")
    errors = []
    for row in error.errors(include_url=False, include_context=False, include_input=False):
        detail, code = row["msg"].removeprefix("Value error, "), row["type"]
        if part == "pointer":
            errors.append(in_body(row["loc"], detail=detail, code=code))
        else:
            name = str(row["loc"][0]) if row["loc"] else ""
            errors.append(documents.ProblemError.model_validate({part: name, "detail": detail, "code": code}))
    names = sorted({getattr(each, part).lstrip("/") or "body" for each in errors})
    detail = f"not acceptable: {', '.join(names)}"
    return Problem(status=400, code="VALIDATION", detail=detail, errors=errors).to_response()


def of_no_object() -> Response:
    """The 400 for a body that is no JSON object."""
    error = in_body((), detail="must be a JSON object", code="json_object")
    return Problem(
        status=400, code="VALIDATION", detail="the body is not a JSON object", errors=[error]
    ).to_response()


def of_converge_error(error: ConvergeError) -> Response:
    """The problem of one of our own errors; an unlisted family is our fault."""
    row = next(((status, code) for family, status, code in TABLE if isinstance(error, family)), None)
    if row is None:
        return of_unexpected(error)
    status, code = row
    errors = []
    if isinstance(error, InvalidInput):
        errors = [in_body([error.field], detail=str(error), code=code.lower())]
    elif isinstance(error, PropertyNotFound):
        errors = [
            in_body(["propertyIds"], detail=f"there is no property {each}", code=code.lower())
            for each in error.property_ids
        ]
    return Problem(status=status, code=code, detail=str(error), errors=errors).to_response()


def of_http_exception(error: HTTPException) -> Response:
    """The problem of a routing or protocol error (404, 405, 413, ...)."""
    if error.response is not None and isinstance(error.response, Response):
        return error.response
    status = error.code or 500
    code = _phrase(status).upper().replace(" ", "_").replace("-", "_")
    headers = {key: value for key, value in error.get_headers() if key.lower() in ("allow", "retry-after")}
    return Problem(
        status=status, code=code, detail=error.description or _phrase(status), headers=headers
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
