"""The OpenAPI document: the pieces that routes declare their answers with, and what makes it whole.

The routes state what they answer next to the code that answers; nothing is described twice.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from flask_openapi import OpenAPI
from flask_openapi.models import RequestBody, SecurityScheme
from flask_openapi.types import ResponseDict
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app import documents

REF = "#/components/schemas/{model}"
JSON: TypeAlias = dict[str, Any]

KEY_SCHEME = "key"
NEEDS_KEY: list[dict[str, list[str]]] = [{KEY_SCHEME: []}]
SECURITY_SCHEMES: dict[str, SecurityScheme | dict[str, Any]] = {
    KEY_SCHEME: {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "APP_SECRET_KEY; the header must be there exactly once",
    }
}


def _header(description: str, schema: JSON, *, is_required: bool = False) -> JSON:
    return {"description": description, "required": is_required, "schema": schema}


RETRY_AFTER = {"Retry-After": _header("seconds until it is worth to ask again", {"type": "integer"})}
ETAG = {"ETag": _header("for If-None-Match", {"type": "string"}, is_required=True)}
ALLOW = {"WWW-Authenticate": _header("the scheme of the key", {"type": "string"}, is_required=True)}
LOCATION = {
    "Location": _header("where the job is", {"type": "string", "format": "uri-reference"}, is_required=True)
}
PREFERENCE_APPLIED = {
    "Preference-Applied": _header("the wait that was kept, if one was asked for", {"type": "string"})
}

MEANINGS = {
    400: "A value is not acceptable; `errors` names it.",
    401: "The key is missing, wrong or there twice.",
    404: "There is no such job, or it is past its retention.",
    409: "The job has ended already.",
    413: "The body is larger than a mebibyte.",
    422: "The idempotency key was used with another body, or a status is asked for that is never reopened.",
    500: "Our fault; or a job that was waited for failed by our fault or was lost.",
    502: "The job that was waited for failed, because the tracker did.",
    503: "Something we need is away; nothing of the request remains unless `job` is there.",
}
_HEADERS_OF = {
    401: ALLOW,
    503: {
        "Retry-After": _header(
            "seconds until it is worth to ask again", {"type": "integer"}, is_required=True
        )
    },
}


_CODES = {
    400: "VALIDATION",
    401: "UNAUTHORIZED",
    404: "JOB_NOT_FOUND",
    409: "JOB_ALREADY_FINISHED",
    413: "CONTENT_TOO_LARGE",
    422: "STATUS_NOT_RETRYABLE",
    500: "INTERNAL",
    502: "UPSTREAM_FAILED",
    503: "BROKER_UNAVAILABLE",
}
_DOCUMENTS = (
    documents.Alive,
    documents.BlockedFundings,
    documents.Job,
    documents.JobList,
    documents.ObjectTokens,
    documents.Problem,
    documents.Ready,
    documents.TokenObjects,
    documents.URLExplanation,
)


def _ref(model: type[BaseModel]) -> JSON:
    return {"$ref": REF.format(model=model.__name__)}


def answer(model: type[BaseModel] | None, description: str, headers: Mapping[str, Any] | None = None) -> JSON:
    """One answer that is no problem."""
    content = {"application/json": {"schema": _ref(model)}} if model else None
    return {"description": description, "content": content, "headers": dict(headers or {}) or None}


def problem(status: int, *, code: str = "", meaning: str = "") -> JSON:
    """One answer that is a problem, with an example of it."""
    example = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code or _CODES[status],
        "detail": meaning or MEANINGS[status],
    }
    return {
        "description": meaning or MEANINGS[status],
        "content": {"application/problem+json": {"schema": _ref(documents.Problem), "example": example}},
        "headers": _HEADERS_OF.get(status),
    }


def too_long() -> JSON:
    """The answer of the server in front of the API to a request line that it does not read to its end."""
    return {
        "description": "The URL makes the request line too long for the server; no problem document.",
        "content": {"text/html": {"schema": {"type": "string"}}},
    }


def problems(*statuses: int) -> ResponseDict:
    """The problems that an operation answers."""
    return {status: problem(status) for status in statuses}


def json_body(model: type[BaseModel], *, is_required: bool) -> RequestBody:
    """A body; a body that is not required may be left out altogether."""
    return RequestBody.model_validate(
        {"content": {"application/json": {"schema": _ref(model)}}, "required": is_required}
    )


SUBMIT_ANSWERS: ResponseDict = {
    200: answer(
        documents.Job,
        "The caller waited and the job has ended: `succeeded` or `cancelled`.",
        LOCATION | PREFERENCE_APPLIED,
    ),
    202: answer(
        documents.Job,
        "The job, which was put on its queue, or stands there under the same idempotency key.",
        LOCATION | RETRY_AFTER | PREFERENCE_APPLIED,
    ),
    **problems(400, 401, 413, 422, 500, 502, 503),
}


def specification_of(app: OpenAPI) -> JSON:
    """The whole document. The framework's own ideas of errors are taken out of it."""
    spec: JSON = copy.deepcopy(app.api_doc)
    for path in spec["paths"].values():
        for operation in path.values():
            operation.pop("deprecated", None)
            operation["description"] = operation["description"].replace("<br/>", "\n")
            for parameter in operation.get("parameters", []):
                parameter["schema"] = _without_null(parameter["schema"])
            for status in [status for status, each in operation["responses"].items() if _is_foreign(each)]:
                del operation["responses"][status]
    schemas = spec["components"]["schemas"]
    for name in [name for name in schemas if name.startswith("ValidationError")]:
        del schemas[name]
    _, own = models_json_schema([(model, "serialization") for model in _DOCUMENTS], ref_template=REF)
    schemas |= own["$defs"]
    return {key: _tidy(value) for key, value in spec.items()}


def _without_null(schema: JSON) -> JSON:
    """A parameter is left out, never null; the null of its model only says that it may be left out."""
    branches = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    if len(branches) != 1:
        return schema
    return {**branches[0], **{key: value for key, value in schema.items() if key != "anyOf"}}


def _is_foreign(response: JSON) -> bool:
    return "ValidationErrorModel" in str(response)


def _tidy(node: Any) -> Any:
    """Drop the titles that only repeat names, and defaults that only say that a value may be left out."""
    if isinstance(node, list):
        return [_tidy(each) for each in node]
    if not isinstance(node, dict):
        return int(node) if isinstance(node, float) and node.is_integer() else node
    is_schema = "type" in node or "anyOf" in node or "$ref" in node
    return {
        key: value if key in ("example", "examples") else _tidy(value)
        for key, value in node.items()
        if not (is_schema and (key == "title" and isinstance(value, str)))
        and not (is_schema and key == "default" and value is None)
    }
