"""Recording what the stream has brought: the same recorder and the same lease of the token as all others."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from devstack.valkey import ValkeyServer
from tests.integration.recording_place import (
    OwnGenerator,
    RecordingPlace,
    failed_url,
    new_site,
    place,
    sandbox,
)
from workers.clock import Clock
from workers.errors import InvalidInput, LeaseLost
from workers.leases import KEY_PREFIX, LeaseStore
from workers.social_graph.token import Token
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.live import LiveRecording
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.routing import Route
from workers.social_recording.url_collection import graph_of_route

__all__ = ["place", "sandbox"]
# What each side of a race keeps its leases in: the same database of Redis, or, for the twin, another one.
SHARED, APART = 0, 5


class Gate:
    """A generator that shows nothing before it is let go."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def show(self, way: Route) -> SocialObjectGraph:
        self.reached.set()
        assert self.open.wait(10)
        return graph_of_route(way, Clock().now())


def leases_in(valkey: ValkeyServer, number: int) -> LeaseStore:
    return LeaseStore(Redis.from_url(valkey.url_of(number)), Clock())


def outcomes(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [
        (each.__dict__["token"], each.__dict__["outcome"])
        for each in caplog.records
        if each.message == "a live token was taken up"
    ]


def test_what_came_of_a_live_token_is_logged(place: RecordingPlace, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    url = new_site()
    unknown, known = place.list_tokens({"website": url}, {"website": url}, missing=1)
    place.rebuild(generator=OwnGenerator())
    live = LiveRecording(place.recorder)
    for address in (unknown, known, known):
        live.record(address)
    assert outcomes(caplog) == [(unknown, "unresolved"), (known, "recorded"), (known, "alreadySeen")]
    assert place.element(known)["status"] == FetchStatus.OK


@pytest.mark.parametrize("address", ["", "no address", "0x" + "a" * 40])
def test_what_is_no_address_is_refused_before_anybody_is_asked(place: RecordingPlace, address: str) -> None:
    place.list_tokens({"website": new_site()})
    with pytest.raises(InvalidInput):
        LiveRecording(place.recorder).record(address)
    assert place.sandbox.client.calls().by_address == {}


@pytest.mark.parametrize(("leases", "outcome"), [(SHARED, "lockedOut"), (APART, "alreadySeen")])
def test_the_stream_is_locked_out_of_a_token_that_a_retry_holds(
    place: RecordingPlace,
    valkey: ValkeyServer,
    caplog: pytest.LogCaptureFixture,
    leases: int,
    outcome: str,
) -> None:
    """The second case is the twin: with leases apart the stream gets in."""
    caplog.set_level(logging.INFO)
    gate = Gate()
    place.rebuild(generator=OwnGenerator(show=gate.show))
    retrier = place.retrier
    address = place.store_token(failed_url(new_site()))
    place.rebuild(generator=OwnGenerator(show=gate.show), leases=leases_in(valkey, leases))
    with ThreadPoolExecutor(1) as pool:
        retrying = pool.submit(retrier.retry, place.candidate(address))
        assert gate.reached.wait(10)
        LiveRecording(place.recorder).record(address)
        gate.open.set()
        assert retrying.result(timeout=10)["status"] == "ok"
    assert outcomes(caplog) == [(address, outcome)]
    assert (place.element(address)["status"], place.element(address)["attempts"]) == ("ok", 2)


@pytest.mark.parametrize(("leases", "outcome"), [(SHARED, "lockedOut"), (APART, "processed")])
def test_a_retry_is_locked_out_of_a_token_that_the_stream_holds(
    place: RecordingPlace, valkey: ValkeyServer, leases: int, outcome: str
) -> None:
    """The second case is the twin: with leases apart both work at the token at once."""
    gate = Gate()
    url = new_site()
    place.rebuild(generator=OwnGenerator(show=gate.show))
    live = LiveRecording(place.recorder)
    [address] = place.list_tokens({"website": url})
    # Another URL, so that only the lease of the token can keep the two apart.
    place.rebuild(generator=OwnGenerator(), leases=leases_in(valkey, leases))
    with ThreadPoolExecutor(1) as pool:
        recording = pool.submit(live.record, address)
        assert gate.reached.wait(10)
        failed = failed_url(new_site())
        place.tokens.insert(Token.of(address=address, created_at=Clock().now(), social_urls=[failed]))
        assert place.retrier.retry(place.candidate(address))["outcome"] == outcome
        gate.open.set()
        recording.result(timeout=10)


def test_leases_that_are_all_given_back_are_free_and_nobody_writes_under_them(redis: Redis) -> None:
    leases = LeaseStore(redis, Clock())
    held = [leases.acquire(name, ttl_ms=60_000) for name in ("b", "a")]
    redis.set(f"{KEY_PREFIX}b", "somebody else's by now")
    assert leases.give_back_all() == ["a", "b"]
    assert redis.keys(f"{KEY_PREFIX}*") == [f"{KEY_PREFIX}b".encode()], "only our own are given back"
    for lease in held:
        with pytest.raises(LeaseLost):
            lease.check()
    assert leases.give_back_all() == []
    with leases.hold("a", ttl_ms=60_000):
        pass


def test_giving_back_does_not_fail_while_redis_is_away(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path / "redis") as server, Redis.from_url(server.url) as redis:
        leases = LeaseStore(redis, Clock())
        lease = leases.acquire("a", ttl_ms=60_000)
        server.kill()
        assert leases.give_back_all() == ["a"]
        assert not lease.is_held
