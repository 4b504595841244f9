"""Who may see the console: whoever knew the API's key within the last eight hours, by a signed cookie.

The cookie holds the time of the sign-in and the token against forged forms, and never the key. It is signed
with a key derived from the API's, so a new key ends every session. `AUTH_DISABLED` opens the console as it
opens the API. Every form, that of the sign-in included, carries the token; and browsers do not send the
cookie with what another site asks for.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from datetime import timedelta
from urllib.parse import urlsplit

from flask import Flask, Request, Response, abort, current_app, redirect, request, session, url_for
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface
from flask_wtf.csrf import CSRFProtect  # type: ignore[import-untyped]
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from werkzeug.wrappers import Response as AnyResponse

from app.console.blueprint import blueprint, is_fragment, page
from app.process import this_process
from workers.clock import Clock
from workers.settings import Settings

log = logging.getLogger(__name__)

COOKIE_NAME = "converge_console"
COOKIE_PATH = "/console"
LIFETIME = timedelta(hours=8)
PURPOSE = b"converge console cookie"
SIGNED_IN_AT = "signed_in_at"
OPEN_ENDPOINTS = frozenset({"console.static", "console.sign_in", "console.submit_sign_in"})
# Of one address, in one process. The key is long; this keeps the log readable rather than the door shut.
FAILURES_MAX = parse("10/minute")
_LIMITER = "converge.console.failed_sign_ins"

csrf = CSRFProtect()


class ConsoleCookies(SecureCookieSessionInterface):
    """Flask's signed cookie with SHA-256, marked secure whenever the request itself came over TLS."""

    digest_method = staticmethod(hashlib.sha256)

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        """What the cookie holds. Requests of the API have none, and making what checks it costs time."""
        if COOKIE_NAME not in request.cookies:
            return self.session_class()
        return super().open_session(app, request)

    def get_cookie_secure(self, app: Flask) -> bool:  # noqa: ARG002 (Flask's signature)
        """Whether the cookie may travel over TLS only."""
        return request.is_secure


def cookie_key(settings: Settings) -> bytes:
    """The key that cookies are signed with; it says nothing about the API's key."""
    return hmac.digest(settings.app_secret_key.get_secret_value().encode(), PURPOSE, "sha256")


def prepare(app: Flask, settings: Settings) -> None:
    """Give the app its cookie and the check of forms. Both concern the console alone."""
    app.secret_key = cookie_key(settings)
    app.session_interface = ConsoleCookies()
    app.config.update(
        SESSION_COOKIE_NAME=COOKIE_NAME,
        SESSION_COOKIE_PATH=COOKIE_PATH,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Strict",
        SESSION_REFRESH_EACH_REQUEST=False,
        PERMANENT_SESSION_LIFETIME=LIFETIME,
        # The API's own callers have no cookie, so there is nothing to forge; the console asks for the check.
        WTF_CSRF_CHECK_DEFAULT=False,
        # The token lives as long as the session that it is bound to.
        WTF_CSRF_TIME_LIMIT=None,
        # The referrer's host is the proxy's where one stands in front; the cookie is not sent across sites.
        WTF_CSRF_SSL_STRICT=False,
    )
    app.extensions[_LIMITER] = FixedWindowRateLimiter(MemoryStorage())
    csrf.init_app(app)


def is_signed_in() -> bool:
    """Whether the caller may see the console."""
    if this_process().access.settings.auth_disabled:
        return True
    signed_in_at = session.get(SIGNED_IN_AT)
    if not isinstance(signed_in_at, int):
        return False
    return 0 <= _now_s() - signed_in_at < LIFETIME.total_seconds()


@blueprint.before_request
def _guard() -> AnyResponse | None:
    """Check the form's token, then who asks; the only pages that everybody sees are those of the sign-in."""
    if request.method not in ("GET", "HEAD", "OPTIONS"):
        csrf.protect()
    if request.endpoint in OPEN_ENDPOINTS or is_signed_in():
        return None
    if is_fragment():
        abort(401, "The session has ended.")
    asked_for = request.full_path.rstrip("?") if request.method == "GET" else None
    return redirect(url_for("console.sign_in", next=asked_for), 303)


@blueprint.get("/sign-in")
def sign_in() -> AnyResponse:
    """The form that asks for the key."""
    target = page_after(request.args.get("next", ""))
    return redirect(target, 303) if is_signed_in() else page("sign_in.html", next=target)


@blueprint.post("/sign-in")
def submit_sign_in() -> AnyResponse:
    """Let in whoever knows the key, and lead to the page that was asked for."""
    limiter: FixedWindowRateLimiter = current_app.extensions[_LIMITER]
    address = request.remote_addr or "unknown"
    target = page_after(request.form.get("next", ""))
    if not limiter.test(FAILURES_MAX, address):
        return _refused(429, target, "Too many failed tries from this address. Wait a minute.")
    given = request.form.get("key", "").strip().encode()
    secret = this_process().access.settings.app_secret_key.get_secret_value().encode()
    if not hmac.compare_digest(given, secret):
        limiter.hit(FAILURES_MAX, address)
        log.warning("a sign-in to the console failed", extra={"address": address})
        return _refused(403, target, "This is not the key.")
    session.clear()
    session.permanent = True
    session[SIGNED_IN_AT] = _now_s()
    log.info("somebody signed in to the console", extra={"address": address})
    return redirect(target, 303)


@blueprint.post("/sign-out")
def sign_out() -> AnyResponse:
    """End the session of this browser."""
    session.clear()
    return redirect(url_for("console.sign_in"), 303)


def page_after(asked_for: str) -> str:
    """Where to go after the sign-in: to a page of the console, and nowhere else."""
    home = url_for("console.overview")
    if not asked_for.isprintable() or "\\" in asked_for or "//" in asked_for.partition("?")[0]:
        return home
    parts = urlsplit(asked_for)
    is_ours = not parts.scheme and not parts.netloc and (f"{parts.path}/").startswith(f"{COOKIE_PATH}/")
    return asked_for if is_ours and ".." not in parts.path else home


def _now_s() -> int:
    return int(Clock().now().timestamp())


def _refused(status: int, target: str, words: str) -> Response:
    response = page("sign_in.html", http_status=status, next=target, refusal=words)
    if status == 429:
        response.headers["Retry-After"] = "60"
    return response
