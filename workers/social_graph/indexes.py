"""The indexes of the social graph: the written list, its migration and its check."""

from __future__ import annotations

from workers.mongo import Document, MongoDatabase
from workers.mongo_indexes import IndexSpec, MigrationReport, index
from workers.mongo_indexes import check as check_indexes
from workers.mongo_indexes import migrate as migrate_indexes

# "Text that is not empty": every other kind of value, and a missing one, compares false. Unlike a test of
# the type, a plain query for one key implies it; see docs/adr/0001-partial-filter-on-platform-keys.md.
_WITH_KEY: Document = {"platform_key": {"$gt": ""}}


def _where_there_is(name: str) -> Document:
    return {name: {"$exists": True}}


INDEXES: tuple[IndexSpec, ...] = (
    index("contents", "uniq_contents_source_url", "source_urls.url", unique=True),
    index("contents", "idx_contents_platform_subtype", "platform", "subtype"),
    index(
        "contents",
        "uniq_contents_platform_key",
        "platform",
        "subtype",
        "platform_key",
        unique=True,
        partial=_WITH_KEY,
    ),
    index(
        "contents",
        "idx_contents_creator_published",
        "creator_id",
        "-published_at",
        partial=_where_there_is("creator_id"),
    ),
    index(
        "contents", "idx_contents_parent", "parent_content_id", partial=_where_there_is("parent_content_id")
    ),
    index("contents", "idx_contents_venue", "venue_id", partial=_where_there_is("venue_id")),
    index("accounts", "uniq_accounts_source_url", "source_urls.url", unique=True),
    index(
        "accounts", "uniq_accounts_platform_key", "platform", "platform_key", unique=True, partial=_WITH_KEY
    ),
    index("accounts", "idx_accounts_handle", "handles.value"),
    index("accounts", "idx_accounts_wallet", "known_wallets"),
    index("venues", "uniq_venues_source_url", "source_urls.url", unique=True),
    index(
        "venues",
        "uniq_venues_platform_key",
        "platform",
        "subtype",
        "platform_key",
        unique=True,
        partial=_WITH_KEY,
    ),
    index("venues", "idx_venues_creator", "creator_id", partial=_where_there_is("creator_id")),
    index("token_links", "idx_links_object_linked", "object_id", "created_at"),
    index("token_links", "idx_links_token_linked", "token_address", "created_at"),
    index("token_links", "idx_links_lineage_linked", "lineage", "created_at"),
    index("token_links", "idx_links_platform_linked", "platform", "subtype", "created_at"),
    index("metric_series", "uniq_series_object", "object", "object_id", unique=True),
    index("metric_series", "idx_series_platform", "platform"),
    index("tokens", "uniq_tokens_address", "address", unique=True),
    index("tokens", "idx_tokens_fingerprints", "fingerprints"),
    index("tokens", "idx_tokens_discovered", "-created_at"),
    index("tokens", "idx_tokens_social_url_status", "social_urls.status"),
)
COLLECTIONS = tuple(dict.fromkeys(spec.collection for spec in INDEXES))


def check(database: MongoDatabase) -> MigrationReport:
    """Compare the store with the list; changes nothing."""
    return check_indexes(database, INDEXES)


def migrate(database: MongoDatabase) -> MigrationReport:
    """Create what is missing; see `workers.mongo_indexes.migrate`."""
    return migrate_indexes(database, INDEXES)
