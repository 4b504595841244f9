"""Contents: posts, videos, repositories, sites, searches. The model and its repository.

A content is a coordinate in a platform's space. Its first creation is final: later observations add source
URLs and refresh the derived caches, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

from bson import ObjectId

from workers.clock import Clock
from workers.errors import InvalidInput
from workers.mongo import Document, MongoDatabase
from workers.social_graph.metric_spec import pick_known_metrics
from workers.social_graph.object_repository import ObjectRepository
from workers.social_graph.source_url import SourceURL, source_urls_of, with_source_url
from workers.social_graph.stored_data import StoredValue, known_fields, present_fields, stored_data
from workers.social_graph.stored_text import (
    LIST_MAX,
    NAME_MAX,
    known_word,
    required_text,
    stored_key,
    stored_list,
    stored_text,
)
from workers.social_graph.stored_time import required_time, stored_time
from workers.social_graph.vocabulary import (
    ContentSubtype,
    FetchStatus,
    ObjectKind,
    ParentRelation,
    Platform,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentText:
    """The words of a content: title or post, long text, and what was read out of its media."""

    primary: str | None = None
    body: str | None = None
    from_media: str | None = None

    @classmethod
    def of(
        cls, *, primary: str | None = None, body: str | None = None, from_media: str | None = None
    ) -> ContentText:
        """Clean and cut each."""
        return cls(primary=stored_text(primary), body=stored_text(body), from_media=stored_text(from_media))

    def to_document(self) -> Document:
        """The stored form."""
        return present_fields(primary=self.primary, body=self.body, from_media=self.from_media)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mention:
    """Somebody named in a content: a value, not a reference to an account row."""

    platform_key: str
    screen_name: str | None = None

    @classmethod
    def of(cls, platform_key: str, screen_name: str | None = None) -> Mention:
        """Check and build. Raises `InvalidInput` without a key: a name alone belongs to nobody for long."""
        return cls(
            platform_key=required_text(platform_key, "mentions.platform_key"),
            screen_name=stored_text(screen_name, NAME_MAX),
        )

    def to_document(self) -> Document:
        """The stored form."""
        return present_fields(platform_key=self.platform_key, screen_name=self.screen_name)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorSnapshot:
    """The creator as it was when the content was first seen; the account's own row moves on."""

    account_id: ObjectId
    handle: str | None = None
    display_name: str | None = None
    followers: int | None = None
    account_created_at: datetime | None = None

    @classmethod
    def of(
        cls,
        account_id: ObjectId,
        *,
        handle: str | None = None,
        display_name: str | None = None,
        followers: int | None = None,
        account_created_at: datetime | None = None,
    ) -> AuthorSnapshot:
        """Clean and build. Raises `InvalidInput` for a time without a zone."""
        return cls(
            account_id=account_id,
            handle=stored_text(handle, NAME_MAX),
            display_name=stored_text(display_name, NAME_MAX),
            followers=followers,
            account_created_at=stored_time(account_created_at, "author.account_created_at"),
        )

    def to_document(self) -> Document:
        """The stored form."""
        return present_fields(
            account_id=self.account_id,
            handle=self.handle,
            display_name=self.display_name,
            followers=self.followers,
            account_created_at=self.account_created_at,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkStats:
    """A derived count of links. `computed_at` and `input_cutoff` say how old it is; never read it without."""

    link_count: int
    first_linked_at: datetime | None
    computed_at: datetime
    input_cutoff: datetime

    def to_document(self) -> Document:
        """The stored form."""
        return present_fields(
            link_count=self.link_count,
            first_linked_at=self.first_linked_at,
            computed_at=self.computed_at,
            input_cutoff=self.input_cutoff,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """One content. Build it with `of`; the state changes return a changed copy."""

    kind: ClassVar[ObjectKind] = ObjectKind.CONTENTS

    id: ObjectId
    platform: Platform
    subtype: ContentSubtype
    source_urls: tuple[SourceURL, ...]
    observed_at: datetime
    platform_key: str | None = None
    creator_id: ObjectId | None = None
    venue_id: ObjectId | None = None
    parent_content_id: ObjectId | None = None
    parent_relation: ParentRelation | None = None
    published_at: datetime | None = None
    text: ContentText = field(default_factory=ContentText)
    links: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()
    author: AuthorSnapshot | None = None
    metrics_latest: Mapping[str, int | float] | None = None
    link_stats: LinkStats | None = None
    data: Mapping[str, StoredValue] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(
        cls,
        *,
        platform: Platform,
        subtype: ContentSubtype,
        source_urls: Iterable[SourceURL],
        observed_at: datetime,
        platform_key: str | None = None,
        creator_id: ObjectId | None = None,
        venue_id: ObjectId | None = None,
        parent_content_id: ObjectId | None = None,
        parent_relation: ParentRelation | None = None,
        published_at: datetime | None = None,
        text: ContentText | None = None,
        links: Iterable[str] = (),
        tags: Iterable[str] = (),
        mentions: Iterable[Mention] = (),
        author: AuthorSnapshot | None = None,
        data: Mapping[str, object] | None = None,
    ) -> Content:
        """Check, clean and build a new content with an id of its own.

        Raises `InvalidInput` naming the field.
        """
        if parent_relation is not None and parent_content_id is None:
            raise InvalidInput("a relation needs a parent", field="parent_relation")
        return cls(
            id=ObjectId(),
            platform=known_word(Platform, platform, "platform"),
            subtype=known_word(ContentSubtype, subtype, "subtype"),
            source_urls=source_urls_of(source_urls),
            observed_at=required_time(observed_at, "observed_at"),
            platform_key=stored_key(platform_key),
            creator_id=creator_id,
            venue_id=venue_id,
            parent_content_id=parent_content_id,
            parent_relation=(
                None
                if parent_relation is None
                else known_word(ParentRelation, parent_relation, "parent_relation")
            ),
            published_at=stored_time(published_at, "published_at"),
            text=text or ContentText(),
            links=stored_list(tuple(links)),
            tags=stored_list(tuple(tags)),
            mentions=tuple(dict.fromkeys(mentions))[:LIST_MAX],
            author=author,
            data=stored_data(data or {}),
        )

    @property
    def is_alive(self) -> bool:
        """Whether any of its URLs still led to it when last asked."""
        return any(entry.status is FetchStatus.OK for entry in self.source_urls)

    def add_source_url(self, url: str, status: FetchStatus, observed_at: datetime) -> Content:
        """Note an observation under `url`: one entry per URL."""
        return replace(
            self, source_urls=with_source_url(self.source_urls, SourceURL.of(url, status, observed_at))
        )

    def mark_observed(self, observed_at: datetime) -> Content:
        """Note that the platform showed it at this time; never moves back."""
        return replace(self, observed_at=max(self.observed_at, required_time(observed_at, "observed_at")))

    def update_metrics_latest(self, metrics: Mapping[str, object], observed_at: datetime) -> Content:
        """Refresh the cache of the last metric point; one older than the last observation is ignored."""
        seen_at = required_time(observed_at, "observed_at")
        known = pick_known_metrics(self.platform, self.kind, metrics).metrics
        if seen_at < self.observed_at or not known:
            return self
        return replace(self, metrics_latest=known, observed_at=seen_at)

    def update_link_stats(
        self,
        link_count: int,
        first_linked_at: datetime | None,
        input_cutoff: datetime,
        *,
        computed_at: datetime,
    ) -> Content:
        """Store a derived count together with how old it is."""
        return replace(
            self,
            link_stats=LinkStats(
                link_count=link_count,
                first_linked_at=stored_time(first_linked_at, "link_stats.first_linked_at"),
                computed_at=required_time(computed_at, "link_stats.computed_at"),
                input_cutoff=required_time(input_cutoff, "link_stats.input_cutoff"),
            ),
        )

    def to_document(self) -> Document:
        """The stored form; what is unknown is left out, so that partial indexes skip it."""
        return present_fields(
            _id=self.id,
            platform=self.platform.value,
            subtype=self.subtype.value,
            platform_key=self.platform_key,
            source_urls=[entry.to_document() for entry in self.source_urls],
            creator_id=self.creator_id,
            venue_id=self.venue_id,
            parent_content_id=self.parent_content_id,
            parent_relation=self.parent_relation and self.parent_relation.value,
            published_at=self.published_at,
            observed_at=self.observed_at,
            text=self.text.to_document(),
            links=list(self.links),
            tags=list(self.tags),
            mentions=[mention.to_document() for mention in self.mentions],
            author=self.author and self.author.to_document(),
            metrics_latest=None if self.metrics_latest is None else dict(self.metrics_latest),
            link_stats=self.link_stats and self.link_stats.to_document(),
            data=dict(self.data),
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Content:
        """Read the stored form."""
        relation = document.get("parent_relation")
        author, stats = document.get("author"), document.get("link_stats")
        return cls(
            id=document["_id"],
            platform=Platform(document["platform"]),
            subtype=ContentSubtype(document["subtype"]),
            source_urls=tuple(SourceURL.from_document(entry) for entry in document["source_urls"]),
            observed_at=document["observed_at"],
            platform_key=document.get("platform_key"),
            creator_id=document.get("creator_id"),
            venue_id=document.get("venue_id"),
            parent_content_id=document.get("parent_content_id"),
            parent_relation=None if relation is None else ParentRelation(relation),
            published_at=document.get("published_at"),
            text=known_fields(ContentText, document.get("text", {})),
            links=tuple(document.get("links", ())),
            tags=tuple(document.get("tags", ())),
            mentions=tuple(known_fields(Mention, mention) for mention in document.get("mentions", ())),
            author=None if author is None else known_fields(AuthorSnapshot, author),
            metrics_latest=document.get("metrics_latest"),
            link_stats=None if stats is None else known_fields(LinkStats, {"first_linked_at": None, **stats}),
            data=document.get("data", {}),
            created_at=document.get("created_at"),
            updated_at=document.get("updated_at"),
        )


class ContentRepository(ObjectRepository[Content]):
    """The collection `contents`."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        super().__init__(database, clock, ObjectKind.CONTENTS, Content.from_document)

    def find_by_platform_key(
        self, platform: Platform, subtype: ContentSubtype, platform_key: str
    ) -> Content | None:
        """The content that the platform knows by this key."""
        return self._find_one(
            {"platform": platform.value, "subtype": subtype.value, "platform_key": platform_key}
        )

    def find_by_creator(self, creator_id: ObjectId, limit: int) -> list[Content]:
        """What the account made, latest publication first."""
        return self._find_many({"creator_id": creator_id}, sort=[("published_at", -1)], limit=limit)

    def find_children(self, parent_content_id: ObjectId) -> list[Content]:
        """What quotes, repeats or was forked from the content."""
        return self._find_many({"parent_content_id": parent_content_id}, sort=[("_id", 1)])

    def find_by_venue(self, venue_id: ObjectId, limit: int) -> list[Content]:
        """What stands in the venue, latest stored first."""
        return self._find_many({"venue_id": venue_id}, sort=[("_id", -1)], limit=limit)
