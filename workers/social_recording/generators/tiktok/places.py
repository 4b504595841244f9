"""TikTok: where its short links lead, and what its ids tell. Shared by the free and the paid source.

A short link answers with a redirect to the video; the handle in there may be empty and is decoration in any
case. A link that is dead leads to the front page.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import urlsplit

from workers.errors import FetchFailed, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.short_links import location_of
from workers.social_recording.routing import Route, route

SOURCE = "tiktok"
SUPPORTED_CONTENTS = (ContentSubtype.VIDEO, ContentSubtype.PHOTO, ContentSubtype.SHORTLINK)
# One short link may lead to another one (`vm.` to `/t/`); more than a few are a trap.
_SHORT_LINKS_MAX = 3
# Ids carry their second since the platform has its present ones, from 2016 on; older ones are small.
_TIMED_IDS_START_AT = 1_451_606_400 << 32
_HASHTAG = re.compile(r"(?<!\w)#(\w+)")


def is_supported(way: Route) -> bool:
    """Accounts, videos, photo posts, and short links to any of them."""
    return way.platform is Platform.TIKTOK and (
        way.object is ObjectKind.ACCOUNTS or way.subtype in SUPPORTED_CONTENTS
    )


class ShortLinks:
    """Asks where short links lead, at no cost."""

    def __init__(self, http: OutboundClient, base_url: str) -> None:
        self._http = http
        self._base_url = base_url

    def place_of(self, way: Route, context: FetchContext) -> Route:
        """Where `way` leads: itself, unless it is a short link.

        Raises `TargetGone` (`dead_short_link`) or `FetchFailed`.
        """
        for _ in range(_SHORT_LINKS_MAX):
            if way.subtype is not ContentSubtype.SHORTLINK:
                return way
            way = place_of_location(self._location_of(way, context))
        raise FetchFailed("tiktok's short links lead to each other", reason="redirect_loop")

    def _location_of(self, way: Route, context: FetchContext) -> str:
        parts = urlsplit(way.url)
        if parts.hostname == "tiktok.com":
            url, destination = f"{self._base_url}{parts.path}/", Destination.SERVICE
        else:
            url, destination = f"{way.url}/", Destination.SITE
        return location_of(self._http, url, context, source=SOURCE, destination=destination)


def place_of_location(location: str) -> Route:
    """The place that a short link's redirect names.

    Raises `TargetGone` for the front page, `FetchFailed` for a login and for what is not on TikTok.
    """
    place = route(location)
    if place.platform is not Platform.TIKTOK:
        raise FetchFailed("tiktok's short link leads away from it", reason="unexpected_shape")
    path = urlsplit(location).path.rstrip("/")
    if not path:
        raise TargetGone("tiktok's short link leads to the front page", reason="dead_short_link")
    if path.startswith("/login"):
        raise FetchFailed("tiktok wants a login", reason="login_wall")
    return place


def time_of_id(video_id: str) -> datetime | None:
    """The second in which an id was given out; None for ids without a time.

    It lies up to a few seconds before the time that TikTok shows.
    """
    number = int(video_id) if video_id.isascii() and video_id.isdigit() else 0
    if not _TIMED_IDS_START_AT <= number < 2**63:
        return None
    return datetime.fromtimestamp(number >> 32, UTC)


def hashtags_in(text: str | None) -> tuple[str, ...]:
    """The words behind `#` in a video's text, each once."""
    return tuple(dict.fromkeys(_HASHTAG.findall(text or "")))
