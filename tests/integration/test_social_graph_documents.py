"""What lies in a real store after writing: whole rows, names, times, references that lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from tests.conftest import FakeClock
from tests.integration.graph_drafts import AT, POST, alone, channel, context, graph, only, post, profile
from tests.integration.social_graph_server import graph_database
from tests.integration.test_graph_writer import DyingStore
from tests.unit.test_social_graph_models import (
    full_account,
    full_content,
    full_link,
    full_series,
    full_token,
    full_venue,
)
from workers.errors import RetryableError
from workers.mongo import MongoDatabase
from workers.social_graph.account import Account, AccountRepository
from workers.social_graph.content import Content, ContentRepository
from workers.social_graph.indexes import COLLECTIONS
from workers.social_graph.metric_series import MetricSeriesRepository
from workers.social_graph.object_repository import ObjectRepository
from workers.social_graph.token import Token, TokenRepository
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.venue import Venue, VenueRepository
from workers.social_graph.vocabulary import (
    FetchStatus,
    LinkStatus,
    ObjectKind,
    ParentRelation,
    Platform,
    VenueSubtype,
)
from workers.social_recording.graph_writer import GraphWriter
from workers.social_recording.object_graph import (
    MentionDraft,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)
from workers.store_errors import DuplicateKey

__all__ = ["graph_database"]

LATER = AT + timedelta(hours=1)


@pytest.fixture
def writer(graph_database: MongoDatabase, clock: FakeClock) -> GraphWriter:
    return GraphWriter(graph_database, clock)


@pytest.fixture
def accounts(graph_database: MongoDatabase, clock: FakeClock) -> AccountRepository:
    return AccountRepository(graph_database, clock)


def rich_graph() -> SocialObjectGraph:
    """A quoting post in a community, and the quoted one, each with its author and what was measured."""
    community = VenueDraft(
        platform=Platform.X,
        subtype=VenueSubtype.COMMUNITY,
        url="https://x.com/i/communities/9",
        platform_key="9",
        data={"adminHandle": "b"},
    )
    quoting = ObjectGroup(
        content=post(
            published_at=AT,
            text_primary="gm",
            mentions=(MentionDraft(platform_key="77", screen_name="bob"),),
            data={"conversationId": "1", "moderation": {"possiblySensitive": True}},
        ),
        account=profile("https://x.com/a", "7", handle="a", followers=3, data={"totalKarma": 5}),
        venue=community,
        parent_ref=1,
        parent_relation=ParentRelation.QUOTE,
        metrics={ObjectKind.CONTENTS: {"likeCount": 3}, ObjectKind.VENUES: {"member_count": 4}},
    )
    quoted = ObjectGroup(
        content=post("5", "https://x.com/i/status/5"),
        account=profile("https://x.com/b", "8", handle="b"),
        metrics={ObjectKind.CONTENTS: {"likeCount": 9}, ObjectKind.ACCOUNTS: {"followers": 9}},
    )
    return graph(quoting, quoted)


# Whole rows

KINDS = ("contents", "accounts", "venues")


def repository_and_row(kind: str, database: MongoDatabase, clock: FakeClock) -> tuple[Any, Any]:
    rows: dict[str, tuple[Any, Any]] = {
        "contents": (ContentRepository(database, clock), full_content()),
        "accounts": (AccountRepository(database, clock), full_account()),
        "venues": (VenueRepository(database, clock), full_venue()),
    }
    return rows[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_comes_back_whole_by_each_of_its_names(
    graph_database: MongoDatabase, clock: FakeClock, kind: str
) -> None:
    repository, row = repository_and_row(kind, graph_database, clock)
    repository.create(row)
    stored = replace(row, created_at=clock.now(), updated_at=clock.now())
    url = row.source_urls[0].url
    place = [row.platform] if kind == "accounts" else [row.platform, row.subtype]
    assert repository.find_by_id(row.id) == stored
    assert repository.find_by_ids([ObjectId(), row.id, row.id]) == [stored]
    assert repository.find_by_source_url(url) == stored
    assert repository.find_by_source_urls([url, "https://no.where/"]) == {url: stored}
    assert repository.find_by_platform_key(*place, row.platform_key) == stored
    assert repository.find_by_platform_key(*place, "no such") is None
    with pytest.raises(DuplicateKey) as caught:
        repository.create(replace(row, id=ObjectId()))
    assert caught.value.collection == kind


@pytest.mark.parametrize("kind", KINDS)
def test_the_times_of_the_platform_and_of_the_first_storing_survive_a_change(
    graph_database: MongoDatabase, clock: FakeClock, kind: str
) -> None:
    repository, row = repository_and_row(kind, graph_database, clock)
    repository.create(row)
    stored, first_stored_at = repository.find_by_id(row.id), clock.now()
    clock.advance(3600)
    assert repository.save(stored.add_source_url("https://b.org/", FetchStatus.OK, LATER), since=stored)
    after = repository.find_by_id(row.id)
    own_time = {"contents": "published_at", "accounts": "account_created_at", "venues": "venue_created_at"}
    assert getattr(after, own_time[kind]) == AT
    assert (after.created_at, after.updated_at) == (first_stored_at, clock.now())


def test_a_token_a_link_and_a_series_come_back_whole(graph_database: MongoDatabase, clock: FakeClock) -> None:
    tokens, links = TokenRepository(graph_database, clock), TokenLinkRepository(graph_database, clock)
    series = MetricSeriesRepository(graph_database, clock)
    token, link, measured = full_token(), full_link(), full_series()
    tokens.insert(token)
    links.append_many([link])
    series.append_point(measured.object, measured.object_id, measured.platform, measured.points[0])
    assert tokens.find_by_address(token.address) == replace(token, updated_at=clock.now())
    assert links.find_by_token(link.token_address, AT) == [replace(link, updated_at=clock.now())]
    found = series.find_by_object(measured.object, measured.object_id)
    assert found is not None
    assert found == replace(measured, id=found.id, created_at=clock.now(), updated_at=clock.now())


# Names, places and references


def names_in(document: Mapping[str, object]) -> Iterator[str]:
    for name, value in document.items():
        yield name
        # These keep the names that the platform gave.
        if name not in ("data", "metrics", "metrics_latest"):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, dict):
                    yield from names_in(part)


def test_every_name_in_the_store_is_snake_case_and_only_the_written_collections_are_there(
    writer: GraphWriter, graph_database: MongoDatabase, clock: FakeClock
) -> None:
    writer.write(rich_graph(), context(POST, first_transfer_at=AT, token_name="bonk"))
    TokenRepository(graph_database, clock).insert(full_token())
    assert set(graph_database.list_collection_names()) == set(COLLECTIONS)
    assert set(COLLECTIONS) == {
        *("contents", "accounts", "venues"),
        *("tokens", "token_links", "metric_series"),
    }
    for collection in COLLECTIONS:
        documents = list(graph_database[collection].find())
        assert documents, collection
        for document in documents:
            assert not [name for name in names_in(document) if not re.fullmatch(r"_?[a-z]+(_[a-z]+)*", name)]


def test_nothing_keeps_raw_answers() -> None:
    models = (Content, Account, Venue, Token, TokenLink, SocialObjectGraph, ObjectRepository, GraphWriter)
    fields = [name for model in models for name in dir(model)]
    assert not [name for name in fields if "raw" in name]
    assert not [name for name in COLLECTIONS if "raw" in name]


def test_what_only_one_platform_has_is_kept_under_the_platforms_own_names(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    writer.write(rich_graph(), context(POST))
    row = graph_database["contents"].find_one({"source_urls.url": POST})
    assert row is not None
    assert row["data"] == {"conversationId": "1", "moderation": {"possiblySensitive": True}}
    author = graph_database["accounts"].find_one({"source_urls.url": "https://x.com/a"})
    assert author is not None
    assert (author["data"], author["metrics"]) == ({"totalKarma": 5}, {"followers": 3})
    assert only(graph_database, "venues")["data"] == {"adminHandle": "b"}


def test_a_mention_is_a_value_and_makes_no_account(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    mentions = (MentionDraft(platform_key="77", screen_name="bob"), MentionDraft(platform_key="78"))
    writer.write(graph(alone(post(mentions=mentions))), context(POST))
    assert only(graph_database, "contents")["mentions"] == [
        {"platform_key": "77", "screen_name": "bob"},
        {"platform_key": "78"},
    ]
    assert graph_database["accounts"].count_documents({}) == 0


def test_a_quote_is_noted_on_the_quoting_row_only(writer: GraphWriter, graph_database: MongoDatabase) -> None:
    writer.write(rich_graph(), context(POST))
    rows = {row["platform_key"]: row for row in graph_database["contents"].find()}
    quoting, quoted = rows["732822797798539264"], rows["5"]
    assert (quoting["parent_content_id"], quoting["parent_relation"]) == (quoted["_id"], "quote")
    assert not {"parent_content_id", "parent_relation"} & set(quoted)


def assert_references_lead_somewhere(database: MongoDatabase) -> None:
    ids = {kind.value: {row["_id"] for row in database[kind].find({}, {"_id": 1})} for kind in ObjectKind}
    everything = set().union(*ids.values())
    for link in database["token_links"].find():
        assert link["object_id"] in ids[link["object"]]
        assert everything.issuperset(link["lineage"])
    for series in database["metric_series"].find():
        assert series["object_id"] in ids[series["object"]]
    for row in database["contents"].find():
        for name, kind in (
            ("creator_id", "accounts"),
            ("venue_id", "venues"),
            ("parent_content_id", "contents"),
        ):
            assert row.get(name) is None or row[name] in ids[kind]


def test_references_lead_somewhere_wherever_the_store_died_while_writing(
    writer: GraphWriter, graph_database: MongoDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, deaths = graph_database.client, 0
    for writes_made in range(30):
        with monkeypatch.context() as patch:
            patch.setattr(client, "bulk_write", DyingStore(client, writes_made).bulk_write)
            try:
                writer.write(rich_graph(), context(POST))
            except RetryableError:
                deaths += 1
            else:
                break
        assert_references_lead_somewhere(graph_database)
        for name in COLLECTIONS:
            graph_database[name].delete_many({})
    assert deaths > 10
    assert_references_lead_somewhere(graph_database)
    assert graph_database["token_links"].count_documents({}) == 4
    assert graph_database["metric_series"].count_documents({}) == 4


# Times


def test_a_point_has_the_time_at_which_the_platform_looked_and_not_ours(
    writer: GraphWriter, graph_database: MongoDatabase, clock: FakeClock
) -> None:
    crawled_at = clock.now() - timedelta(hours=7)
    group = alone(post(), metrics={ObjectKind.CONTENTS: {"likeCount": 3}})
    writer.write(graph(group, at=crawled_at), context(POST, at=clock.now()))
    assert only(graph_database, "metric_series")["points"] == [
        {"at": crawled_at, "metrics": {"likeCount": 3}}
    ]
    row, link = only(graph_database, "contents"), only(graph_database, "token_links")
    assert (row["observed_at"], row["created_at"]) == (crawled_at, clock.now())
    assert row["source_urls"] == [{"url": POST, "status": "ok", "observed_at": crawled_at}]
    assert (link["observed_at"], link["created_at"]) == (crawled_at, clock.now())


# Rows that live on


def test_a_renamed_channel_keeps_its_row_and_the_name_under_which_it_was_first_seen(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    first = channel("https://t.me/bonk", name="BONK portal")
    second = channel("https://t.me/wif", name="WIF portal")
    writer.write(graph(alone(first)), context("https://t.me/bonk", token_name="bonk"))
    writer.write(graph(alone(second), at=LATER), context("https://t.me/wif", "other", token_name="wif"))
    place = only(graph_database, "venues")
    assert [entry["url"] for entry in place["source_urls"]] == ["https://t.me/bonk", "https://t.me/wif"]
    assert place["name"] == "BONK portal"
    assert {link["object_id"] for link in graph_database["token_links"].find()} == {place["_id"]}


def test_of_two_owners_of_a_handle_the_period_says_who_had_it(
    writer: GraphWriter, accounts: AccountRepository
) -> None:
    def see(key: str, handle: str, month: int, day: int = 1) -> None:
        url, at = f"https://tiktok.com/@{key}", datetime(2026, month, day, tzinfo=UTC)
        draft = profile(url, key, Platform.TIKTOK, handle=handle)
        writer.write(graph(alone(draft), at=at), context(url))

    for key, handle, month, day in (
        *(("A", "sol", 1, 1), ("A", "sol", 3, 1), ("B", "sol", 4, 1), ("B", "sol", 5, 1)),
        *(("A", "interim", 3, 20), ("A", "sol", 6, 1)),
    ):
        see(key, handle, month, day)
    a, b = accounts.find_by_handle("sol")
    assert (a.platform_key, b.platform_key) == ("A", "B")
    asked = [(2, 1), (3, 15), (4, 15), (6, 1)]
    assert [a.had_handle_at("sol", datetime(2026, *date, tzinfo=UTC)) for date in asked] == [
        *(True, False, False, True)
    ]
    assert b.had_handle_at("sol", datetime(2026, 4, 15, tzinfo=UTC))
    assert [each.value for each in a.handles].count("sol") == 2


# Links


def test_the_earliest_time_of_a_link_is_kept_per_object(
    writer: GraphWriter, graph_database: MongoDatabase, clock: FakeClock
) -> None:
    """Two sets of links can lie there when a token's lease had two holders."""
    group = ObjectGroup(content=post(), account=profile("https://x.com/a", "7"))
    writer.write(graph(group), context(POST, at=AT))
    links = TokenLinkRepository(graph_database, clock)
    first = links.find_by_token_and_entry_url("t", POST)
    [of_content] = [each for each in first if each.object is ObjectKind.CONTENTS]
    earlier, later = AT - timedelta(hours=2), AT + timedelta(hours=2)
    links.append_many(
        [replace(each, id=ObjectId(), created_at=later) for each in first]
        + [replace(of_content, id=ObjectId(), created_at=earlier)]
    )
    result = writer.write(graph(group), context(POST, at=AT + timedelta(days=1)))
    assert (result.links_deleted, result.links_written) == (5, 2)
    again = links.find_by_token_and_entry_url("t", POST)
    assert {each.object: each.created_at for each in again} == {
        ObjectKind.CONTENTS: earlier,
        ObjectKind.ACCOUNTS: AT,
    }
    assert len(again) == 2
    assert links.count_by_object_as_of(of_content.object_id, earlier) == 1


def test_an_object_that_the_url_no_longer_leads_to_is_no_longer_linked(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    author = profile("https://x.com/a", "7")
    writer.write(graph(ObjectGroup(content=post(), account=author)), context(POST))
    writer.write(graph(alone(post())), context(POST, at=LATER))
    link = only(graph_database, "token_links")
    assert (link["object"], link["status"], link["link_depth"]) == ("contents", LinkStatus.OK.value, 0)
    assert graph_database["accounts"].count_documents({}) == 1, "objects are never deleted"
