"""The order in which tokens are tried."""

from __future__ import annotations

import fakeredis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from tests.conftest import FakeClock
from workers.social_recording.reconcile import TRIED_KEY, TriedTokens
from workers.social_recording.tracker import TrackedToken


def token(address: str) -> TrackedToken:
    return TrackedToken(
        address=address, symbol=None, investor_count=3, first_transfer_at=None, last_transfer_at=None
    )


def addresses(tokens: list[TrackedToken]) -> list[str]:
    return [each.address for each in tokens]


@pytest.fixture
def tried(clock: FakeClock) -> TriedTokens:
    return TriedTokens(fakeredis.FakeRedis(), clock)


def test_tokens_never_tried_come_first_then_the_longest_untried(tried: TriedTokens, clock: FakeClock) -> None:
    for address in ("b", "a"):
        tried.note(address)
        clock.advance(60)
    assert addresses(tried.order([token(name) for name in "abcd"])) == ["c", "d", "b", "a"]


def test_tries_of_more_than_a_month_ago_are_forgotten(clock: FakeClock) -> None:
    redis = fakeredis.FakeRedis()
    tried = TriedTokens(redis, clock)
    tried.note("old")
    clock.advance(31 * 86_400)
    tried.note("new")
    tried.forget_old()
    assert redis.zrange(TRIED_KEY, 0, -1) == [b"new"]


@given(rounds=st.integers(1, 12), count=st.integers(1, 30), limit=st.integers(1, 10))
def test_no_token_waits_longer_than_it_takes_to_try_all(rounds: int, count: int, limit: int) -> None:
    clock = FakeClock()
    tried = TriedTokens(fakeredis.FakeRedis(), clock)
    tokens = [token(str(number)) for number in range(count)]
    waited = dict.fromkeys(addresses(tokens), 0)
    for _ in range(rounds):
        batch = addresses(tried.order(tokens)[:limit])
        for address in waited:
            waited[address] = 0 if address in batch else waited[address] + 1
        for address in batch:
            clock.advance(1)
            tried.note(address)
    assert max(waited.values()) <= -(-count // limit)


def test_a_store_that_is_away_costs_the_order_and_nothing_else(clock: FakeClock) -> None:
    server = fakeredis.FakeServer()
    server.connected = False
    tried = TriedTokens(fakeredis.FakeRedis(server=server), clock)
    tried.note("a")
    tried.forget_old()
    assert addresses(tried.order([token("b"), token("a")])) == ["b", "a"]


def test_no_tokens_need_no_store(clock: FakeClock) -> None:
    assert TriedTokens(Redis(host="127.0.0.1", port=9), clock).order([]) == []
