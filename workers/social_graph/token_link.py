"""Links between a token and what its URLs lead to: an append-only log. The model and its repository.

A link is never overwritten: when a status changes, the time of the change is the signal. The one exception
is a URL that is written again before it was finished: its links are deleted and inserted anew with their old
`created_at`, so that counts as of a time do not move.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import DeleteMany, InsertOne

from workers.clock import Clock
from workers.errors import InvalidInput
from workers.mongo import Document, Filter, MongoDatabase
from workers.social_graph.stored_data import present_fields
from workers.social_graph.stored_text import known_word, required_text
from workers.social_graph.stored_time import required_time, stored_time
from workers.social_graph.vocabulary import (
    LINEAGE_MAX_DEPTH,
    ContentSubtype,
    LinkStatus,
    ObjectKind,
    Platform,
    VenueSubtype,
)
from workers.social_graph.write_batch import Write
from workers.store_errors import translated

COLLECTION = "token_links"
LINKS_PER_BATCH = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLink:
    """One object that one URL of one token leads to. Build it with `of`.

    `lineage` is the object itself and, when it was reached through another one, that one.
    """

    token_address: str
    object: ObjectKind
    object_id: ObjectId
    entry_url: str
    created_at: datetime
    observed_at: datetime
    status: LinkStatus
    platform: Platform
    lineage: tuple[ObjectId, ...]
    subtype: ContentSubtype | VenueSubtype | None = None
    name_match: bool | None = None
    first_transfer_at: datetime | None = None
    id: ObjectId = field(default_factory=ObjectId)
    updated_at: datetime | None = None

    @classmethod
    def of(
        cls,
        *,
        token_address: str,
        object: ObjectKind,
        object_id: ObjectId,
        entry_url: str,
        created_at: datetime,
        observed_at: datetime,
        status: LinkStatus,
        platform: Platform,
        subtype: ContentSubtype | VenueSubtype | None = None,
        name_match: bool | None = None,
        first_transfer_at: datetime | None = None,
        ancestor_ids: Sequence[ObjectId] = (),
    ) -> TokenLink:
        """Check and build; `ancestor_ids` are the objects it was reached through, nearest first.

        Raises `InvalidInput` naming the field.
        """
        kind = known_word(ObjectKind, object, "object")
        if (kind is ObjectKind.ACCOUNTS) != (subtype is None):
            raise InvalidInput("accounts have no subtype, everything else has one", field="subtype")
        return cls(
            token_address=required_text(token_address, "token_address"),
            object=kind,
            object_id=object_id,
            entry_url=required_text(entry_url, "entry_url"),
            created_at=required_time(created_at, "created_at"),
            observed_at=required_time(observed_at, "observed_at"),
            status=known_word(LinkStatus, status, "status"),
            platform=known_word(Platform, platform, "platform"),
            lineage=build_lineage(object_id, ancestor_ids),
            subtype=_subtype(kind, subtype),
            name_match=name_match,
            first_transfer_at=stored_time(first_transfer_at, "first_transfer_at"),
        )

    @property
    def link_depth(self) -> int:
        """Steps from what the URL itself shows; derived, so that it cannot disagree with the lineage."""
        return len(self.lineage) - 1

    @property
    def is_direct(self) -> bool:
        """Whether the URL itself shows the object."""
        return self.link_depth == 0

    def to_document(self) -> Document:
        """The stored form; what is unknown is left out."""
        return present_fields(
            _id=self.id,
            token_address=self.token_address,
            object=self.object.value,
            object_id=self.object_id,
            entry_url=self.entry_url,
            created_at=self.created_at,
            observed_at=self.observed_at,
            status=self.status.value,
            name_match=self.name_match,
            platform=self.platform.value,
            subtype=self.subtype and self.subtype.value,
            first_transfer_at=self.first_transfer_at,
            lineage=list(self.lineage),
            link_depth=self.link_depth,
            updated_at=self.updated_at,
        )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TokenLink:
        """Read the stored form."""
        kind = ObjectKind(document["object"])
        return cls(
            id=document["_id"],
            token_address=document["token_address"],
            object=kind,
            object_id=document["object_id"],
            entry_url=document["entry_url"],
            created_at=document["created_at"],
            observed_at=document["observed_at"],
            status=LinkStatus(document["status"]),
            name_match=document.get("name_match"),
            platform=Platform(document["platform"]),
            subtype=_subtype(kind, document.get("subtype")),
            first_transfer_at=document.get("first_transfer_at"),
            lineage=tuple(document["lineage"]),
            updated_at=document.get("updated_at"),
        )


def build_lineage(object_id: ObjectId, ancestor_ids: Iterable[ObjectId]) -> tuple[ObjectId, ...]:
    """The object first, then what it was reached through; each once, at most two."""
    return tuple(dict.fromkeys((object_id, *ancestor_ids)))[:LINEAGE_MAX_DEPTH]


def name_match(venue_name: str | None, token_name: str | None) -> bool | None:
    """Whether the venue's name contains the token's; None when one of them is unknown.

    The name of a venue changes, so this is judged when it is seen.
    """
    venue, token = _comparable(venue_name), _comparable(token_name)
    return token in venue if venue and token else None


def _comparable(name: str | None) -> str:
    return unicodedata.normalize("NFKC", name or "").casefold().strip().lstrip("$")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceCounts:
    """How many tokens led to an object: directly, and directly or in any other way."""

    direct: int
    all: int


def _subtype(kind: ObjectKind, word: str | None) -> ContentSubtype | VenueSubtype | None:
    if word is None:
        return None
    if kind is ObjectKind.CONTENTS:
        return known_word(ContentSubtype, word, "subtype")
    return known_word(VenueSubtype, word, "subtype")


class TokenLinkRepository:
    """The collection `token_links`. There is no way to change a link."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        self._collection = database[COLLECTION]
        self._clock = clock

    def append_many(self, links: Sequence[TokenLink]) -> None:
        """Add links."""
        if not links:
            return
        now = self._clock.now()
        with translated(COLLECTION):
            self._collection.insert_many([{**link.to_document(), "updated_at": now} for link in links])

    def insertions(self, links: Sequence[TokenLink]) -> list[Write]:
        """The writes that add the links, as `append_many` does."""
        now = self._clock.now()
        return [
            InsertOne({**link.to_document(), "updated_at": now}, namespace=self._collection.full_name)
            for link in links
        ]

    def deletion_of_others(self, kept: Sequence[TokenLink]) -> Write:
        """The write that deletes what the URL of these links led to before, under the rule of
        `delete_by_token_and_entry_url`. `kept` holds at least one link, all of one URL of one token.
        """
        return DeleteMany(
            {
                "token_address": kept[0].token_address,
                "entry_url": kept[0].entry_url,
                "_id": {"$nin": [link.id for link in kept]},
            },
            namespace=self._collection.full_name,
        )

    def find_by_token_and_entry_url(self, token_address: str, entry_url: str) -> list[TokenLink]:
        """What one URL of one token has led to, oldest first."""
        return self._find(
            {"token_address": token_address, "entry_url": entry_url}, sort=[("created_at", 1), ("_id", 1)]
        )

    def delete_by_token_and_entry_url(self, token_address: str, entry_url: str) -> int:
        """Delete the links of one URL of one token, to write them anew; return how many there were.

        Allowed only under the token's lease and while that URL is not `ok`.
        """
        with translated(COLLECTION):
            return self._collection.delete_many(
                {"token_address": token_address, "entry_url": entry_url}
            ).deleted_count

    def delete(self, links: Sequence[TokenLink]) -> None:
        """Delete exactly these links, which were added for a token whose recording did not come to stand."""
        if not links:
            return
        with translated(COLLECTION):
            self._collection.delete_many({"_id": {"$in": [link.id for link in links]}})

    def count_by_object_as_of(self, object_id: ObjectId, as_of: datetime) -> int:
        """How many tokens led to the object directly, up to and including `as_of`."""
        return self._count_tokens({"object_id": object_id, **_until(as_of), "link_depth": 0})

    def count_by_lineage_as_of(self, lineage_id: ObjectId, as_of: datetime) -> int:
        """How many tokens led to the object or through it, up to and including `as_of`."""
        return self._count_tokens({"lineage": lineage_id, **_until(as_of)})

    def find_by_lineage_as_of(self, lineage_id: ObjectId, as_of: datetime) -> list[TokenLink]:
        """The links to the object or through it, up to and including `as_of`, oldest first."""
        return self._find({"lineage": lineage_id, **_until(as_of)}, sort=[("created_at", 1)])

    def find_by_token(self, token_address: str, as_of: datetime) -> list[TokenLink]:
        """The links of the token, up to and including `as_of`, oldest first."""
        return self._find({"token_address": token_address, **_until(as_of)}, sort=[("created_at", 1)])

    def iterate_by_token(
        self, token_address: str, as_of: datetime, *, since: datetime | None = None
    ) -> Generator[TokenLink, None, None]:
        """The links of the token in `[since, as_of]`, oldest first, in no particular order at one time."""
        return self._iterate({"token_address": token_address, **_between(since, as_of)})

    def iterate_by_lineage(
        self, lineage_id: ObjectId, as_of: datetime, *, since: datetime | None = None
    ) -> Generator[TokenLink, None, None]:
        """The links to the object or through it in `[since, as_of]`, ordered as `iterate_by_token` does."""
        return self._iterate({"lineage": lineage_id, **_between(since, as_of)})

    def find_tokens_linked_before(
        self, lineage_id: ObjectId, addresses: Collection[str], before: datetime
    ) -> set[str]:
        """Those of the tokens that led to the object or through it before `before`, which is excluded."""
        pipeline: list[Filter] = [
            # Two steps, because the embedded server finds tokens through the index only by what the index
            # holds (ADR 0002). MongoDB takes them as one.
            {"$match": {"token_address": {"$in": sorted(set(addresses))}}},
            {"$match": {"lineage": lineage_id, "created_at": {"$lt": stored_time(before, "before")}}},
            {"$group": {"_id": "$token_address"}},
        ]
        with translated(COLLECTION):
            return {str(row["_id"]) for row in self._collection.aggregate(pipeline)}

    def count_references_as_of(self, lineage_id: ObjectId, as_of: datetime) -> ReferenceCounts:
        """What `count_by_object_as_of` and `count_by_lineage_as_of` count, at one time and in one query."""
        pipeline: list[Filter] = [
            {"$match": {"lineage": lineage_id, **_until(as_of)}},
            # A link of depth 0 has no lineage but its object.
            {"$group": {"_id": "$token_address", "nearest": {"$min": "$link_depth"}}},
            {"$group": {"_id": "$nearest", "tokens": {"$sum": 1}}},
        ]
        with translated(COLLECTION):
            tokens = {row["_id"]: int(row["tokens"]) for row in self._collection.aggregate(pipeline)}
        return ReferenceCounts(direct=tokens.get(0, 0), all=sum(tokens.values()))

    def has_any(self, token_address: str) -> bool:
        """Whether the token has links at all."""
        with translated(COLLECTION):
            return self._collection.find_one({"token_address": token_address}, {"_id": 1}) is not None

    def find_latest_by_object_and_token(self, object_id: ObjectId, token_address: str) -> TokenLink | None:
        """The last link between the two."""
        found = self._find(
            {"object_id": object_id, "token_address": token_address}, sort=[("created_at", -1)], limit=1
        )
        return found[0] if found else None

    def _iterate(self, condition: Filter) -> Generator[TokenLink, None, None]:
        """Stream by the index that ends in the time, which sorts them on the way."""
        with (
            translated(COLLECTION),
            self._collection.find(condition, batch_size=LINKS_PER_BATCH).sort("created_at", 1) as cursor,
        ):
            for document in cursor:
                yield TokenLink.from_document(document)

    def _find(self, condition: Filter, *, sort: Sequence[tuple[str, int]], limit: int = 0) -> list[TokenLink]:
        with translated(COLLECTION):
            documents = list(self._collection.find(condition, limit=limit).sort(list(sort)))
        return [TokenLink.from_document(document) for document in documents]

    def _count_tokens(self, condition: Filter) -> int:
        pipeline: list[Filter] = [
            {"$match": condition},
            {"$group": {"_id": "$token_address"}},
            {"$count": "tokens"},
        ]
        with translated(COLLECTION):
            counted = list(self._collection.aggregate(pipeline))
        return int(counted[0]["tokens"]) if counted else 0


def _until(as_of: datetime) -> Document:
    return {"created_at": {"$lte": stored_time(as_of, "as_of")}}


def _between(since: datetime | None, as_of: datetime) -> Document:
    """Both ends belong to it."""
    condition = _until(as_of)
    if since is not None:
        condition["created_at"]["$gte"] = stored_time(since, "since")
    return condition
