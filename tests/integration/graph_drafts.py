"""Short ways to say what a generator has seen, for the tests that write graphs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from workers.mongo import Document, MongoDatabase
from workers.social_graph.vocabulary import ContentSubtype, ParentRelation, Platform, VenueSubtype
from workers.social_recording.graph_writer import LinkContext
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
POST = "https://x.com/i/status/732822797798539264"


def post(key: str | None = "732822797798539264", url: str = POST, **fields: Any) -> ContentDraft:
    """A post of X."""
    return ContentDraft(
        platform=Platform.X, subtype=ContentSubtype.TWEET, url=url, platform_key=key, **fields
    )


def profile(url: str, key: str | None = None, platform: Platform = Platform.X, **fields: Any) -> AccountDraft:
    """An account, of X unless said otherwise."""
    return AccountDraft(platform=platform, url=url, platform_key=key, **fields)


def channel(url: str = "https://t.me/bonk", key: str | None = "-1001", **fields: Any) -> VenueDraft:
    """A channel of Telegram."""
    return VenueDraft(
        platform=Platform.TELEGRAM, subtype=VenueSubtype.CHANNEL, url=url, platform_key=key, **fields
    )


def alone(draft: ContentDraft | AccountDraft | VenueDraft, **fields: Any) -> ObjectGroup:
    """A group that shows one thing."""
    match draft:
        case ContentDraft():
            return ObjectGroup(content=draft, **fields)
        case AccountDraft():
            return ObjectGroup(account=draft, **fields)
        case VenueDraft():
            return ObjectGroup(venue=draft, **fields)


def quoting(draft: ContentDraft, parent: int = 1) -> ObjectGroup:
    """A post that quotes the post of another group."""
    return ObjectGroup(content=draft, parent_ref=parent, parent_relation=ParentRelation.QUOTE)


def graph(*groups: ObjectGroup, at: datetime = AT) -> SocialObjectGraph:
    """What one URL gave; the entry comes first."""
    return SocialObjectGraph(groups=groups, observed_at=at)


def context(entry_url: str, token: str = "t", at: datetime = AT, **fields: Any) -> LinkContext:  # noqa: S107
    """Whose URL it was."""
    return LinkContext(token_address=token, entry_url=entry_url, linked_at=at, **fields)


def only(database: MongoDatabase, collection: str) -> Document:
    """The one document of a collection."""
    [found] = database[collection].find()
    return found
