"""Which metrics are stored, per platform and kind of object. Pure.

Metrics keep the platform's own names, because `views` means something else on each. A document checks
nothing, so this list is what keeps a mistyped name out of the series. A name or number that does not pass is
dropped and counted, never stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from workers.social_graph.vocabulary import ObjectKind, Platform

RawMetrics: TypeAlias = Mapping[str, object]

INT64_MAX = 2**63 - 1

METRIC_SPEC: dict[tuple[Platform, ObjectKind], frozenset[str]] = {
    (Platform.X, ObjectKind.CONTENTS): frozenset(
        # syndication | API v2 | the paid reseller
        {"favorite_count", "conversation_count"}
        | {"like_count", "reply_count", "retweet_count", "quote_count", "bookmark_count", "impression_count"}
        | {"likeCount", "replyCount", "retweetCount", "quoteCount", "bookmarkCount", "viewCount"}
    ),
    (Platform.X, ObjectKind.ACCOUNTS): frozenset(
        {"followers_count", "following_count", "tweet_count", "listed_count", "like_count", "media_count"}
        | {"followers", "following", "statusesCount", "favouritesCount", "mediaCount"}
        | {"friends_count", "statuses_count", "favourites_count"}
    ),
    (Platform.X, ObjectKind.VENUES): frozenset({"member_count", "moderator_count"}),
    (Platform.TIKTOK, ObjectKind.CONTENTS): frozenset(
        {"playCount", "diggCount", "commentCount", "shareCount", "collectCount", "repostCount"}
    ),
    (Platform.TIKTOK, ObjectKind.ACCOUNTS): frozenset({"fans", "following", "friends", "heart", "video"}),
    (Platform.INSTAGRAM, ObjectKind.CONTENTS): frozenset(
        {"likesCount", "commentsCount", "videoPlayCount", "videoViewCount"}
    ),
    (Platform.INSTAGRAM, ObjectKind.ACCOUNTS): frozenset(
        {"followersCount", "followsCount", "postsCount", "highlightReelCount"}
    ),
    (Platform.YOUTUBE, ObjectKind.CONTENTS): frozenset({"viewCount", "likeCount", "commentCount"}),
    (Platform.YOUTUBE, ObjectKind.ACCOUNTS): frozenset({"viewCount", "videoCount", "subscriberCount"}),
    (Platform.REDDIT, ObjectKind.CONTENTS): frozenset(
        {"score", "ups", "upvote_ratio", "num_comments", "num_crossposts", "upVotes", "numberOfComments"}
    ),
    (Platform.REDDIT, ObjectKind.ACCOUNTS): frozenset(
        {"link_karma", "comment_karma", "total_karma", "postKarma", "commentKarma"}
    ),
    (Platform.REDDIT, ObjectKind.VENUES): frozenset({"subscribers", "numberOfMembers", "active_user_count"}),
    (Platform.GITHUB, ObjectKind.CONTENTS): frozenset(
        {"stargazers_count", "forks_count", "subscribers_count", "open_issues_count", "network_count", "size"}
        | {"comments"}
    ),
    (Platform.GITHUB, ObjectKind.ACCOUNTS): frozenset(
        {"public_repos", "public_gists", "followers", "following"}
    ),
    (Platform.TELEGRAM, ObjectKind.CONTENTS): frozenset({"views"}),
    (Platform.TELEGRAM, ObjectKind.ACCOUNTS): frozenset({"monthly_users"}),
    (Platform.TELEGRAM, ObjectKind.VENUES): frozenset(
        {"subscribers", "members", "online", "monthly_users", "photos", "videos", "links"}
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PickedMetrics:
    """What may be stored, and the names that may not."""

    metrics: dict[str, int | float]
    dropped: tuple[str, ...]


def pick_known_metrics(platform: Platform, kind: ObjectKind, metrics: RawMetrics) -> PickedMetrics:
    """Keep the known names with real numbers; a missing name means unknown, never 0."""
    known = METRIC_SPEC.get((platform, kind), frozenset())
    picked: dict[str, int | float] = {}
    for name, value in metrics.items():
        if name in known and (number := _number(value)) is not None:
            picked[name] = number
    return PickedMetrics(metrics=picked, dropped=tuple(sorted(set(metrics) - set(picked))))


def _number(value: object) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # The size comes first: an integer of some hundred digits is beyond what `isfinite` can look at.
    if abs(value) > INT64_MAX or not math.isfinite(value):
        return None
    return value
