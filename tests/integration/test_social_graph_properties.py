"""Series and counts of a real store against models of them in plain Python, over inputs made at random."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest
from bson import ObjectId
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import FakeClock
from tests.integration.social_graph_server import graph_database
from workers.mongo import MongoDatabase
from workers.social_graph.metric_series import MetricPoint, MetricSeriesRepository
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.vocabulary import (
    SERIES_POINTS_MAX,
    ContentSubtype,
    LinkStatus,
    ObjectKind,
    Platform,
)

__all__ = ["graph_database"]

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
# Every example works on objects of its own, so that they can share a database.
against_a_store = settings(
    max_examples=30,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# Metric series


@pytest.fixture
def series(graph_database: MongoDatabase, clock: FakeClock) -> MetricSeriesRepository:
    return MetricSeriesRepository(graph_database, clock)


def point(number: int, value: int) -> MetricPoint:
    return MetricPoint(at=AT + number * MILLISECOND, metrics={"viewCount": value})


def appended(known: dict[int, int], number: int, value: int) -> dict[int, int]:
    """The model: the first value of each time, of the newest times, in order."""
    longer = sorted({number: value, **known}.items())
    return dict(longer[-SERIES_POINTS_MAX:])


@against_a_store
@given(
    stored=st.integers(0, 3) | st.integers(SERIES_POINTS_MAX - 2, SERIES_POINTS_MAX),
    arrivals=st.lists(st.integers(-3, 2 * SERIES_POINTS_MAX + 3) | st.integers(-2, 6), max_size=10),
)
def test_a_series_has_each_time_once_in_order_and_the_newest_200(
    series: MetricSeriesRepository, graph_database: MongoDatabase, stored: int, arrivals: list[int]
) -> None:
    object_id = ObjectId()
    # Every other time is taken, so that arrivals lie before, between, on and after them.
    known = {2 * number: 0 for number in range(stored)}
    if stored:
        points = [point(number, value).to_document() for number, value in known.items()]
        graph_database["metric_series"].insert_one(
            {"object": "contents", "object_id": object_id, "platform": "yt", "points": points}
        )
    for value, number in enumerate(arrivals, start=1):
        series.append_point(ObjectKind.CONTENTS, object_id, Platform.YOUTUBE, point(number, value))
        known = appended(known, number, value)
    found = series.find_by_object(ObjectKind.CONTENTS, object_id)
    points_found = () if found is None else found.points
    assert points_found == tuple(point(number, value) for number, value in known.items())
    latest = series.find_latest_point(ObjectKind.CONTENTS, object_id)
    assert latest == (points_found[-1] if points_found else None)
    assert graph_database["metric_series"].count_documents({"object_id": object_id}) == bool(known)


# Counts as of a time


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A link in small numbers: which token, which object, through which, when, by which URL."""

    token: int
    target: int
    through: tuple[int, ...]
    at: int
    url: int


# Few values each, so that tokens repeat, objects stand in each other's lineage and times are equal.
shapes = st.builds(
    Shape,
    token=st.integers(0, 3),
    target=st.integers(0, 3),
    through=st.lists(st.integers(0, 3), max_size=3).map(tuple),
    at=st.integers(0, 4),
    url=st.integers(0, 1),
)


class Links:
    """The links of one example, in the store and as plain objects."""

    def __init__(self, repository: TokenLinkRepository, found: list[Shape]) -> None:
        self.ids = [ObjectId() for _ in range(4)]
        self.tokens = [f"token-{ObjectId()}" for _ in range(4)]
        self.links = [self._link(shape) for shape in found]
        repository.append_many(self.links)

    def _link(self, shape: Shape) -> TokenLink:
        return TokenLink.of(
            token_address=self.tokens[shape.token],
            object=ObjectKind.CONTENTS,
            object_id=self.ids[shape.target],
            entry_url=f"https://a.org/{shape.url}",
            created_at=AT + shape.at * MILLISECOND,
            observed_at=AT,
            status=LinkStatus.OK,
            platform=Platform.WEB,
            subtype=ContentSubtype.SITE,
            ancestor_ids=[self.ids[number] for number in shape.through],
        )

    def until(self, cut: datetime) -> Iterator[TokenLink]:
        for link in self.links:
            if not link.created_at > cut:
                yield link


cuts = st.builds(
    lambda at, microseconds, hours: (AT + at * MILLISECOND + timedelta(microseconds=microseconds)).astimezone(
        timezone(timedelta(hours=hours))
    ),
    at=st.integers(-1, 5),
    microseconds=st.sampled_from([0, 0, 999]),
    hours=st.sampled_from([0, 9, -5]),
)


@against_a_store
@given(found=st.lists(shapes, max_size=25), cut=cuts)
def test_counts_as_of_a_time_are_those_of_a_count_by_hand(
    graph_database: MongoDatabase, clock: FakeClock, found: list[Shape], cut: datetime
) -> None:
    repository = TokenLinkRepository(graph_database, clock)
    example = Links(repository, found)
    for object_id in example.ids:
        shown = {
            each.token_address
            for each in example.until(cut)
            if each.object_id == object_id and each.is_direct
        }
        through = {each.token_address for each in example.until(cut) if object_id in each.lineage}
        assert repository.count_by_object_as_of(object_id, cut) == len(shown)
        assert repository.count_by_lineage_as_of(object_id, cut) == len(through)
        counts = repository.count_references_as_of(object_id, cut)
        assert (counts.direct, counts.all) == (len(shown), len(through))


@against_a_store
@given(found=st.lists(shapes, max_size=25), cut=cuts)
def test_links_as_of_a_time_are_all_up_to_it_by_time(
    graph_database: MongoDatabase, clock: FakeClock, found: list[Shape], cut: datetime
) -> None:
    repository = TokenLinkRepository(graph_database, clock)
    example = Links(repository, found)
    for object_id, token in zip(example.ids, example.tokens, strict=True):
        for got, expected in (
            (
                repository.find_by_lineage_as_of(object_id, cut),
                [each for each in example.until(cut) if object_id in each.lineage],
            ),
            (
                repository.find_by_token(token, cut),
                [each for each in example.until(cut) if each.token_address == token],
            ),
        ):
            times = [each.created_at for each in got]
            assert times == sorted(times)
            assert {each.id for each in got} == {each.id for each in expected}
            assert len(got) == len(expected)
        between = [
            each for each in example.links if each.token_address == token and each.object_id == object_id
        ]
        latest = repository.find_latest_by_object_and_token(object_id, token)
        assert (latest is None) == (not between)
        assert latest is None or latest.created_at == max(each.created_at for each in between)


@against_a_store
@given(found=st.lists(shapes, min_size=1, max_size=12))
def test_counts_never_shrink_as_the_cut_moves_on_and_count_all_at_the_end(
    graph_database: MongoDatabase, clock: FakeClock, found: list[Shape]
) -> None:
    repository = TokenLinkRepository(graph_database, clock)
    example = Links(repository, found)
    target = example.ids[found[0].target]
    counts = [repository.count_by_lineage_as_of(target, AT + at * MILLISECOND) for at in range(-1, 5)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (
        0,
        len({each.token_address for each in example.links if target in each.lineage}),
    )
