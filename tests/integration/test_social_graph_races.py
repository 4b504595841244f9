"""Two workers at the same thing in a real store, each race beside its twin without the protection.

A worker's lease is asked for right before it writes. There the workers wait for each other, so that all have
looked and none has written: the race is there every time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from tests.conftest import FakeClock
from tests.integration.graph_drafts import AT, alone, channel, context, graph, post, profile, quoting
from tests.integration.social_graph_server import graph_database, run_together
from workers.errors import RetryableError
from workers.mongo import Document, MongoDatabase
from workers.social_graph import row_resolution
from workers.social_graph.account import AccountRepository
from workers.social_graph.content import ContentRepository
from workers.social_graph.metric_series import MetricPoint, MetricSeriesRepository
from workers.social_graph.token_link import TokenLinkRepository
from workers.social_graph.vocabulary import ObjectKind, Platform
from workers.social_recording.graph_writer import GraphWriter, WriteResult
from workers.social_recording.object_graph import SocialObjectGraph

__all__ = ["graph_database"]

HOUR = timedelta(hours=1)


class Meeting:
    """Stands for a worker's lease: its first check waits for the other workers."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self._barrier: threading.Barrier | None = barrier

    def check(self) -> None:
        barrier, self._barrier = self._barrier, None
        if barrier is not None:
            barrier.wait(timeout=20)


def meet(*work: Callable[[Any], WriteResult]) -> list[WriteResult | RetryableError]:
    """Let each piece of work run in a thread of its own under a lease that meets the others."""
    barrier = threading.Barrier(len(work))

    def run(one: Callable[[Any], WriteResult]) -> WriteResult | RetryableError:
        try:
            return one(Meeting(barrier))
        except RetryableError as exc:
            return exc

    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(run, work))


# One new object, seen by two


@dataclass(frozen=True, kw_only=True)
class Race:
    """Two observations, by the draft of each, and the collection in which they meet."""

    collection: str
    first: SocialObjectGraph
    second: SocialObjectGraph

    @property
    def urls(self) -> list[str]:
        found = []
        for seen in (self.first, self.second):
            entry = seen.groups[0]
            draft = entry.content or entry.venue or entry.account
            assert draft is not None
            found.append(draft.url)
        return found


A, B, C = "https://one.org/a", "https://one.org/b", "https://one.org/c"
RACES = {
    "an account by its URL": Race(
        collection="accounts", first=graph(alone(profile(A, None))), second=graph(alone(profile(A, None)))
    ),
    "an account by its key": Race(
        collection="accounts", first=graph(alone(profile(A, "7"))), second=graph(alone(profile(B, "7")))
    ),
    "a content by its URL": Race(
        collection="contents", first=graph(alone(post(None, A))), second=graph(alone(post(None, A)))
    ),
    "a content by its key": Race(
        collection="contents", first=graph(alone(post("1", A))), second=graph(alone(post("1", B)))
    ),
    "a venue by its URL": Race(
        collection="venues", first=graph(alone(channel(A, None))), second=graph(alone(channel(A, None)))
    ),
    "a venue by its key": Race(
        collection="venues", first=graph(alone(channel(A, "-1"))), second=graph(alone(channel(B, "-1")))
    ),
    "a parent": Race(
        collection="contents",
        first=graph(quoting(post("1", A)), alone(post("3", C))),
        second=graph(quoting(post("2", B)), alone(post("3", C))),
    ),
}


@pytest.fixture(params=RACES.values(), ids=RACES)
def race(request: pytest.FixtureRequest) -> Race:
    found: Race = request.param
    return found


def run(race: Race, database: MongoDatabase) -> list[WriteResult | RetryableError]:
    url_1, url_2 = race.urls
    return meet(
        lambda lease: GraphWriter(database, FakeClock()).write(race.first, context(url_1, "t1", lease=lease)),
        lambda lease: GraphWriter(database, FakeClock()).write(
            race.second, context(url_2, "t2", lease=lease)
        ),
    )


def contested_rows(race: Race, database: MongoDatabase) -> list[Document]:
    """The rows of the object over which the two meet; of posts that quote it, not themselves."""
    return [row for row in database[race.collection].find() if "parent_content_id" not in row]


