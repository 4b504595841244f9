"""Translations of an answer that mean the same for every source. Pure, but for one log line.

Which answer means what is the platform's own table; here is only what the shared words look like.
"""

from __future__ import annotations

import logging

from workers.errors import FetchFailed
from workers.http.messages import Response

log = logging.getLogger(__name__)


def rate_limited(response: Response, *, wait_s: float | None = None) -> FetchFailed:
    """The source is asked too often. `wait_s` holds when it does not say for how long."""
    hint = response.wait_hint_s
    return FetchFailed(
        f"{response.source} limits how often it is asked",
        reason="rate_limited",
        retry_in_s=wait_s if hint is None else hint,
    )


def misconfigured(response: Response) -> FetchFailed:
    """The source refuses us, whatever we ask: a person has to look at the key or the request."""
    log.error(
        "a source refuses our key or the form of our requests",
        extra={"source": response.source, "http_status": response.status},
    )
    return FetchFailed(
        f"{response.source} refuses our key or the form of our request ({response.status})",
        reason="misconfigured",
    )


def unexpected_html(response: Response) -> FetchFailed:
    """A page came where data is due; it says nothing about the target."""
    return FetchFailed(
        f"{response.source} answered {response.status} with a page instead of data", reason="unexpected_html"
    )


def http_error(response: Response) -> FetchFailed:
    """A status that nobody gave a meaning."""
    return FetchFailed(
        f"{response.source} answered {response.status}",
        reason=f"http_{response.status}",
        retry_in_s=response.wait_hint_s,
    )
