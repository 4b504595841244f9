"""X: posts, from the free syndication endpoint that embedded posts are made of.

It is undocumented and shows posts only. Accounts and communities have paid sources alone, which is what the
registry says. A post's id is its key; the handle in the URL is decoration.
"""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, ParentRelation, Platform
from workers.social_recording.generators.foreign_json import (
    Foreign,
    Id,
    MaybeBool,
    MaybeCount,
    MaybeId,
    MaybeText,
    MaybeTime,
    Name,
    Text,
    present,
    read_as,
)
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.syndication_token import token_for
from workers.social_recording.generators.text_links import link_meant, unique
from workers.social_recording.generators.verdicts import http_error, rate_limited, unexpected_html
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    MentionDraft,
    ObjectGroup,
    SocialObjectGraph,
)
from workers.social_recording.routing import Route, route

SOURCE = "x"
# The endpoint refuses what does not look like a browser.
_USER_AGENT = "Mozilla/5.0 (compatible; converge/0.1; +https://converge.invalid/about)"
_ID_DIGITS_MAX = 19
_EPOCH_MS = 1_288_834_974_657
# Ids carry their time since November 2010; the first of those is larger than this.
_TIMED_IDS_START_AT = 10**17
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_GONE_WORDS = re.compile(r"deleted by the (post|tweet) author|account that no longer exists", re.IGNORECASE)
_BLOCKED_WORDS = (
    (re.compile(r"suspended account", re.IGNORECASE), "suspended"),
    (re.compile(r"limits who can view", re.IGNORECASE), "protected"),
    (re.compile(r"age-restricted|withheld|violated the (x|twitter) rules", re.IGNORECASE), "restricted"),
)


class _User(Foreign):
    id_str: Id
    screen_name: Name
    name: MaybeText = None
    verified: MaybeBool = None
    is_blue_verified: MaybeBool = None


class _Link(Foreign):
    expanded_url: MaybeText = None


class _Hashtag(Foreign):
    text: MaybeText = None


class _Mention(Foreign):
    id_str: MaybeId = None
    screen_name: MaybeText = None


class _Entities(Foreign):
    urls: tuple[_Link, ...] = ()
    hashtags: tuple[_Hashtag, ...] = ()
    user_mentions: tuple[_Mention, ...] = ()


class _Media(Foreign):
    type: MaybeText = None
    media_url_https: MaybeText = None


class _EditControl(Foreign):
    edit_tweet_ids: tuple[Id, ...] = ()


class _Post(Foreign):
    id_str: Id
    text: Text
    user: _User
    created_at: MaybeTime = None
    lang: MaybeText = None
    entities: _Entities = _Entities()
    media: tuple[_Media, ...] = ()
    edit_control: _EditControl = _EditControl()
    note_tweet: object = None
    in_reply_to_status_id_str: MaybeId = None
    in_reply_to_screen_name: MaybeText = None
    favorite_count: MaybeCount = None
    conversation_count: MaybeCount = None
    reply_count: MaybeCount = None
    retweet_count: MaybeCount = None


class XGenerator:
    """Asks the syndication endpoint about posts."""

    source = SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._url = f"{settings.x_syndication_base_url}/tweet-result"

    def supports(self, way: Route) -> bool:
        """Posts only."""
        return way.platform is Platform.X and way.subtype is ContentSubtype.TWEET

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call."""
        if not _can_exist(way.key):
            raise TargetGone("no post can have this number", reason="impossible_id")
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=self._url,
            query={"id": way.key, "token": token_for(way.key), "lang": "en"},
            headers={"Accept": "application/json", "User-Agent": _USER_AGENT},
        )
        response = self._http.fetch(request, context.budget, context.calls.add)
        return post_graph(judge(response), way, response.received_at)


def _can_exist(post_id: str) -> bool:
    is_number = post_id.isascii() and post_id.isdigit() and len(post_id) <= _ID_DIGITS_MAX
    return is_number and 0 < int(post_id) < 2**63


def judge(response: Response) -> dict[str, object]:
    """The payload of a good answer.

    Raises `TargetGone`, `TargetBlocked` or `FetchFailed`. Most answers about what is gone are a 200.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response)
    if status >= 500:
        raise http_error(response)
    if status == 404:
        raise TargetGone("x knows no such post", reason="http_404")
    if response.is_html and response.body:
        raise unexpected_html(response)
    if status != 200:
        raise http_error(response)
    payload = response.json()
    if not isinstance(payload, dict):
        raise FetchFailed("x answered with something that is no post", reason="unexpected_shape")
    if not payload:
        raise FetchFailed("x shows nothing, which may mean that the post is gone", reason="weak_not_found")
    if "tombstone" in payload or payload.get("__typename") == "TweetTombstone":
        raise _verdict_of_tombstone(payload.get("tombstone"))
    return payload