def linked_ids(database: MongoDatabase, token: str) -> set[ObjectId]:
    return {link["object_id"] for link in database["token_links"].find({"token_address": token})}


def test_two_workers_that_see_one_new_thing_store_one_row_and_both_link_to_it(
    graph_database: MongoDatabase, race: Race
) -> None:
    results = run(race, graph_database)
    assert all(isinstance(each, WriteResult) for each in results)
    [row] = contested_rows(race, graph_database)
    assert row["_id"] in linked_ids(graph_database, "t1")
    assert row["_id"] in linked_ids(graph_database, "t2")
    children = list(graph_database["contents"].find({"parent_content_id": {"$exists": True}}))
    assert {child["parent_content_id"] for child in children} <= {row["_id"]}
    urls = {each["url"] for each in row["source_urls"]}
    assert urls == ({C} if children else set(race.urls))


def test_without_the_unique_indexes_each_would_store_its_own(
    graph_database: MongoDatabase, race: Race
) -> None:
    graph_database[race.collection].drop_indexes()
    run(race, graph_database)
    assert len(contested_rows(race, graph_database)) == 2
    both = linked_ids(graph_database, "t1") & linked_ids(graph_database, "t2")
    assert both == set(), "nobody would know that the two tokens share it"


def test_without_a_second_look_the_slower_one_would_fail(
    graph_database: MongoDatabase, race: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_resolution, "TRIES_MAX", 1)
    results = run(race, graph_database)
    assert sorted(type(each).__name__ for each in results) == ["RetryableError", "WriteResult"]
    assert set() in (linked_ids(graph_database, "t1"), linked_ids(graph_database, "t2"))


# One URL, claimed for two objects

SHORT = "https://t.co/shared"


def claim_one_url_for_two(database: MongoDatabase) -> list[Document]:
    """Two stored posts, to both of which the same short link is said to lead; the rows that then have it."""
    contents = ContentRepository(database, FakeClock())
    for key, url in (("1", A), ("2", B)):
        GraphWriter(database, FakeClock()).write(graph(alone(post(key, url))), context(url, "t0"))

    def link(url: str, token: str) -> Callable[[Any], WriteResult]:
        def work(lease: Any) -> WriteResult:
            row = contents.find_by_source_url(url)
            assert row is not None
            return GraphWriter(database, FakeClock()).link_stored(row, context(SHORT, token, lease=lease))

        return work

    results = meet(link(A, "t1"), link(B, "t2"))
    assert all(isinstance(each, WriteResult) for each in results)
    return list(database["contents"].find({"source_urls.url": SHORT}))


def test_a_url_that_two_objects_claim_at_once_leads_to_one_of_them(graph_database: MongoDatabase) -> None:
    assert len(claim_one_url_for_two(graph_database)) == 1
    links = TokenLinkRepository(graph_database, FakeClock())
    assert [len(links.find_by_token_and_entry_url(token, SHORT)) for token in ("t1", "t2")] == [1, 1]


def test_without_the_unique_index_the_url_would_lead_to_both(graph_database: MongoDatabase) -> None:
    graph_database["contents"].drop_index("uniq_contents_source_url")
    assert len(claim_one_url_for_two(graph_database)) == 2


# One row, changed by two


class LastWriterWins:
    """Takes out the condition that a change is made only where what was read still stands."""

    def _change(self, row: Any, since: Any) -> tuple[Document, Document]:
        condition, update = super()._change(row, since)  # type: ignore[misc]
        return {"_id": condition["_id"]}, update


class BlindAccounts(LastWriterWins, AccountRepository):
    pass


class BlindContents(LastWriterWins, ContentRepository):
    pass


def writer_of(database: MongoDatabase, *, is_blind: bool) -> GraphWriter:
    writer = GraphWriter(database, FakeClock())
    if is_blind:
        writer._accounts = BlindAccounts(database, FakeClock())
        writer._contents = BlindContents(database, FakeClock())
    return writer


