"""What the answers of Reddit's API show: posts, comments, subreddits and users as graphs. Pure.

User names hardly ever change and are never given to somebody else, so the lower-case name is an account's
key. What was deleted by its author is gone; what others removed is closed to us, and its title and counts are
kept.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from workers.errors import FetchFailed, TargetGone
from workers.social_graph.vocabulary import (
    ContentSubtype,
    ObjectKind,
    ParentRelation,
    Platform,
    VenueSubtype,
)
from workers.social_recording.generators.foreign_json import (
    OR_NONE,
    Foreign,
    Id,
    MaybeBool,
    MaybeCount,
    MaybeId,
    MaybeScore,
    MaybeShare,
    MaybeText,
    MaybeUnixTime,
    Name,
    present,
    read_as,
)
from workers.social_recording.generators.reddit.verdicts import PROFILE_PREFIX, SOURCE
from workers.social_recording.generators.text_links import link_meant, links_in_prose, unique
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)
from workers.social_recording.routing import Route, route

COMMENT = "t1_"
DELETED = "[deleted]"
REMOVED = "[removed]"
_BY_ITS_AUTHOR = frozenset({"deleted", "author"})
MaybeName = Annotated[Name | None, OR_NONE]


class _Post(Foreign):
    """A post (`t3`) or a comment (`t1`); a comment has a body in the place of title and text."""

    id: Id
    name: Id
    title: MaybeText = None
    selftext: MaybeText = None
    body: MaybeText = None
    author: MaybeName = None
    subreddit: MaybeName = None
    subreddit_id: MaybeId = None
    subreddit_subscribers: MaybeCount = None
    created_utc: MaybeUnixTime = None
    url: MaybeText = None
    url_overridden_by_dest: MaybeText = None
    is_self: MaybeBool = None
    is_reddit_media_domain: MaybeBool = None
    post_hint: MaybeText = None
    link_flair_text: MaybeText = None
    over_18: MaybeBool = None
    locked: MaybeBool = None
    removed_by_category: MaybeText = None
    crosspost_parent: MaybeId = None
    crosspost_parent_list: object = None
    link_id: MaybeId = None
    parent_id: MaybeId = None
    score: MaybeScore = None
    ups: MaybeScore = None
    upvote_ratio: MaybeShare = None
    num_comments: MaybeCount = None
    num_crossposts: MaybeCount = None

    @property
    def is_comment(self) -> bool:
        return self.name.startswith(COMMENT)


class _Subreddit(Foreign):
    name: Id
    display_name: Name
    title: MaybeText = None
    public_description: MaybeText = None
    description: MaybeText = None
    subscribers: MaybeCount = None
    active_user_count: MaybeCount = None
    created_utc: MaybeUnixTime = None
    subreddit_type: MaybeText = None
    over18: MaybeBool = None
    quarantine: MaybeBool = None
    lang: MaybeText = None


class _OwnSubreddit(Foreign):
    title: MaybeText = None
    public_description: MaybeText = None
    subscribers: MaybeCount = None
    over_18: MaybeBool = None


class _User(Foreign):
    name: Name
    id: MaybeId = None
    is_suspended: MaybeBool = None
    created_utc: MaybeUnixTime = None
    subreddit: Annotated[_OwnSubreddit | None, OR_NONE] = None
    link_karma: MaybeScore = None
    comment_karma: MaybeScore = None
    total_karma: MaybeScore = None
    verified: MaybeBool = None
    is_gold: MaybeBool = None


def post_graph(data: object, way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A post or comment with its author and subreddit, and the post it repeats.

    Raises `TargetGone` for what its author deleted, `FetchFailed` (`unexpected_shape`).
    """
    post = read_as(_Post, data, SOURCE)
    key = _key(post)
    if key != way.key.lower():
        raise FetchFailed("reddit answered with another post", reason="unexpected_shape")
    closed = _closed_reason(post)
    entry = _group(post)
    origin = _origin_of(post)
    if origin is None or origin.content is None or origin.content.platform_key == key:
        return SocialObjectGraph(groups=(entry,), observed_at=observed_at, blocked_reason=closed)
    crosspost = replace(entry, parent_ref=1, parent_relation=ParentRelation.QUOTE)
    return SocialObjectGraph(groups=(crosspost, origin), observed_at=observed_at, blocked_reason=closed)


