"""Places in lists of links: they come back from their text, and pages add up to the whole list."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.social_graph.link_cursor import CURSOR_PATTERN, LinkCursor, in_order, take_page

START = datetime(2026, 1, 15, 12, tzinfo=UTC)
Row: TypeAlias = tuple[datetime, str]

times = st.datetimes(datetime(1970, 1, 1), datetime(2500, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)


def place_of(row: Row) -> LinkCursor:
    return LinkCursor.of(row[0], row[1])


def row(seconds: int, name: str) -> Row:
    return START + timedelta(seconds=seconds), name


@given(at=times, name=st.text(), rank=st.integers(0, 15))
def test_a_cursor_comes_back_from_its_text_and_has_the_written_form(
    at: datetime, name: str, rank: int
) -> None:
    cursor = LinkCursor.of(at, name, rank=rank)
    assert re.search(CURSOR_PATTERN, cursor.to_text())
    assert LinkCursor.from_text(cursor.to_text()) == cursor


@pytest.mark.parametrize("text", ["0" * 28, "f" * 28])
def test_the_outermost_texts_of_the_form_are_places(text: str) -> None:
    assert LinkCursor.from_text(text).to_text() == text


def test_time_comes_before_rank_and_rank_before_the_name() -> None:
    late, deep = LinkCursor.of(START + timedelta(milliseconds=1), "a"), LinkCursor.of(START, "a", rank=1)
    direct = [LinkCursor.of(START, name) for name in "abcdefgh"]
    assert all(place < deep < late for place in direct)


def test_the_parts_of_a_name_are_told_apart() -> None:
    assert LinkCursor.of(START, "ab", "c") != LinkCursor.of(START, "a", "bc")


def test_a_row_that_is_there_twice_under_one_name_is_shown_once() -> None:
    rows = [row(0, "a"), row(0, "b"), row(0, "a"), row(1, "a")]
    shown = list(in_order(rows, place_of, after=None))
    assert sorted(shown) == [row(0, "a"), row(0, "b"), row(1, "a")]


@given(
    rows=st.lists(st.builds(row, st.integers(0, 4), st.sampled_from("abcdefgh")), unique=True),
    limit=st.integers(1, 5),
)
def test_the_pages_of_a_list_add_up_to_the_list(rows: list[Row], limit: int) -> None:
    by_time = sorted(rows, key=lambda each: each[0])
    shown: list[Row] = []
    after = None
    while True:
        page, after = take_page(in_order(by_time, place_of, after=after), place_of, limit)
        assert len(page) <= limit
        shown += page
        if after is None:
            break
        assert len(page) == limit
    assert len(shown) == len(rows)
    assert set(shown) == set(rows)
    assert [each[0] for each in shown] == [each[0] for each in by_time]
