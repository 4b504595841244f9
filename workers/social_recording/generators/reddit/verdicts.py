"""What an answer of Reddit's API says: the thing that was asked for, or why there is none.

Pure, but for the log line of a refusal of our token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.messages import Response
from workers.social_recording.generators.verdicts import (
    http_error,
    misconfigured,
    rate_limited,
    unexpected_html,
)

SOURCE = "reddit"
# The "subreddit" of a profile is the profile.
PROFILE_PREFIX = "u_"
_CLOSED_REASONS = frozenset({"private", "quarantined", "gated", "gold_only", "banned"})


def judge(response: Response) -> object:
    """The payload of a good answer.

    Raises `TargetGone`, `TargetBlocked` or `FetchFailed`. A page is never about the target, whatever its
    status: it is what strangers get whose address or client Reddit does not like.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response)
    if status >= 500:
        raise http_error(response)
    if 300 <= status < 400:
        raise _verdict_of_redirect(response)
    if response.is_html:
        raise unexpected_html(response)
    if status == 401:
        raise misconfigured(response)
    fields = _fields_of(response)
    reason = fields.get("reason")
    if status in (403, 404) and isinstance(reason, str) and reason in _CLOSED_REASONS:
        raise TargetBlocked("reddit does not let us in", reason=reason)
    if status == 404 and fields.get("message") == "Not Found":
        raise TargetGone("reddit knows no such thing", reason="http_404")
    if status != 200:
        raise http_error(response)
    return response.json()


def _verdict_of_redirect(response: Response) -> Exception:
    """A subreddit that is not there leads to the search for its name."""
    path = urlsplit(response.headers.get("location", "")).path
    if path.startswith("/subreddits/search"):
        return TargetGone("reddit knows no such subreddit", reason="redirect_to_search")
    return http_error(response)


def _fields_of(response: Response) -> Mapping[str, object]:
    if response.status == 200:
        return {}
    try:
        payload = response.json()
    except FetchFailed:
        return {}
    return payload if isinstance(payload, dict) else {}


def thing_of(payload: object, kind: str) -> object:
    """The data of one thing, `{"kind": kind, "data": ...}`. Raises `FetchFailed` (`unexpected_shape`)."""
    if not isinstance(payload, dict) or payload.get("kind") != kind:
        raise FetchFailed(f"reddit answered with no {kind}", reason="unexpected_shape")
    return payload.get("data")


def only_thing_of(payload: object) -> object:
    """The data of the one thing in a listing.

    Raises `TargetGone` (`empty_listing`) when there is none, `FetchFailed` (`unexpected_shape`).
    """
    listing = thing_of(payload, "Listing")
    children = listing.get("children") if isinstance(listing, dict) else None
    if not isinstance(children, list):
        raise FetchFailed("reddit answered with a listing without a list", reason="unexpected_shape")
    if not children:
        raise TargetGone("reddit knows no such post", reason="empty_listing")
    child = children[0]
    return child.get("data") if isinstance(child, dict) else None


def author_of(data: object) -> str | None:
    """The name of a post's author; None when the account is deleted."""
    name = data.get("author") if isinstance(data, dict) else None
    is_name = isinstance(name, str) and re.fullmatch(r"[\w-]{1,40}", name, re.ASCII) is not None
    return str(name) if is_name else None


def subreddit_of(data: object) -> str | None:
    """The name of a post's subreddit; None when it stands on its author's profile."""
    name = data.get("subreddit") if isinstance(data, dict) else None
    is_name = isinstance(name, str) and re.fullmatch(r"\w{2,40}", name, re.ASCII) is not None
    return str(name) if is_name and not str(name).lower().startswith(PROFILE_PREFIX) else None