def _closed_reason(post: _Post) -> str | None:
    """Why a post is closed to us; None for one that is open.

    An account that was deleted leaves its posts behind, with `[deleted]` in the place of its name.
    """
    category = post.removed_by_category
    is_deleted = category in _BY_ITS_AUTHOR or (post.is_comment and post.body == DELETED)
    if is_deleted:
        raise TargetGone("the author has deleted it", reason="deleted_by_author")
    if category:
        return f"removed_{category}" if re.fullmatch(r"[a-z_]{1,30}", category) else "removed"
    return "removed" if post.is_comment and post.body == REMOVED else None


def user_graph(data: object, name: str, observed_at: datetime) -> SocialObjectGraph:
    """A user. Of a suspended one only the name is shown. Raises `FetchFailed` (`unexpected_shape`)."""
    user = read_as(_User, data, SOURCE)
    if user.name.lower() != name.lower():
        raise FetchFailed("reddit answered with another user", reason="unexpected_shape")
    if user.is_suspended:
        closed = ObjectGroup(account=replace(_named_account(user.name), unavailable=True))
        return SocialObjectGraph(groups=(closed,), observed_at=observed_at, blocked_reason="suspended")
    metrics = present(
        {
            "link_karma": user.link_karma,
            "comment_karma": user.comment_karma,
            "total_karma": user.total_karma,
        }
    )
    group = ObjectGroup(account=_account(user), metrics={ObjectKind.ACCOUNTS: metrics} if metrics else {})
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def subreddit_graph(data: object, name: str, observed_at: datetime) -> SocialObjectGraph:
    """A subreddit. Raises `FetchFailed` (`unexpected_shape`)."""
    subreddit = read_as(_Subreddit, data, SOURCE)
    if subreddit.display_name.lower() != name.lower():
        raise FetchFailed("reddit answered with another subreddit", reason="unexpected_shape")
    metrics = present(
        {"subscribers": subreddit.subscribers, "active_user_count": subreddit.active_user_count}
    )
    group = ObjectGroup(venue=_venue(subreddit), metrics={ObjectKind.VENUES: metrics} if metrics else {})
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def with_details(
    graph: SocialObjectGraph, author: ObjectGroup | None, venue: ObjectGroup | None
) -> SocialObjectGraph:
    """The graph of a post with author and subreddit as their own answers show them."""
    entry = graph.groups[0]
    for each in (author, venue):
        if each is not None:
            entry = replace(
                entry,
                account=each.account or entry.account,
                venue=each.venue or entry.venue,
                metrics={**entry.metrics, **each.metrics},
            )
    return replace(graph, groups=(entry, *graph.groups[1:]))


def _origin_of(post: _Post) -> ObjectGroup | None:
    """The post that a crosspost repeats, if it is still shown; the crosspost is fine all the same."""
    origins = post.crosspost_parent_list
    if not isinstance(origins, list) or not origins:
        return None
    try:
        origin = read_as(_Post, origins[0], SOURCE)
        return None if _closed_reason(origin) else _group(origin)
    except (FetchFailed, TargetGone):
        return None


def _key(post: _Post) -> str:
    """A post is known by its bare id, a comment by its full name: the two share no space of ids."""
    return (post.name if post.is_comment else post.id).lower()


def _group(post: _Post) -> ObjectGroup:
    metrics = {ObjectKind.CONTENTS: _post_metrics(post)}
    venue = _venue_of_post(post)
    if venue is not None and post.subreddit_subscribers is not None:
        metrics[ObjectKind.VENUES] = {"subscribers": post.subreddit_subscribers}
    has_author = post.author is not None and post.author != DELETED
    return ObjectGroup(
        content=_content(post),
        account=_named_account(post.author) if has_author and post.author else None,
        venue=venue,
        metrics={kind: values for kind, values in metrics.items() if values},
    )


