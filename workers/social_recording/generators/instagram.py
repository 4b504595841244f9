"""Instagram: posts, reels and profiles, from an Apify actor. There is no free source.

A post names its owner with id, handle and name; followers are shown by the profile alone, which would cost a
second run. The media id is the key: the code in a URL is the same number in other letters. What has been seen
without a numeric owner id stays without a key and is known by its URL.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.apify.answers import SOURCE, ActorItem, Findings, Item, Question
from workers.social_recording.generators.apify.transport import Apify
from workers.social_recording.generators.foreign_json import (
    ONLY_READABLE,
    OR_NONE,
    Foreign,
    Id,
    MaybeBool,
    MaybeCount,
    MaybeId,
    MaybeText,
    MaybeTexts,
    MaybeTime,
    Name,
    Text,
    present,
    read_as,
)
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.short_links import location_of, public_url
from workers.social_recording.generators.text_links import link_meant, links_in_prose, unique
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    MentionDraft,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
)
from workers.social_recording.routing import Route, route

ACTOR = "apify~instagram-scraper"
PUBLICATIONS = (ContentSubtype.POST, ContentSubtype.REEL, ContentSubtype.TV)
# Media ids hold their milliseconds since this moment, see
# https://instagram-engineering.com/sharding-ids-at-instagram-1cf5a71e5a5c.
_EPOCH_MS = 1_314_220_021_721
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CODE_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
# The code of a private account's post has this many letters more, which are no part of the number.
_PRIVATE_SUFFIX_LETTERS = 28
_CLIP = "clips"


class _Tagged(Foreign):
    id: Id
    username: MaybeText = None


class _Post(ActorItem):
    id: Id
    short_code: Id
    type: MaybeText = None
    product_type: MaybeText = None
    caption: MaybeText = None
    alt: MaybeText = None
    timestamp: MaybeTime = None
    hashtags: MaybeTexts = ()
    tagged_users: Annotated[tuple[_Tagged, ...], ONLY_READABLE] = ()
    coauthor_producers: Annotated[tuple[_Tagged, ...], ONLY_READABLE] = ()
    owner_id: MaybeId = None
    owner_username: Name
    owner_full_name: MaybeText = None
    video_duration: Annotated[Annotated[float, Field(ge=0, le=1_000_000)] | None, OR_NONE] = None
    is_sponsored: MaybeBool = None
    is_comments_disabled: MaybeBool = None
    # -1 stands for a number that the owner hides; like any other impossible count it is unknown.
    likes_count: MaybeCount = None
    comments_count: MaybeCount = None
    video_play_count: MaybeCount = None
    video_view_count: MaybeCount = None


class _ExternalLink(Foreign):
    url: Text


class _Profile(ActorItem):
    id: MaybeId = None
    username: Name
    full_name: MaybeText = None
    biography: MaybeText = None
    external_urls: Annotated[tuple[_ExternalLink, ...], ONLY_READABLE] = ()
    private: MaybeBool = None
    verified: MaybeBool = None
    is_business_account: MaybeBool = None
    business_category_name: MaybeText = None
    joined_recently: MaybeBool = None
    followers_count: MaybeCount = None
    follows_count: MaybeCount = None
    posts_count: MaybeCount = None
    highlight_reel_count: MaybeCount = None


class InstagramGenerator:
    """Asks the actor."""

    source = SOURCE
    is_paid = True

    def __init__(self, http: OutboundClient, settings: Settings, apify: Apify) -> None:
        del settings  # share links are asked where Instagram itself is
        self._http = http
        self._apify = apify

    def supports(self, way: Route) -> bool:
        """Accounts, posts, reels, and share links to any of them, with a key. Stories die within a day."""
        is_known = way.object is ObjectKind.ACCOUNTS or way.subtype in (
            *PUBLICATIONS,
            ContentSubtype.SHORTLINK,
        )
        return self._apify.has_key and way.platform is Platform.INSTAGRAM and is_known

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One run, and one call before it for a share link."""
        place = way
        if way.subtype is ContentSubtype.SHORTLINK:
            url = f"{public_url(way)}/"
            place = place_of_location(location_of(self._http, url, context, source="instagram"))
        question = question_about(place)
        if place.object is ObjectKind.ACCOUNTS:
            return self._apify.ask(question, lambda found: profile_graph(found, place), context)
        return self._apify.ask(question, lambda found: post_graph(found, place), context)


def place_of_location(location: str) -> Route:
    """The place that a share link's redirect names.

    Raises `FetchFailed`: strangers are led to the login, which says nothing about the post.
    """
    place = route(location)
    is_known = place.object is ObjectKind.ACCOUNTS or place.subtype in PUBLICATIONS
    if place.platform is Platform.INSTAGRAM and is_known:
        return place
    raise FetchFailed("instagram does not show where the share link leads", reason="login_wall")


def question_about(place: Route) -> Question:
    """What the actor is asked about a profile or a publication; it takes `/p/` for all of the latter."""
    if place.object is ObjectKind.ACCOUNTS:
        asked, kind = f"{public_url(place)}/", "details"
    else:
        asked, kind = f"https://www.instagram.com/p/{place.key}/", "posts"
    return Question(
        actor=ACTOR,
        target=place.url,
        input={"directUrls": [asked], "resultsType": kind, "resultsLimit": 1},
        names=(asked, place.url),
    )


