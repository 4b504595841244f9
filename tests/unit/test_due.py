"""How long a URL rests between two tries."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.social_graph.token import RetryableURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.due import WAIT_MAX, RetryInterval

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def failed(number: int = 0, attempts: int = 1, at: datetime | None = NOW) -> RetryableURL:
    return RetryableURL(
        address="token",
        symbol=None,
        first_transfer_at=None,
        url=f"https://down.example/{number}",
        status=FetchStatus.ERROR,
        attempts=attempts,
        attempted_at=at,
    )


def test_a_url_that_was_never_tried_is_due_at_any_time() -> None:
    for factor in (1, 2):
        interval = RetryInterval(shortest=HOUR, factor=factor)
        assert interval.due_at(failed(attempts=0, at=None)) is None
        assert interval.is_due(failed(attempts=0, at=None), NOW)


def test_a_flat_wait_is_the_interval_to_the_instant() -> None:
    interval = RetryInterval(shortest=HOUR)
    for attempts in (1, 5, 1000):
        assert interval.due_at(failed(attempts=attempts)) == NOW + HOUR
    assert interval.is_due(failed(), NOW + HOUR)
    assert not interval.is_due(failed(), NOW + HOUR - timedelta(milliseconds=1))


def test_a_wait_that_grows_doubles_with_each_attempt_up_to_a_day() -> None:
    interval = RetryInterval(shortest=HOUR, factor=2)
    for attempts, hours in ((1, 1), (2, 2), (3, 4), (4, 8), (5, 16)):
        wait = interval.wait(failed(attempts=attempts))
        assert timedelta(hours=hours) <= wait <= timedelta(hours=hours * 1.25)
    assert timedelta(hours=19) <= interval.wait(failed(attempts=60)) <= WAIT_MAX


def test_urls_that_failed_together_come_back_spread_and_none_before_the_interval_ends() -> None:
    interval = RetryInterval(shortest=HOUR, factor=2)
    waits = sorted(interval.wait(failed(number)) for number in range(300))
    assert waits[0] >= HOUR
    assert waits[-1] - waits[0] >= HOUR / 5
    # No tenth of the spread takes more than a fifth of them.
    tenths = [int((wait - HOUR) / (HOUR / 4) * 10) for wait in waits]
    assert max(tenths.count(tenth) for tenth in range(10)) <= 60


def test_the_same_url_rests_equally_long_in_every_process() -> None:
    interval = RetryInterval(shortest=HOUR, factor=2)
    assert interval.wait(failed(7)) == interval.wait(replace(failed(7), reason="timeout"))


@pytest.mark.parametrize("factor", [1.0, 2.0, 10.0])
def test_no_interval_means_at_once(factor: float) -> None:
    assert RetryInterval(shortest=timedelta(0), factor=factor).is_due(failed(attempts=9), NOW)


@given(
    minutes=st.integers(0, 525_600),
    factor=st.floats(1, 10),
    attempts=st.integers(0, 10**9),
)
def test_a_wait_is_never_below_the_interval_nor_above_a_day_unless_the_interval_is(
    minutes: int, factor: float, attempts: int
) -> None:
    shortest = timedelta(minutes=minutes)
    wait = RetryInterval(shortest=shortest, factor=factor).wait(failed(attempts=attempts))
    assert shortest <= wait <= max(WAIT_MAX, shortest * 1.25)