def _content(post: _Post) -> ContentDraft:
    if post.is_comment:
        primary, body = _shown(post.body), None
        url = f"https://reddit.com/comments/{(post.link_id or '').removeprefix('t3_')}/_/{post.id}"
    else:
        primary, body = post.title or None, _shown(post.selftext)
        url = f"https://reddit.com/comments/{post.id}"
    outside = _outside_link(post)
    return ContentDraft(
        platform=Platform.REDDIT,
        subtype=ContentSubtype.POST,
        url=route(url).url,
        platform_key=_key(post),
        published_at=post.created_utc,
        text_primary=primary,
        text_body=body,
        links=unique(
            link for link in (outside, *links_in_prose(primary if post.is_comment else body)) if link
        ),
        data=_extras(post),
    )


def _shown(text: str | None) -> str | None:
    """What somebody wrote, and not what stands in its place once it was removed."""
    return None if text in (None, "", DELETED, REMOVED) else text


def _outside_link(post: _Post) -> str | None:
    """Where a post that is a link leads; nothing for texts, own media, crossposts and galleries."""
    text = post.url_overridden_by_dest or post.url
    if post.is_self or post.is_reddit_media_domain or post.crosspost_parent or not text or text[:1] == "/":
        return None
    link = link_meant(text)
    return None if link is None or route(link).key == post.id else link


def _extras(post: _Post) -> dict[str, JSONValue]:
    named: dict[str, JSONValue] = {
        "kind": post.post_hint,
        "flair": post.link_flair_text,
        "over_18": post.over_18,
        "locked": post.locked,
        "removed_by": post.removed_by_category,
        "crosspost_of": post.crosspost_parent,
        "post": post.link_id if post.is_comment else None,
        "in_reply_to": post.parent_id if post.is_comment else None,
    }
    return {name: value for name, value in named.items() if value not in (None, "")}


def _post_metrics(post: _Post) -> Metrics:
    return present(
        {
            "score": post.score,
            "ups": post.ups,
            "upvote_ratio": post.upvote_ratio,
            "num_comments": post.num_comments,
            "num_crossposts": post.num_crossposts,
        }
    )


def _venue_of_post(post: _Post) -> VenueDraft | None:
    if post.subreddit is None or post.subreddit.lower().startswith(PROFILE_PREFIX):
        return None
    return VenueDraft(
        platform=Platform.REDDIT,
        subtype=VenueSubtype.SUBREDDIT,
        url=route(f"https://reddit.com/r/{post.subreddit}").url,
        platform_key=post.subreddit_id,
        name=post.subreddit,
        members=post.subreddit_subscribers,
    )


def _venue(subreddit: _Subreddit) -> VenueDraft:
    named: dict[str, JSONValue] = {
        "title": subreddit.title,
        "type": subreddit.subreddit_type,
        "over_18": subreddit.over18,
        "quarantine": subreddit.quarantine,
        "lang": subreddit.lang,
    }
    return VenueDraft(
        platform=Platform.REDDIT,
        subtype=VenueSubtype.SUBREDDIT,
        url=route(f"https://reddit.com/r/{subreddit.display_name}").url,
        platform_key=subreddit.name,
        name=subreddit.display_name,
        description=subreddit.public_description or subreddit.description or None,
        venue_created_at=subreddit.created_utc,
        members=subreddit.subscribers,
        data={name: value for name, value in named.items() if value not in (None, "")},
    )


def _named_account(name: str) -> AccountDraft:
    return AccountDraft(
        platform=Platform.REDDIT,
        url=route(f"https://reddit.com/user/{name}").url,
        platform_key=name.lower(),
        handle=name,
    )


def _account(user: _User) -> AccountDraft:
    own = user.subreddit or _OwnSubreddit()
    named: dict[str, JSONValue] = {
        "id": user.id,
        "verified": user.verified,
        "is_gold": user.is_gold,
        "over_18": own.over_18,
    }
    return replace(
        _named_account(user.name),
        display_name=own.title or None,
        bio=own.public_description or None,
        links=links_in_prose(own.public_description),
        account_created_at=user.created_utc,
        followers=own.subscribers,
        data={name: value for name, value in named.items() if value is not None},
    )
