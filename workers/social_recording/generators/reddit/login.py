"""Reddit: access tokens of our app. They are kept per process and renewed in time, or when one is refused."""

from __future__ import annotations

import base64
import threading
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from workers.errors import BudgetExceeded
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.settings import Settings
from workers.social_recording.generators.foreign_json import OR_NONE, Foreign, read_as
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.verdicts import (
    http_error,
    misconfigured,
    rate_limited,
    unexpected_html,
)

SOURCE = "reddit_login"
# What Reddit grants at least; it tells the true time with each token.
_LIFE_S = 3600.0
# A token is given up this long before its end, so that no call starts with one that ends on the way.
_GIVEN_UP_EARLIER_S = 60.0


class _Grant(Foreign):
    access_token: Annotated[str, Field(pattern=r"^[!-~]{1,4000}$")]
    expires_in: Annotated[Annotated[float, Field(gt=0, le=31_536_000)] | None, OR_NONE] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    text: str
    valid_until: float


class AccessTokens:
    """The process's one token. Safe for any number of threads: one logs in, the others wait for it."""

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._url = f"{settings.reddit_login_base_url}/api/v1/access_token"
        self._headers = {"Accept": "application/json", "User-Agent": user_agent(settings)}
        client_id, secret = settings.reddit_client_id, settings.reddit_client_secret
        self.has_key = client_id is not None and secret is not None
        if client_id is not None and secret is not None:
            pair = f"{client_id.get_secret_value()}:{secret.get_secret_value()}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._guard = threading.Lock()
        self._token: _Token | None = None

    def current(self, context: FetchContext) -> str:
        """A token that is good as far as we know; logs in when there is none.

        Raises `FetchFailed` (`misconfigured` when Reddit does not know our app) or `BudgetExceeded`.
        """
        clock = context.budget.clock
        if not self._guard.acquire(timeout=context.budget.remaining_s):
            raise BudgetExceeded("another thread took too long to log in to reddit")
        try:
            if self._token is None or clock.monotonic() >= self._token.valid_until:
                asked_at = clock.monotonic()
                grant = read_as(_Grant, judge(self._log_in(context)), SOURCE)
                life_s = _LIFE_S if grant.expires_in is None else grant.expires_in
                self._token = _Token(
                    text=grant.access_token, valid_until=asked_at + life_s - _GIVEN_UP_EARLIER_S
                )
            return self._token.text
        finally:
            self._guard.release()

    def discard(self, text: str) -> None:
        """Drop a token that Reddit refused, unless another thread has renewed it by now."""
        with self._guard:
            if self._token is not None and self._token.text == text:
                self._token = None

    def _log_in(self, context: FetchContext) -> Response:
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            method="POST",
            url=self._url,
            headers=self._headers,
            form_body={"grant_type": "client_credentials"},
        )
        return self._http.fetch(request, context.budget, context.calls.add)


def user_agent(settings: Settings) -> str:
    """How we name ourselves to Reddit.

    It wants `platform:app:version (who to write to)`, unique for each app: the app's id and what we tell
    everybody make it so. See https://github.com/reddit-archive/reddit/wiki/API.
    """
    client_id = settings.reddit_client_id
    app = "converge" if client_id is None else client_id.get_secret_value()
    return f"python:{app}:v0.1 ({settings.http_user_agent})"


def judge(response: Response) -> object:
    """The payload of a good answer. Raises `FetchFailed`."""
    if response.status == 429:
        raise rate_limited(response)
    if response.status >= 500:
        raise http_error(response)
    if response.is_html:
        raise unexpected_html(response)
    if response.status in (400, 401, 403):
        raise misconfigured(response)
    if response.status != 200:
        raise http_error(response)
    return response.json()
