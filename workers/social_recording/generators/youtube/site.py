"""YouTube's site: what oEmbed and a channel's page say without a key. Pure.

oEmbed refuses in plain text; only its statuses tell what is wrong. It names an author by the address of the
channel, which is a handle for most, so that an author seen here has no key.
"""

from __future__ import annotations

from datetime import datetime

from selectolax.lexbor import LexborHTMLParser

from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.messages import Response
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.foreign_json import Foreign, MaybeText, Text, read_as
from workers.social_recording.generators.verdicts import http_error, rate_limited, unexpected_html
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    ObjectGroup,
    SocialObjectGraph,
)
from workers.social_recording.routing import Route, route

SITE_SOURCE = "youtube_site"
_CHANNEL_PATH = "https://youtube.com/channel/"
_HANDLE_PATH = "https://youtube.com/@"


class _OEmbed(Foreign):
    title: Text
    author_name: MaybeText = None
    author_url: MaybeText = None


def judge_oembed(response: Response) -> object | None:
    """The payload about a video; None when it is there and must not be embedded, so that nothing is shown.

    Raises `TargetGone`, `TargetBlocked` or `FetchFailed`.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response)
    if status >= 500:
        raise http_error(response)
    if response.is_html:
        raise unexpected_html(response)
    if status == 401:
        return None
    # It used to refuse with a 200.
    if status == 403 or (status == 200 and response.body.strip() == b"Forbidden"):
        raise TargetBlocked("the video is private", reason="private")
    if status in (400, 404):
        raise TargetGone("youtube knows no such video", reason=f"http_{status}")
    if status != 200:
        raise http_error(response)
    return response.json()


def oembed_graph(payload: object | None, way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A video with its author; without a payload the video alone."""
    facts = None if payload is None else read_as(_OEmbed, payload, SITE_SOURCE)
    data: dict[str, JSONValue] = {} if facts else {"forbids_embedding": True}
    content = ContentDraft(
        platform=Platform.YOUTUBE,
        subtype=ContentSubtype.VIDEO,
        url=way.url,
        platform_key=way.key,
        text_primary=facts.title if facts else None,
        data=data,
    )
    group = ObjectGroup(content=content, account=_author(facts) if facts else None)
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def _author(facts: _OEmbed) -> AccountDraft | None:
    way = _channel_at(facts.author_url)
    if way is None:
        return None
    return AccountDraft(
        platform=Platform.YOUTUBE,
        url=way.url,
        platform_key=way.key if way.url.startswith(_CHANNEL_PATH) else None,
        handle=way.key if way.url.startswith(_HANDLE_PATH) else None,
        display_name=facts.author_name,
    )


def judge_page(response: Response) -> str:
    """The markup of a page of the site.

    Raises `FetchFailed`. What the site shows for a name that nobody has was never recorded, so a 404 is a
    weak sign.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response)
    if status == 404:
        raise FetchFailed("youtube shows no page of this name", reason="weak_not_found")
    if status != 200:
        raise http_error(response)
    return response.text()


def channel_of_page(markup: str) -> str:
    """The id of the channel whose page this is.

    Raises `FetchFailed` (`unexpected_shape`) for a page that names none.
    """
    tree = LexborHTMLParser(markup)
    named = [node.attributes.get("href") for node in tree.css('link[rel="canonical"]')]
    named += [node.attributes.get("content") for node in tree.css('meta[property="og:url"]')]
    for url in named:
        way = _channel_at(url)
        if way is not None and way.url.startswith(_CHANNEL_PATH):
            return way.key
    raise FetchFailed(f"{SITE_SOURCE}: the page names no channel", reason="unexpected_shape")


def _channel_at(url: str | None) -> Route | None:
    """Where `url` leads, if to a channel."""
    way = route(url) if url else None
    return way if way is not None and _is_channel(way) else None


def _is_channel(way: Route) -> bool:
    return way.platform is Platform.YOUTUBE and way.object is ObjectKind.ACCOUNTS
