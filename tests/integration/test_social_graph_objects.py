"""Contents, accounts and venues in a real store: finding, creating, changing, and several workers at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest
from bson import ObjectId

from tests.conftest import FakeClock
from tests.integration.social_graph_server import WORKERS, graph_database, run_together
from workers.clock import Clock
from workers.errors import InvalidInput, RetryableError
from workers.mongo import MongoDatabase, connect
from workers.settings import Settings
from workers.social_graph.account import Account, AccountRepository
from workers.social_graph.content import Content, ContentRepository, ContentText
from workers.social_graph.row_resolution import (
    PlannedWrite,
    Refusals,
    RowPlace,
    WantedRow,
    resolve_rows,
    settle,
)
from workers.social_graph.source_url import SourceURL
from workers.social_graph.venue import Venue, VenueRepository
from workers.social_graph.vocabulary import (
    ContentSubtype,
    FetchStatus,
    ObjectKind,
    ParentRelation,
    Platform,
    VenueSubtype,
)
from workers.social_graph.write_batch import write_in_order
from workers.store_errors import DuplicateKey

__all__ = ["graph_database"]

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)


def content(url: str = "https://x.com/i/status/1", key: str | None = "1", **fields: Any) -> Content:
    return Content.of(
        **{
            "platform": Platform.X,
            "subtype": ContentSubtype.TWEET,
            "source_urls": [SourceURL.of(url, FetchStatus.OK, AT)],
            "observed_at": AT,
            "platform_key": key,
            **fields,
        }
    )


def account(url: str, key: str | None = None, **fields: Any) -> Account:
    return Account.of(
        **{
            "platform": Platform.INSTAGRAM,
            "source_urls": [SourceURL.of(url, FetchStatus.OK, AT)],
            "observed_at": AT,
            "platform_key": key,
            **fields,
        }
    )


def venue(url: str, key: str | None = None, **fields: Any) -> Venue:
    return Venue.of(
        platform=Platform.TELEGRAM,
        subtype=VenueSubtype.CHANNEL,
        source_urls=[SourceURL.of(url, FetchStatus.OK, AT)],
        observed_at=AT,
        platform_key=key,
        **fields,
    )


@pytest.fixture
def contents(graph_database: MongoDatabase, clock: FakeClock) -> ContentRepository:
    return ContentRepository(graph_database, clock)


@pytest.fixture
def accounts(graph_database: MongoDatabase, clock: FakeClock) -> AccountRepository:
    return AccountRepository(graph_database, clock)


@pytest.fixture
def venues(graph_database: MongoDatabase, clock: FakeClock) -> VenueRepository:
    return VenueRepository(graph_database, clock)


def test_a_content_is_found_by_id_url_and_key(contents: ContentRepository, clock: FakeClock) -> None:
    row = content(text=ContentText.of(primary="gm 🚀"))
    contents.create(row)
    found = contents.find_by_id(row.id)
    assert found is not None
    assert (found.text.primary, found.created_at, found.updated_at) == ("gm 🚀", clock.now(), clock.now())
    assert contents.find_by_source_url("https://x.com/i/status/1") == found
    assert contents.find_by_platform_key(Platform.X, ContentSubtype.TWEET, "1") == found
    assert contents.find_by_ids([row.id, ObjectId()]) == [found]
    assert contents.find_by_source_urls(["https://x.com/i/status/1", "https://no.where/"]) == {
        "https://x.com/i/status/1": found
    }


def test_what_is_not_stored_is_not_found(contents: ContentRepository) -> None:
    assert contents.find_by_id(ObjectId()) is None
    assert contents.find_by_source_url("https://no.where/") is None
    assert contents.find_by_platform_key(Platform.X, ContentSubtype.TWEET, "1") is None
    assert contents.find_by_ids([]) == []


def test_contents_are_listed_by_creator_venue_and_parent(contents: ContentRepository) -> None:
    creator, place, parent = ObjectId(), ObjectId(), ObjectId()
    rows = [
        content(
            f"https://x.com/i/status/{number}",
            str(number),
            creator_id=creator,
            venue_id=place,
            parent_content_id=parent,
            parent_relation=ParentRelation.QUOTE,
            published_at=AT + timedelta(days=number),
        )
        for number in range(3)
    ]
    for row in rows:
        contents.create(row)
    assert [each.platform_key for each in contents.find_by_creator(creator, 2)] == ["2", "1"]
    assert [each.platform_key for each in contents.find_by_venue(place, 2)] == ["2", "1"]
    assert [each.platform_key for each in contents.find_children(parent)] == ["0", "1", "2"]


def test_numeric_neighbours_beyond_53_bits_are_two_rows_with_their_keys_as_text(
    contents: ContentRepository, graph_database: MongoDatabase
) -> None:
    keys = ["732822797798539264", "732822797798539265"]
    for key in keys:
        contents.create(content(f"https://x.com/i/status/{key}", key))
    assert sorted(each["platform_key"] for each in graph_database["contents"].find()) == keys


def test_accounts_without_a_key_are_rows_of_their_own_and_store_none(
    accounts: AccountRepository, graph_database: MongoDatabase
) -> None:
    for number, key in enumerate([None, "", "  "]):
        accounts.create(account(f"https://instagram.com/{number}", key))
    accounts.create(account("https://instagram.com/real", "17841400000000000"))
    with pytest.raises(DuplicateKey):
        accounts.create(account("https://instagram.com/again", "17841400000000000"))
    assert graph_database["accounts"].count_documents({}) == 4
    assert graph_database["accounts"].count_documents({"platform_key": {"$exists": True}}) == 1


@pytest.mark.parametrize("stored", [None, "", 5])
def test_the_index_itself_leaves_out_what_is_no_key(graph_database: MongoDatabase, stored: object) -> None:
    for number in range(2):
        graph_database["accounts"].insert_one(
            {"platform": "ig", "platform_key": stored, "source_urls": [{"url": f"https://a.org/{number}"}]}
        )
    assert graph_database["accounts"].count_documents({}) == 2


def test_two_owners_of_one_handle_are_both_found(accounts: AccountRepository) -> None:
    a = account("https://tiktok.com/@a", "1", platform=Platform.TIKTOK, handle="Sol")
    b = account("https://tiktok.com/@b", "2", platform=Platform.TIKTOK, handle="sol")
    accounts.create(a)
    accounts.create(b)
    assert [each.id for each in accounts.find_by_handle("Sol")] == [a.id, b.id]


def test_a_wallet_is_found_in_whatever_case_it_is_asked(accounts: AccountRepository) -> None:
    wallet = "0x" + "Ab" * 20
    row = account("https://instagram.com/a", bio=f"BNB: {wallet}")
    accounts.create(row)
    assert [each.id for each in accounts.find_by_wallet(wallet)] == [row.id]


def test_a_vanished_account_is_marked_when_it_is_stored(accounts: AccountRepository) -> None:
    row = account("https://instagram.com/a")
    accounts.create(row)
    assert accounts.mark_unavailable("https://instagram.com/a")
    assert not accounts.mark_unavailable("https://instagram.com/nobody")
    found = accounts.find_by_id(row.id)
    assert found is not None
    assert found.unavailable is True


def test_venues_are_found_by_key_and_creator(venues: VenueRepository) -> None:
    creator = ObjectId()
    row = venue("https://t.me/a", "-1001", creator_id=creator, name="old name")
    venues.create(row)
    found = venues.find_by_platform_key(Platform.TELEGRAM, VenueSubtype.CHANNEL, "-1001")
    assert found is not None
    assert found.id == row.id
    assert venues.find_by_creator(creator) == [found]


def test_a_change_is_written_when_nobody_else_changed_the_same(
    contents: ContentRepository, clock: FakeClock
) -> None:
    contents.create(content())
    stored = contents.find_by_source_url("https://x.com/i/status/1")
    assert stored is not None
    clock.advance(60)
    changed = stored.add_source_url("https://t.co/a", FetchStatus.OK, AT)
    assert contents.save(changed, since=stored)
    found = contents.find_by_source_url("https://t.co/a")
    assert found is not None
    assert (found.id, found.created_at, found.updated_at) == (stored.id, stored.created_at, clock.now())


def test_of_two_changes_to_one_field_the_second_is_refused(contents: ContentRepository) -> None:
    contents.create(content())
    stored = contents.find_by_source_url("https://x.com/i/status/1")
    assert stored is not None
    assert contents.save(stored.add_source_url("https://t.co/a", FetchStatus.OK, AT), since=stored)
    assert not contents.save(stored.add_source_url("https://t.co/b", FetchStatus.OK, AT), since=stored)
    assert contents.save(stored.update_link_stats(1, AT, AT, computed_at=AT), since=stored)
    found = contents.find_by_id(stored.id)
    assert found is not None
    assert [entry.url for entry in found.source_urls] == ["https://x.com/i/status/1", "https://t.co/a"]
    assert found.link_stats is not None


def test_a_save_without_a_change_sends_nothing(contents: ContentRepository) -> None:
    row = content()
    assert contents.save(row, since=row)
    assert contents.find_by_id(row.id) is None


def test_a_batch_stops_at_the_first_refused_row(
    contents: ContentRepository, graph_database: MongoDatabase
) -> None:
    contents.create(content())
    urls = ["https://x.com/i/status/2", "https://x.com/i/status/1", "https://x.com/i/status/3"]
    result = write_in_order(graph_database, [contents.insertion(content(url, None)) for url in urls])
    assert (result.refused_at, result.is_complete) == (1, False)
    assert contents.find_by_source_url("https://x.com/i/status/2") is not None
    assert contents.find_by_source_url("https://x.com/i/status/3") is None


def test_a_batch_counts_the_changes_that_somebody_else_was_faster_with(
    contents: ContentRepository, graph_database: MongoDatabase
) -> None:
    row = content()
    contents.create(row)
    ours, theirs = (row.add_source_url(f"https://t.co/{name}", FetchStatus.OK, AT) for name in "ab")
    assert contents.save(theirs, since=row)
    result = write_in_order(graph_database, [contents.change(ours, since=row)])
    assert (result.missed, result.is_complete) == (1, False)
    stored = contents.find_by_id(row.id)
    assert stored is not None
    assert [entry.url for entry in stored.source_urls][1:] == ["https://t.co/b"]


def test_a_value_that_no_document_holds_is_the_callers_fault(
    contents: ContentRepository, graph_database: MongoDatabase
) -> None:
    with pytest.raises(InvalidInput):
        contents.create(content(venue_id=2**70))
    assert graph_database["contents"].count_documents({}) == 0


def test_a_store_that_does_not_answer_is_a_retryable_error() -> None:
    unreachable = Settings(
        app_secret_key="k",
        tracker_base_url="http://127.0.0.1:9",
        tracker_api_key="k",
        social_record_af_group_ids=("1",),
        mongo_url="mongodb://127.0.0.1:9",
        mongo_timeout_ms=100,
    )
    database = connect(unreachable)
    with pytest.raises(RetryableError):
        ContentRepository(database, Clock()).find_by_source_url("https://a.org/")
    database.client.close()


Resolve: TypeAlias = Callable[[ContentRepository, WantedRow[Content]], Content]


@dataclass(frozen=True)
class Batch:
    """One wanted row and what makes it so."""

    row: Content
    writes: tuple[PlannedWrite, ...]


@pytest.fixture
def resolve(graph_database: MongoDatabase) -> Resolve:
    """Brings one row into the store, as the writer of graphs does with several."""

    def resolved(repository: ContentRepository, want: WantedRow[Content]) -> Content:
        def plan(refusals: Refusals) -> Batch:
            found = resolve_rows(repository, [want], refusals)
            planned = (
                PlannedWrite(write=write, place=RowPlace(ObjectKind.CONTENTS, position))
                for position, writes in found.writes.items()
                for write in writes
            )
            return Batch(found.rows[0], tuple(planned))

        return settle(graph_database, plan, lambda: None).row

    return resolved


def wanted(repository: ContentRepository, number: int) -> WantedRow[Content]:
    """The same content as seen by one of several workers; each also saw it under a URL of its own."""
    url = "https://x.com/i/status/1"
    row = content(url)
    return WantedRow(
        urls=(url, f"https://t.co/{number}"),
        build=lambda _: row,
        observe=add_all,
        find_by_key=lambda: repository.find_by_platform_key(Platform.X, ContentSubtype.TWEET, "1"),
        is_absent=True,
    )


def add_all(row: Content, urls: tuple[str, ...]) -> Content:
    known = {entry.url for entry in row.source_urls}
    for url in urls:
        if url not in known:
            row = row.add_source_url(url, FetchStatus.OK, AT)
    return row


def resolve_together(resolve: Resolve, repository: ContentRepository) -> list[ObjectId]:
    def work(number: int) -> ObjectId:
        return resolve(repository, wanted(repository, number)).id

    return run_together(work)


def test_eight_workers_that_meet_over_one_new_url_store_one_row(
    resolve: Resolve, contents: ContentRepository, graph_database: MongoDatabase
) -> None:
    ids = resolve_together(resolve, contents)
    assert len(ids) == WORKERS
    assert len(set(ids)) == 1
    assert graph_database["contents"].count_documents({}) == 1


def test_without_the_unique_indexes_they_store_several(
    resolve: Resolve, contents: ContentRepository, graph_database: MongoDatabase
) -> None:
    graph_database["contents"].drop_indexes()
    assert len(set(resolve_together(resolve, contents))) > 1
    assert graph_database["contents"].count_documents({}) > 1


def test_eight_workers_with_a_url_each_for_one_key_add_all_their_urls_to_one_row(
    resolve: Resolve, contents: ContentRepository, graph_database: MongoDatabase
) -> None:
    def work(number: int) -> ObjectId:
        url = f"https://x.com/user{number}/status/1"
        want = WantedRow(
            urls=(url,),
            build=lambda _: content(url),
            observe=add_all,
            find_by_key=lambda: contents.find_by_platform_key(Platform.X, ContentSubtype.TWEET, "1"),
        )
        return resolve(contents, want).id

    assert len(set(run_together(work))) == 1
    (row,) = graph_database["contents"].find()
    assert len(row["source_urls"]) == WORKERS


def test_a_new_form_of_key_leads_to_the_old_row_by_its_url(
    resolve: Resolve, contents: ContentRepository
) -> None:
    old = content(key="shortcode")
    contents.create(old)
    want = WantedRow(
        urls=("https://x.com/i/status/1",),
        build=lambda _: content(key="17841400000000000"),
        observe=lambda stored, _: stored,
        find_by_key=lambda: None,
    )
    resolved = resolve(contents, want)
    assert (resolved.id, resolved.platform_key) == (old.id, "shortcode")


def test_a_url_of_another_row_is_not_taken_from_it(resolve: Resolve, contents: ContentRepository) -> None:
    first, second = content(), content("https://x.com/i/status/2", "2")
    contents.create(first)
    contents.create(second)
    want = WantedRow(
        urls=("https://x.com/i/status/1", "https://x.com/i/status/2"),
        build=lambda _: content(),
        observe=add_all,
        find_by_key=lambda: None,
    )
    assert resolve(contents, want).id == first.id
    found = contents.find_by_source_url("https://x.com/i/status/2")
    assert found is not None
    assert found.id == second.id


def test_rows_that_others_keep_changing_are_given_up_for_this_time(
    resolve: Resolve, contents: ContentRepository
) -> None:
    contents.create(content())
    counter = iter(range(100))

    def observe(stored: Content, _: tuple[str, ...]) -> Content:
        other = stored.add_source_url(f"https://t.co/other{next(counter)}", FetchStatus.OK, AT)
        assert contents.save(other, since=stored)
        return stored.add_source_url("https://t.co/ours", FetchStatus.OK, AT)

    want = WantedRow(
        urls=("https://x.com/i/status/1",),
        build=lambda _: content(),
        observe=observe,
        find_by_key=lambda: None,
    )
    with pytest.raises(RetryableError):
        resolve(contents, want)
