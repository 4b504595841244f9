"""The URLs of a row: one entry per URL, whatever is seen in which order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_social_graph_models import full_account, full_content, full_venue
from workers.errors import InvalidInput
from workers.social_graph.account import Account
from workers.social_graph.content import Content
from workers.social_graph.source_url import SourceURL, source_urls_of, with_source_url
from workers.social_graph.venue import Venue
from workers.social_graph.vocabulary import FetchStatus

AT = datetime(2026, 1, 15, tzinfo=UTC)
URLS = ("https://a.org/", "https://b.org/", "https://c.org/")


def entry(url: str, status: FetchStatus, minutes: int) -> SourceURL:
    return SourceURL.of(url, status, AT + timedelta(minutes=minutes))


observations = st.builds(entry, st.sampled_from(URLS), st.sampled_from(FetchStatus), st.integers(0, 20))


def seen(found: Sequence[SourceURL]) -> tuple[SourceURL, ...]:
    return reduce(with_source_url, found, ())


@given(st.lists(observations, max_size=12))
def test_there_is_one_entry_per_url_in_the_order_of_first_appearance(found: list[SourceURL]) -> None:
    assert [each.url for each in seen(found)] == list(dict.fromkeys(each.url for each in found))


@given(st.lists(observations, min_size=1, max_size=12))
def test_the_entry_of_a_url_is_its_latest_observation(found: list[SourceURL]) -> None:
    for each in source_urls_of(found):
        of_this_url = [one for one in found if one.url == each.url]
        newest = max(one.observed_at for one in of_this_url)
        # Of two with one time, the one that came last.
        assert each == [one for one in of_this_url if one.observed_at == newest][-1]


@given(st.data())
def test_the_order_of_observations_does_not_matter_for_what_is_known_of_a_url(data: st.DataObject) -> None:
    found = data.draw(st.lists(observations, max_size=10, unique_by=lambda each: each.observed_at))
    shuffled = data.draw(st.permutations(found))
    assert {each.url: each for each in seen(shuffled)} == {each.url: each for each in seen(found)}


@given(st.lists(observations, max_size=12))
def test_seeing_all_of_it_again_changes_nothing(found: list[SourceURL]) -> None:
    once = seen(found)
    assert seen([*found, *found]) == once
    assert seen([*found, *once]) == once


@pytest.mark.parametrize("row", [full_content(), full_account(), full_venue()], ids=lambda row: row.kind)
def test_a_row_notes_an_observation_of_a_known_url_in_place_and_a_new_url_behind(
    row: Content | Account | Venue,
) -> None:
    known = row.source_urls[0]
    later = known.observed_at + timedelta(minutes=1)
    changed = row.add_source_url(known.url, FetchStatus.BLOCKED, later).add_source_url(
        URLS[0], FetchStatus.OK, later
    )
    assert [(each.url, each.status) for each in changed.source_urls] == [
        (known.url, FetchStatus.BLOCKED),
        (URLS[0], FetchStatus.OK),
    ]
    assert row.source_urls == (known,), "the row itself does not change"


@pytest.mark.parametrize(
    ("field", "url", "status", "observed_at"),
    [
        ("source_urls.url", "\x00 ", FetchStatus.OK, AT),
        ("source_urls.url", None, FetchStatus.OK, AT),
        ("source_urls.status", URLS[0], "fine", AT),
        ("source_urls.status", URLS[0], None, AT),
        ("source_urls.observed_at", URLS[0], FetchStatus.OK, None),
        ("source_urls.observed_at", URLS[0], FetchStatus.OK, AT.replace(tzinfo=None)),
        ("source_urls.observed_at", URLS[0], FetchStatus.OK, "2026-01-15T00:00:00Z"),
    ],
)
def test_an_entry_of_bad_parts_is_refused_by_the_name_of_the_part(
    field: str, url: str, status: FetchStatus, observed_at: datetime
) -> None:
    with pytest.raises(InvalidInput) as caught:
        SourceURL.of(url, status, observed_at)
    assert caught.value.field == field
