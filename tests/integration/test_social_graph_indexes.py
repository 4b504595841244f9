"""The indexes of the social graph in a real store, against a list that is written here once more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.social_graph_server import graph_database
from workers.mongo import MongoDatabase
from workers.social_graph.indexes import INDEXES, check, migrate
from workers.store_errors import DuplicateKey

__all__ = ["graph_database"]

KEYED = {"platform_key": {"$gt": ""}}

WRITTEN: dict[str, dict[str, tuple[list[tuple[str, int]], bool, dict[str, Any] | None]]] = {
    "contents": {
        "uniq_contents_source_url": ([("source_urls.url", 1)], True, None),
        "idx_contents_platform_subtype": ([("platform", 1), ("subtype", 1)], False, None),
        "uniq_contents_platform_key": (
            [("platform", 1), ("subtype", 1), ("platform_key", 1)],
            True,
            KEYED,
        ),
        "idx_contents_creator_published": (
            [("creator_id", 1), ("published_at", -1)],
            False,
            {"creator_id": {"$exists": True}},
        ),
        "idx_contents_parent": (
            [("parent_content_id", 1)],
            False,
            {"parent_content_id": {"$exists": True}},
        ),
        "idx_contents_venue": ([("venue_id", 1)], False, {"venue_id": {"$exists": True}}),
    },
    "accounts": {
        "uniq_accounts_source_url": ([("source_urls.url", 1)], True, None),
        "uniq_accounts_platform_key": ([("platform", 1), ("platform_key", 1)], True, KEYED),
        "idx_accounts_handle": ([("handles.value", 1)], False, None),
        "idx_accounts_wallet": ([("known_wallets", 1)], False, None),
    },
    "venues": {
        "uniq_venues_source_url": ([("source_urls.url", 1)], True, None),
        "uniq_venues_platform_key": (
            [("platform", 1), ("subtype", 1), ("platform_key", 1)],
            True,
            KEYED,
        ),
        "idx_venues_creator": ([("creator_id", 1)], False, {"creator_id": {"$exists": True}}),
    },
    "token_links": {
        "idx_links_object_linked": ([("object_id", 1), ("created_at", 1)], False, None),
        "idx_links_token_linked": ([("token_address", 1), ("created_at", 1)], False, None),
        "idx_links_lineage_linked": ([("lineage", 1), ("created_at", 1)], False, None),
        "idx_links_platform_linked": (
            [("platform", 1), ("subtype", 1), ("created_at", 1)],
            False,
            None,
        ),
    },
    "metric_series": {
        "uniq_series_object": ([("object", 1), ("object_id", 1)], True, None),
        "idx_series_platform": ([("platform", 1)], False, None),
    },
    "tokens": {
        "uniq_tokens_address": ([("address", 1)], True, None),
        "idx_tokens_fingerprints": ([("fingerprints", 1)], False, None),
        "idx_tokens_discovered": ([("created_at", -1)], False, None),
        "idx_tokens_social_url_status": ([("social_urls.status", 1)], False, None),
    },
}


def stored_indexes(database: MongoDatabase, collection: str) -> dict[str, Any]:
    return {
        name: (
            [(field, int(direction)) for field, direction in stored["key"]],
            bool(stored.get("unique", False)),
            stored.get("partialFilterExpression") and dict(stored["partialFilterExpression"]),
        )
        for name, stored in database[collection].index_information().items()
        if name != "_id_"
    }


@pytest.mark.parametrize("collection", sorted(WRITTEN))
def test_the_store_has_exactly_the_written_indexes(graph_database: MongoDatabase, collection: str) -> None:
    assert stored_indexes(graph_database, collection) == WRITTEN[collection]


def test_there_are_23_indexes() -> None:
    assert len(INDEXES) == sum(len(indexes) for indexes in WRITTEN.values()) == 23


def test_migrating_again_changes_nothing(database: MongoDatabase) -> None:
    first, second = migrate(database), migrate(database)
    assert len(first.created) == 23
    assert (second.created, len(second.present)) == ((), 23)
    assert second.is_as_written


def test_a_check_creates_nothing_and_names_what_is_missing(database: MongoDatabase) -> None:
    report = check(database)
    assert len(report.missing) == 23
    assert not report.is_as_written
    assert database.list_collection_names() == []


def test_an_index_that_differs_or_is_unknown_is_reported_and_left_alone(database: MongoDatabase) -> None:
    database["tokens"].create_index([("address", -1)], name="uniq_tokens_address")
    database["tokens"].create_index([("symbol", 1)], name="somebodys_own")
    report = migrate(database)
    assert (report.differing, report.unknown) == (("uniq_tokens_address",), ("tokens.somebodys_own",))
    assert not report.is_as_written
    assert stored_indexes(database, "tokens")["uniq_tokens_address"] == ([("address", -1)], False, None)


def test_rows_that_contradict_a_unique_index_stop_the_migration(database: MongoDatabase) -> None:
    database["tokens"].insert_many([{"address": "a"}, {"address": "a"}])
    with pytest.raises(DuplicateKey):
        migrate(database)


@pytest.mark.parametrize(
    ("collection", "query", "index"),
    [
        ("accounts", {"platform": "x", "platform_key": "1"}, "uniq_accounts_platform_key"),
        (
            "contents",
            {"platform": "x", "subtype": "tweet", "platform_key": "1"},
            "uniq_contents_platform_key",
        ),
        ("contents", {"source_urls.url": "https://a.org/"}, "uniq_contents_source_url"),
        (
            "venues",
            {"source_urls.url": {"$in": ["https://a.org/", "https://b.org/"]}},
            "uniq_venues_source_url",
        ),
        ("tokens", {"social_urls.status": {"$in": ["error"]}}, "idx_tokens_social_url_status"),
        ("tokens", {"address": {"$in": ["a", "b"]}}, "uniq_tokens_address"),
        # The embedded server explains a query with one more field, which no index has, as a scan, although it
        # answers it through the index (ADR 0002); so the part that the index serves is what is explained.
        ("token_links", {"token_address": "t"}, "idx_links_token_linked"),
        (
            "token_links",
            {"object_id": 1, "created_at": {"$lte": datetime(2026, 1, 1, tzinfo=UTC)}},
            "idx_links_object_linked",
        ),
        (
            "token_links",
            {"lineage": 1, "created_at": {"$lte": datetime(2026, 1, 1, tzinfo=UTC)}},
            "idx_links_lineage_linked",
        ),
        ("metric_series", {"object": "contents", "object_id": 1}, "uniq_series_object"),
        ("metric_series", {"platform": "yt"}, "idx_series_platform"),
        ("contents", {"platform": "x", "subtype": "search"}, "idx_contents_platform_subtype"),
        (
            "venues",
            {"platform": "tg", "subtype": "channel", "platform_key": "1"},
            "uniq_venues_platform_key",
        ),
        ("accounts", {"handles.value": {"$in": ["Sol", "sol"]}}, "idx_accounts_handle"),
        ("accounts", {"known_wallets": "0xab"}, "idx_accounts_wallet"),
        ("tokens", {"fingerprints": "domain:a.org"}, "idx_tokens_fingerprints"),
        (
            "token_links",
            {
                "platform": "tt",
                "subtype": "search",
                "created_at": {"$lte": datetime(2026, 1, 1, tzinfo=UTC)},
            },
            "idx_links_platform_linked",
        ),
    ],
)
def test_a_query_finds_its_rows_through_its_index(
    graph_database: MongoDatabase, collection: str, query: dict[str, Any], index: str
) -> None:
    # An empty collection would be planned in any way.
    graph_database[collection].insert_one(
        {"source_urls": [{"url": "https://c.org/"}], "address": "c", "object_id": 2, "object": "contents"}
    )
    explained = graph_database.command(
        "explain", {"find": collection, "filter": query}, verbosity="executionStats"
    )
    assert index in indexes_in(explained["queryPlanner"]["winningPlan"])


def indexes_in(plan: Any) -> list[str]:
    if isinstance(plan, list):
        return [name for part in plan for name in indexes_in(part)]
    if not isinstance(plan, dict):
        return []
    own = [plan["indexName"]] if "indexName" in plan else []
    return own + [name for part in plan.values() for name in indexes_in(part)]
