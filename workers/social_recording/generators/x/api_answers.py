"""What the answers of X's own API show: posts, accounts and communities as graphs. Pure.

What a post refers to comes apart from it, in `includes`; what of that is gone stands in `errors` beside the
`data`, which is good all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from workers.errors import FetchFailed
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
    community_draft,
    known,
    post_draft,
    profile_links,
    reply_extra,
)
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)
from workers.social_recording.routing import Route

SOURCE = "x_api"
_RELATIONS = {"retweeted": ParentRelation.RETWEET, "quoted": ParentRelation.QUOTE}


class _Hashtag(Foreign):
    tag: MaybeText = None


class _Mention(Foreign):
    id: MaybeNumber = None
    username: MaybeText = None


class _Entities(Foreign):
    urls: Annotated[tuple[Link, ...], ONLY_READABLE] = ()
    hashtags: Annotated[tuple[_Hashtag, ...], ONLY_READABLE] = ()
    mentions: Annotated[tuple[_Mention, ...], ONLY_READABLE] = ()


class _LongText(Foreign):
    text: Text
    entities: Annotated[_Entities | None, OR_NONE] = None


class _Reference(Foreign):
    type: Text
    id: Number


class _PostMetrics(Foreign):
    like_count: MaybeCount = None
    reply_count: MaybeCount = None
    retweet_count: MaybeCount = None
    quote_count: MaybeCount = None
    bookmark_count: MaybeCount = None
    impression_count: MaybeCount = None


class _Post(Foreign):
    id: Number
    text: Text
    author_id: MaybeNumber = None
    created_at: MaybeTime = None
    lang: MaybeText = None
    community_id: MaybeNumber = None
    entities: Annotated[_Entities | None, OR_NONE] = None
    # A long post: `text` is only its beginning.
    note_tweet: Annotated[_LongText | None, OR_NONE] = None
    referenced_tweets: Annotated[tuple[_Reference, ...], ONLY_READABLE] = ()
    edit_history_tweet_ids: Annotated[tuple[Number, ...], ONLY_READABLE] = ()
    public_metrics: Annotated[_PostMetrics | None, OR_NONE] = None


class _UserEntities(Foreign):
    url: Annotated[_Entities | None, OR_NONE] = None
    description: Annotated[_Entities | None, OR_NONE] = None


class _UserMetrics(Foreign):
    followers_count: MaybeCount = None
    following_count: MaybeCount = None
    tweet_count: MaybeCount = None
    listed_count: MaybeCount = None
    like_count: MaybeCount = None
    media_count: MaybeCount = None


class _User(Foreign):
    id: Number
    username: Name
    name: MaybeText = None
    description: MaybeText = None
    url: MaybeText = None
    entities: Annotated[_UserEntities | None, OR_NONE] = None
    created_at: MaybeTime = None
    verified: MaybeBool = None
    protected: MaybeBool = None
    public_metrics: Annotated[_UserMetrics | None, OR_NONE] = None


class Community(Foreign):
    """A community as this source shows it: without the one who made it."""

    id: Number
    name: MaybeText = None
    description: MaybeText = None
    created_at: MaybeTime = None
    member_count: MaybeCount = None
    access: MaybeText = None
    join_policy: MaybeText = None


class _Includes(Foreign):
    users: Annotated[tuple[_User, ...], ONLY_READABLE] = ()
    tweets: Annotated[tuple[_Post, ...], ONLY_READABLE] = ()


class _PostAnswer(Foreign):
    data: _Post
    includes: Annotated[_Includes | None, OR_NONE] = None


class _UserAnswer(Foreign):
    data: _User


class _CommunityAnswer(Foreign):
    data: Community


def community_number(payload: object) -> str | None:
    """The number of the community that a post stands in. Raises `FetchFailed` when it is no post."""
    return read_as(_PostAnswer, payload, SOURCE).data.community_id


def account_graph(payload: object, way: Route, observed_at: datetime) -> SocialObjectGraph:
    """An account."""
    user = read_as(_UserAnswer, payload, SOURCE).data
    check_account(way, number=user.id, handle=user.username)
    group = ObjectGroup(account=_account(user), metrics={ObjectKind.ACCOUNTS: _user_metrics(user)})
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def read_community(payload: object, number: str) -> Community:
    """The community of that number. Raises `FetchFailed` when it is another one, or none."""
    community = read_as(_CommunityAnswer, payload, SOURCE).data
    if community.id != number:
        raise FetchFailed("x answered with another community", reason="unexpected_shape")
    return community


def community_graph(payload: object, way: Route, observed_at: datetime) -> SocialObjectGraph:
    """A community."""
    community = read_community(payload, way.key)
    group = ObjectGroup(venue=_venue(community), metrics={ObjectKind.VENUES: _community_metrics(community)})
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def post_graph(
    payload: object, community: Community | None, way: Route, observed_at: datetime
) -> SocialObjectGraph:
    """A post with its author and the community it stands in, and the post that it quotes or repeats."""
    answer = read_as(_PostAnswer, payload, SOURCE)
    post, includes = answer.data, answer.includes or _Includes()
    # An edited post has a number for each version, and answers with its newest.
    if post.id != way.key and not {post.id, way.key} <= set(post.edit_history_tweet_ids):
        raise FetchFailed("x answered with another post", reason="unexpected_shape")
    users = {user.id: user for user in includes.users}
    entry = _in_community(_group(post, users), post, community)
    posts = {each.id: each for each in includes.tweets if each.id != post.id}
    # A retweet of a quote refers to both; what it repeats is its own text.
    for kind, relation in _RELATIONS.items():
        for reference in post.referenced_tweets:
            if reference.type == kind and reference.id in posts:
                child = replace(entry, parent_ref=1, parent_relation=relation)
                groups = (child, _group(posts[reference.id], users))
                return SocialObjectGraph(groups=groups, observed_at=observed_at)
    return SocialObjectGraph(groups=(entry,), observed_at=observed_at)


def _in_community(group: ObjectGroup, post: _Post, community: Community | None) -> ObjectGroup:
    """The group in the community that the post names, with all that is known of it."""
    if community is not None:
        metrics = {**group.metrics, ObjectKind.VENUES: _community_metrics(community)}
        return replace(group, venue=_venue(community), metrics=metrics)
    if post.community_id is not None:
        return replace(group, venue=community_draft(number=post.community_id))
    return group


def _group(post: _Post, users: Mapping[str, _User]) -> ObjectGroup:
    author = users.get(post.author_id or "")
    account = None if author is None else _account(author)
    if author is None and post.author_id is not None:
        account = account_draft(number=post.author_id, handle=None)
    by_kind = {
        ObjectKind.CONTENTS: _post_metrics(post),
        ObjectKind.ACCOUNTS: {} if author is None else _user_metrics(author),
    }
    return ObjectGroup(
        content=_content(post),
        account=account,
        metrics={kind: values for kind, values in by_kind.items() if values},
    )


def _content(post: _Post) -> ContentDraft:
    note = post.note_tweet
    entities = (None if note is None else note.entities) or post.entities or _Entities()
    replied_to = next((each.id for each in post.referenced_tweets if each.type == "replied_to"), None)
    return post_draft(
        number=post.id,
        text=post.text if note is None else note.text,
        published_at=post.created_at,
        links=entities.urls,
        tags=(tag.tag for tag in entities.hashtags),
        mentions=((mention.id, mention.username) for mention in entities.mentions),
        data=known({"lang": post.lang or None, "in_reply_to": reply_extra(replied_to, None)}),
    )


def _account(user: _User) -> AccountDraft:
    entities = user.entities or _UserEntities()
    website = (entities.url or _Entities()).urls or (Link(url=user.url),)
    return account_draft(
        number=user.id,
        handle=user.username,
        display_name=user.name,
        bio=user.description or None,
        links=profile_links(website, user.description, (entities.description or _Entities()).urls),
        account_created_at=user.created_at,
        followers=(user.public_metrics or _UserMetrics()).followers_count,
        data={"verified": user.verified, "protected": user.protected},
    )


def _venue(community: Community) -> VenueDraft:
    return community_draft(
        number=community.id,
        name=community.name,
        description=community.description or None,
        venue_created_at=community.created_at,
        members=community.member_count,
        data={"access": community.access, "join_policy": community.join_policy},
    )


def _post_metrics(post: _Post) -> Metrics:
    return {} if post.public_metrics is None else present(post.public_metrics.model_dump())


def _user_metrics(user: _User) -> Metrics:
    return {} if user.public_metrics is None else present(user.public_metrics.model_dump())


def _community_metrics(community: Community) -> Metrics:
    return present({"member_count": community.member_count})
