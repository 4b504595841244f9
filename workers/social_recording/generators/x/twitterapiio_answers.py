"""What twitterapi.io's answers show: posts, accounts and communities as graphs. Pure.

Accounts come in two spellings: `userName` and `followers` as a rule, `screen_name` and `followers_count` as
the creator of a community. Dates are written like `Sat Dec 06 17:42:18 +0000 2025`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from workers.errors import FetchFailed, TargetBlocked, TargetGone
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
from workers.social_recording.generators.x.drafts import (
    Link,
    MaybeNumber,
    Number,
    account_draft,
    check_account,
    closed_account_graph,
    community_draft,
    known,
    media_extra,
    post_draft,
    profile_links,
    reply_extra,
)
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
)
from workers.social_recording.routing import Route

SOURCE = "twitterapiio"
_REASONS = (
    (re.compile(r"suspend", re.IGNORECASE), "suspended"),
    (re.compile(r"protect", re.IGNORECASE), "protected"),
)


def _from_long_form(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError):
            return datetime.strptime(value, "%a %b %d %H:%M:%S %z %Y")
    return value


_Time = Annotated[MaybeTime, BeforeValidator(_from_long_form)]


class _Camel(Foreign):
    """A part whose keys are spelled `likeThis`."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _Hashtag(Foreign):
    text: MaybeText = None


class _Mention(Foreign):
    id_str: MaybeNumber = None
    screen_name: MaybeText = None


class _Entities(Foreign):
    urls: Annotated[tuple[Link, ...], ONLY_READABLE] = ()
    hashtags: Annotated[tuple[_Hashtag, ...], ONLY_READABLE] = ()
    user_mentions: Annotated[tuple[_Mention, ...], ONLY_READABLE] = ()


class _UserEntities(Foreign):
    url: Annotated[_Entities | None, OR_NONE] = None
    description: Annotated[_Entities | None, OR_NONE] = None


class _Bio(Foreign):
    description: MaybeText = None
    entities: Annotated[_UserEntities | None, OR_NONE] = None


class _Media(Foreign):
    type: MaybeText = None
    media_url_https: MaybeText = None


class _MediaEntities(Foreign):
    media: Annotated[tuple[_Media, ...], ONLY_READABLE] = ()


class _UserMetrics(_Camel):
    followers: MaybeCount = None
    following: MaybeCount = None
    statuses_count: MaybeCount = None
    favourites_count: MaybeCount = None
    media_count: MaybeCount = None


class _User(_UserMetrics):
    id: Number
    user_name: Name
    name: MaybeText = None
    description: MaybeText = None
    profile_bio: Annotated[_Bio | None, OR_NONE, Field(alias="profile_bio")] = None
    entities: Annotated[_UserEntities | None, OR_NONE] = None
    created_at: _Time = None
    is_verified: MaybeBool = None
    is_blue_verified: MaybeBool = None
    unavailable: MaybeBool = None


class _PostMetrics(_Camel):
    like_count: MaybeCount = None
    reply_count: MaybeCount = None
    retweet_count: MaybeCount = None
    quote_count: MaybeCount = None
    bookmark_count: MaybeCount = None
    view_count: MaybeCount = None


class _Post(_PostMetrics):
    id: Number
    text: Text
    created_at: _Time = None
    lang: MaybeText = None
    author: Annotated[_User | None, OR_NONE] = None
    entities: Annotated[_Entities | None, OR_NONE] = None
    extended_entities: Annotated[_MediaEntities | None, OR_NONE] = None
    in_reply_to_id: MaybeNumber = None
    in_reply_to_username: MaybeText = None
    quoted_tweet: Annotated[_Post | None, OR_NONE, Field(alias="quoted_tweet")] = None
    retweeted_tweet: Annotated[_Post | None, OR_NONE, Field(alias="retweeted_tweet")] = None


