"""Reddit, paid: an Apify actor, for those who have no app at Reddit, and for share links.

Its items name themselves only, by their URL. They show no id of a post's subreddit, so that has no key here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from workers.errors import FetchFailed, TargetGone
from workers.http.client import OutboundClient
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.social_recording.generators.apify.answers import SOURCE, ActorItem, Findings, Item, Question
from workers.social_recording.generators.apify.transport import Apify
from workers.social_recording.generators.foreign_json import (
    Id,
    MaybeCount,
    MaybeScore,
    MaybeText,
    MaybeTime,
    Name,
    present,
    read_as,
)
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.reddit.answers import COMMENT, DELETED, REMOVED, MaybeName
from workers.social_recording.generators.reddit.places import is_share_link, is_supported
from workers.social_recording.generators.reddit.verdicts import PROFILE_PREFIX
from workers.social_recording.generators.short_links import public_url
from workers.social_recording.generators.text_links import links_in_prose
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)
from workers.social_recording.routing import Route, route

ACTOR = "trudax~reddit-scraper"


class _Item(ActorItem):
    crawled_at: MaybeTime = None
    scraped_at: MaybeTime = None
    created_at: MaybeTime = None


class _Post(_Item):
    """A post or a comment; a comment has no title."""

    id: Id
    url: MaybeText = None
    username: MaybeName = None
    title: MaybeText = None
    body: MaybeText = None
    parsed_id: MaybeName = None
    parent_id: MaybeText = None
    community_name: MaybeText = None
    parsed_community_name: MaybeName = None
    up_votes: MaybeScore = None
    number_of_comments: MaybeCount = None


class _Community(_Item):
    name: Id
    title: Name
    description: MaybeText = None
    number_of_members: MaybeCount = None


class _User(_Item):
    username: Name
    description: MaybeText = None
    post_karma: MaybeScore = None
    comment_karma: MaybeScore = None


class RedditActorGenerator:
    """Asks the actor."""

    source = SOURCE
    is_paid = True

    def __init__(self, http: OutboundClient, settings: Settings, apify: Apify) -> None:
        del http, settings  # the actor is all that is asked
        self._apify = apify

    def supports(self, way: Route) -> bool:
        """Posts, comments, share links, subreddits and users, with a key."""
        return self._apify.has_key and is_supported(way)

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One run."""
        return self._apify.ask(question_about(way), lambda found: graph_of(found, way), context)


def question_about(way: Route) -> Question:
    """What the actor is asked. A comment stands below its post, so its item is the second one."""
    url = f"{public_url(way)}/"
    is_comment = way.key.startswith(COMMENT)
    items_max = 2 if is_comment else 1
    asked: dict[str, JSONValue] = {
        "startUrls": [{"url": url}],
        "maxItems": items_max,
        "skipComments": not is_comment,
    }
    if way.object is not ObjectKind.CONTENTS:
        asked |= {"maxPostCount": 0, "skipUserPosts": True}
    return Question(
        actor=ACTOR,
        target=way.url,
        input=asked,
        names=() if is_share_link(way) else (url,),
        items_max=items_max,
    )


def graph_of(found: Findings, way: Route) -> SocialObjectGraph:
    """What the actor shows of a post, comment, subreddit or user.

    Raises `TargetGone` for what its author deleted, `FetchFailed` (`unexpected_shape`; `actor_error` for an
    error without a meaning).
    """
    kind = _kind_of(way)
    item = next((each for each in found.items if each.get("dataType") == kind), None)
    if item is None:
        if any(each.get("error") for each in found.items):
            raise FetchFailed("the actor gives an error that we do not know", reason="actor_error")
        raise FetchFailed(f"the actor shows no {kind}", reason="unexpected_shape")
    if kind == "community":
        return _community_graph(item, way, found.looked_at)
    if kind == "user":
        return _user_graph(item, way, found.looked_at)
    return _post_graph(item, way, found.looked_at)


def _kind_of(way: Route) -> str:
    if way.object is ObjectKind.VENUES:
        return "community"
    if way.object is ObjectKind.ACCOUNTS:
        return "user"
    return "comment" if way.key.startswith(COMMENT) else "post"


