"""Venues: where. The model and its repository.

Names of venues change and are traded, so the key is the platform's lasting id wherever it shows one. The
first creation is final, as with accounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ClassVar

from bson import ObjectId

from workers.clock import Clock
from workers.mongo import Document, MongoDatabase
from workers.social_graph.object_repository import ObjectRepository
from workers.social_graph.source_url import SourceURL, given_up, source_urls_of, with_source_url
from workers.social_graph.stored_data import StoredValue, present_fields, stored_data
from workers.social_graph.stored_text import NAME_MAX, known_word, stored_key, stored_text
from workers.social_graph.stored_time import required_time, stored_time
from workers.social_graph.vocabulary import FetchStatus, ObjectKind, Platform, VenueSubtype


@dataclass(frozen=True, kw_only=True, slots=True)
class Venue:
    """One venue. Build it with `of`; the state changes return a changed copy.

    `members` is stored as `metrics.members`. `name` may change at the platform: never judge the past by it.
    """

    kind: ClassVar[ObjectKind] = ObjectKind.VENUES

    id: ObjectId
    platform: Platform
    subtype: VenueSubtype
    source_urls: tuple[SourceURL, ...]
    observed_at: datetime
    platform_key: str | None = None
    name: str | None = None
    description: str | None = None
    venue_created_at: datetime | None = None
    creator_id: ObjectId | None = None
    members: int | None = None
    data: Mapping[str, StoredValue] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(
        cls,
        *,
        platform: Platform,
        subtype: VenueSubtype,
        source_urls: Iterable[SourceURL],
        observed_at: datetime,
        platform_key: str | None = None,
        name: str | None = None,
        description: str | None = None,
        venue_created_at: datetime | None = None,
        creator_id: ObjectId | None = None,
        members: int | None = None,
        data: Mapping[str, object] | None = None,
    ) -> Venue:
        """Check, clean and build a new venue with an id of its own.

        Raises `InvalidInput` naming the field.
        """
        return cls(
            id=ObjectId(),
            platform=known_word(Platform, platform, "platform"),
            subtype=known_word(VenueSubtype, subtype, "subtype"),
            source_urls=source_urls_of(source_urls),
            observed_at=required_time(observed_at, "observed_at"),
            platform_key=stored_key(platform_key),
            name=stored_text(name, NAME_MAX),
            description=stored_text(description),
            venue_created_at=stored_time(venue_created_at, "venue_created_at"),
            creator_id=creator_id,
            members=members,
            data=stored_data(data or {}),
        )

    def add_source_url(self, url: str, status: FetchStatus, observed_at: datetime) -> Venue:
        """Note an observation under `url`: one entry per URL."""
        return replace(
            self, source_urls=with_source_url(self.source_urls, SourceURL.of(url, status, observed_at))
        )

    def is_another(self, platform_key: str | None) -> bool:
        """Whether the platform gives what it shows under one of our URLs a key that is not ours.

        Names are given up and taken by somebody else; the platform's keys are not.
        """
        known = stored_key(platform_key)
        return known is not None and self.platform_key is not None and known != self.platform_key

    def give_up_urls(self, urls: Collection[str]) -> Venue:
        """Note that the URLs lead to somebody else by now."""
        return replace(self, source_urls=given_up(self.source_urls, urls, str(self.platform_key)))

    def mark_observed(self, observed_at: datetime) -> Venue:
        """Note that the platform showed it at this time; never moves back."""
        return replace(self, observed_at=max(self.observed_at, required_time(observed_at, "observed_at")))

    def to_document(self) -> Document:
        """The stored form; what is unknown is left out, so that partial indexes skip it."""
        return present_fields(
            _id=self.id,
            platform=self.platform.value,
            subtype=self.subtype.value,
            platform_key=self.platform_key,
            source_urls=[entry.to_document() for entry in self.source_urls],
            name=self.name,
            description=self.description,
            venue_created_at=self.venue_created_at,
            creator_id=self.creator_id,
            metrics=present_fields(members=self.members),
            observed_at=self.observed_at,
            data=dict(self.data),
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Venue:
        """Read the stored form."""
        return cls(
            id=document["_id"],
            platform=Platform(document["platform"]),
            subtype=VenueSubtype(document["subtype"]),
            source_urls=tuple(SourceURL.from_document(entry) for entry in document["source_urls"]),
            observed_at=document["observed_at"],
            platform_key=document.get("platform_key"),
            name=document.get("name"),
            description=document.get("description"),
            venue_created_at=document.get("venue_created_at"),
            creator_id=document.get("creator_id"),
            members=document.get("metrics", {}).get("members"),
            data=document.get("data", {}),
            created_at=document.get("created_at"),
            updated_at=document.get("updated_at"),
        )


class VenueRepository(ObjectRepository[Venue]):
    """The collection `venues`."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        super().__init__(database, clock, ObjectKind.VENUES, Venue.from_document)

    def find_by_platform_key(
        self, platform: Platform, subtype: VenueSubtype, platform_key: str
    ) -> Venue | None:
        """The venue that the platform knows by this key."""
        return self._find_one(
            {"platform": platform.value, "subtype": subtype.value, "platform_key": platform_key}
        )

    def find_by_creator(self, creator_id: ObjectId) -> list[Venue]:
        """The venues that the account opened."""
        return self._find_many({"creator_id": creator_id}, sort=[("_id", 1)])
