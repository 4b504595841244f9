"""What people ask of the graph, in a real store: as of any time, page by page, and by index alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from tests.conftest import FakeClock, make_settings
from tests.integration.social_graph_server import CommandLog, command_log, graph_database, logged_database
from workers.errors import InvalidInput, RetryableError
from workers.mongo import Document, MongoDatabase, connect
from workers.social_graph.account import Account
from workers.social_graph.content import Content, ContentText
from workers.social_graph.graph_reader import (
    GraphReader,
    ObjectNotFound,
    ReferencesView,
    ReferringToken,
    TokenNotFound,
    TokenView,
)
from workers.social_graph.link_cursor import LinkCursor
from workers.social_graph.source_url import SourceURL
from workers.social_graph.token import Token, TokenSocialURL
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.venue import Venue
from workers.social_graph.vocabulary import (
    ContentSubtype,
    FetchStatus,
    LinkStatus,
    ObjectKind,
    Platform,
    VenueSubtype,
)

__all__ = ["command_log", "graph_database", "logged_database"]

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
POST, AUTHOR, COMMUNITY = ObjectId(), ObjectId(), ObjectId()
SITE = "https://a.org/"


def source(url: str) -> list[SourceURL]:
    return [SourceURL.of(url, FetchStatus.OK, AT)]


def stored_objects() -> dict[ObjectKind, list[Document]]:
    """A post, its author, and the community in which it stands."""
    post = Content.of(
        platform=Platform.X,
        subtype=ContentSubtype.TWEET,
        source_urls=source("https://x.com/nightharbor/status/7"),
        observed_at=AT,
        platform_key="7",
        text=ContentText.of(primary="gm harbor"),
    )
    author = Account.of(
        platform=Platform.X,
        source_urls=source("https://x.com/nightharbor"),
        observed_at=AT,
        platform_key="44196397",
        handle="nightharbor",
    )
    community = Venue.of(
        platform=Platform.X,
        subtype=VenueSubtype.COMMUNITY,
        source_urls=source("https://x.com/i/communities/9"),
        observed_at=AT,
        platform_key="9",
        name="Harbor Talk",
    )
    return {
        ObjectKind.CONTENTS: [{**post.to_document(), "_id": POST}],
        ObjectKind.ACCOUNTS: [{**author.to_document(), "_id": AUTHOR}],
        ObjectKind.VENUES: [{**community.to_document(), "_id": COMMUNITY}],
    }


def token(address: str, symbol: str | None = "HARBOR") -> Document:
    return Token.of(
        address=address,
        created_at=AT,
        symbol=symbol,
        first_transfer_at=AT - timedelta(days=1),
        social_urls=[TokenSocialURL(url=SITE, status=FetchStatus.ERROR, attempts=2, reason="http_503")],
    ).to_document()


def link(
    address: str,
    object_id: ObjectId = POST,
    *,
    seconds: float = 0,
    entry_url: str = SITE,
    through: ObjectId | None = None,
    kind: ObjectKind = ObjectKind.CONTENTS,
) -> TokenLink:
    subtype = {ObjectKind.CONTENTS: ContentSubtype.TWEET, ObjectKind.VENUES: VenueSubtype.COMMUNITY}.get(kind)
    return TokenLink.of(
        token_address=address,
        object=kind,
        object_id=object_id,
        entry_url=entry_url,
        created_at=AT + timedelta(seconds=seconds),
        observed_at=AT,
        status=LinkStatus.OK,
        platform=Platform.X,
        subtype=subtype,
        first_transfer_at=AT - timedelta(days=1),
        ancestor_ids=() if through is None else (through,),
    )


def author_link(address: str, *, seconds: float = 0, through: ObjectId | None = POST) -> TokenLink:
    return link(address, AUTHOR, seconds=seconds, through=through, kind=ObjectKind.ACCOUNTS)


@pytest.fixture
def links(graph_database: MongoDatabase, clock: FakeClock) -> TokenLinkRepository:
    for kind, rows in stored_objects().items():
        graph_database[kind].insert_many(rows)
    return TokenLinkRepository(graph_database, clock)


@pytest.fixture
def reader(logged_database: MongoDatabase, links: TokenLinkRepository, clock: FakeClock) -> GraphReader:
    return GraphReader(logged_database, clock)


def nothing() -> None:
    """What happens between two pages when nothing does."""


def pages_of_token(
    reader: GraphReader,
    address: str,
    *,
    as_of: datetime | None = None,
    limit: int = 50,
    meanwhile: Callable[[], None] = nothing,
) -> Iterator[TokenView]:
    """The pages as a caller follows them."""
    view = reader.token(address, as_of=as_of, limit=limit)
    yield view
    while view.next_from is not None:
        meanwhile()
        after = LinkCursor.from_text(view.next_from.to_text())
        view = reader.token(address, as_of=view.as_of, limit=limit, after=after)
        yield view


def pages_of_object(
    reader: GraphReader,
    object_id: ObjectId = POST,
    kind: ObjectKind = ObjectKind.CONTENTS,
    *,
    as_of: datetime | None = None,
    limit: int = 50,
    meanwhile: Callable[[], None] = nothing,
) -> Iterator[ReferencesView]:
    """The pages as a caller follows them."""
    view = reader.tokens_of(kind, str(object_id), as_of=as_of, limit=limit)
    yield view
    while view.next_from is not None:
        meanwhile()
        after = LinkCursor.from_text(view.next_from.to_text())
        view = reader.tokens_of(kind, str(object_id), as_of=view.as_of, limit=limit, after=after)
        yield view


def tokens_on(pages: Iterator[ReferencesView]) -> list[ReferringToken]:
    return [each for page in pages for each in page.tokens]


def addresses_on(pages: Iterator[ReferencesView]) -> list[str]:
    return [each.link.token_address for each in tokens_on(pages)]


def test_a_token_is_told_with_its_urls_and_what_they_lead_to(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase, clock: FakeClock
) -> None:
    graph_database["tokens"].insert_one(token("t"))
    clock.advance(60)
    links.append_many(
        [
            author_link("t"),
            link("t", COMMUNITY, through=POST, kind=ObjectKind.VENUES),
            link("t"),
            link("t", AUTHOR, seconds=5, kind=ObjectKind.ACCOUNTS, entry_url="https://x.com/nightharbor"),
        ]
    )
    found: dict[str, Any] = reader.token("t", as_of=None, limit=50).to_json()
    assert found["token"] == {
        "address": "t",
        "symbol": "HARBOR",
        "firstTransferAt": "2026-01-14T12:00:00.000Z",
        "createdAt": "2026-01-15T12:00:00.000Z",
        "updatedAt": None,
        "urls": [{"url": SITE, "status": "error", "reason": "http_503", "attempts": 2, "attemptedAt": None}],
    }
    assert found["meta"] == {"asOf": "2026-01-15T12:01:00.000Z", "cursor": None}
    assert found["data"][0] == {
        "kind": "contents",
        "id": str(POST),
        "platform": "x",
        "subtype": "tweet",
        "platformKey": "7",
        "label": "gm harbor",
        "status": "ok",
        "entryUrl": SITE,
        "depth": 0,
        "nameMatch": None,
        "linkedAt": "2026-01-15T12:00:00.000Z",
    }
    assert {(each["label"], each["depth"]) for each in found["data"][1:3]} == {
        ("nightharbor", 1),
        ("Harbor Talk", 1),
    }
    assert (found["data"][3]["label"], found["data"][3]["depth"]) == ("nightharbor", 0)


def test_an_object_that_is_not_stored_has_no_name_and_no_key(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase
) -> None:
    graph_database["tokens"].insert_one(token("t"))
    links.append_many([link("t", ObjectId())])
    (row,) = reader.token("t", as_of=AT, limit=1).objects
    assert (row.card, row.to_json()["label"], row.to_json()["platformKey"]) == (None, None, None)


def test_what_has_not_been_recorded_is_not_found(reader: GraphReader, links: TokenLinkRepository) -> None:
    links.append_many([link("cut off")])
    with pytest.raises(TokenNotFound):
        reader.token("cut off", as_of=None, limit=1)
    for kind, object_id in ((ObjectKind.CONTENTS, ObjectId()), (ObjectKind.ACCOUNTS, POST)):
        with pytest.raises(ObjectNotFound):
            reader.tokens_of(kind, str(object_id), as_of=None, limit=1)
    with pytest.raises(InvalidInput) as caught:
        reader.tokens_of(ObjectKind.CONTENTS, "7", as_of=None, limit=1)
    assert caught.value.field == "id"


def test_the_cut_includes_its_own_instant_and_before_the_first_link_there_is_nothing(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase
) -> None:
    graph_database["tokens"].insert_one(token("t"))
    links.append_many([link("t", seconds=1)])
    at = AT + timedelta(seconds=1)
    for as_of, count in ((at, 1), (at - timedelta(milliseconds=1), 0)):
        assert len(reader.token("t", as_of=as_of, limit=1).objects) == count
        references = reader.tokens_of(ObjectKind.CONTENTS, str(POST), as_of=as_of, limit=1)
        assert (len(references.tokens), references.counts.direct, references.counts.all) == (count,) * 3


def test_without_a_time_the_cut_is_now_and_stays_there_on_later_pages(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase, clock: FakeClock
) -> None:
    graph_database["tokens"].insert_one(token("t"))
    links.append_many([link("t", ObjectId(), seconds=-number) for number in range(3)])

    def later() -> None:
        clock.advance(1)
        links.append_many([link("t", ObjectId(), seconds=(clock.now() - AT).total_seconds())])

    pages = list(pages_of_token(reader, "t", limit=1, meanwhile=later))
    assert {page.as_of for page in pages} == {AT}
    assert sum(len(page.objects) for page in pages) == 3


def test_a_token_with_several_ways_to_an_object_is_listed_once_with_its_first(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase
) -> None:
    graph_database["tokens"].insert_one(token("t", symbol=None))
    links.append_many(
        [
            author_link("t", seconds=1),
            link("t", seconds=1),
            link("t", AUTHOR, seconds=2, kind=ObjectKind.ACCOUNTS, entry_url="https://x.com/nightharbor"),
        ]
    )
    later = AT + timedelta(seconds=9)
    references = reader.tokens_of(ObjectKind.ACCOUNTS, str(AUTHOR), as_of=later, limit=50).to_json()
    assert references["data"] == [
        {
            "address": "t",
            "symbol": None,
            "entryUrl": SITE,
            "depth": 1,
            "linkedAt": "2026-01-15T12:00:01.000Z",
            "firstTransferAt": "2026-01-14T12:00:00.000Z",
        }
    ]
    assert references["meta"] == {
        "asOf": "2026-01-15T12:00:09.000Z",
        "countDirect": 1,
        "countAll": 1,
        "cursor": None,
    }
    (row,) = reader.tokens_of(ObjectKind.CONTENTS, str(POST), as_of=later, limit=50).tokens
    assert row.link.object_id == POST, "the link to the object itself comes before one that leads through it"


@pytest.mark.parametrize(("count", "pages"), [(0, 1), (1, 1), (3, 1), (4, 2), (7, 3)])
def test_a_list_of_any_length_is_paged_to_its_end(
    reader: GraphReader,
    links: TokenLinkRepository,
    graph_database: MongoDatabase,
    count: int,
    pages: int,
) -> None:
    graph_database["tokens"].insert_one(token("t"))
    # Two links at a time, so that pages end among links of one time as well.
    links.append_many([link("t", ObjectId(), seconds=number // 2) for number in range(count)])
    links.append_many([link(f"t{number}", seconds=number // 2) for number in range(count)])
    as_of = AT + timedelta(hours=1)
    of_token = list(pages_of_token(reader, "t", as_of=as_of, limit=3))
    of_object = list(pages_of_object(reader, as_of=as_of, limit=3))
    assert (len(of_token), len(of_object)) == (pages, pages)
    assert len({row.link.object_id for page in of_token for row in page.objects}) == count
    assert sum(len(page.objects) for page in of_token) == count
    assert sorted(addresses_on(iter(of_object))) == [f"t{number}" for number in range(count)]
    assert {(page.counts.direct, page.counts.all) for page in of_object} == {(count, count)}


def test_links_that_are_added_or_written_anew_between_pages_double_and_lose_no_row(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase
) -> None:
    graph_database["tokens"].insert_one(token("t"))
    chance = random.Random(11)  # noqa: S311 - the same links in every run
    there = [link("t", ObjectId(), seconds=chance.randrange(6), entry_url=SITE) for _ in range(30)]
    links.append_many(there)

    def disturb() -> None:
        links.delete_by_token_and_entry_url("t", SITE)
        anew = [
            link("t", each.object_id, seconds=(each.created_at - AT).total_seconds(), entry_url=SITE)
            for each in there
        ]
        chance.shuffle(anew)
        links.append_many(anew)
        links.append_many(
            [link("t", ObjectId(), seconds=chance.randrange(6), entry_url="https://new.org/") for _ in "ab"]
        )

    pages = pages_of_token(reader, "t", as_of=AT + timedelta(hours=1), limit=4, meanwhile=disturb)
    shown = [row.link.object_id for page in pages for row in page.objects]
    assert len(shown) == len(set(shown))
    assert {each.object_id for each in there} <= set(shown)


def add_to_object(links: TokenLinkRepository) -> Callable[[], None]:
    """Between pages: new tokens before, among and after those shown, and more links of all that are there."""
    chance = random.Random(12)  # noqa: S311
    known = [f"t{number}" for number in range(20)]

    def add() -> None:
        new = f"new-{chance.randrange(10**9)}"
        links.append_many([link(new, seconds=chance.randrange(20))])
        links.append_many(
            [
                link(address, seconds=20 + chance.randrange(5), entry_url=f"https://{new}.org/")
                for address in known
            ]
        )

    return add


def test_tokens_that_come_in_between_pages_double_and_lose_no_token(
    reader: GraphReader, links: TokenLinkRepository
) -> None:
    links.append_many([link(f"t{number}", seconds=number // 2) for number in range(20)])
    links.append_many([author_link(f"t{number}", seconds=number // 2) for number in range(20)])
    pages = pages_of_object(reader, as_of=AT + timedelta(hours=1), limit=3, meanwhile=add_to_object(links))
    shown = addresses_on(pages)
    assert len(shown) == len(set(shown))
    assert {f"t{number}" for number in range(20)} <= set(shown)


def test_without_a_look_at_earlier_links_a_token_would_be_listed_again(
    reader: GraphReader, links: TokenLinkRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TokenLinkRepository, "find_tokens_linked_before", lambda *_: set())
    links.append_many([link(f"t{number}", seconds=number) for number in range(20)])
    links.append_many([link("t0", seconds=30, entry_url="https://b.org/")])
    shown = addresses_on(pages_of_object(reader, as_of=AT + timedelta(hours=1), limit=3))
    assert shown.count("t0") > 1


def test_lists_and_counts_as_of_any_time_agree_with_counting_by_hand(
    reader: GraphReader, links: TokenLinkRepository
) -> None:
    chance = random.Random(7)  # noqa: S311
    objects = [POST, AUTHOR, COMMUNITY]
    kinds = dict(zip(objects, (ObjectKind.CONTENTS, ObjectKind.ACCOUNTS, ObjectKind.VENUES), strict=True))
    written = []
    for _ in range(90):
        target, through = chance.choice(objects), chance.choice([None, *objects])
        written.append(
            link(
                f"t{chance.randrange(9)}",
                target,
                seconds=chance.randrange(8),
                entry_url=f"https://a.org/{chance.randrange(3)}",
                through=through,
                kind=kinds[target],
            )
        )
    links.append_many(written)
    for object_id, kind in kinds.items():
        for seconds in range(-1, 9):
            cut = AT + timedelta(seconds=seconds)
            until = [each for each in written if each.created_at <= cut and object_id in each.lineage]
            first_at: dict[str, datetime] = {}
            for each in sorted(until, key=lambda each: each.created_at):
                first_at.setdefault(each.token_address, each.created_at)
            pages = list(pages_of_object(reader, object_id, kind, as_of=cut, limit=2))
            rows = tokens_on(iter(pages))
            assert [row.link.created_at for row in rows] == sorted(first_at.values())
            assert {row.link.token_address: row.link.created_at for row in rows} == first_at
            counts = {(page.counts.direct, page.counts.all) for page in pages}
            assert counts == {
                (links.count_by_object_as_of(object_id, cut), links.count_by_lineage_as_of(object_id, cut))
            }
            assert counts == {
                (
                    len({each.token_address for each in until if each.is_direct}),
                    len(first_at),
                )
            }


def ask_everything(reader: GraphReader) -> None:
    for _ in pages_of_token(reader, "t0", as_of=AT + timedelta(hours=1), limit=2):
        pass
    for _ in pages_of_object(reader, as_of=AT + timedelta(hours=1), limit=2):
        pass


def plans(database: MongoDatabase, log: CommandLog) -> list[tuple[str, Any]]:
    """How the store would run each of the reads that were sent."""
    found = []
    for name, command in log.commands:
        if name == "find":
            asked = {key: command[key] for key in ("find", "filter", "sort") if key in command}
        elif name == "aggregate":
            asked = {"aggregate": command["aggregate"], "pipeline": command["pipeline"], "cursor": {}}
        else:
            continue
        collection = str(command[name])
        found.append((collection, database.command("explain", asked, verbosity="queryPlanner")))
    return found


def values_of(node: Any, key: str) -> list[str]:
    if isinstance(node, list):
        return [value for part in node for value in values_of(part, key)]
    if not isinstance(node, dict):
        return []
    own = [node[key]] if isinstance(node.get(key), str) else []
    return own + [value for part in node.values() for value in values_of(part, key)]


def fill(database: MongoDatabase, links: TokenLinkRepository) -> None:
    """A few rows of every kind: an empty collection would be planned in any way."""
    database["tokens"].insert_many([token(f"t{number}") for number in range(5)])
    for number in range(5):
        links.append_many([link(f"t{number}", seconds=number), author_link(f"t{number}", seconds=number)])
        links.append_many([link("t0", COMMUNITY, seconds=number, kind=ObjectKind.VENUES)])


def test_every_question_is_answered_by_index(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase, command_log: CommandLog
) -> None:
    fill(graph_database, links)
    ask_everything(reader)
    used: dict[str, set[str]] = {}
    for collection, plan in plans(graph_database, command_log):
        assert "COLLSCAN" not in values_of(plan, "stage"), plan
        assert values_of(plan, "indexName"), plan
        used.setdefault(collection, set()).update(values_of(plan, "indexName"))
    assert used == {
        "tokens": {"uniq_tokens_address"},
        "token_links": {"idx_links_token_linked", "idx_links_lineage_linked"},
        "contents": {"_id_"},
        "accounts": {"_id_"},
        "venues": {"_id_"},
    }


def test_without_the_written_indexes_the_same_questions_scan(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase, command_log: CommandLog
) -> None:
    fill(graph_database, links)
    for collection in ("tokens", "token_links"):
        graph_database[collection].drop_indexes()
    ask_everything(reader)
    scans = {
        collection
        for collection, plan in plans(graph_database, command_log)
        if "COLLSCAN" in values_of(plan, "stage")
    }
    assert scans == {"tokens", "token_links"}


def test_a_page_costs_a_handful_of_commands_however_many_rows_it_has(
    reader: GraphReader, links: TokenLinkRepository, graph_database: MongoDatabase, command_log: CommandLog
) -> None:
    graph_database["tokens"].insert_one(token("t"))
    links.append_many([link("t", ObjectId(), seconds=number) for number in range(120)])
    links.append_many([link(f"t{number}", seconds=number) for number in range(120)])
    as_of = AT + timedelta(hours=1)
    with command_log.counted() as names:
        reader.token("t", as_of=as_of, limit=100)
    assert sorted(names) == ["find"] * 3
    with command_log.counted() as names:
        page = reader.tokens_of(ObjectKind.CONTENTS, str(POST), as_of=as_of, limit=100)
    assert sorted(names) == ["aggregate", "find", "find", "find"]
    with command_log.counted() as names:
        reader.tokens_of(ObjectKind.CONTENTS, str(POST), as_of=as_of, limit=100, after=page.next_from)
    assert sorted(names) == ["aggregate", "aggregate", "find", "find", "find"]


def test_a_store_that_is_away_is_a_passing_error(clock: FakeClock) -> None:
    settings = make_settings(mongo_url="mongodb://127.0.0.1:9", mongo_timeout_ms=200)
    database = connect(settings, is_impatient=True)
    away = GraphReader(database, clock)
    with pytest.raises(RetryableError):
        away.token("t", as_of=None, limit=1)
    with pytest.raises(RetryableError):
        away.tokens_of(ObjectKind.CONTENTS, str(POST), as_of=None, limit=1)
    database.client.close()
