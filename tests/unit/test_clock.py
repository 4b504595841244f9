"""Times and budgets."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.conftest import FakeClock
from workers.clock import Budget, Clock, from_iso, to_iso
from workers.errors import BudgetExceeded


def test_now_is_aware_and_survives_a_store_that_keeps_milliseconds() -> None:
    now = Clock().now()
    assert now.tzinfo is UTC
    assert now.microsecond % 1000 == 0


def test_two_spellings_of_one_moment_are_written_the_same() -> None:
    seoul = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=9)))
    assert to_iso(seoul) == "2026-03-01T00:00:00.000Z"
    assert from_iso(to_iso(seoul)) == seoul


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        from_iso("2026-03-01T00:00:00")


def test_a_budget_runs_out(clock: FakeClock) -> None:
    budget = Budget.of(clock, 10)
    clock.advance(9)
    budget.check()
    assert budget.remaining_s == 1
    clock.advance(1)
    with pytest.raises(BudgetExceeded):
        budget.check()


def test_a_wait_longer_than_the_budget_is_not_begun(clock: FakeClock) -> None:
    budget = Budget.of(clock, 10)
    with pytest.raises(BudgetExceeded):
        budget.sleep(11)
    assert clock.waits == []


def test_a_stop_ends_a_wait(clock: FakeClock) -> None:
    stop = threading.Event()
    budget = Budget.of(clock, 10, stop)
    budget.sleep(1)
    stop.set()
    with pytest.raises(BudgetExceeded):
        budget.sleep(1)
