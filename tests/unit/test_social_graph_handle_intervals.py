"""Who had a handle when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from workers.social_graph.account import Account
from workers.social_graph.handle_intervals import HandleInterval, Intervals, had_handle_at, with_observation
from workers.social_graph.source_url import SourceURL
from workers.social_graph.vocabulary import FetchStatus, Platform

START = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


def date(month: int, number: int = 1) -> datetime:
    return datetime(2026, month, number, tzinfo=UTC)


def seen(*sightings: tuple[str, int]) -> Intervals:
    intervals: Intervals = ()
    for handle, number in sightings:
        intervals = with_observation(intervals, handle, day(number))
    return intervals


def periods(intervals: Intervals) -> list[tuple[str, int, int]]:
    return [(each.value, (each.first_seen - START).days, (each.last_seen - START).days) for each in intervals]


def account_seen_as(*sightings: tuple[str, datetime]) -> Account:
    handle, first = sightings[0]
    account = Account.of(
        platform=Platform.TIKTOK,
        source_urls=[SourceURL.of("https://tiktok.com/@a", FetchStatus.OK, first)],
        observed_at=first,
        handle=handle,
    )
    for handle, at in sightings[1:]:
        account = account.add_handle_observation(handle, at)
    return account


def test_a_handle_with_two_owners_belongs_to_each_in_its_own_time() -> None:
    a = account_seen_as(("sol", date(1)), ("sol", date(3)), ("other", date(3, 20)), ("sol", date(6)))
    b = account_seen_as(("sol", date(4)), ("sol", date(5)))
    assert a.had_handle_at("sol", date(2))
    assert not a.had_handle_at("sol", date(3, 15))
    assert not a.had_handle_at("sol", date(4, 15))
    assert a.had_handle_at("sol", date(6))
    assert b.had_handle_at("sol", date(4, 15))
    assert [each.value for each in a.handles] == ["sol", "other", "sol"]
    assert a.current_handle == "sol"


def test_a_handle_that_was_given_up_and_taken_back_has_two_periods() -> None:
    assert periods(seen(("a", 0), ("b", 3), ("a", 5))) == [("a", 0, 0), ("b", 3, 3), ("a", 5, 5)]


def test_seeing_the_same_handle_again_prolongs_its_period() -> None:
    assert periods(seen(("a", 0), ("a", 4))) == [("a", 0, 4)]


def test_an_older_sighting_of_the_same_handle_does_not_move_the_end_back() -> None:
    assert periods(seen(("a", 0), ("a", 9), ("a", 4))) == [("a", 0, 9)]


def test_the_gap_between_two_handles_belongs_to_nobody() -> None:
    intervals = seen(("a", 0), ("b", 5))
    assert not had_handle_at(intervals, "a", day(3))
    assert not had_handle_at(intervals, "b", day(3))


def test_a_late_sighting_of_another_handle_ends_the_period_it_falls_into() -> None:
    intervals = seen(("a", 0), ("a", 10), ("b", 5))
    assert periods(intervals) == [("a", 0, 5), ("b", 5, 5)]


def test_the_newer_period_has_the_instant_in_which_two_meet() -> None:
    intervals = seen(("a", 0), ("a", 10), ("b", 5))
    assert had_handle_at(intervals, "b", day(5))
    assert not had_handle_at(intervals, "a", day(5))


def test_a_sighting_older_than_the_first_period_is_put_before_it() -> None:
    assert periods(seen(("b", 5), ("a", 1))) == [("a", 1, 1), ("b", 5, 5)]


def test_a_sighting_of_the_first_handle_from_before_its_period_moves_the_start() -> None:
    assert periods(seen(("a", 5), ("b", 8), ("a", 1))) == [("a", 1, 5), ("b", 8, 8)]


def test_a_late_sighting_in_a_gap_gets_its_own_period() -> None:
    assert periods(seen(("a", 0), ("b", 8), ("c", 4))) == [("a", 0, 0), ("c", 4, 4), ("b", 8, 8)]


def test_a_late_sighting_that_contradicts_an_older_period_changes_nothing() -> None:
    before = seen(("a", 0), ("a", 4), ("b", 8))
    assert with_observation(before, "c", day(2)) == before


def test_handles_compare_without_case_and_stay_as_written() -> None:
    intervals = seen(("SolCat", 0), ("solcat", 3))
    assert periods(intervals) == [("SolCat", 0, 3)]
    assert had_handle_at(intervals, "SOLCAT", day(1))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=12))
def test_periods_stay_in_order_and_share_at_most_an_instant(sightings: list[tuple[str, int]]) -> None:
    intervals = seen(*sightings)
    assert all(each.first_seen <= each.last_seen for each in intervals)
    for earlier, later in pairwise(intervals):
        assert earlier.last_seen <= later.first_seen
        assert not earlier.is_of(later.value) or earlier.last_seen < later.first_seen


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8))
def test_one_handle_seen_in_any_order_is_one_period(days: list[int]) -> None:
    assert seen(*(("a", number) for number in days)) == (
        HandleInterval(value="a", first_seen=day(min(days)), last_seen=day(max(days))),
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), min_size=1, max_size=10))
def test_the_last_sighting_in_order_of_time_is_the_current_handle(sightings: list[tuple[str, int]]) -> None:
    in_order = sorted(sightings, key=lambda sighting: sighting[1])
    assert seen(*in_order)[-1].value == in_order[-1][0]


sightings_at_different_times = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=10, unique_by=lambda each: each[1]
)


@st.composite
def held_one_after_the_other(draw: st.DrawFn) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Sightings in order of time, where no handle is taken back, and the same in any other order."""
    days = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=9)))
    changes = draw(st.lists(st.booleans(), min_size=len(days), max_size=len(days)))
    handles = [f"h{sum(changes[: index + 1])}" for index in range(len(days))]
    in_order = list(zip(handles, days, strict=True))
    return in_order, draw(st.permutations(in_order))


