"""The guard: every route except health and the console needs the key, before anything else is looked at.

The console asks people for the key and has a guard of its own (`app.console.sign_in`), which runs before each
of its pages. What is left to it is told by the route that was found, so no spelling of a path slips through.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from flask import Response, request

from app.problems import Problem
from workers.settings import Settings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
CONSOLE = "console"
HEADER = "x-api-key"


def guard(settings: Settings) -> Callable[[], Response | None]:
    """Build the check that runs before each request.

    A header that was sent twice arrives joined by a comma, which no key holds, so it never matches. The
    comparison takes the same time for every wrong key.
    """
    secret = settings.app_secret_key.get_secret_value().encode()

    def check() -> Response | None:
        if settings.auth_disabled or request.path in OPEN_PATHS or request.blueprint == CONSOLE:
            return None
        given = request.headers.get(HEADER, "").encode("latin-1", "replace")
        if hmac.compare_digest(given, secret):
            return None
        return Problem(
            status=401,
            code="UNAUTHORIZED",
            detail=f"exactly one header {HEADER} with the key is needed",
            headers={"WWW-Authenticate": "ApiKey"},
        ).to_response()

    return check
