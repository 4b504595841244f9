"""TikTok, free: what oEmbed tells of a video or a profile without a key.

It shows text, handle and display name: no numbers, no dates and no id of the account, so its accounts have no
key. Handles change often and are given to others, which is why a video is known by its number alone.
"""

from __future__ import annotations

from datetime import datetime

from workers.errors import FetchFailed
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.foreign_json import Foreign, MaybeId, MaybeText, Name, read_as
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.short_links import graph_of_place, public_url
from workers.social_recording.generators.text_links import links_in_prose, unique
from workers.social_recording.generators.tiktok.places import (
    SOURCE,
    ShortLinks,
    hashtags_in,
    is_supported,
    time_of_id,
)
from workers.social_recording.generators.verdicts import http_error, rate_limited, unexpected_html
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    ObjectGroup,
    SocialObjectGraph,
)
from workers.social_recording.routing import Route, route

_SUBTYPES = {"video": ContentSubtype.VIDEO, "photo": ContentSubtype.PHOTO}


class _Embed(Foreign):
    title: MaybeText = None
    author_unique_id: Name
    author_name: MaybeText = None
    embed_product_id: MaybeId = None
    embed_type: MaybeText = None


class TikTokGenerator:
    """Asks oEmbed, after the short link where there is one."""

    source = SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._base_url = settings.tiktok_base_url
        self._short_links = ShortLinks(http, settings.tiktok_base_url)

    def supports(self, way: Route) -> bool:
        """Accounts, videos, photo posts, and short links to any of them."""
        return is_supported(way)

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call, and one before it for a short link."""
        place = self._short_links.place_of(way, context)
        if place.needs_no_call:
            return graph_of_place(place, context.budget.clock.now())
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}/oembed",
            query={"url": public_url(place)},
            headers={"Accept": "application/json"},
        )
        response = self._http.fetch(request, context.budget, context.calls.add)
        payload = judge(response)
        if place.object is ObjectKind.ACCOUNTS:
            return profile_graph(payload, place, response.received_at)
        return video_graph(payload, place, response.received_at)


def judge(response: Response) -> object:
    """The payload of a good answer.

    Raises `FetchFailed`. There is no certain sign that something is gone: a missing video, a private one and
    a passing trouble have the same answer.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response)
    if status >= 500:
        raise http_error(response)
    if response.is_html and response.body:
        raise unexpected_html(response)
    if status == 400 and _says_something_went_wrong(response):
        raise FetchFailed("tiktok shows nothing; it may be gone or private", reason="weak_not_found")
    if status != 200:
        raise http_error(response)
    return response.json()


def _says_something_went_wrong(response: Response) -> bool:
    try:
        payload = response.json()
    except FetchFailed:
        return False
    return isinstance(payload, dict) and payload.get("code") == 400


def video_graph(payload: object, place: Route, observed_at: datetime) -> SocialObjectGraph:
    """A video or photo post with its author."""
    embed = read_as(_Embed, payload, SOURCE)
    if embed.embed_product_id != place.key:
        raise FetchFailed("tiktok answered with another video", reason="unexpected_shape")
    subtype = _SUBTYPES.get(embed.embed_type or "", ContentSubtype(place.subtype or ContentSubtype.VIDEO))
    text = (embed.title or "").strip() or None
    content = ContentDraft(
        platform=Platform.TIKTOK,
        subtype=subtype,
        url=route(f"https://tiktok.com/@_/{subtype.value}/{place.key}").url,
        platform_key=place.key,
        published_at=time_of_id(place.key),
        text_primary=text,
        links=links_in_prose(text),
        tags=unique(hashtags_in(text)),
    )
    group = ObjectGroup(content=content, account=_account(embed))
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def profile_graph(payload: object, place: Route, observed_at: datetime) -> SocialObjectGraph:
    """An account: that it is there, and how it calls itself."""
    embed = read_as(_Embed, payload, SOURCE)
    if embed.author_unique_id.lower() != place.key.lower():
        raise FetchFailed("tiktok answered with another profile", reason="unexpected_shape")
    return SocialObjectGraph(groups=(ObjectGroup(account=_account(embed)),), observed_at=observed_at)


def _account(embed: _Embed) -> AccountDraft:
    return AccountDraft(
        platform=Platform.TIKTOK,
        url=route(f"https://tiktok.com/@{embed.author_unique_id}").url,
        platform_key=None,
        handle=embed.author_unique_id,
        display_name=embed.author_name,
    )
