"""Which metrics are stored."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from workers.errors import InvalidInput
from workers.social_graph.metric_series import MetricSeries
from workers.social_graph.metric_spec import METRIC_SPEC, pick_known_metrics
from workers.social_graph.vocabulary import ObjectKind, Platform

AT = datetime(2026, 1, 15, tzinfo=UTC)


def test_a_mistyped_name_is_dropped_and_reported() -> None:
    picked = pick_known_metrics(Platform.TIKTOK, ObjectKind.CONTENTS, {"playCont": 5, "diggCount": 7})
    assert picked.metrics == {"diggCount": 7}
    assert picked.dropped == ("playCont",)


@pytest.mark.parametrize("value", [None, "12", True, float("nan"), float("inf"), 2**64, -(10**400), []])
def test_what_is_no_number_is_dropped(value: object) -> None:
    picked = pick_known_metrics(Platform.TIKTOK, ObjectKind.CONTENTS, {"playCount": value})
    assert (picked.metrics, picked.dropped) == ({}, ("playCount",))


def test_a_score_may_be_negative() -> None:
    assert pick_known_metrics(Platform.REDDIT, ObjectKind.CONTENTS, {"score": -3}).metrics == {"score": -3}


def test_a_name_counts_for_its_own_platform_and_kind_only() -> None:
    metrics = {"followersCount": 5}
    assert pick_known_metrics(Platform.INSTAGRAM, ObjectKind.ACCOUNTS, metrics).metrics == metrics
    assert not pick_known_metrics(Platform.INSTAGRAM, ObjectKind.CONTENTS, metrics).metrics
    assert not pick_known_metrics(Platform.WEB, ObjectKind.CONTENTS, metrics).metrics


def test_the_largest_number_that_a_document_holds_is_kept() -> None:
    metrics = {"viewCount": 2**63 - 1}
    assert pick_known_metrics(Platform.YOUTUBE, ObjectKind.CONTENTS, metrics).metrics == metrics


def test_every_platform_that_measures_has_its_names() -> None:
    assert {platform for platform, _ in METRIC_SPEC} == set(Platform) - {Platform.WEB}


def test_a_point_holds_known_metrics_at_the_time_of_observation() -> None:
    point = MetricSeries.build_point(
        Platform.GITHUB, ObjectKind.CONTENTS, {"stargazers_count": 3, "stars": 4}, AT
    )
    assert point is not None
    assert (point.at, point.metrics) == (AT, {"stargazers_count": 3})


def test_metrics_that_may_not_be_stored_make_no_point() -> None:
    assert MetricSeries.build_point(Platform.WEB, ObjectKind.CONTENTS, {"views": 3}, AT) is None


def test_a_point_needs_a_time_with_a_zone() -> None:
    with pytest.raises(InvalidInput):
        MetricSeries.build_point(
            Platform.TELEGRAM, ObjectKind.CONTENTS, {"views": 3}, AT.replace(tzinfo=None)
        )