def _post_graph(item: Item, way: Route, looked_at: datetime) -> SocialObjectGraph:
    post = read_as(_Post, item, ACTOR)
    is_comment = post.id.startswith(COMMENT)
    key = (post.id if is_comment else post.id.removeprefix("t3_")).lower()
    is_asked = _is_shared_by(post, way) if is_share_link(way) else key == way.key.lower()
    if not is_asked:
        raise FetchFailed("the actor shows another post", reason="unexpected_shape")
    if post.body == DELETED:
        raise TargetGone("the author has deleted it", reason="deleted_by_author")
    metrics = present({"upVotes": post.up_votes, "numberOfComments": post.number_of_comments})
    group = ObjectGroup(
        content=_content(post, key, way),
        account=_account(post.username) if post.username and post.username != DELETED else None,
        venue=_venue(_subreddit_of(post)),
        metrics={ObjectKind.CONTENTS: metrics} if metrics else {},
    )
    return SocialObjectGraph(
        groups=(group,),
        observed_at=_looked_at(post, looked_at),
        blocked_reason="removed" if post.body == REMOVED else None,
    )


def _is_shared_by(post: _Post, way: Route) -> bool:
    """Whether a post fits a share link, which names nothing but where the post stands."""
    _, place, name, *_ = way.url.removeprefix("https://").split("/")
    owner = _subreddit_of(post) if place == "r" else post.username
    return owner is not None and owner.lower() == name.lower()


def _subreddit_of(post: _Post) -> str | None:
    name = post.parsed_community_name or (post.community_name or "").removeprefix("r/")
    return None if not name or name.lower().startswith(PROFILE_PREFIX) else name


def _content(post: _Post, key: str, way: Route) -> ContentDraft:
    is_comment = key.startswith(COMMENT)
    text = None if post.body in ("", REMOVED) else post.body
    named: dict[str, JSONValue] = {"in_reply_to": post.parent_id if is_comment else None}
    return ContentDraft(
        platform=Platform.REDDIT,
        subtype=ContentSubtype.POST,
        url=way.url if is_comment else route(f"https://reddit.com/comments/{key}").url,
        platform_key=key,
        published_at=post.created_at,
        text_primary=text if is_comment else post.title or None,
        text_body=None if is_comment else text,
        links=links_in_prose(text),
        data={name: value for name, value in named.items() if value},
    )


def _account(name: str) -> AccountDraft:
    return AccountDraft(
        platform=Platform.REDDIT,
        url=route(f"https://reddit.com/user/{name}").url,
        platform_key=name.lower(),
        handle=name,
    )


def _venue(name: str | None) -> VenueDraft | None:
    if name is None:
        return None
    return VenueDraft(
        platform=Platform.REDDIT,
        subtype=VenueSubtype.SUBREDDIT,
        url=route(f"https://reddit.com/r/{name}").url,
        platform_key=None,
        name=name,
    )


def _community_graph(item: Item, way: Route, looked_at: datetime) -> SocialObjectGraph:
    community = read_as(_Community, item, ACTOR)
    if community.title.lower() != way.key.lower():
        raise FetchFailed("the actor shows another subreddit", reason="unexpected_shape")
    venue = VenueDraft(
        platform=Platform.REDDIT,
        subtype=VenueSubtype.SUBREDDIT,
        url=way.url,
        platform_key=community.name,
        name=community.title,
        description=community.description or None,
        venue_created_at=community.created_at,
        members=community.number_of_members,
    )
    metrics = present({"numberOfMembers": community.number_of_members})
    group = ObjectGroup(venue=venue, metrics={ObjectKind.VENUES: metrics} if metrics else {})
    return SocialObjectGraph(groups=(group,), observed_at=_looked_at(community, looked_at))


def _user_graph(item: Item, way: Route, looked_at: datetime) -> SocialObjectGraph:
    user = read_as(_User, item, ACTOR)
    if user.username.lower() != way.key.lower():
        raise FetchFailed("the actor shows another user", reason="unexpected_shape")
    account = replace(
        _account(user.username),
        bio=user.description or None,
        links=links_in_prose(user.description),
        account_created_at=user.created_at,
    )
    metrics = present({"postKarma": user.post_karma, "commentKarma": user.comment_karma})
    group = ObjectGroup(account=account, metrics={ObjectKind.ACCOUNTS: metrics} if metrics else {})
    return SocialObjectGraph(groups=(group,), observed_at=_looked_at(user, looked_at))


def _looked_at(item: _Item, otherwise: datetime) -> datetime:
    """When the actor looked. Its clock is not ours: a time that is still to come counts as now."""
    return min(item.crawled_at or item.scraped_at or otherwise, otherwise)