class _CreatorMetrics(Foreign):
    followers_count: MaybeCount = None
    friends_count: MaybeCount = None
    statuses_count: MaybeCount = None
    favourites_count: MaybeCount = None
    listed_count: MaybeCount = None
    media_count: MaybeCount = None


class _Creator(_CreatorMetrics):
    """An account in the other spelling; `following` is a flag there and no number."""

    id: Number
    screen_name: Name
    name: MaybeText = None
    description: MaybeText = None
    url: MaybeText = None
    entities: Annotated[_UserEntities | None, OR_NONE] = None
    created_at: _Time = None
    verified: MaybeBool = None
    is_blue_verified: MaybeBool = None
    protected: MaybeBool = None


class _Rule(Foreign):
    name: Text


class _CommunityMetrics(Foreign):
    member_count: MaybeCount = None
    moderator_count: MaybeCount = None


class _Community(_CommunityMetrics):
    id: Number
    name: MaybeText = None
    description: MaybeText = None
    created_at: _Time = None
    join_policy: MaybeText = None
    is_nsfw: MaybeBool = None
    rules: Annotated[tuple[_Rule, ...], ONLY_READABLE] = ()
    creator: Annotated[_Creator | None, OR_NONE] = None


def post_graph(payload: dict[str, object], way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A post with its author, and the post that it quotes or repeats.

    Raises `FetchFailed`; a post that is left out may be gone, or the reseller may have failed to see it.
    """
    posts = payload.get("tweets")
    if not isinstance(posts, list):
        raise FetchFailed("twitterapiio answered without posts", reason="unexpected_shape")
    found = _with_number(posts, way.key)
    if found is None:
        raise FetchFailed("twitterapiio shows no such post", reason="weak_not_found")
    post = read_as(_Post, found, SOURCE)
    entry = _group(post)
    for parent, relation in (
        (post.retweeted_tweet, ParentRelation.RETWEET),
        (post.quoted_tweet, ParentRelation.QUOTE),
    ):
        if parent is not None and parent.id != post.id:
            child = replace(entry, parent_ref=1, parent_relation=relation)
            return SocialObjectGraph(groups=(child, _group(parent)), observed_at=observed_at)
    return SocialObjectGraph(groups=(entry,), observed_at=observed_at)


def account_graph(payload: dict[str, object], way: Route, observed_at: datetime) -> SocialObjectGraph:
    """An account, out of the answer about one handle (`data`) or about numbers (`users`).

    Raises `TargetGone` or `FetchFailed`.
    """
    found = _shown_account(payload, way)
    is_closed = found.get("unavailable") is True
    if is_closed and "userName" not in found:
        return closed_account_graph(way, _reason_of(found), observed_at)
    user = read_as(_User, found, SOURCE)
    check_account(way, number=user.id, handle=user.user_name)
    if is_closed:
        return closed_account_graph(way, _reason_of(found), observed_at, _account(user))
    metrics = {ObjectKind.ACCOUNTS: _numbers(user, _UserMetrics)}
    return SocialObjectGraph(
        groups=(ObjectGroup(account=_account(user), metrics=metrics),), observed_at=observed_at
    )


def _shown_account(payload: dict[str, object], way: Route) -> dict[str, object]:
    if "users" in payload:
        users = payload["users"]
        found = _with_number(users, way.key) if isinstance(users, list) else None
        if isinstance(users, list) and found is None:
            raise TargetGone("x has no account of this number", reason="not_found")
    else:
        data = payload.get("data")
        found = data if isinstance(data, dict) else None
    if found is None:
        raise FetchFailed("twitterapiio answered without an account", reason="unexpected_shape")
    return found


def community_graph(payload: dict[str, object], way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A community, and the account that made it. Raises `TargetBlocked` or `FetchFailed`."""
    found = payload.get("community_info")
    if isinstance(found, dict) and found.get("unavailable") is True:
        raise TargetBlocked("x has closed the community", reason=_reason_of(found))
    community = read_as(_Community, found, SOURCE)
    if community.id != way.key:
        raise FetchFailed("twitterapiio answered with another community", reason="unexpected_shape")
    creator = community.creator
    rules: list[JSONValue] = [rule.name for rule in community.rules]
    venue = community_draft(
        number=community.id,
        name=community.name,
        description=community.description or None,
        venue_created_at=community.created_at,
        members=community.member_count,
        data={"join_policy": community.join_policy, "is_nsfw": community.is_nsfw, "rules": rules or None},
    )
    by_kind = {
        ObjectKind.VENUES: _numbers(community, _CommunityMetrics),
        ObjectKind.ACCOUNTS: {} if creator is None else _numbers(creator, _CreatorMetrics),
    }
    group = ObjectGroup(
        venue=venue,
        account=None if creator is None else _creator(creator),
        metrics={kind: values for kind, values in by_kind.items() if values},
    )
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def _with_number(items: list[object], number: str) -> dict[str, object] | None:
    """The item of that number, which may be written as a number, too."""
    shown = (item for item in items if isinstance(item, dict))
    return next((item for item in shown if str(item.get("id")) == number), None)


def _reason_of(closed: dict[str, object]) -> str:
    words = f"{closed.get('unavailableReason')} {closed.get('message')}"
    return next((reason for pattern, reason in _REASONS if pattern.search(words)), "unavailable")


def _group(post: _Post) -> ObjectGroup:
    author = post.author
    by_kind = {
        ObjectKind.CONTENTS: _numbers(post, _PostMetrics),
        ObjectKind.ACCOUNTS: {} if author is None else _numbers(author, _UserMetrics),
    }
    return ObjectGroup(
        content=_content(post),
        account=None if author is None else _account(author),
        metrics={kind: values for kind, values in by_kind.items() if values},
    )


def _content(post: _Post) -> ContentDraft:
    entities = post.entities or _Entities()
    media = (post.extended_entities or _MediaEntities()).media
    return post_draft(
        number=post.id,
        text=post.text,
        published_at=post.created_at,
        links=entities.urls,
        tags=(tag.text for tag in entities.hashtags),
        mentions=((mention.id_str, mention.screen_name) for mention in entities.user_mentions),
        data=known(
            {
                "lang": post.lang or None,
                "in_reply_to": reply_extra(post.in_reply_to_id, post.in_reply_to_username),
                "media": media_extra((item.type, item.media_url_https) for item in media),
            }
        ),
    )


def _account(user: _User) -> AccountDraft:
    profile = user.profile_bio or _Bio()
    bio = user.description or profile.description or None
    return account_draft(
        number=user.id,
        handle=user.user_name,
        display_name=user.name,
        bio=bio,
        links=_links(bio, user.entities, profile.entities),
        account_created_at=user.created_at,
        followers=user.followers,
        unavailable=user.unavailable or None,
        data={"verified": user.is_verified, "is_blue_verified": user.is_blue_verified},
    )


def _creator(user: _Creator) -> AccountDraft:
    entities = user.entities or _UserEntities(url=_Entities(urls=(Link(url=user.url),)))
    return account_draft(
        number=user.id,
        handle=user.screen_name,
        display_name=user.name,
        bio=user.description or None,
        links=_links(user.description, entities),
        account_created_at=user.created_at,
        followers=user.followers_count,
        data={
            "verified": user.verified,
            "is_blue_verified": user.is_blue_verified,
            "protected": user.protected,
        },
    )


def _links(bio: str | None, *entities: _UserEntities | None) -> tuple[str, ...]:
    """The links of a profile, whose parts may stand in one place or the other."""
    shown = [each for each in entities if each is not None]
    website = [link for each in shown if each.url for link in each.url.urls]
    in_bio = [link for each in shown if each.description for link in each.description.urls]
    return profile_links(website, bio, in_bio)


def _numbers(shown: Foreign, spelled: type[Foreign]) -> Metrics:
    """What was measured, under the names that the source has for it."""
    fields = spelled.model_fields.items()
    return present({field.alias or name: getattr(shown, name) for name, field in fields})
