"""What a page shows of something that may take long to look at: what is known within a moment.

A page waits for `WAIT_S` in all, however many such parts it has. What comes later is asked for again by the
page, by its script or by loading itself anew. So pages are quick in a large store and fresh in a small one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from flask import Flask, current_app, g

from workers.clock import Clock
from workers.errors import ConvergeError
from workers.latest_look import LatestLook, Seen
from workers.services import JobAccess

WAIT_S = 0.05
LISTS_MAX = 64
GOOD_FOR_S = 1.0
# A list that took long is good for so many times as long: turning pages must not keep a store busy.
REST = 5.0
# How long a sign of life of the store is good for, and how long the first one is waited for: longer than the
# two seconds after which a store that is away is known to be.
ALIVE_FOR_S = 5.0
FIRST_SIGN_WAIT_S = 2.5
_LISTS = "converge.console.lists"
_SIGN_OF_LIFE = "converge.console.sign_of_life"

T = TypeVar("T")


class ListsSeen:
    """The lists that were looked at last, each under the question that it answers; `LISTS_MAX` of them.

    They are looked at in turn. Side by side none would be there sooner, and short questions to the same
    store, such as for one token, would hardly get between them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._looks: OrderedDict[tuple[object, ...], LatestLook[Any]] = OrderedDict()

    def of(self, key: tuple[object, ...], look: Callable[[], T]) -> LatestLook[T]:
        """The look that answers `key`; `look` makes it, and must do the same whenever the key is the same."""
        with self._guard:
            found = self._looks.pop(key, None)
            if found is None:
                found = LatestLook(self._in_turn(look), self._clock, good_for_s=GOOD_FOR_S, rest=REST)
            self._looks[key] = found
            while len(self._looks) > LISTS_MAX:
                self._looks.popitem(last=False)
            return found

    def _in_turn(self, look: Callable[[], T]) -> Callable[[], T]:
        def look_in_turn() -> T:
            with self._turn:
                return look()

        return look_in_turn


class SignOfLife:
    """Whether the store answers at all. Only who asks first waits: a busy store is slow with this, too."""

    def __init__(self, ping: Callable[[], None], clock: Clock) -> None:
        self._look = LatestLook(ping, clock, good_for_s=ALIVE_FOR_S)

    def expect(self) -> None:
        """Raise what the last ping raised."""
        if self._look.latest(wait_s=0) is None:
            self._look.latest(wait_s=FIRST_SIGN_WAIT_S)


def prepare(app: Flask, access: JobAccess) -> None:
    """Give the app its memory of lists and of the store's last sign of life; asks nobody."""
    app.extensions[_LISTS] = ListsSeen(Clock())
    app.extensions[_SIGN_OF_LIFE] = SignOfLife(access.overview.ping, Clock())


def list_seen(key: tuple[object, ...], look: Callable[[], T]) -> Seen[T] | None:
    """The list, if it is known within what is left of `WAIT_S`; None while it is looked at the first time.

    Raises what the look raised, and `RetryableError` when the store is away.
    """
    hear_from_the_store()
    lists: ListsSeen = current_app.extensions[_LISTS]
    seen = lists.of(key, look).latest(wait_s=time_left_s())
    if seen is None:
        expect_sign_of_life()
    return seen


def expect_sign_of_life() -> None:
    """Raise `RetryableError` when the store gave none: it is away, and not just slow."""
    sign: SignOfLife = current_app.extensions[_SIGN_OF_LIFE]
    sign.expect()


def hear_from_the_store() -> None:
    """Have a first sign of life, if there was none, before a long look keeps the store busy."""
    with suppress(ConvergeError):
        expect_sign_of_life()


def time_left_s() -> float:
    """How long this request may still wait, in seconds."""
    clock = Clock()
    if "console_waits_until_s" not in g:
        g.console_waits_until_s = clock.monotonic() + WAIT_S
    return max(float(g.console_waits_until_s) - clock.monotonic(), 0.0)
