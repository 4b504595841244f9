"""URLs: by platform and status with the reason, and one of them down to the rule that decides about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar

from flask import Response, abort, request, url_for

from app.console.blueprint import blueprint, is_fragment, page
from app.console.long_looks import list_seen
from app.process import this_process
from workers.social_graph.token.survey import URLPlace
from workers.social_graph.vocabulary import FetchStatus, Platform

URLS_PER_PAGE = 50

WordT = TypeVar("WordT", bound=StrEnum)


@blueprint.get("/urls")
def list_urls() -> Response:
    """A page of URLs in a status."""
    status = _word(FetchStatus, request.args.get("status", "")) or FetchStatus.ERROR
    platform = _word(Platform, request.args.get("platform", ""))
    reason = request.args.get("reason", "").strip() or None
    after = request.args.get("after", "")
    place, overview = URLPlace.from_text(after) if after else None, this_process().access.overview
    seen = list_seen(
        ("urls", status, platform, reason, place),
        lambda: overview.list_urls(
            status, platform=platform, reason=reason, limit=URLS_PER_PAGE, after=place
        ),
    )
    asked: dict[str, Any] = {
        "status": status.value,
        "platform": platform and platform.value,
        "reason": reason,
    }
    next_from = seen and seen.value.next_from
    following = next_from and url_for("console.list_urls", **asked, after=next_from.to_text())
    return page(
        "urls_list.html" if is_fragment() else "urls.html",
        seen=seen,
        found=seen.value.rows if seen else (),
        status=status,
        platform=platform,
        reason=reason,
        is_first=not after,
        first_page=url_for("console.list_urls", **asked),
        next_page=following,
    )


@blueprint.get("/url")
def show_url() -> Response:
    """Why one URL of a token is or is not tried again, and when."""
    access = this_process().access
    found = access.explainer.explain(request.args.get("token", ""), request.args.get("url", ""))
    return page("url.html", found=found, max_attempts=access.settings.social_record_max_attempts)


def _word(words: type[WordT], text: str) -> WordT | None:
    """The member of a closed set, None for none."""
    if not text:
        return None
    try:
        return words(text)
    except ValueError:
        abort(400, f"There is no {text} among {', '.join(words)}.")
