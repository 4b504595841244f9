"""The HTTP face: parses, calls one service, renders. It never does a job's work."""

from __future__ import annotations

from typing import Any

from flask import Request, abort, jsonify
from flask.json.provider import DefaultJSONProvider
from flask_openapi import Info, OpenAPI
from werkzeug.exceptions import BadRequest

from app import problems
from app.api import health, jobs, social_recording
from app.auth import guard
from workers.services import JobAccess

BODY_MAX_BYTES = 1_048_576


class OrderedJSON(DefaultJSONProvider):
    """Renders keys in the order in which the code puts them."""

    sort_keys = False


class JSONRequest(Request):
    """A request whose body is a JSON object, whatever its content type says; no body means `{}`."""

    def get_json(self, *_: Any, **__: Any) -> Any:
        """Parse the body. Answers 400 when it is not a JSON object."""
        if not self.get_data(cache=True):
            return {}
        try:
            body = super().get_json(force=True)
        except BadRequest:
            body = None
        if not isinstance(body, dict):
            error = {"pointer": "/", "detail": "must be a JSON object", "code": "json_object"}
            abort(
                problems.Problem(
                    status=400, code="VALIDATION", detail="the body is not a JSON object", errors=[error]
                ).to_response()
            )
        return body


def create_app(access: JobAccess) -> OpenAPI:
    """Build the app around `access`; opens no connection."""
    app = OpenAPI(
        __name__,
        info=Info(title="Converge", version="1"),
        validation_error_status=400,
        validation_error_callback=problems.of_validation,
        doc_ui=False,
    )
    app.openapi_version = "3.1.0"
    app.request_class = JSONRequest
    app.config["MAX_CONTENT_LENGTH"] = BODY_MAX_BYTES
    app.json = OrderedJSON(app)
    app.extensions["converge"] = access
    app.before_request(guard(access.settings))
    problems.register(app)
    for module in (health, jobs, social_recording):
        app.register_api(module.blueprint)
    app.add_url_rule("/api/v1/openapi.json", "openapi", lambda: jsonify(app.api_doc))
    return app
