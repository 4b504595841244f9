"""Bad and odd input in a real store: keys that are none, numbers beyond 53 bits, texts no store can hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import FakeClock
from tests.integration.graph_drafts import AT, POST, alone, channel, context, graph, only, post, profile
from tests.integration.social_graph_server import graph_database
from workers.errors import ContractViolation, InvalidInput
from workers.mongo import MongoDatabase
from workers.social_graph.account import AccountRepository
from workers.social_graph.graph_reader import GraphReader
from workers.social_graph.indexes import COLLECTIONS
from workers.social_graph.stored_text import LIST_MAX, NAME_MAX, TEXT_MAX
from workers.social_graph.token import Token, TokenRepository
from workers.social_graph.vocabulary import Platform
from workers.social_recording.graph_writer import GraphWriter
from workers.social_recording.object_graph import MentionDraft, ObjectGroup

__all__ = ["graph_database"]

FAMILY = "👨\u200d👩\u200d👧"


@pytest.fixture
def writer(graph_database: MongoDatabase, clock: FakeClock) -> GraphWriter:
    return GraphWriter(graph_database, clock)


@pytest.fixture
def accounts(graph_database: MongoDatabase, clock: FakeClock) -> AccountRepository:
    return AccountRepository(graph_database, clock)


# Keys


def test_accounts_without_a_key_are_rows_of_their_own_and_two_sights_of_one_key_are_one_row(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    url = "https://instagram.com/{}".format
    for number, key in enumerate([None, "", " \t", "\x00"]):
        draft = profile(url(number), key, Platform.INSTAGRAM)
        writer.write(graph(alone(draft)), context(url(number)))
    for name in ("real", "renamed"):
        draft = profile(url(name), "17841400000000000", Platform.INSTAGRAM)
        writer.write(graph(alone(draft)), context(url(name)))
    rows = list(graph_database["accounts"].find().sort("_id"))
    assert [row.get("platform_key") for row in rows] == [*[None] * 4, "17841400000000000"]
    assert not [row for row in rows[:4] if "platform_key" in row]
    assert [entry["url"] for entry in rows[4]["source_urls"]] == [url("real"), url("renamed")]


def test_neighbours_beyond_53_bits_are_two_rows_with_their_keys_as_text(
    writer: GraphWriter, graph_database: MongoDatabase, clock: FakeClock
) -> None:
    keys = ["732822797798539264", "732822797798539265"]
    TokenRepository(graph_database, clock).insert(Token.of(address="t", created_at=AT))
    for key in keys:
        url = f"https://x.com/i/status/{key}"
        draft = post(key, url, data={"id": int(key), "huge": 10**30})
        writer.write(graph(alone(draft)), context(url))
    rows = list(graph_database["contents"].find().sort("platform_key"))
    assert [row["platform_key"] for row in rows] == keys
    assert [row["data"] for row in rows] == [{"id": int(key), "huge": str(10**30)} for key in keys]
    shown = json.loads(
        json.dumps(GraphReader(graph_database, clock).token("t", as_of=None, limit=9).to_json())
    )
    assert sorted(each["platformKey"] for each in shown["data"]) == keys


def test_a_key_that_is_a_number_is_refused_and_writes_nothing(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    number: Any = 732822797798539264
    with pytest.raises(InvalidInput) as caught:
        writer.write(graph(alone(post(number))), context(POST))
    assert caught.value.field == "platform_key"
    assert not [name for name in COLLECTIONS if graph_database[name].count_documents({})]


# Texts

BIO = f"moon 🚀 🇺🇳 {FAMILY} مرحبا \u202eabc\u202c \x00 0x{'Ab' * 20}"


def test_a_full_bio_comes_back_from_the_store_equal_except_for_the_nul(
    writer: GraphWriter, accounts: AccountRepository
) -> None:
    url = "https://x.com/a"
    writer.write(graph(alone(profile(url, "7", bio=BIO))), context(url))
    found = accounts.find_by_source_url(url)
    assert found is not None
    assert found.bio == BIO.replace("\x00", "")
    assert [each.id for each in accounts.find_by_wallet("0x" + "AB" * 20)] == [found.id]


ODD = {
    "emoji and flags": (f"🚀🇺🇳{FAMILY}", f"🚀🇺🇳{FAMILY}"),
    "right to left": ("مرحبا \u202eabc\u202c \u200f!", "مرحبا \u202eabc\u202c \u200f!"),
    "a NUL": ("a\x00b", "ab"),
    "lone surrogates": ("a\ud83d b\udc00", "a b"),
}


@pytest.mark.parametrize(("given", "kept"), ODD.values(), ids=ODD)
def test_odd_text_is_kept_wherever_it_comes_except_for_what_no_store_can_hold(
    writer: GraphWriter, graph_database: MongoDatabase, clock: FakeClock, given: str, kept: str
) -> None:
    content = post(
        text_primary=given,
        text_body=given,
        text_from_media=given,
        links=(given,),
        tags=(given,),
        mentions=(MentionDraft(platform_key=given, screen_name=given),),
        data={given: given},
    )
    account = profile(
        "https://x.com/a",
        given,
        handle=given,
        display_name=given,
        bio=given,
        links=(given,),
        declared_handles=((Platform.GITHUB, given),),
    )
    venue = channel(name=given, description=given)
    writer.write(graph(ObjectGroup(content=content, account=account, venue=venue)), context(POST))
    TokenRepository(graph_database, clock).insert(Token.of(address="t", created_at=AT, symbol=given))
    row, author = only(graph_database, "contents"), only(graph_database, "accounts")
    assert row["text"] == {"primary": kept, "body": kept, "from_media": kept}
    assert (row["links"], row["tags"], row["data"]) == ([kept], [kept], {kept: kept})
    assert row["mentions"] == [{"platform_key": kept, "screen_name": kept}]
    assert (row["author"]["handle"], row["author"]["display_name"]) == (kept, kept)
    assert (author["platform_key"], author["display_name"], author["bio"]) == (kept, kept, kept)
    assert [each["value"] for each in author["handles"]] == [kept]
    assert author["declared_handles"] == [{"platform": "gh", "value": kept}]
    place = only(graph_database, "venues")
    assert (place["name"], place["description"]) == (kept, kept)
    assert only(graph_database, "tokens")["symbol"] == kept


def test_text_without_end_is_cut_between_characters_and_stored(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    title = "a" * (TEXT_MAX - 1) + FAMILY
    content = post(
        text_primary=title,
        tags=tuple(f"tag{number}" for number in range(LIST_MAX + 5)),
        data={"text": title},
    )
    account = profile("https://x.com/a", "7", display_name="n" * (NAME_MAX - 1) + "🇺🇳")
    writer.write(graph(ObjectGroup(content=content, account=account)), context(POST))
    row = only(graph_database, "contents")
    assert row["text"] == {"primary": "a" * (TEXT_MAX - 1)}
    assert row["data"] == {"text": "a" * (TEXT_MAX - 1)}
    assert len(row["tags"]) == LIST_MAX
    assert only(graph_database, "accounts")["display_name"] == "n" * (NAME_MAX - 1)


# Times


def test_a_time_without_a_zone_writes_nothing(writer: GraphWriter, graph_database: MongoDatabase) -> None:
    naive = AT.replace(tzinfo=None)
    for broken, field in (
        (graph(alone(post()), at=naive), "observed_at"),
        (graph(alone(post(published_at=naive))), "published_at"),
        (
            graph(alone(profile("https://x.com/a", account_created_at=naive))),
            "account_created_at",
        ),
        (graph(alone(channel(venue_created_at=naive))), "venue_created_at"),
    ):
        with pytest.raises(ContractViolation) as caught:
            writer.write(broken, context(POST))
        assert (caught.value.field, caught.value.rule, caught.value.entry_url) == (field, "bad_value", POST)
        assert POST in str(caught.value)
    assert not [name for name in COLLECTIONS if graph_database[name].count_documents({})]
