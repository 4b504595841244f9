"""What all pages of the console share: the blueprint, the headers of every answer, and how errors look.

An error is a page with its status, also when a store is away. Nobody's text gets into a page unescaped, and
the policy lets no script, style or picture in that is not a file of ours.
"""

from __future__ import annotations

import logging
from typing import Any

from flask import Blueprint, Response, abort, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from app.problems import RETRY_AFTER_S, TABLE
from workers.errors import ConvergeError

log = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# Only our script sends it, when it wants a part of a page.
FRAGMENT_HEADER = "X-Console-Fragment"

blueprint = Blueprint(
    "console",
    __name__,
    url_prefix="/console",
    template_folder="templates",
    static_folder="static",
)


@blueprint.after_request
def _with_headers(response: Response) -> Response:
    response.headers.update(HEADERS)
    if request.endpoint != "console.static":
        response.headers["Cache-Control"] = "no-store"
    return response


def page(template: str, *, http_status: int = 200, **values: Any) -> Response:
    """Render a page. A 503 says when to come back."""
    response = make_response(render_template(f"console/{template}", **values), http_status)
    if http_status == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def is_fragment() -> bool:
    """Whether a part of a page is asked for, by our script."""
    return FRAGMENT_HEADER in request.headers


def status_and_code(error: ConvergeError) -> tuple[int, str]:
    """How the API answers this error."""
    found = ((status, code) for family, status, code in TABLE if isinstance(error, family))
    return next(found, (500, "INTERNAL"))


def _error_page(status: int, code: str, detail: str) -> Response:
    template = "error_fragment.html" if is_fragment() else "error.html"
    return page(template, http_status=status, code=code, detail=detail)


@blueprint.errorhandler(ConvergeError)
def _of_converge_error(error: ConvergeError) -> Response:
    status, code = status_and_code(error)
    if status == 500:
        return _of_unexpected(error)
    return _error_page(status, code, str(error))


@blueprint.errorhandler(HTTPException)
def _of_http_exception(error: HTTPException) -> Response:
    status = error.code or 500
    return _error_page(status, error.name.upper().replace(" ", "_"), error.description or error.name)


@blueprint.errorhandler(Exception)
def _of_unexpected(error: Exception) -> Response:
    """The broad one, as in `app.problems`: nothing leaves the console as a stack."""
    log.exception("a page failed in our own code", exc_info=error)
    return _error_page(500, "INTERNAL", "The page failed in our own code; the log says why.")


@blueprint.route("/<path:place>", methods=["GET", "POST"])
def no_such_page(place: str) -> Response:
    """What is no page of the console, or cannot be asked for in this way."""
    abort(404, f"There is no page {place}.")
