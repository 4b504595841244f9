"""What X's sources have in common: ids, times and links of X, and the drafts that objects become. Pure.

Each source spells the same facts in its own way (`screen_name`, `username`, `userName`). It reads its own
spelling and builds with what is here, so that one object looks the same whoever showed it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

from workers.errors import FetchFailed, TargetGone
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.social_recording.generators.foreign_json import OR_NONE, Foreign, Id, MaybeText
from workers.social_recording.generators.text_links import link_meant, links_in_prose, unique
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    MentionDraft,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)
from workers.social_recording.routing import Route, route

_EPOCH_MS = 1_288_834_974_657
# Ids of posts carry their time since November 2010; the first of those is larger than this. Accounts and
# communities followed years later, with the same kind of id.
_TIMED_IDS_START_AT = 10**17
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IDS_END_AT = 2**63

# The number of a post, an account or a community: beyond 53 bits, so it is text everywhere.
Number = Annotated[Id, Field(pattern=r"^[0-9]{1,20}$")]
MaybeNumber = Annotated[Number | None, OR_NONE]


class Link(Foreign):
    """A link in a text: X shows `url`, its own short form, for `expanded_url`."""

    url: MaybeText = None
    expanded_url: MaybeText = None


def is_recordable(way: Route) -> bool:
    """Whether the URL leads to a post, an account or a community."""
    is_known_kind = way.object is not ObjectKind.CONTENTS or way.subtype is ContentSubtype.TWEET
    return way.platform is Platform.X and is_known_kind


def check_number(number: str) -> None:
    """Raise `TargetGone` for a number that X cannot have given to anything; no call is needed to know."""
    if not (number.isascii() and number.isdigit() and 0 < int(number) < _IDS_END_AT):
        raise TargetGone("nothing on x can have this number", reason="impossible_id")


def number_of_account(way: Route) -> str | None:
    """The number that an account's URL names; None when it names a handle, which may be digits as well."""
    return way.key if way.url == _account_url(way.key) else None


def check_account(way: Route, *, number: str, handle: str) -> None:
    """Raise `FetchFailed` when the account that was shown is not the one that the URL names."""
    wanted = number_of_account(way)
    is_it = handle.lower() == way.key.lower() if wanted is None else number == wanted
    if not is_it:
        raise FetchFailed("x answered with another account", reason="unexpected_shape")


def time_of_id(number: str) -> datetime | None:
    """When an id was given out; None for the short ones, which have no time inside."""
    value = int(number) if number.isdigit() else 0
    if not _TIMED_IDS_START_AT <= value < _IDS_END_AT:
        return None
    return _UNIX_EPOCH + timedelta(milliseconds=(value >> 22) + _EPOCH_MS)


def post_draft(
    *,
    number: str,
    text: str,
    published_at: datetime | None,
    links: Iterable[Link],
    tags: Iterable[str | None],
    mentions: Iterable[tuple[str | None, str | None]],
    data: Mapping[str, JSONValue],
) -> ContentDraft:
    """A post. `mentions` are pairs of number and handle; those without a number are left out.

    A post's picture stands in its text as a link to the post itself, which says nothing.
    """
    url = route(f"https://x.com/i/status/{number}").url
    meant = (link_meant(each.expanded_url or each.url) for each in links)
    return ContentDraft(
        platform=Platform.X,
        subtype=ContentSubtype.TWEET,
        url=url,
        platform_key=number,
        published_at=published_at or time_of_id(number),
        text_primary=html.unescape(text),
        links=unique(link for link in meant if link and link != url),
        tags=unique(tag for tag in tags if tag),
        mentions=tuple(
            MentionDraft(platform_key=key, screen_name=handle) for key, handle in mentions if key is not None
        ),
        data=data,
    )


def account_draft(
    *,
    number: str,
    handle: str | None,
    display_name: str | None = None,
    bio: str | None = None,
    links: tuple[str, ...] = (),
    account_created_at: datetime | None = None,
    followers: int | None = None,
    unavailable: bool | None = None,
    data: Mapping[str, JSONValue | None] | None = None,
) -> AccountDraft:
    """An account; of one that is only referred to, the number may be all that is known."""
    return AccountDraft(
        platform=Platform.X,
        url=route(f"https://x.com/{handle}").url if handle else _account_url(number),
        platform_key=number,
        handle=handle,
        display_name=display_name,
        bio=None if bio is None else html.unescape(bio),
        links=links,
        account_created_at=account_created_at or time_of_id(number),
        followers=followers,
        unavailable=unavailable,
        data=known(data or {}),
    )


def closed_account_graph(
    way: Route, reason: str, observed_at: datetime, account: AccountDraft | None = None
) -> SocialObjectGraph:
    """An account that X has closed; without `account`, all that is known of it is in its URL."""
    wanted = number_of_account(way)
    shown = account or AccountDraft(
        platform=Platform.X,
        url=way.url,
        platform_key=wanted,
        handle=way.key if wanted is None else None,
        account_created_at=None if wanted is None else time_of_id(wanted),
        unavailable=True,
    )
    return SocialObjectGraph(
        groups=(ObjectGroup(account=shown),), observed_at=observed_at, blocked_reason=reason
    )


def profile_links(website: Iterable[Link], bio: str | None, bio_links: Iterable[Link]) -> tuple[str, ...]:
    """The links of a profile: its website, then those in its bio, in place of X's short forms of them."""
    bio_links = tuple(bio_links)
    short_forms = {link_meant(each.url) for each in bio_links}
    named = (link_meant(each.expanded_url or each.url) for each in (*website, *bio_links))
    written = (link for link in links_in_prose(bio) if link not in short_forms)
    return unique(link for link in (*named, *written) if link)


def community_draft(
    *,
    number: str,
    name: str | None = None,
    description: str | None = None,
    venue_created_at: datetime | None = None,
    members: int | None = None,
    data: Mapping[str, JSONValue | None] | None = None,
) -> VenueDraft:
    """A community; of one that a post only names, the number is all that is known."""
    return VenueDraft(
        platform=Platform.X,
        subtype=VenueSubtype.COMMUNITY,
        url=route(f"https://x.com/i/communities/{number}").url,
        platform_key=number,
        name=name,
        description=description,
        venue_created_at=venue_created_at or time_of_id(number),
        members=members,
        data=known(data or {}),
    )


def reply_extra(number: str | None, handle: str | None) -> JSONValue:
    """The post that a post replies to, as a value; None when it is no reply."""
    return None if number is None else {"id": number, "screen_name": handle}


def media_extra(media: Iterable[tuple[str | None, str | None]]) -> JSONValue:
    """Pictures and videos, as pairs of type and address; None when there are none."""
    items: list[JSONValue] = [{"type": kind, "url": url} for kind, url in media]
    return items or None


def known(facts: Mapping[str, JSONValue | None]) -> dict[str, JSONValue]:
    """The facts that the source gave."""
    return {name: value for name, value in facts.items() if value is not None}


def _account_url(number: str) -> str:
    return f"https://x.com/i/user/{number}"
