"""The stretches of addresses in which the tokens are gone through."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import FakeClock
from workers.social_graph.token.stretches import BASE58, STRETCH_S, stretches

TEXTS = st.text(max_size=6) | st.text(BASE58, max_size=44)


def holds(stretch: dict[str, dict[str, str]], text: str) -> bool:
    bounds = stretch["address"]
    return bounds["$gte"] <= text and ("$lt" not in bounds or text < bounds["$lt"])


@given(start=TEXTS, text=TEXTS, took_s=st.floats(0, 10 * STRETCH_S, allow_subnormal=False))
def test_every_text_from_the_start_on_is_in_one_stretch_and_none_before_it(
    start: str, text: str, took_s: float
) -> None:
    clock = FakeClock()
    found = 0
    for number, stretch in enumerate(stretches(clock, start)):
        found += holds(stretch, text)
        # The first ones take any time; all of them at that pace would be millions.
        clock.advance(took_s if number < 20 else 0)
    assert found == (text >= start)


def test_they_follow_one_another() -> None:
    found = list(stretches(FakeClock()))
    lower = [stretch["address"]["$gte"] for stretch in found]
    upper = [stretch["address"].get("$lt") for stretch in found]
    assert lower == ["", *upper[:-1]]
    assert upper[-1] is None


def test_in_a_store_that_is_quick_there_are_few() -> None:
    assert len(list(stretches(FakeClock()))) < 10


def test_a_slow_store_gets_narrower_ones_and_a_steady_one_equal_ones() -> None:
    assert _widths(STRETCH_S / 2) > _widths(STRETCH_S) > _widths(STRETCH_S * 2)


def _widths(took_s: float) -> int:
    """How far five stretches get that take so long, in cells of two characters."""
    clock = FakeClock()
    walk = stretches(clock)
    for _ in range(5):
        end = next(walk)["address"]["$lt"]
        clock.advance(took_s)
    return BASE58.index(end[0]) * len(BASE58) + BASE58.index(end[1])
