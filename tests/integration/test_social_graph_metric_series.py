"""Metric series in a real store: one row per object, no time twice, the newest 200 points."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from tests.conftest import FakeClock
from tests.integration.social_graph_server import WORKERS, graph_database, run_together
from workers.mongo import MongoDatabase
from workers.social_graph.metric_series import MetricPoint, MetricSeriesRepository, PointAppend
from workers.social_graph.vocabulary import ObjectKind, Platform
from workers.social_graph.write_batch import write_in_order

__all__ = ["graph_database"]

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
OBJECT = ObjectId()


def point(minutes: int, value: int = 1) -> MetricPoint:
    return MetricPoint(at=AT + timedelta(minutes=minutes), metrics={"viewCount": value})


@pytest.fixture
def series(graph_database: MongoDatabase, clock: FakeClock) -> MetricSeriesRepository:
    return MetricSeriesRepository(graph_database, clock)


def append(series: MetricSeriesRepository, minutes: int, value: int = 1) -> None:
    series.append_point(ObjectKind.CONTENTS, OBJECT, Platform.YOUTUBE, point(minutes, value))


def minutes_of(series: MetricSeriesRepository) -> list[int]:
    found = series.find_by_object(ObjectKind.CONTENTS, OBJECT)
    assert found is not None
    return [round((each.at - AT) / timedelta(minutes=1)) for each in found.points]


def test_two_points_of_one_object_are_one_row(
    series: MetricSeriesRepository, graph_database: MongoDatabase
) -> None:
    append(series, 1)
    append(series, 2)
    assert graph_database["metric_series"].count_documents({}) == 1
    assert minutes_of(series) == [1, 2]


def test_a_time_that_is_there_is_not_added_again(series: MetricSeriesRepository) -> None:
    append(series, 1, value=5)
    append(series, 1, value=6)
    latest = series.find_latest_point(ObjectKind.CONTENTS, OBJECT)
    assert latest == point(1, 5)


def test_a_late_point_is_put_in_order(series: MetricSeriesRepository) -> None:
    for minutes in (1, 3, 2):
        append(series, minutes)
    assert minutes_of(series) == [1, 2, 3]


def test_the_newest_200_points_are_kept(series: MetricSeriesRepository) -> None:
    for minutes in range(205):
        append(series, minutes)
    assert minutes_of(series) == list(range(5, 205))


def test_workers_that_start_a_series_at_once_lose_no_point(
    series: MetricSeriesRepository, graph_database: MongoDatabase
) -> None:
    run_together(lambda number: append(series, number))
    assert graph_database["metric_series"].count_documents({}) == 1
    assert minutes_of(series) == list(range(WORKERS))


def test_workers_with_one_observation_add_one_point(series: MetricSeriesRepository) -> None:
    run_together(lambda _: append(series, 1))
    assert minutes_of(series) == [1]


def test_the_unique_index_refuses_a_second_row_and_without_it_there_would_be_two(
    series: MetricSeriesRepository, graph_database: MongoDatabase
) -> None:
    append(series, 1)
    rows = graph_database["metric_series"]
    second = {"object": "contents", "object_id": OBJECT, "platform": "yt", "points": []}
    with pytest.raises(DuplicateKeyError):
        rows.insert_one(dict(second))
    rows.drop_indexes()
    rows.insert_one(dict(second))
    assert rows.count_documents({}) == 2


def test_points_of_a_known_and_a_new_object_are_added_at_once(
    series: MetricSeriesRepository, graph_database: MongoDatabase
) -> None:
    append(series, 1)
    other = ObjectId()
    appends = [
        PointAppend(object=kind, object_id=object_id, platform=Platform.YOUTUBE, point=point(1))
        for kind, object_id in ((ObjectKind.CONTENTS, OBJECT), (ObjectKind.ACCOUNTS, other))
    ]
    writes = series.writes_of(appends, new_ids=frozenset({other}))
    assert write_in_order(graph_database, writes).is_complete
    assert minutes_of(series) == [1]
    assert series.find_latest_point(ObjectKind.ACCOUNTS, other) == point(1)
    assert series.find_latest_point(ObjectKind.VENUES, other) is None


def test_a_cohort_is_one_platform_with_a_limit(series: MetricSeriesRepository, clock: FakeClock) -> None:
    for platform in (Platform.YOUTUBE, Platform.YOUTUBE, Platform.X):
        series.append_point(ObjectKind.CONTENTS, ObjectId(), platform, point(1))
    assert len(series.find_platform_cohort(Platform.YOUTUBE, 10)) == 2
    (found,) = series.find_platform_cohort(Platform.YOUTUBE, 1)
    assert (found.platform, found.created_at) == (Platform.YOUTUBE, clock.now())