def post_graph(found: Findings, place: Route) -> SocialObjectGraph:
    """A post or reel with its owner.

    Raises `TargetGone`, `TargetBlocked`, or `FetchFailed` (`unexpected_shape` for another post, `actor_error`
    for an error without a meaning).
    """
    post = read_as(_Post, _item_of(found.items), ACTOR)
    if post.id != media_id(place.key):
        raise FetchFailed("the actor shows another post", reason="unexpected_shape")
    metrics = _post_metrics(post)
    group = ObjectGroup(
        content=_content(post),
        account=_owner(post),
        metrics={ObjectKind.CONTENTS: metrics} if metrics else {},
    )
    return SocialObjectGraph(groups=(group,), observed_at=found.looked_at)


def profile_graph(found: Findings, place: Route) -> SocialObjectGraph:
    """A profile. A private one is blocked, and shows names and counts all the same.

    Raises as `post_graph` does.
    """
    profile = read_as(_Profile, _item_of(found.items), ACTOR)
    if profile.username.lower() != place.key.lower():
        raise FetchFailed("the actor shows another profile", reason="unexpected_shape")
    metrics = _profile_metrics(profile)
    group = ObjectGroup(account=_account(profile), metrics={ObjectKind.ACCOUNTS: metrics} if metrics else {})
    return SocialObjectGraph(
        groups=(group,),
        observed_at=found.looked_at,
        blocked_reason="private" if profile.private else None,
    )


def media_id(code: str) -> str | None:
    """The media id that a URL's code spells, as decimal text; None for what is no code."""
    if len(code) > _PRIVATE_SUFFIX_LETTERS:
        code = code[:-_PRIVATE_SUFFIX_LETTERS]
    number = 0
    for letter in code:
        digit = _CODE_DIGITS.find(letter)
        if digit < 0:
            return None
        number = number * len(_CODE_DIGITS) + digit
    return str(number)


def time_of_id(media: str) -> datetime | None:
    """When a media id was given out, up to a minute off what Instagram shows; None for what holds no time."""
    number = int(media)
    if not 2**23 <= number < 2**63:
        return None
    return _UNIX_EPOCH + timedelta(milliseconds=(number >> 23) + _EPOCH_MS)


def _item_of(items: tuple[Item, ...]) -> Item:
    item = next((each for each in items if not each.get("error")), items[0])
    error = item.get("error")
    if not error:
        return item
    match error:
        case "not_found":
            raise TargetGone("instagram shows no such thing", reason="actor_not_found")
        case "no_items":
            raise TargetBlocked("instagram shows nothing of it to strangers", reason="empty_or_private")
        case "restricted_page":
            raise TargetBlocked("instagram shows it to some people only", reason="restricted")
        case _:
            raise FetchFailed("the actor gives an error that we do not know", reason="actor_error")


def _content(post: _Post) -> ContentDraft:
    # The same code may stand behind `/p/`, `/reel/` and `/tv/`, so the answer says what it is.
    is_reel = post.product_type == _CLIP
    path = "reel" if is_reel else "p"
    return ContentDraft(
        platform=Platform.INSTAGRAM,
        subtype=ContentSubtype.REEL if is_reel else ContentSubtype.POST,
        url=route(f"https://instagram.com/{path}/{post.short_code}").url,
        platform_key=post.id,
        published_at=post.timestamp or time_of_id(post.id),
        text_primary=post.caption or None,
        text_from_media=post.alt or None,
        links=links_in_prose(post.caption),
        tags=unique(tag for tag in post.hashtags if tag),
        mentions=tuple(
            MentionDraft(platform_key=each.id, screen_name=each.username) for each in post.tagged_users
        ),
        data=_extras(post),
    )


def _extras(post: _Post) -> dict[str, JSONValue]:
    coauthors: list[JSONValue] = [
        {"id": each.id, "username": each.username} for each in post.coauthor_producers
    ]
    named: dict[str, JSONValue] = {
        "short_code": post.short_code,
        "type": post.type,
        "product_type": post.product_type,
        "duration_s": post.video_duration,
        "coauthors": coauthors,
        "is_sponsored": post.is_sponsored,
        "is_comments_disabled": post.is_comments_disabled,
    }
    return {name: value for name, value in named.items() if value not in (None, "", [])}


def _post_metrics(post: _Post) -> Metrics:
    return present(
        {
            "likesCount": post.likes_count,
            "commentsCount": post.comments_count,
            "videoPlayCount": post.video_play_count,
            "videoViewCount": post.video_view_count,
        }
    )


def _owner(post: _Post) -> AccountDraft:
    """The owner as the post shows it. Who published it together with the owner is an extra of the post."""
    return AccountDraft(
        platform=Platform.INSTAGRAM,
        url=route(f"https://instagram.com/{post.owner_username}").url,
        platform_key=post.owner_id,
        handle=post.owner_username,
        display_name=post.owner_full_name or None,
    )


def _account(profile: _Profile) -> AccountDraft:
    links = [*(link_meant(each.url) for each in profile.external_urls), *links_in_prose(profile.biography)]
    named: dict[str, JSONValue] = {
        "private": profile.private,
        "verified": profile.verified,
        "is_business_account": profile.is_business_account,
        "business_category": profile.business_category_name,
        "joined_recently": profile.joined_recently,
    }
    return AccountDraft(
        platform=Platform.INSTAGRAM,
        url=route(f"https://instagram.com/{profile.username}").url,
        platform_key=profile.id,
        handle=profile.username,
        display_name=profile.full_name or None,
        bio=profile.biography or None,
        links=unique(link for link in links if link),
        followers=profile.followers_count,
        data={name: value for name, value in named.items() if value is not None},
    )


def _profile_metrics(profile: _Profile) -> Metrics:
    return present(
        {
            "followersCount": profile.followers_count,
            "followsCount": profile.follows_count,
            "postsCount": profile.posts_count,
            "highlightReelCount": profile.highlight_reel_count,
        }
    )
