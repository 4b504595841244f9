"""The API's description: the specification for programs and a page of it for people."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app, jsonify
from flask_openapi import APIBlueprint, Tag

from app.docs_page import page_of
from app.specification import NEEDS_KEY, answer, problems

SPECIFICATION = "converge.specification"

blueprint = APIBlueprint(
    "description",
    __name__,
    url_prefix="/api/v1",
    abp_tags=[Tag(name="description")],
    abp_security=NEEDS_KEY,
)


def _specification() -> dict[str, Any]:
    found: dict[str, Any] = current_app.extensions[SPECIFICATION]
    return found


@blueprint.get(
    "/openapi.json",
    summary="This specification",
    operation_id="getSpecification",
    responses={
        200: {
            **answer(None, "OpenAPI 3.1."),
            "content": {"application/json": {"schema": {"type": "object", "required": ["openapi", "paths"]}}},
        },
        **problems(401, 500),
    },
)
def openapi() -> Response:
    """What this API takes and answers, for programs."""
    return jsonify(_specification())


@blueprint.get(
    "/docs",
    summary="This specification as a page",
    operation_id="getDocs",
    responses={
        200: {
            **answer(None, "A page that needs nothing from elsewhere."),
            "content": {"text/html": {"schema": {"type": "string"}}},
        },
        **problems(401, 500),
    },
)
def docs() -> Response:
    """What this API takes and answers, for people."""
    response = Response(page_of(_specification()), mimetype="text/html")
    response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
    return response
