"""How often a long look is really made, and what those get who ask meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.conftest import FakeClock
from tests.waiting import wait_until
from workers.errors import RetryableError
from workers.latest_look import LatestLook

GOOD_FOR_S = 30.0
LONG_S = 10.0


def look_of(look: Callable[[], int], clock: FakeClock) -> LatestLook[int]:
    return LatestLook(look, clock, good_for_s=GOOD_FOR_S)


def value_of(look: LatestLook[int], *, wait_s: float = LONG_S) -> int | None:
    seen = look.latest(wait_s=wait_s)
    return None if seen is None else seen.value


def test_what_was_seen_is_good_for_a_while_and_then_looked_for_again(clock: FakeClock) -> None:
    numbers = iter(range(10))
    look = look_of(lambda: next(numbers), clock)
    assert [value_of(look), value_of(look)] == [0, 0]
    clock.advance(GOOD_FOR_S)
    assert value_of(look) == 1


def test_what_took_long_is_good_for_so_many_times_as_long(clock: FakeClock) -> None:
    numbers = iter(range(10))

    def slow() -> int:
        clock.advance(20)
        return next(numbers)

    look = LatestLook(slow, clock, good_for_s=GOOD_FOR_S, rest=5.0)
    assert value_of(look) == 0
    clock.advance(99)
    assert value_of(look) == 0
    clock.advance(1)
    assert value_of(look) == 1


def test_a_look_says_when_it_began(clock: FakeClock) -> None:
    def slow() -> int:
        clock.advance(5)
        return 1

    began = clock.now()
    seen = look_of(slow, clock).latest(wait_s=LONG_S)
    assert seen is not None
    assert seen.at == began


def test_who_does_not_want_to_wait_gets_what_was_seen_before(clock: FakeClock) -> None:
    may_end = threading.Event()
    numbers = iter(range(10))

    def slow() -> int:
        assert may_end.wait(LONG_S)
        return next(numbers)

    look = look_of(slow, clock)
    assert value_of(look, wait_s=0) is None
    may_end.set()
    assert value_of(look) == 0
    may_end.clear()
    clock.advance(GOOD_FOR_S)
    assert value_of(look, wait_s=0) == 0
    may_end.set()
    assert value_of(look) == 1


def test_many_who_ask_at_once_cause_one_look(clock: FakeClock) -> None:
    looks: list[int] = []
    may_end = threading.Event()

    def slow() -> int:
        looks.append(1)
        assert may_end.wait(LONG_S)
        return len(looks)

    look = look_of(slow, clock)
    answers: list[int | None] = []
    askers = [threading.Thread(target=lambda: answers.append(value_of(look))) for _ in range(8)]
    for asker in askers:
        asker.start()
    wait_until(lambda: looks, "the look has begun")
    may_end.set()
    for asker in askers:
        asker.join()
    assert answers == [1] * 8
    assert len(looks) == 1


def test_a_failure_is_told_and_the_next_who_asks_causes_a_new_look(clock: FakeClock) -> None:
    def failing() -> int:
        if failures:
            raise failures.pop()
        return 7

    failures: list[Exception] = [RetryableError("away"), ZeroDivisionError()]
    look = look_of(failing, clock)
    with pytest.raises(RetryableError, match="our own code"):
        value_of(look)
    with pytest.raises(RetryableError, match="away"):
        value_of(look)
    assert value_of(look) == 7


def test_a_look_can_be_begun_ahead(clock: FakeClock) -> None:
    begun = threading.Event()

    def noted() -> int:
        begun.set()
        return 3

    look = look_of(noted, clock)
    look.begin()
    assert begun.wait(LONG_S)
    assert value_of(look) == 3