@given(held_one_after_the_other())
def test_the_order_of_sightings_does_not_matter_while_no_handle_is_taken_back(
    sightings: tuple[list[tuple[str, int]], list[tuple[str, int]]],
) -> None:
    in_order, shuffled = sightings
    expected = [
        (handle, min(of_it), max(of_it))
        for handle in dict.fromkeys(name for name, _ in in_order)
        for of_it in [[number for name, number in in_order if name == handle]]
    ]
    assert periods(seen(*shuffled)) == expected


@given(sightings_at_different_times)
def test_a_history_read_backwards_has_the_same_periods(sightings: list[tuple[str, int]]) -> None:
    in_order = sorted(sightings, key=lambda each: each[1])
    assert seen(*reversed(in_order)) == seen(*in_order)


@given(sightings_at_different_times)
def test_a_history_read_in_order_has_each_handle_exactly_when_it_was_seen(
    sightings: list[tuple[str, int]],
) -> None:
    in_order = sorted(sightings, key=lambda each: each[1])
    intervals = seen(*in_order)
    for handle, number in in_order:
        assert had_handle_at(intervals, handle, day(number))
    for (_, before), (_, after) in pairwise(in_order):
        handles = {name for name, number in in_order if number in (before, after)}
        if len(handles) > 1 and after - before > 1:
            assert not any(had_handle_at(intervals, each, day(before + 1)) for each in "abc")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), max_size=12), st.integers(-1, 21))
def test_an_instant_has_one_holder_at_most_and_the_newer_period_wins_it(
    sightings: list[tuple[str, int]], number: int
) -> None:
    intervals = seen(*sightings)
    holders = [handle for handle in "abc" if had_handle_at(intervals, handle, day(number))]
    covering = [each for each in intervals if each.covers(day(number))]
    assert holders == [each.value for each in covering[-1:]]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), min_size=1, max_size=12))
def test_the_same_sighting_twice_is_as_good_as_once(sightings: list[tuple[str, int]]) -> None:
    assert seen(*sightings, sightings[-1]) == seen(*sightings)
