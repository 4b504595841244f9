"""Writing graphs into a real store: rows, links, round trips, crashes and several workers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from tests.conftest import FakeClock
from tests.integration.social_graph_server import (
    WORKERS,
    CommandLog,
    command_log,
    graph_database,
    logged_database,
    run_together,
)
from workers.errors import ContractViolation, LeaseLost, RetryableError
from workers.mongo import Document, MongoDatabase
from workers.social_graph.account import AccountRepository
from workers.social_graph.content import Content, ContentRepository
from workers.social_graph.metric_series import MetricSeriesRepository
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.vocabulary import (
    ContentSubtype,
    LinkStatus,
    ObjectKind,
    ParentRelation,
    Platform,
    VenueSubtype,
)
from workers.social_recording.graph_writer import GraphWriter, LinkContext, StoredObjects, WriteResult
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)
from workers.social_recording.routing import route
from workers.social_recording.routing.route import Route

__all__ = ["command_log", "graph_database", "logged_database"]

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
REPO_URL = "https://github.com/octo/cat"
SITE_URL = "https://example.org/"


def graph(*groups: ObjectGroup, at: datetime = AT) -> SocialObjectGraph:
    return SocialObjectGraph(groups=groups, observed_at=at)


def context(entry_url: str, token: str = "t", at: datetime = AT, **fields: Any) -> LinkContext:  # noqa: S107
    return LinkContext(token_address=token, entry_url=entry_url, linked_at=at, **fields)


def owner(key: str = "1", login: str = "octo", **fields: Any) -> AccountDraft:
    return AccountDraft(
        platform=Platform.GITHUB,
        url=f"https://github.com/{login}",
        platform_key=key,
        handle=login,
        followers=10,
        **fields,
    )


def repo(
    key: str = "100",
    url: str = REPO_URL,
    *,
    by: AccountDraft | None = None,
    parent: int | None = None,
    stars: int = 3,
) -> ObjectGroup:
    return ObjectGroup(
        content=ContentDraft(
            platform=Platform.GITHUB, subtype=ContentSubtype.REPO, url=url, platform_key=key
        ),
        account=by or owner(),
        parent_ref=parent,
        parent_relation=None if parent is None else ParentRelation.FORK,
        metrics={
            ObjectKind.CONTENTS: {"stargazers_count": stars},
            ObjectKind.ACCOUNTS: {"followers": 10},
        },
    )


def site(url: str = SITE_URL) -> ObjectGroup:
    return ObjectGroup(
        content=ContentDraft(platform=Platform.WEB, subtype=ContentSubtype.SITE, url=url, platform_key=None)
    )


def tweet(key: str, author: str, *, parent: int | None = None, community: str | None = None) -> ObjectGroup:
    metrics: dict[ObjectKind, Metrics] = {ObjectKind.CONTENTS: {"favorite_count": 3}}
    return ObjectGroup(
        content=ContentDraft(
            platform=Platform.X,
            subtype=ContentSubtype.TWEET,
            url=f"https://x.com/i/status/{key}",
            platform_key=key,
        ),
        account=AccountDraft(
            platform=Platform.X, url=f"https://x.com/{author}", platform_key=f"id-{author}", handle=author
        ),
        venue=None
        if community is None
        else VenueDraft(
            platform=Platform.X,
            subtype=VenueSubtype.COMMUNITY,
            url=f"https://x.com/i/communities/{community}",
            platform_key=community,
        ),
        parent_ref=parent,
        parent_relation=None if parent is None else ParentRelation.QUOTE,
        metrics=metrics,
    )


@pytest.fixture
def writer(logged_database: MongoDatabase, clock: FakeClock) -> GraphWriter:
    return GraphWriter(logged_database, clock)


@pytest.fixture
def stored(logged_database: MongoDatabase, clock: FakeClock) -> StoredObjects:
    return StoredObjects(logged_database, clock)


@pytest.fixture
def links(graph_database: MongoDatabase, clock: FakeClock) -> TokenLinkRepository:
    return TokenLinkRepository(graph_database, clock)


@pytest.fixture
def accounts(graph_database: MongoDatabase, clock: FakeClock) -> AccountRepository:
    return AccountRepository(graph_database, clock)


@pytest.fixture
def contents(graph_database: MongoDatabase, clock: FakeClock) -> ContentRepository:
    return ContentRepository(graph_database, clock)


@pytest.fixture
def series(graph_database: MongoDatabase, clock: FakeClock) -> MetricSeriesRepository:
    return MetricSeriesRepository(graph_database, clock)


def shape(found: list[TokenLink]) -> list[tuple[ObjectKind, int]]:
    return sorted((each.object, each.link_depth) for each in found)


def count(database: MongoDatabase, collection: str) -> int:
    return database[collection].count_documents({})


def test_a_repository_with_its_owner_is_two_rows_two_points_and_two_links(
    writer: GraphWriter,
    graph_database: MongoDatabase,
    contents: ContentRepository,
    links: TokenLinkRepository,
) -> None:
    result = writer.write(graph(repo()), context(REPO_URL, first_transfer_at=AT))
    content = contents.find_by_source_url(REPO_URL)
    assert content is not None
    assert result == WriteResult(
        entry=ObjectKind.CONTENTS,
        entry_id=content.id,
        links_written=2,
        links_deleted=0,
    )
    account = AccountRepository(graph_database, FakeClock()).find_by_platform_key(Platform.GITHUB, "1")
    assert account is not None
    assert content.creator_id == account.id
    assert content.author is not None
    assert (content.author.account_id, content.author.handle, content.author.followers) == (
        account.id,
        "octo",
        10,
    )
    assert content.metrics_latest == {"stargazers_count": 3}
    found = {each.object: each for each in links.find_by_token_and_entry_url("t", REPO_URL)}
    assert found[ObjectKind.CONTENTS].lineage == (content.id,)
    assert found[ObjectKind.ACCOUNTS].lineage == (account.id, content.id)
    assert (found[ObjectKind.CONTENTS].subtype, found[ObjectKind.ACCOUNTS].subtype) == (
        ContentSubtype.REPO,
        None,
    )
    assert found[ObjectKind.CONTENTS].first_transfer_at == AT


def test_a_fork_refers_to_its_parent_and_the_parent_to_nothing(
    writer: GraphWriter, contents: ContentRepository, links: TokenLinkRepository
) -> None:
    original = repo("200", "https://github.com/other/cat", by=owner("2", "other"))
    writer.write(graph(repo(parent=1), original), context(REPO_URL))
    fork = contents.find_by_source_url(REPO_URL)
    parent = contents.find_by_source_url("https://github.com/other/cat")
    assert fork is not None
    assert parent is not None
    assert (fork.parent_content_id, fork.parent_relation) == (parent.id, ParentRelation.FORK)
    assert (parent.parent_content_id, parent.parent_relation) == (None, None)
    found = links.find_by_token_and_entry_url("t", REPO_URL)
    assert shape(found) == [(ObjectKind.ACCOUNTS, 1), (ObjectKind.CONTENTS, 0), (ObjectKind.CONTENTS, 1)]
    assert (parent.id, fork.id) in {each.lineage for each in found}


def test_the_same_graph_again_changes_no_row_and_no_time_of_a_link(
    writer: GraphWriter, graph_database: MongoDatabase, links: TokenLinkRepository
) -> None:
    writer.write(graph(repo()), context(REPO_URL))
    before = {name: list(graph_database[name].find()) for name in ("contents", "accounts", "metric_series")}
    first = links.find_by_token_and_entry_url("t", REPO_URL)
    result = writer.write(graph(repo()), context(REPO_URL, at=LATER))
    assert (result.links_deleted, result.links_written) == (2, 2)
    for name, rows in before.items():
        assert without_update_time(graph_database[name].find()) == without_update_time(rows)
    again = links.find_by_token_and_entry_url("t", REPO_URL)
    assert [(each.object_id, each.created_at) for each in again] == [
        (each.object_id, each.created_at) for each in first
    ]
    assert {each.id for each in again}.isdisjoint(each.id for each in first)


def without_update_time(rows: Any) -> list[Document]:
    return [{name: value for name, value in row.items() if name != "updated_at"} for row in rows]


def test_a_later_observation_adds_a_point_and_leaves_what_was_first_seen(
    writer: GraphWriter,
    contents: ContentRepository,
    accounts: AccountRepository,
    series: MetricSeriesRepository,
) -> None:
    writer.write(graph(repo()), context(REPO_URL))
    changed = owner(display_name="new name", bio="new bio")
    writer.write(graph(repo(by=changed, stars=9), at=LATER), context(REPO_URL, "other"))
    content = contents.find_by_source_url(REPO_URL)
    account = accounts.find_by_platform_key(Platform.GITHUB, "1")
    assert content is not None
    assert account is not None
    assert (content.metrics_latest, content.observed_at) == ({"stargazers_count": 9}, LATER)
    assert (account.display_name, account.bio) == (None, None)
    assert [(each.first_seen, each.last_seen) for each in account.handles] == [(AT, LATER)]
    points = series.find_by_object(ObjectKind.CONTENTS, content.id)
    assert points is not None
    assert [point.metrics for point in points.points] == [{"stargazers_count": 3}, {"stargazers_count": 9}]


def test_a_new_handle_of_a_known_account_is_a_new_period(
    writer: GraphWriter, accounts: AccountRepository
) -> None:
    writer.write(graph(repo()), context(REPO_URL))
    renamed = repo("101", "https://github.com/cat/new", by=owner("1", "cat"))
    writer.write(graph(renamed, at=LATER), context("https://github.com/cat/new"))
    account = accounts.find_by_platform_key(Platform.GITHUB, "1")
    assert account is not None
    assert [each.value for each in account.handles] == ["octo", "cat"]
    assert [each.url for each in account.source_urls] == [
        "https://github.com/octo",
        "https://github.com/cat",
    ]


def test_an_account_that_vanished_is_marked_and_its_link_says_so(
    writer: GraphWriter, accounts: AccountRepository, links: TokenLinkRepository
) -> None:
    url = "https://github.com/octo"
    writer.write(graph(ObjectGroup(account=owner())), context(url))
    gone = ObjectGroup(account=owner(unavailable=True))
    writer.write(graph(gone, at=LATER), context(url, "other"))
    account = accounts.find_by_source_url(url)
    assert account is not None
    assert account.unavailable is True
    (link,) = links.find_by_token_and_entry_url("other", url)
    assert (link.status, link.link_depth) == (LinkStatus.UNAVAILABLE, 0)


def test_a_telegram_venue_is_compared_with_the_token_and_others_are_not(
    writer: GraphWriter, links: TokenLinkRepository
) -> None:
    venue = VenueDraft(
        platform=Platform.TELEGRAM,
        subtype=VenueSubtype.CHANNEL,
        url="https://t.me/bonk",
        platform_key=None,
        name="BONK portal",
    )
    writer.write(graph(ObjectGroup(venue=venue)), context("https://t.me/bonk", token_name="bonk"))
    writer.write(graph(site()), context(SITE_URL, token_name="bonk"))
    found = {each.entry_url: each.name_match for each in links.find_by_token("t", AT)}
    assert found == {"https://t.me/bonk": True, SITE_URL: None}


def test_the_entry_url_leads_to_the_object_under_its_canonical_one(
    writer: GraphWriter, stored: StoredObjects
) -> None:
    short = "https://t.co/abc"
    writer.write(graph(site()), context(short))
    way = Route(
        url=short, platform=Platform.WEB, object=ObjectKind.CONTENTS, subtype=ContentSubtype.SITE, key="t.co"
    )
    found = stored.find(way)
    assert isinstance(found, Content)
    assert [entry.url for entry in found.source_urls] == [SITE_URL, short]


def test_a_broken_graph_writes_nothing(writer: GraphWriter, graph_database: MongoDatabase) -> None:
    with pytest.raises(ContractViolation):
        writer.write(graph(site(), site("https://b.org/")), context(SITE_URL))
    assert not any(count(graph_database, name) for name in ("contents", "accounts", "token_links"))


def test_metrics_that_nobody_wrote_down_are_dropped_and_named(writer: GraphWriter) -> None:
    group = ObjectGroup(account=owner(), metrics={ObjectKind.ACCOUNTS: {"folowers": 1}})
    result = writer.write(graph(group), context("https://github.com/octo"))
    assert result.metrics_dropped == ("folowers",)


# Round trips


@pytest.mark.parametrize(
    ("groups", "entry_url", "commands"),
    [
        ((site(),), SITE_URL, ["find", "bulkWrite"]),
        ((repo(),), REPO_URL, ["find", "find", "bulkWrite"]),
        (
            (repo(parent=1), repo("200", "https://github.com/other/cat", by=owner("2", "other"))),
            REPO_URL,
            ["find", "find", "bulkWrite"],
        ),
        (
            (tweet("1", "a", parent=1, community="9"), tweet("2", "b")),
            "https://x.com/i/status/1",
            ["find", "find", "find", "bulkWrite"],
        ),
        (
            (ObjectGroup(account=owner(), metrics={ObjectKind.ACCOUNTS: {"followers": 1}}),),
            "https://github.com/octo",
            ["find", "bulkWrite"],
        ),
    ],
    ids=["site", "repository", "fork", "quote in a community", "account"],
)
def test_a_new_url_takes_one_look_up_per_collection_and_one_write(
    writer: GraphWriter,
    command_log: CommandLog,
    groups: tuple[ObjectGroup, ...],
    entry_url: str,
    commands: list[str],
) -> None:
    with command_log.counted() as names:
        writer.write(graph(*groups), context(entry_url), known_absent=True)
    assert names == commands


def test_a_new_quote_in_a_new_community_by_a_known_author_takes_five_commands(
    writer: GraphWriter, command_log: CommandLog
) -> None:
    writer.write(graph(tweet("3", "b")), context("https://x.com/i/status/3"))
    quote = graph(tweet("1", "a", parent=1, community="9"), tweet("2", "b"), at=LATER)
    with command_log.counted() as names:
        writer.write(quote, context("https://x.com/i/status/1"), known_absent=True)
    assert names == ["find", "find", "find", "find", "bulkWrite"]


def test_a_new_repository_of_a_known_owner_takes_three_commands(
    writer: GraphWriter, command_log: CommandLog
) -> None:
    writer.write(graph(repo()), context(REPO_URL))
    second = repo("101", "https://github.com/octo/dog")
    with command_log.counted() as names:
        writer.write(graph(second, at=LATER), context("https://github.com/octo/dog"), known_absent=True)
    assert names == ["find", "find", "bulkWrite"]


def test_an_owner_that_nothing_is_new_of_is_not_written(
    writer: GraphWriter, command_log: CommandLog, graph_database: MongoDatabase
) -> None:
    writer.write(graph(repo()), context(REPO_URL))
    before = list(graph_database["accounts"].find())
    second = replace(
        repo("101", "https://github.com/octo/dog"), metrics={ObjectKind.CONTENTS: {"stargazers_count": 1}}
    )
    with command_log.counted() as names:
        writer.write(graph(second), context("https://github.com/octo/dog"), known_absent=True)
    assert names == ["find", "find", "bulkWrite"]
    assert list(graph_database["accounts"].find()) == before


def test_a_row_that_is_known_by_its_key_is_found_once_the_index_has_refused_it(
    writer: GraphWriter, command_log: CommandLog, contents: ContentRepository
) -> None:
    writer.write(graph(site(), at=AT), context(SITE_URL))
    writer.write(graph(tweet("1", "a")), context("https://x.com/i/status/1"))
    moved = "https://x.com/a/status/1"
    group = ObjectGroup(
        content=ContentDraft(platform=Platform.X, subtype=ContentSubtype.TWEET, url=moved, platform_key="1")
    )
    with command_log.counted() as names:
        result = writer.write(graph(group), context(moved), known_absent=True)
    assert names == ["find", "bulkWrite", "find", "find", "bulkWrite"]
    row = contents.find_by_source_url(moved)
    assert row is not None
    assert row.id == result.entry_id
    assert len(row.source_urls) == 2


def test_a_stored_object_is_linked_with_at_most_eight_commands(
    writer: GraphWriter, stored: StoredObjects, command_log: CommandLog, links: TokenLinkRepository
) -> None:
    url = "https://x.com/i/status/1"
    writer.write(graph(tweet("1", "a", parent=1, community="9"), tweet("2", "b")), context(url))
    other = "https://x.com/a/status/1"
    with command_log.counted() as names:
        found = stored.find(route(other))
        assert found is not None
        result = writer.link_stored(found, context(other, "second", LATER))
    assert len(names) <= 8
    assert result.links_written == 4
    assert shape(links.find_by_token_and_entry_url("second", other)) == shape(
        links.find_by_token_and_entry_url("t", url)
    )


# Stored objects


def test_a_second_token_links_to_what_is_stored_without_a_new_row(
    writer: GraphWriter, stored: StoredObjects, graph_database: MongoDatabase, links: TokenLinkRepository
) -> None:
    writer.write(graph(repo()), context(REPO_URL))
    way = Route(
        url=REPO_URL,
        platform=Platform.GITHUB,
        object=ObjectKind.CONTENTS,
        subtype=ContentSubtype.REPO,
        key="octo/cat",
    )
    found = stored.find(way)
    assert isinstance(found, Content)
    writer.link_stored(found, context(REPO_URL, "second", LATER))
    assert (count(graph_database, "contents"), count(graph_database, "accounts")) == (1, 1)
    second = links.find_by_token_and_entry_url("second", REPO_URL)
    assert shape(second) == [(ObjectKind.ACCOUNTS, 1), (ObjectKind.CONTENTS, 0)]
    # The platform was not asked again, so the observation is the old one.
    assert {(each.created_at, each.observed_at) for each in second} == {(LATER, AT)}
    assert links.count_by_object_as_of(found.id, LATER) == 2
    assert links.count_by_object_as_of(found.id, AT) == 1


def test_linking_again_keeps_the_time_of_the_first_link(
    writer: GraphWriter, stored: StoredObjects, links: TokenLinkRepository
) -> None:
    writer.write(graph(site()), context(SITE_URL))
    way = Route(
        url=SITE_URL, platform=Platform.WEB, object=ObjectKind.CONTENTS, subtype=ContentSubtype.SITE, key="e"
    )
    found = stored.find(way)
    assert found is not None
    result = writer.link_stored(found, context(SITE_URL, at=LATER))
    assert (result.links_deleted, result.links_written) == (1, 1)
    (link,) = links.find_by_token_and_entry_url("t", SITE_URL)
    assert link.created_at == AT


def test_a_url_that_leads_elsewhere_already_is_not_added(
    writer: GraphWriter, contents: ContentRepository
) -> None:
    writer.write(graph(site()), context(SITE_URL))
    writer.write(graph(site("https://b.org/")), context("https://b.org/"))
    row = contents.find_by_source_url("https://b.org/")
    assert row is not None
    writer.link_stored(row, context(SITE_URL, "second"))
    assert contents.find_by_id(row.id) == row


@pytest.mark.parametrize(
    ("place", "key", "is_found"),
    [
        ((Platform.REDDIT, ObjectKind.ACCOUNTS, None), "Bob", True),
        ((Platform.GITHUB, ObjectKind.ACCOUNTS, None), "Bob", False),
        ((Platform.TELEGRAM, ObjectKind.VENUES, None), "bonk", False),
        ((Platform.TIKTOK, ObjectKind.CONTENTS, ContentSubtype.VIDEO), "7106594312292453675", True),
        ((Platform.REDDIT, ObjectKind.CONTENTS, ContentSubtype.POST), "hwt9wg", True),
        ((Platform.GITHUB, ObjectKind.CONTENTS, ContentSubtype.REPO), "octo/cat", False),
    ],
)
def test_a_key_in_a_url_finds_a_row_only_where_it_is_the_platforms_own(
    writer: GraphWriter,
    stored: StoredObjects,
    place: tuple[Platform, ObjectKind, ContentSubtype | VenueSubtype | None],
    key: str,
    is_found: bool,
) -> None:
    platform, kind, subtype = place
    url = "https://stored.example.org/"
    stored_key = key.lower() if kind is ObjectKind.ACCOUNTS else key
    match kind:
        case ObjectKind.ACCOUNTS:
            group = ObjectGroup(account=AccountDraft(platform=platform, url=url, platform_key=stored_key))
        case ObjectKind.VENUES:
            group = ObjectGroup(
                venue=VenueDraft(
                    platform=platform,
                    subtype=VenueSubtype(subtype or VenueSubtype.CHANNEL),
                    url=url,
                    platform_key=stored_key,
                )
            )
        case ObjectKind.CONTENTS:
            group = ObjectGroup(
                content=ContentDraft(
                    platform=platform, subtype=ContentSubtype(subtype), url=url, platform_key=stored_key
                )
            )
    writer.write(graph(group), context(url))
    way = Route(url="https://asked.example.org/", platform=platform, object=kind, subtype=subtype, key=key)
    assert (stored.find(way) is not None) is is_found


@pytest.mark.parametrize(
    ("drafted", "asked"),
    [
        (
            "https://x.com/i/status/12",
            ["https://twitter.com/a/status/12?s=20", "https://x.com/i/web/status/12"],
        ),
        ("https://x.com/i/communities/9", ["https://twitter.com/i/communities/9/about"]),
        (
            "https://youtube.com/watch?v=aFCO6Wid0VM",
            ["https://youtu.be/aFCO6Wid0VM?t=3", "https://www.youtube.com/shorts/aFCO6Wid0VM"],
        ),
    ],
)
def test_where_the_canonical_url_says_nothing_but_the_key_one_look_up_finds_the_row_by_any_spelling(
    writer: GraphWriter, stored: StoredObjects, command_log: CommandLog, drafted: str, asked: list[str]
) -> None:
    way = route(drafted)
    assert way.url == drafted
    if way.object is ObjectKind.VENUES:
        venue = VenueDraft(
            platform=way.platform, subtype=VenueSubtype(str(way.subtype)), url=drafted, platform_key=way.key
        )
        group = ObjectGroup(venue=venue)
    else:
        content = ContentDraft(
            platform=way.platform, subtype=ContentSubtype(str(way.subtype)), url=drafted, platform_key=way.key
        )
        group = ObjectGroup(content=content)
    writer.write(graph(group), context("https://first.example.org/"))
    for spelling in asked:
        with command_log.counted() as names:
            assert stored.find(route(spelling)) is not None
        assert names == ["find"]


# Several workers, crashes, lost leases


def test_tokens_recorded_at_once_share_one_account(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    def work(number: int) -> WriteResult:
        url = f"https://github.com/octo/repo{number}"
        return writer.write(graph(repo(str(number), url)), context(url, f"t{number}"), known_absent=True)

    results = run_together(work)
    assert len(results) == WORKERS
    assert (count(graph_database, "accounts"), count(graph_database, "contents")) == (1, WORKERS)
    (account,) = graph_database["accounts"].find()
    assert {row["creator_id"] for row in graph_database["contents"].find()} == {account["_id"]}
    linked = graph_database["token_links"].find({"object": "accounts"})
    assert [row["object_id"] for row in linked] == [account["_id"]] * WORKERS


def test_one_url_of_eight_tokens_at_once_is_one_row_and_one_point(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    fork = graph(repo(parent=1), repo("200", "https://github.com/other/cat", by=owner("2", "other")))
    results = run_together(
        lambda number: writer.write(fork, context(REPO_URL, f"t{number}"), known_absent=True)
    )
    assert len({result.entry_id for result in results}) == 1
    assert [len(row["points"]) for row in graph_database["metric_series"].find()] == [1, 1, 1, 1]
    assert (count(graph_database, "contents"), count(graph_database, "accounts")) == (2, 2)
    assert count(graph_database, "token_links") == 3 * WORKERS
    rows = {row["platform_key"]: row for row in graph_database["contents"].find()}
    child, parent = rows["100"], rows["200"]
    assert child["parent_content_id"] == parent["_id"]


def test_without_the_unique_indexes_they_would_be_several(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    for name in ("contents", "accounts"):
        graph_database[name].drop_indexes()
    run_together(
        lambda number: writer.write(graph(repo()), context(REPO_URL, f"t{number}"), known_absent=True)
    )
    assert count(graph_database, "contents") > 1


class LeaseThatEnds:
    """Stands for a lease that is lost after some checks."""

    def __init__(self, checks: int) -> None:
        self._left = checks

    def check(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise LeaseLost("the lease ended")


def test_a_lost_lease_stops_the_writing_and_the_next_try_finishes(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    names = ("accounts", "contents", "metric_series", "token_links")
    with pytest.raises(LeaseLost):
        writer.write(graph(repo()), context(REPO_URL, lease=LeaseThatEnds(0)))
    assert [count(graph_database, name) for name in names] == [0, 0, 0, 0]
    writer.write(graph(repo()), context(REPO_URL, lease=LeaseThatEnds(1)))
    assert [count(graph_database, name) for name in names] == [1, 1, 2, 2]


class DyingStore:
    """Makes the first so many writes of a command, then answers no more, as a store that dies in it."""

    def __init__(self, client: Any, writes_made: int) -> None:
        self._bulk_write = client.bulk_write
        self._writes_made = writes_made

    def bulk_write(self, writes: Sequence[Any], **options: Any) -> Any:
        if self._writes_made < len(writes):
            if self._writes_made:
                self._bulk_write(writes[: self._writes_made], **options)
            raise AutoReconnect("the store has died")
        return self._bulk_write(writes, **options)


@pytest.mark.parametrize("writes_made", range(6))
def test_a_store_that_dies_in_the_middle_of_a_command_leaves_what_the_next_try_completes(
    writer: GraphWriter,
    *,
    graph_database: MongoDatabase,
    logged_database: MongoDatabase,
    links: TokenLinkRepository,
    monkeypatch: pytest.MonkeyPatch,
    writes_made: int,
) -> None:
    client = logged_database.client
    with monkeypatch.context() as patch:
        patch.setattr(client, "bulk_write", DyingStore(client, writes_made).bulk_write)
        with pytest.raises(RetryableError):
            writer.write(graph(repo()), context(REPO_URL))
    names = ("accounts", "contents", "metric_series", "token_links")
    assert sum(count(graph_database, name) for name in names) == writes_made
    writer.write(graph(repo()), context(REPO_URL))
    assert [count(graph_database, name) for name in names] == [1, 1, 2, 2]
    assert [len(row["points"]) for row in graph_database["metric_series"].find()] == [1, 1]
    assert shape(links.find_by_token_and_entry_url("t", REPO_URL)) == [
        (ObjectKind.ACCOUNTS, 1),
        (ObjectKind.CONTENTS, 0),
    ]


@pytest.mark.parametrize("links_made", [0, 1, 2])
def test_a_store_that_dies_while_links_are_replaced_loses_no_time_of_a_first_link(
    writer: GraphWriter,
    *,
    graph_database: MongoDatabase,
    logged_database: MongoDatabase,
    links: TokenLinkRepository,
    monkeypatch: pytest.MonkeyPatch,
    links_made: int,
) -> None:
    writer.write(graph(repo()), context(REPO_URL))
    first = {each.object_id: each.created_at for each in links.find_by_token_and_entry_url("t", REPO_URL)}
    client, points = logged_database.client, 2
    with monkeypatch.context() as patch:
        patch.setattr(client, "bulk_write", DyingStore(client, points + links_made).bulk_write)
        with pytest.raises(RetryableError):
            writer.write(graph(repo()), context(REPO_URL, at=LATER))
    assert count(graph_database, "token_links") == 2 + links_made
    writer.write(graph(repo()), context(REPO_URL, at=LATER))
    found = links.find_by_token_and_entry_url("t", REPO_URL)
    assert {each.object_id: each.created_at for each in found} == first
    assert len(found) == 2


# Names that change hands


def test_a_login_that_passed_to_somebody_else_leads_to_the_new_owner_and_the_old_one_keeps_its_past(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    first, second = "https://github.com/sol/one", "https://github.com/sol/two"
    writer.write(graph(repo("100", first, by=owner("1", "sol"))), context(first))
    writer.write(graph(repo("200", second, by=owner("2", "sol")), at=LATER), context(second, at=LATER))
    accounts = AccountRepository(graph_database, FakeClock())
    old, new = (accounts.find_by_platform_key(Platform.GITHUB, key) for key in "12")
    assert old is not None
    assert new is not None
    assert [entry.url for entry in new.source_urls] == ["https://github.com/sol"]
    assert [entry.url for entry in old.source_urls] == ["https://github.com/sol#1"]
    assert {account.id for account in accounts.find_by_handle("sol")} == {old.id, new.id}
    creators = {row["platform_key"]: row["creator_id"] for row in graph_database["contents"].find()}
    assert creators == {"100": old.id, "200": new.id}
    series = {
        row["object_id"]: len(row["points"])
        for row in graph_database["metric_series"].find({"object": "accounts"})
    }
    assert series == {old.id: 1, new.id: 1}


def test_a_login_that_comes_back_leads_to_its_first_owner_again_with_two_periods(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    for number, (key, at) in enumerate(
        (("1", AT), ("2", AT + timedelta(days=60)), ("1", AT + timedelta(days=120)))
    ):
        url = f"https://github.com/sol/repo{number}"
        writer.write(graph(repo(f"10{number}", url, by=owner(key, "sol")), at=at), context(url, at=at))
    accounts = AccountRepository(graph_database, FakeClock())
    found = accounts.find_by_source_url("https://github.com/sol")
    assert found is not None
    assert found.platform_key == "1"
    assert [interval.first_seen for interval in found.handles] == [AT, AT + timedelta(days=120)]
    other = accounts.find_by_platform_key(Platform.GITHUB, "2")
    assert other is not None
    for days, holder in ((0, found), (60, other), (120, found)):
        at = AT + timedelta(days=days)
        had = [account for account in accounts.find_by_handle("sol") if account.had_handle_at("sol", at)]
        assert [account.id for account in had] == [holder.id], days
    assert not found.had_handle_at("sol", AT + timedelta(days=90))
    assert graph_database["accounts"].count_documents({}) == 2


def test_workers_that_meet_over_a_login_that_changed_hands_agree_on_its_owner(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    first = "https://github.com/sol/one"
    writer.write(graph(repo("100", first, by=owner("1", "sol"))), context(first))

    def work(number: int) -> WriteResult:
        url = f"https://github.com/sol/new{number}"
        return writer.write(
            graph(repo(f"20{number}", url, by=owner("2", "sol")), at=LATER), context(url, f"t{number}", LATER)
        )

    run_together(work)
    assert count(graph_database, "accounts") == 2
    accounts = AccountRepository(graph_database, FakeClock())
    new = accounts.find_by_platform_key(Platform.GITHUB, "2")
    assert new is not None
    assert graph_database["contents"].count_documents({"creator_id": new.id}) == WORKERS


def test_an_account_that_was_seen_without_a_key_gets_it_instead_of_losing_its_name(
    writer: GraphWriter, graph_database: MongoDatabase
) -> None:
    without = replace(owner(), platform_key=None)
    writer.write(graph(repo(by=without)), context(REPO_URL))
    writer.write(graph(repo("101", "https://github.com/octo/dog")), context("https://github.com/octo/dog"))
    assert count(graph_database, "accounts") == 1
