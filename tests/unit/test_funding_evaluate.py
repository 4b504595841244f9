"""Comparing counters with the truth: what each reading and each row of readings says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.funding.evaluate import (
    MISSING,
    READS_MAX,
    BrickCounts,
    Counter,
    CounterFault,
    Counters,
    Decision,
    Holding,
    Reading,
    counters_of,
    decide,
    delta_of,
    is_near_completion,
    is_oversold,
    targets_of,
)

small = st.integers(0, 12)


def text(value: str) -> Counter:
    return Counter(holding=Holding.TEXT, text=value)


def reading(counted: int, sold: int, *, auto: tuple[int, int] = (0, 0)) -> Reading:
    counters = Counters(purchased=Counter.of(counted), auto_invest=Counter.of(auto[0]))
    return Reading(counters=counters, truth=BrickCounts(purchased=sold, auto_invest=auto[1]))


readings = st.builds(reading, small, small)


@pytest.mark.parametrize(
    ("counter", "number", "fault"),
    [
        (MISSING, None, CounterFault.MISSING),
        (text("0"), 0, None),
        (text("12"), 12, None),
        (text("9223372036854775807"), 2**63 - 1, None),
        (text("-1"), -1, CounterFault.NEGATIVE),
        (text("-9223372036854775808"), -(2**63), CounterFault.NEGATIVE),
        (text("9223372036854775808"), None, CounterFault.NOT_A_NUMBER),
        (text(""), None, CounterFault.NOT_A_NUMBER),
        (text(" 9"), None, CounterFault.NOT_A_NUMBER),
        (text("9\n"), None, CounterFault.NOT_A_NUMBER),
        (text("+9"), None, CounterFault.NOT_A_NUMBER),
        (text("09"), None, CounterFault.NOT_A_NUMBER),
        (text("-0"), None, CounterFault.NOT_A_NUMBER),
        (text("9.0"), None, CounterFault.NOT_A_NUMBER),
        (text("1e3"), None, CounterFault.NOT_A_NUMBER),
        (text("nan"), None, CounterFault.NOT_A_NUMBER),
        (text("\u00b2"), None, CounterFault.NOT_A_NUMBER),
        (Counter(holding=Holding.OTHER), None, CounterFault.NOT_A_NUMBER),
    ],
)
def test_a_counter_is_a_number_exactly_when_redis_can_count_on_from_it(
    counter: Counter, number: int | None, fault: CounterFault | None
) -> None:
    assert (counter.number, counter.fault) == (number, fault)


def test_a_counter_is_shown_as_its_number_or_as_what_is_there_instead() -> None:
    shown = [MISSING, text("7"), text("seven" * 20), Counter(holding=Holding.OTHER)]
    assert [counter.to_json() for counter in shown] == [None, 7, ("seven" * 20)[:40], "(no text)"]


def test_equal_at_the_first_read_is_synced() -> None:
    assert decide((reading(9, 9),)) is Decision.SYNCED


def test_a_first_drift_is_looked_at_again() -> None:
    assert decide((reading(10, 9),)) is Decision.RETRY


def test_the_same_drift_twice_in_a_row_needs_a_fix() -> None:
    assert decide((reading(10, 9), reading(10, 9))) is Decision.NEEDS_FIX
    assert decide((reading(9, 9, auto=(4, 3)), reading(9, 9, auto=(4, 3)))) is Decision.NEEDS_FIX


def test_a_drift_that_settles_is_synced_once_it_has_stood_still() -> None:
    drifted, equal = reading(10, 9), reading(10, 10)
    assert decide((drifted, equal)) is Decision.RETRY
    assert decide((drifted, equal, equal)) is Decision.SYNCED


def test_another_drift_at_the_second_read_has_to_be_seen_twice_as_well() -> None:
    assert decide((reading(10, 8), reading(10, 9))) is Decision.RETRY
    assert decide((reading(10, 8), reading(10, 9), reading(10, 9))) is Decision.NEEDS_FIX


def test_readings_that_move_to_the_end_are_unstable_even_when_they_meet() -> None:
    """Case C-11 (c): 8, 9, 10 against a counter of 10."""
    assert decide((reading(10, 8), reading(10, 9), reading(10, 10))) is Decision.UNSTABLE
    assert decide((reading(8, 9), reading(7, 9), reading(6, 9))) is Decision.UNSTABLE


def test_a_missing_counter_is_a_drift_even_where_nothing_is_sold() -> None:
    nothing = Reading(counters=Counters(), truth=BrickCounts(purchased=0, auto_invest=0))
    assert not nothing.is_synced
    assert decide((nothing, nothing)) is Decision.NEEDS_FIX


@given(rows=st.lists(readings, min_size=1, max_size=READS_MAX))
def test_a_decision_is_final_after_three_reads_and_a_fix_needs_two_equal_ones(rows: list[Reading]) -> None:
    decision = decide(tuple(rows))
    assert (decision is Decision.RETRY) <= (len(rows) < READS_MAX)
    if decision is Decision.NEEDS_FIX:
        assert rows[-1] == rows[-2]
        assert not rows[-1].is_synced
    if decision is Decision.SYNCED:
        assert rows[-1].is_synced
        assert len(rows) == 1 or rows[-1] == rows[-2]


@pytest.mark.parametrize(
    ("counted", "sold", "capacity", "is_near"),
    [
        (998, 998, 1000, False),
        (999, 0, 1000, True),
        (0, 999, 1000, True),
        (8990, 8990, 9000, False),
        (8991, 8991, 9000, True),
        (9, 9, 10, False),
        (10, 9, 10, True),
        (4, 6, 6, True),
        (12, 7, 10, True),
        (0, 0, 1, False),
    ],
)
def test_near_completion_is_the_larger_of_both_over_the_capacity_at_999_in_1000(
    counted: int, sold: int, capacity: int, is_near: bool
) -> None:
    assert is_near_completion(reading(counted, sold), capacity=capacity, ratio=0.999) is is_near


@pytest.mark.parametrize("counter", [MISSING, text("many"), text("-5"), Counter(holding=Holding.OTHER)])
def test_without_a_usable_counter_the_truth_decides_what_is_near_completion(counter: Counter) -> None:
    counters = Counters(purchased=counter, auto_invest=Counter.of(0))
    full = Reading(counters=counters, truth=BrickCounts(purchased=10, auto_invest=0))
    assert is_near_completion(full, capacity=10, ratio=0.999)
    half = Reading(counters=counters, truth=BrickCounts(purchased=5, auto_invest=0))
    assert not is_near_completion(half, capacity=10, ratio=0.999)


@given(sold=small, capacity=st.integers(1, 12))
def test_full_is_not_oversold_and_one_more_is(sold: int, capacity: int) -> None:
    truth = BrickCounts(purchased=sold, auto_invest=0)
    assert is_oversold(truth, capacity=capacity) is (sold >= capacity + 1)


@given(sold=small, auto=small, capacity=st.integers(1, 12))
def test_targets_are_the_truth_and_never_above_the_capacity(sold: int, auto: int, capacity: int) -> None:
    truth = BrickCounts(purchased=max(sold, auto), auto_invest=auto)
    targets = targets_of(truth, capacity=capacity)
    assert max(targets.purchased, targets.auto_invest) <= capacity
    if not is_oversold(truth, capacity=capacity):
        assert targets == truth


def test_a_delta_is_what_a_fix_adds_to_each_counter() -> None:
    counters = Counters(purchased=Counter.of(12), auto_invest=MISSING)
    targets = BrickCounts(purchased=7, auto_invest=2)
    assert delta_of(counters, targets) == {"purchased": -5, "autoInvest": None}
    assert delta_of(counters_of(targets), targets) == {"purchased": 0, "autoInvest": 0}
