"""The stretches of addresses in which the tokens are gone through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import FakeClock
from workers.base58 import ALPHABET
from workers.social_graph.token.stretches import STRETCH_S, STRETCHES_MAX, stretches

# The share of addresses that begin with the first letter: their first byte is 0.
FIRST_LETTER = 1 / 256
TEXTS = st.text(max_size=6) | st.text(ALPHABET, max_size=44)


def holds(stretch: dict[str, dict[str, str]], text: str) -> bool:
    bounds = stretch["address"]
    return bounds["$gte"] <= text and ("$lt" not in bounds or text < bounds["$lt"])


@given(
    start=TEXTS,
    text=TEXTS,
    times_s=st.lists(st.floats(0, 10 * STRETCH_S, allow_subnormal=False), min_size=1, max_size=5),
)
def test_every_text_from_the_start_on_is_in_one_stretch_and_none_before_it(
    start: str, text: str, times_s: list[float]
) -> None:
    clock = FakeClock()
    found = 0
    for number, stretch in enumerate(stretches(clock, start)):
        found += holds(stretch, text)
        clock.advance(times_s[number % len(times_s)])
    assert found == (text >= start)


def test_they_follow_one_another() -> None:
    found = list(stretches(FakeClock()))
    lower = [stretch["address"]["$gte"] for stretch in found]
    upper = [stretch["address"].get("$lt") for stretch in found]
    assert lower == ["", *upper[:-1]]
    assert upper[-1] is None


def test_in_a_store_that_is_quick_there_are_few() -> None:
    assert len(list(stretches(FakeClock()))) < 20


@pytest.mark.parametrize("way_s", [0.0, STRETCH_S, 10 * STRETCH_S])
@pytest.mark.parametrize("tokens_s", [0.0, 2.0, 20.0])
def test_the_tokens_of_a_stretch_take_what_they_should_however_long_the_way_to_the_store_is(
    way_s: float, tokens_s: float
) -> None:
    took = walk_through(way_s=way_s, tokens_s=tokens_s)
    assert sum(took) == pytest.approx(tokens_s, rel=0.01, abs=0.01)
    assert took[0] <= 1.01 * tokens_s * FIRST_LETTER
    assert max(took[1:]) <= 1.5 * STRETCH_S
    assert len(took) < 20 + 1.2 * tokens_s / STRETCH_S


def test_a_store_that_gets_slower_and_slower_is_walked_through_all_the_same() -> None:
    clock = FakeClock()
    count = 0
    for _ in stretches(clock):
        count += 1
        clock.advance(count * STRETCH_S)
    assert count <= STRETCHES_MAX + 2


def walk_through(*, way_s: float, tokens_s: float) -> list[float]:
    """What the tokens of each stretch take in a store that is `way_s` away and has very many."""
    clock = FakeClock()
    took = []
    for stretch in stretches(clock):
        bounds = stretch["address"]
        share = place(bounds["$lt"]) - place(bounds["$gte"]) if "$lt" in bounds else 0.0
        took.append(share * tokens_s)
        clock.advance(way_s + share * tokens_s)
    return took


def place(address: str) -> float:
    """Which share of all addresses comes before it: few in the first letter, then evenly."""
    at = sum(ALPHABET.index(letter) / len(ALPHABET) ** (at + 1) for at, letter in enumerate(address[:4]))
    first = 1 / len(ALPHABET)
    if at < first:
        return at / first * FIRST_LETTER
    return FIRST_LETTER + (at - first) / (1 - first) * (1 - FIRST_LETTER)