def handles_seen_at_once(database: MongoDatabase, *, is_blind: bool) -> list[str]:
    """An account that two workers see at once, at different times of its life; its handles afterwards."""
    GraphWriter(database, FakeClock()).write(graph(alone(profile(A, "7", handle="first"))), context(A, "t0"))

    def see(handle: str, at: datetime, token: str) -> Callable[[Any], WriteResult]:
        return lambda lease: writer_of(database, is_blind=is_blind).write(
            graph(alone(profile(A, "7", handle=handle)), at=at), context(A, token, lease=lease)
        )

    results = meet(see("second", AT + HOUR, "t1"), see("third", AT + 2 * HOUR, "t2"))
    assert all(isinstance(each, WriteResult) for each in results)
    [row] = AccountRepository(database, FakeClock()).find_by_handle("first")
    assert row.had_handle_at("first", AT)
    return [each.value for each in row.handles]


def test_handles_that_two_workers_see_at_once_are_both_kept_in_order(graph_database: MongoDatabase) -> None:
    assert handles_seen_at_once(graph_database, is_blind=False) == ["first", "second", "third"]


def test_without_the_condition_one_of_the_handles_would_be_lost(graph_database: MongoDatabase) -> None:
    assert len(handles_seen_at_once(graph_database, is_blind=True)) == 2


def urls_seen_at_once(database: MongoDatabase, *, is_blind: bool) -> set[str]:
    GraphWriter(database, FakeClock()).write(graph(alone(post("1", A))), context(A, "t0"))

    def see(url: str, token: str) -> Callable[[Any], WriteResult]:
        return lambda lease: writer_of(database, is_blind=is_blind).write(
            graph(alone(post("1", A)), at=AT + HOUR), context(url, token, lease=lease)
        )

    meet(see(B, "t1"), see(C, "t2"))
    row = ContentRepository(database, FakeClock()).find_by_source_url(A)
    assert row is not None
    return {each.url for each in row.source_urls}


def test_urls_under_which_two_workers_see_one_post_at_once_are_both_kept(
    graph_database: MongoDatabase,
) -> None:
    assert urls_seen_at_once(graph_database, is_blind=False) == {A, B, C}


def test_without_the_condition_one_of_the_urls_would_be_lost(graph_database: MongoDatabase) -> None:
    assert len(urls_seen_at_once(graph_database, is_blind=True)) == 2


# One point, measured by two


def measure_together(database: MongoDatabase) -> list[Document]:
    """Two writers that have seen one post at the same time; its series afterwards."""
    metrics = {ObjectKind.CONTENTS: {"like_count": 3, "reply_count": 1}}
    seen = graph(alone(post("1", A), metrics=metrics))

    def measure(token: str) -> Callable[[Any], WriteResult]:
        return lambda lease: GraphWriter(database, FakeClock()).write(seen, context(A, token, lease=lease))

    results = meet(measure("t1"), measure("t2"))
    assert all(isinstance(each, WriteResult) for each in results)
    return list(database["metric_series"].find())


def test_one_observation_written_by_two_is_one_point_of_one_series(graph_database: MongoDatabase) -> None:
    [series] = measure_together(graph_database)
    assert [each["at"] for each in series["points"]] == [AT]


def test_a_plain_push_would_store_the_point_twice(graph_database: MongoDatabase) -> None:
    object_id = ObjectId()
    point = MetricPoint(at=AT, metrics={"viewCount": 1})
    series = MetricSeriesRepository(graph_database, FakeClock())
    series.append_point(ObjectKind.CONTENTS, object_id, Platform.YOUTUBE, point)
    run_together(
        lambda _: series.append_point(ObjectKind.CONTENTS, object_id, Platform.YOUTUBE, point), times=2
    )
    [stored] = graph_database["metric_series"].find()
    assert len(stored["points"]) == 1

    def push(_: int) -> None:
        graph_database["metric_series"].update_one(
            {"object": "contents", "object_id": object_id},
            {"$push": {"points": {"$each": [point.to_document()], "$slice": -200}}},
        )

    run_together(push, times=2)
    [stored] = graph_database["metric_series"].find()
    assert len(stored["points"]) == 3
