"""Whether this process is alive, and whether the system is ready for work. Open to everybody."""

from __future__ import annotations

from flask import Response, jsonify
from flask_openapi import APIBlueprint, Tag

from app import documents
from app.problems import Problem
from app.process import this_process
from app.specification import answer, problem, problems

blueprint = APIBlueprint("health", __name__, abp_tags=[Tag(name="health")])


@blueprint.get(
    "/healthz",
    summary="The process answers",
    operation_id="getHealth",
    responses={200: answer(documents.Alive, "The process answers.")},
)
def healthz() -> Response:
    """Answer as long as the process can."""
    return jsonify(documents.Alive(status="ok").to_json())


@blueprint.get(
    "/readyz",
    summary="Redis, MongoDB and the workers answer",
    operation_id="getReadiness",
    responses={
        200: answer(documents.Ready, "Everything that a job needs answers."),
        503: problem(503, code="NOT_READY", meaning="Something does not answer; `checks` names it."),
        **problems(500),
    },
)
def readyz() -> Response:
    """Look at everything a job needs; `checks` of the 503 names what is missing.

    One request looks at a time; the others get what it saw, which may be a few seconds old.
    """
    checks = this_process().readiness.latest()
    if checks is None:
        return Problem(status=503, code="NOT_READY", detail="the first look is not done yet").to_response()
    missing = [part for part, state in checks.items() if state != "ok"]
    if missing:
        detail = f"not ready: {', '.join(missing)}"
        return Problem(status=503, code="NOT_READY", detail=detail, checks=checks).to_response()
    return jsonify(documents.Ready(status="ok", checks=checks).to_json())
