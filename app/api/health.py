"""Whether this process is alive, and whether the system is ready for work."""

from __future__ import annotations

from flask import Response, current_app, jsonify
from flask_openapi import APIBlueprint, Tag

from workers.services import JobAccess

blueprint = APIBlueprint("health", __name__, abp_tags=[Tag(name="health")])


@blueprint.get("/healthz", summary="The process answers")
def healthz() -> Response:
    """Answer as long as the process can."""
    return jsonify(status="ok")


@blueprint.get("/readyz", summary="Redis, MongoDB and the workers answer")
def readyz() -> Response:
    """Look at everything a job needs; 503 names what is missing."""
    access: JobAccess = current_app.extensions["converge"]
    checks = access.readiness()
    is_ready = all(state == "ok" for state in checks.values())
    response = jsonify(status="ok" if is_ready else "not ready", checks=checks)
    response.status_code = 200 if is_ready else 503
    return response
