"""The HTTP face: parses, calls one service, renders. It never does a job's work."""

from __future__ import annotations

from typing import Any

from flask import Request, abort
from flask.json.provider import DefaultJSONProvider
from flask_openapi import Info, OpenAPI
from werkzeug.exceptions import BadRequest

from app import console, problems
from app.api import (
    description,
    funding,
    health,
    jobs,
    metrics,
    social_graph,
    social_recording,
    solana_backfill,
)
from app.auth import guard
from app.process import EXTENSION, APIProcess
from app.specification import SECURITY_SCHEMES, specification_of
from workers.services import JobAccess

BODY_MAX_BYTES = 1_048_576
ABOUT = (
    "Jobs that bring the social records of tracked tokens to the state they should be in, and what they have"
    " recorded. A POST answers 202 with a job to poll; errors are problems (RFC 9457) with a stable code."
)


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
        except (BadRequest, RecursionError):
            # Brackets without end are no object of ours, and no fault of ours either.
            body = None
        if not isinstance(body, dict):
            abort(problems.of_no_object())
        return body


def create_app(access: JobAccess) -> OpenAPI:
    """Build the app around `access`; opens no connection."""
    app = OpenAPI(
        __name__,
        info=Info(title="Converge", version="1", description=ABOUT),
        security_schemes=SECURITY_SCHEMES,
        validation_error_status=400,
        validation_error_callback=problems.of_validation,
        doc_ui=False,
    )
    app.openapi_version = "3.1.0"
    app.request_class = JSONRequest
    app.config["MAX_CONTENT_LENGTH"] = BODY_MAX_BYTES
    app.json = OrderedJSON(app)
    # A redirect to a tidier path would be an answer that no operation names.
    app.url_map.merge_slashes = False
    app.extensions[EXTENSION] = APIProcess.around(access)
    app.before_request(guard(access.settings))
    problems.register(app)
    metrics.prepare(app, access)
    for module in (
        health,
        jobs,
        social_recording,
        social_graph,
        solana_backfill,
        funding,
        metrics,
        description,
    ):
        app.register_api(module.blueprint)
    app.extensions[description.SPECIFICATION] = specification_of(app)
    console.register(app, access)
    return app
