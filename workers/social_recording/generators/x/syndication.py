"""Posts, from the free endpoint that embedded posts are made of.

It is undocumented and shows posts only: no views, reposts or followers, no dates of accounts.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.settings import Settings
from workers.social_graph.vocabulary import ObjectKind, ParentRelation
from workers.social_recording.generators.foreign_json import (
    ONLY_READABLE,
    OR_NONE,
    Foreign,
    MaybeBool,
    MaybeCount,
    MaybeText,
    MaybeTime,
    Name,
    Text,
    present,
    read_as,
)
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.verdicts import http_error, rate_limited, unexpected_html
from workers.social_recording.generators.x.drafts import (
    Link,
    MaybeNumber,
    Number,
    account_draft,
    known,
    media_extra,
    post_draft,
    reply_extra,
)
from workers.social_recording.generators.x.syndication_token import token_for
from workers.social_recording.object_graph import ContentDraft, ObjectGroup, SocialObjectGraph
from workers.social_recording.routing import Route

SOURCE = "x"
# The endpoint refuses what does not look like a browser.
_USER_AGENT = "Mozilla/5.0 (compatible; converge/0.1; +https://converge.invalid/about)"

_GONE_WORDS = re.compile(r"deleted by the (post|tweet) author|account that no longer exists", re.IGNORECASE)
_BLOCKED_WORDS = (
    (re.compile(r"suspended account", re.IGNORECASE), "suspended"),
    (re.compile(r"limits who can view", re.IGNORECASE), "protected"),
    (re.compile(r"age-restricted|withheld|violated the (x|twitter) rules", re.IGNORECASE), "restricted"),
)


class _User(Foreign):
    id_str: Number
    screen_name: Name
    name: MaybeText = None
    verified: MaybeBool = None
    is_blue_verified: MaybeBool = None


class _Hashtag(Foreign):
    text: MaybeText = None


class _Mention(Foreign):
    id_str: MaybeNumber = None
    screen_name: MaybeText = None


class _Entities(Foreign):
    urls: Annotated[tuple[Link, ...], ONLY_READABLE] = ()
    hashtags: Annotated[tuple[_Hashtag, ...], ONLY_READABLE] = ()
    user_mentions: Annotated[tuple[_Mention, ...], ONLY_READABLE] = ()


class _Media(Foreign):
    type: MaybeText = None
    media_url_https: MaybeText = None


class _EditControl(Foreign):
    edit_tweet_ids: Annotated[tuple[Number, ...], ONLY_READABLE] = ()


class _Post(Foreign):
    id_str: Number
    text: Text
    user: _User
    created_at: MaybeTime = None
    lang: MaybeText = None
    entities: Annotated[_Entities | None, OR_NONE] = None
    media: Annotated[tuple[_Media, ...], ONLY_READABLE, Field(alias="mediaDetails")] = ()
    edit_control: Annotated[_EditControl | None, OR_NONE] = None
    note_tweet: object = None
    in_reply_to_status_id_str: MaybeNumber = None
    in_reply_to_screen_name: MaybeText = None
    favorite_count: MaybeCount = None
    conversation_count: MaybeCount = None
    reply_count: MaybeCount = None
    retweet_count: MaybeCount = None


class Syndication:
    """Asks the endpoint about posts."""

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._url = f"{settings.x_syndication_base_url}/tweet-result"

    def ask(self, way: Route, context: FetchContext) -> SocialObjectGraph | None:
        """The post, by one call; None when the endpoint shows nothing, which proves nothing.

        Raises `TargetGone`, `TargetBlocked`, `FetchFailed` or `BudgetExceeded`.
        """
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=self._url,
            query={"id": way.key, "token": token_for(way.key), "lang": "en"},
            headers={"Accept": "application/json", "User-Agent": _USER_AGENT},
        )
        response = self._http.fetch(request, context.budget, context.calls.add)
        payload = judge(response)
        return None if payload is None else post_graph(payload, way, response.received_at)


def judge(response: Response) -> dict[str, object] | None:
    """The payload of a good answer; None when it shows nothing.

    A 404 without a word is nothing, too: an endpoint that nobody promised may be gone itself. Raises
    `TargetGone`, `TargetBlocked` or `FetchFailed`; most answers about what is gone are a 200.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response)
    if status >= 500:
        raise http_error(response)
    if status == 404:
        return None
    if response.is_html and response.body:
        raise unexpected_html(response)
    if status != 200:
        raise http_error(response)
    payload = response.json()
    if not isinstance(payload, dict):
        raise FetchFailed("x answered with something that is no post", reason="unexpected_shape")
    if "tombstone" in payload or payload.get("__typename") == "TweetTombstone":
        raise _verdict_of_tombstone(payload.get("tombstone"))
    return payload or None


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
    post = read_as(_Post, payload, SOURCE)
    # An edited post has a number for each version, and answers with its newest.
    versions = post.edit_control.edit_tweet_ids if post.edit_control else ()
    if post.id_str != way.key and not {post.id_str, way.key} <= set(versions):
        raise FetchFailed("x answered with another post", reason="unexpected_shape")
    entry = _group(post)
    quoted = payload.get("quoted_tweet")
    # A quoted post that is gone is left out or shown as a tombstone; the quoting one is fine all the same.
    if not isinstance(quoted, dict) or "id_str" not in quoted:
        return SocialObjectGraph(groups=(entry,), observed_at=observed_at)
    quote = replace(entry, parent_ref=1, parent_relation=ParentRelation.QUOTE)
    groups = (quote, _group(read_as(_Post, quoted, SOURCE)))
    return SocialObjectGraph(groups=groups, observed_at=observed_at)


def _group(post: _Post) -> ObjectGroup:
    user = post.user
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
        account=account_draft(
            number=user.id_str,
            handle=user.screen_name,
            display_name=user.name,
            data={"verified": user.verified, "is_blue_verified": user.is_blue_verified},
        ),
        metrics={ObjectKind.CONTENTS: metrics} if metrics else {},
    )


def _content(post: _Post) -> ContentDraft:
    entities = post.entities or _Entities()
    return post_draft(
        number=post.id_str,
        text=post.text,
        published_at=post.created_at,
        links=entities.urls,
        tags=(tag.text for tag in entities.hashtags),
        mentions=((mention.id_str, mention.screen_name) for mention in entities.user_mentions),
        data=known(
            {
                "lang": post.lang or None,
                "is_text_cut": None if post.note_tweet is None else True,
                "in_reply_to": reply_extra(post.in_reply_to_status_id_str, post.in_reply_to_screen_name),
                "media": media_extra((item.type, item.media_url_https) for item in post.media),
            }
        ),
    )