def _verdict_of_tombstone(tombstone: object) -> Exception:
    words = _words_of(tombstone)
    if _GONE_WORDS.search(words):
        return TargetGone("the post or its account was deleted", reason="tombstone")
    for pattern, reason in _BLOCKED_WORDS:
        if pattern.search(words):
            return TargetBlocked("the post is closed to us", reason=reason)
    if not words:
        return TargetBlocked("the post is withheld without a word", reason="restricted")
    return FetchFailed("x gives a reason that we do not know", reason="unknown_tombstone")


def _words_of(tombstone: object) -> str:
    text = tombstone.get("text") if isinstance(tombstone, dict) else None
    words = text.get("text") if isinstance(text, dict) else text
    return words if isinstance(words, str) else ""


def post_graph(payload: dict[str, object], way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A post with its author, and the one it quotes."""
    post = _read_post(payload)
    # An edited post has a number for each version, and answers with its newest.
    if post.id_str != way.key and not {post.id_str, way.key} <= set(post.edit_control.edit_tweet_ids):
        raise FetchFailed("x answered with another post", reason="unexpected_shape")
    entry = _group(post)
    quoted = payload.get("quoted_tweet")
    # A quoted post that is gone is left out or shown as a tombstone; the quoting one is fine all the same.
    if not isinstance(quoted, dict) or "id_str" not in quoted:
        return SocialObjectGraph(groups=(entry,), observed_at=observed_at)
    quote = replace(entry, parent_ref=1, parent_relation=ParentRelation.QUOTE)
    return SocialObjectGraph(groups=(quote, _group(_read_post(quoted))), observed_at=observed_at)


def _read_post(payload: dict[str, object]) -> _Post:
    optional = {
        "entities": payload.get("entities") or {},
        "media": payload.get("mediaDetails") or (),
        "edit_control": payload.get("edit_control") or {},
    }
    return read_as(_Post, {**payload, **optional}, SOURCE)


def _group(post: _Post) -> ObjectGroup:
    metrics = present(
        {
            "favorite_count": post.favorite_count,
            "conversation_count": post.conversation_count,
            "reply_count": post.reply_count,
            "retweet_count": post.retweet_count,
        }
    )
    return ObjectGroup(
        content=_content(post),
        account=_account(post.user),
        metrics={ObjectKind.CONTENTS: metrics} if metrics else {},
    )


def _content(post: _Post) -> ContentDraft:
    entities = post.entities
    return ContentDraft(
        platform=Platform.X,
        subtype=ContentSubtype.TWEET,
        url=route(f"https://x.com/i/status/{post.id_str}").url,
        platform_key=post.id_str,
        published_at=post.created_at or time_of_id(post.id_str),
        text_primary=html.unescape(post.text),
        links=unique(url for link in entities.urls if (url := link_meant(link.expanded_url))),
        tags=unique(tag.text for tag in entities.hashtags if tag.text),
        mentions=tuple(
            MentionDraft(platform_key=mention.id_str, screen_name=mention.screen_name)
            for mention in entities.user_mentions
            if mention.id_str
        ),
        data=_extras(post),
    )


def _extras(post: _Post) -> dict[str, JSONValue]:
    extras: dict[str, JSONValue] = {}
    if post.lang:
        extras["lang"] = post.lang
    if post.note_tweet is not None:
        extras["is_text_cut"] = True
    if post.in_reply_to_status_id_str:
        extras["in_reply_to"] = {
            "id": post.in_reply_to_status_id_str,
            "screen_name": post.in_reply_to_screen_name,
        }
    media: list[JSONValue] = [{"type": item.type, "url": item.media_url_https} for item in post.media]
    if media:
        extras["media"] = media
    return extras


def _account(user: _User) -> AccountDraft:
    flags = {"verified": user.verified, "is_blue_verified": user.is_blue_verified}
    return AccountDraft(
        platform=Platform.X,
        url=route(f"https://x.com/{user.screen_name}").url,
        platform_key=user.id_str,
        handle=user.screen_name,
        display_name=user.name,
        data={name: value for name, value in flags.items() if value is not None},
    )


def time_of_id(post_id: str) -> datetime | None:
    """When an id was given out; None for the short ones of the time before ids had one inside."""
    number = int(post_id) if post_id.isdigit() else 0
    if number < _TIMED_IDS_START_AT:
        return None
    return _UNIX_EPOCH + timedelta(milliseconds=(number >> 22) + _EPOCH_MS)
