"""The indexes of the social graph: the written list, its migration and its check.

The order of the fields says what a query may use. Nothing is ever dropped or rebuilt here: an index that
differs or that nobody wrote down is reported, and a person decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymongo import ASCENDING, DESCENDING

from workers.mongo import Document, MongoDatabase
from workers.social_graph.store_errors import translated

# "Text that is not empty": every other kind of value, and a missing one, compares false. Unlike a test of
# the type, a plain query for one key implies it; see docs/adr/0001-partial-filter-on-platform-keys.md.
_WITH_KEY: Document = {"platform_key": {"$gt": ""}}


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexSpec:
    """One index. `partial` is the filter of the rows that it holds; None for all rows."""

    collection: str
    name: str
    keys: tuple[tuple[str, int], ...]
    unique: bool = False
    partial: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, collection: str, name: str, stored: Mapping[str, Any]) -> IndexSpec:
        """Read what the store says about an index."""
        partial = stored.get("partialFilterExpression")
        return cls(
            collection=collection,
            name=name,
            keys=tuple((str(field), int(direction)) for field, direction in stored["key"]),
            unique=bool(stored.get("unique", False)),
            partial=None if partial is None else {field: dict(test) for field, test in partial.items()},
        )


def _spec(
    collection: str, name: str, *fields: str, unique: bool = False, partial: Document | None = None
) -> IndexSpec:
    """A field with a leading minus is descending."""
    keys = tuple((field.lstrip("-"), DESCENDING if field.startswith("-") else ASCENDING) for field in fields)
    return IndexSpec(collection=collection, name=name, keys=keys, unique=unique, partial=partial)


def _where_there_is(field: str) -> Document:
    return {field: {"$exists": True}}


INDEXES: tuple[IndexSpec, ...] = (
    _spec("contents", "uniq_contents_source_url", "source_urls.url", unique=True),
    _spec("contents", "idx_contents_platform_subtype", "platform", "subtype"),
    _spec(
        "contents",
        "uniq_contents_platform_key",
        "platform",
        "subtype",
        "platform_key",
        unique=True,
        partial=_WITH_KEY,
    ),
    _spec(
        "contents",
        "idx_contents_creator_published",
        "creator_id",
        "-published_at",
        partial=_where_there_is("creator_id"),
    ),
    _spec(
        "contents", "idx_contents_parent", "parent_content_id", partial=_where_there_is("parent_content_id")
    ),
    _spec("contents", "idx_contents_venue", "venue_id", partial=_where_there_is("venue_id")),
    _spec("accounts", "uniq_accounts_source_url", "source_urls.url", unique=True),
    _spec(
        "accounts", "uniq_accounts_platform_key", "platform", "platform_key", unique=True, partial=_WITH_KEY
    ),
    _spec("accounts", "idx_accounts_handle", "handles.value"),
    _spec("accounts", "idx_accounts_wallet", "known_wallets"),
    _spec("venues", "uniq_venues_source_url", "source_urls.url", unique=True),
    _spec(
        "venues",
        "uniq_venues_platform_key",
        "platform",
        "subtype",
        "platform_key",
        unique=True,
        partial=_WITH_KEY,
    ),
    _spec("venues", "idx_venues_creator", "creator_id", partial=_where_there_is("creator_id")),
    _spec("token_links", "idx_links_object_linked", "object_id", "created_at"),
    _spec("token_links", "idx_links_token_linked", "token_address", "created_at"),
    _spec("token_links", "idx_links_lineage_linked", "lineage", "created_at"),
    _spec("token_links", "idx_links_platform_linked", "platform", "subtype", "created_at"),
    _spec("metric_series", "uniq_series_object", "object", "object_id", unique=True),
    _spec("metric_series", "idx_series_platform", "platform"),
    _spec("tokens", "uniq_tokens_address", "address", unique=True),
    _spec("tokens", "idx_tokens_fingerprints", "fingerprints"),
    _spec("tokens", "idx_tokens_discovered", "-created_at"),
    _spec("tokens", "idx_tokens_social_url_status", "social_urls.status"),
)
COLLECTIONS = tuple(dict.fromkeys(spec.collection for spec in INDEXES))


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationReport:
    """Names of indexes: created now, found as written, missing, found different, and not on the list."""

    created: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_as_written(self) -> bool:
        """Whether the store now has the list and nothing else."""
        return not (self.missing or self.differing or self.unknown)


def check(database: MongoDatabase) -> MigrationReport:
    """Compare the store with the list; changes nothing."""
    stored = _stored(database)
    written = {spec.name: spec for spec in INDEXES}
    return MigrationReport(
        present=tuple(name for name, spec in written.items() if stored.get(name) == spec),
        missing=tuple(name for name in written if name not in stored),
        differing=tuple(name for name, spec in written.items() if name in stored and stored[name] != spec),
        unknown=tuple(sorted(set(stored) - set(written))),
    )


def migrate(database: MongoDatabase) -> MigrationReport:
    """Create what is missing. Running it again changes nothing.

    Raises `DuplicateKey` when stored rows contradict a unique index.
    """
    before = check(database)
    for spec in INDEXES:
        if spec.name in before.missing:
            _create(database, spec)
    return MigrationReport(
        created=before.missing,
        present=before.present,
        differing=before.differing,
        unknown=before.unknown,
    )


def _create(database: MongoDatabase, spec: IndexSpec) -> None:
    options: Document = {"name": spec.name, "unique": spec.unique}
    if spec.partial is not None:
        options["partialFilterExpression"] = dict(spec.partial)
    with translated(spec.collection):
        database[spec.collection].create_index(list(spec.keys), **options)


def _stored(database: MongoDatabase) -> dict[str, IndexSpec]:
    found: dict[str, IndexSpec] = {}
    for collection in COLLECTIONS:
        with translated(collection):
            information = database[collection].index_information()
        for name, stored in information.items():
            if name != "_id_":
                found[name] = IndexSpec.read(collection, name, stored)
    return found
