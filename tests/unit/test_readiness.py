"""How often the system is really looked at when somebody asks whether it is ready."""

from __future__ import annotations

import pytest

from app.process import READINESS_TTL_S, Readiness
from tests.conftest import FakeClock

OK = {"redis": "ok"}
AWAY = {"redis": "not reachable"}


def test_an_answer_is_good_for_a_second_and_then_looked_for_again(clock: FakeClock) -> None:
    looks = iter([OK, AWAY])
    readiness = Readiness(lambda: next(looks), clock)
    assert readiness.latest() == readiness.latest() == OK
    clock.advance(READINESS_TTL_S)
    assert readiness.latest() == readiness.latest() == AWAY


def test_who_asks_while_somebody_looks_gets_the_last_answer_at_once(clock: FakeClock) -> None:
    meanwhile: list[dict[str, str] | None] = []

    def look() -> dict[str, str]:
        meanwhile.append(readiness.latest())
        return OK

    readiness = Readiness(look, clock)
    readiness.latest()
    clock.advance(READINESS_TTL_S)
    readiness.latest()
    assert meanwhile == [None, OK]


def test_a_look_that_failed_keeps_nobody_from_looking_again(clock: FakeClock) -> None:
    def look() -> dict[str, str]:
        if not failures:
            return OK
        raise failures.pop()

    failures = [ZeroDivisionError()]
    readiness = Readiness(look, clock)
    with pytest.raises(ZeroDivisionError):
        readiness.latest()
    assert readiness.latest() == OK
