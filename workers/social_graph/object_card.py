"""Contents, accounts and venues in a few words, for people who look at links.

Only what a line of a list needs is read: a post may be 50,000 characters long, and a page has 200 of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bson import ObjectId

from workers.mongo import Document, MongoDatabase
from workers.social_graph.stored_text import cut_text
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.store_errors import translated

LABEL_MAX = 120

_FIELDS = {
    "platform": 1,
    "subtype": 1,
    "platform_key": 1,
    "source_urls.url": 1,
    "handles.value": 1,
    "display_name": 1,
    "text.primary": 1,
    "name": 1,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectCard:
    """One object. `label` is how it is called now, on one line of at most 120 characters."""

    kind: ObjectKind
    id: ObjectId
    platform: Platform
    subtype: ContentSubtype | VenueSubtype | None
    platform_key: str | None
    label: str

    @classmethod
    def from_document(cls, kind: ObjectKind, document: Mapping[str, Any]) -> ObjectCard:
        """Read the stored form."""
        return cls(
            kind=kind,
            id=document["_id"],
            platform=Platform(document["platform"]),
            subtype=_subtype(kind, document),
            platform_key=document.get("platform_key"),
            label=_label(kind, document),
        )

    def to_json(self) -> dict[str, object]:
        """The form in which people get it."""
        return {
            "kind": self.kind.value,
            "id": str(self.id),
            "platform": self.platform.value,
            "subtype": self.subtype and self.subtype.value,
            "platformKey": self.platform_key,
            "label": self.label,
        }


def _subtype(kind: ObjectKind, document: Mapping[str, Any]) -> ContentSubtype | VenueSubtype | None:
    match kind:
        case ObjectKind.CONTENTS:
            return ContentSubtype(document["subtype"])
        case ObjectKind.VENUES:
            return VenueSubtype(document["subtype"])
        case ObjectKind.ACCOUNTS:
            return None


def _label(kind: ObjectKind, document: Mapping[str, Any]) -> str:
    """The handle, the title or the name; an object without one is called by its first URL."""
    match kind:
        case ObjectKind.CONTENTS:
            names = [document.get("text", {}).get("primary")]
        case ObjectKind.VENUES:
            names = [document.get("name")]
        case ObjectKind.ACCOUNTS:
            names = [entry["value"] for entry in document.get("handles", ())][-1:]
            names.append(document.get("display_name"))
    names += [entry["url"] for entry in document["source_urls"]]
    lines = (" ".join(name.split()) for name in names if name)
    return cut_text(next(line for line in lines if line), LABEL_MAX)


class ObjectCardRepository:
    """The collections `contents`, `accounts` and `venues`, for reading only."""

    def __init__(self, database: MongoDatabase) -> None:
        self._collections = {kind: database[kind.value] for kind in ObjectKind}

    def find_by_id(self, kind: ObjectKind, object_id: ObjectId) -> ObjectCard | None:
        """The card of one object."""
        return self.find_by_ids([(kind, object_id)]).get(object_id)

    def find_by_ids(self, wanted: Iterable[tuple[ObjectKind, ObjectId]]) -> dict[ObjectId, ObjectCard]:
        """The cards of those that exist, by id; one query per kind."""
        ids: dict[ObjectKind, set[ObjectId]] = {}
        for kind, object_id in wanted:
            ids.setdefault(kind, set()).add(object_id)
        return {
            document["_id"]: ObjectCard.from_document(kind, document)
            for kind, object_ids in ids.items()
            for document in self._find(kind, object_ids)
        }

    def _find(self, kind: ObjectKind, object_ids: Collection[ObjectId]) -> list[Document]:
        with translated(kind):
            return list(
                self._collections[kind].find(
                    {"_id": {"$in": sorted(object_ids)}}, _FIELDS, batch_size=len(object_ids) + 1
                )
            )
