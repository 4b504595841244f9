"""Leases on a real server: one holder, renewal, release by the owner only."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from devstack.valkey import ValkeyServer
from tests.waiting import wait_until
from workers.clock import Clock
from workers.errors import Busy, LeaseLost, LockUnavailable
from workers.leases import KEY_PREFIX, LeaseBook, LeaseStore


@pytest.fixture
def leases(redis: Redis) -> LeaseStore:
    return LeaseStore(redis, Clock())


def test_a_held_lease_is_refused_at_once(leases: LeaseStore) -> None:
    with leases.hold("a", ttl_ms=60_000):
        started = time.monotonic()
        with pytest.raises(Busy):
            leases.acquire("a", ttl_ms=60_000)
        assert time.monotonic() - started < 5, "and not when it ends"


def test_a_lease_is_free_after_an_error_inside(leases: LeaseStore, redis: Redis) -> None:
    with pytest.raises(ValueError, match="inside"), leases.hold("a", ttl_ms=60_000):
        raise ValueError("inside")
    assert redis.exists(f"{KEY_PREFIX}a") == 0


def test_an_answer_that_got_lost_does_not_lock_the_owner_out(
    leases: LeaseStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client repeats the command; without looking at the holder it would find the key taken."""
    monkeypatch.setattr("workers.leases.secrets.token_hex", lambda _: "one call")
    monkeypatch.setattr(Clock, "now", lambda _: datetime(2026, 1, 1, tzinfo=UTC))
    leases.acquire("a", ttl_ms=60_000, owner="me")
    leases.acquire("a", ttl_ms=60_000, owner="me")
    assert redis.get(f"{KEY_PREFIX}a") == b"me:1767225600000:one call"


def test_the_same_owner_does_not_get_in_twice(leases: LeaseStore) -> None:
    leases.acquire("a", ttl_ms=60_000, owner="job-1")
    with pytest.raises(Busy):
        leases.acquire("a", ttl_ms=60_000, owner="job-1")


def test_only_the_owner_releases(leases: LeaseStore, redis: Redis) -> None:
    lease = leases.acquire("a", ttl_ms=60_000)
    redis.set(f"{KEY_PREFIX}a", "somebody else")
    leases.release(lease)
    assert redis.get(f"{KEY_PREFIX}a") == b"somebody else"


def test_a_lease_outlives_its_time_to_live_while_it_is_held(leases: LeaseStore, redis: Redis) -> None:
    """The twin below shows that without renewal the second worker gets in."""
    other = LeaseStore(redis, Clock())
    with leases.hold("token", ttl_ms=1500) as lease:
        ends = time.monotonic() + 4.6
        while time.monotonic() < ends:
            with pytest.raises(Busy):
                other.acquire("token", ttl_ms=1500)
            threading.Event().wait(0.1)
        lease.check()
    other.release(other.acquire("token", ttl_ms=1500))


def test_without_renewal_a_second_worker_gets_in(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaseStore, "renew", lambda *_: None)
    LeaseStore(redis, Clock()).acquire("token", ttl_ms=300)
    second = LeaseStore(redis, Clock())
    assert second.acquire("token", ttl_ms=300, wait_s=2.0).is_held


def test_a_lease_that_went_to_somebody_else_is_noticed(leases: LeaseStore, redis: Redis) -> None:
    lease = leases.acquire("a", ttl_ms=300)
    redis.set(f"{KEY_PREFIX}a", "thief", px=60_000)
    wait_until(lambda: not lease.is_held, "the loss is noticed")
    with pytest.raises(LeaseLost):
        lease.check()
    leases.release(lease)
    assert redis.get(f"{KEY_PREFIX}a") == b"thief"


def test_waiting_for_a_lease_gets_it_when_it_is_given_back(leases: LeaseStore) -> None:
    first = leases.acquire("url", ttl_ms=60_000)
    with ThreadPoolExecutor() as pool:
        second = pool.submit(leases.acquire, "url", ttl_ms=60_000, wait_s=10.0)
        leases.release(first)
        assert second.result(timeout=10).is_held


def test_waiting_ends(leases: LeaseStore) -> None:
    leases.acquire("url", ttl_ms=60_000)
    with pytest.raises(Busy):
        leases.acquire("url", ttl_ms=60_000, wait_s=0.2)


def _count_holders(acquire: Callable[[], object]) -> int:
    """How many of 16 threads get in at the same moment."""
    barrier = threading.Barrier(16)

    def attempt() -> bool:
        barrier.wait()
        try:
            acquire()
        except Busy:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        return sum(future.result() for future in [pool.submit(attempt) for _ in range(16)])


def test_one_of_many_gets_the_lease(leases: LeaseStore) -> None:
    assert _count_holders(lambda: leases.acquire("a", ttl_ms=60_000)) == 1


def test_without_set_if_absent_many_would_get_in(redis: Redis) -> None:
    def look_then_take() -> None:
        if redis.exists("naive"):
            raise Busy("naive")
        barrier.wait(timeout=10)
        redis.set("naive", "me")

    barrier = threading.Barrier(16)
    assert _count_holders(look_then_take) == 16


def test_a_lock_store_that_refuses_connections_is_an_error_of_its_own() -> None:
    nobody = Redis(host="127.0.0.1", port=9, socket_connect_timeout=1)
    with pytest.raises(LockUnavailable):
        LeaseStore(nobody, Clock()).acquire("a", ttl_ms=1000)


TTL_MS = 2000
# What a busy machine may add: a poll, and the time until this process gets its turn.
GRACE_S = 2.0
HOLD_AND_HANG = """
import sys, threading
from redis import Redis
from workers.clock import Clock
from workers.leases import LeaseStore
store = LeaseStore(Redis.from_url(sys.argv[1]), Clock())
store.acquire("a", ttl_ms=int(sys.argv[2]))
print("held", flush=True)
threading.Event().wait()
"""


def test_a_killed_process_blocks_for_no_longer_than_the_time_to_live(
    leases: LeaseStore, redis: Redis, valkey: ValkeyServer
) -> None:
    argv = [sys.executable, "-c", HOLD_AND_HANG, valkey.url, str(TTL_MS)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            held_until = time.monotonic() + 2 * TTL_MS / 1000
            while time.monotonic() < held_until:
                with pytest.raises(Busy):
                    leases.acquire("a", ttl_ms=TTL_MS)
                threading.Event().wait(0.2)
        finally:
            holder.kill()
    killed_at = time.monotonic()
    assert int(redis.pttl(f"{KEY_PREFIX}a")) <= TTL_MS
    leases.release(leases.acquire("a", ttl_ms=TTL_MS, wait_s=20.0))
    assert time.monotonic() - killed_at < TTL_MS / 1000 + GRACE_S


def test_an_outage_shorter_than_the_time_to_live_is_survived(
    leases: LeaseStore, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = leases.acquire("a", ttl_ms=3000)
    real = redis.connection_pool.get_connection
    failures = threading.Semaphore(0)

    def refuse(*_: object, **__: object) -> object:
        failures.release()
        raise RedisConnectionError("away")

    with monkeypatch.context() as outage:
        outage.setattr(redis.connection_pool, "get_connection", refuse)
        assert failures.acquire(timeout=5)
    assert redis.connection_pool.get_connection == real
    wait_until(lambda: int(redis.pttl(f"{KEY_PREFIX}a")) > 2300, "it is renewed again")
    assert lease.is_held


def test_the_renewal_ends_with_its_store(redis: Redis) -> None:
    store = LeaseStore(redis, Clock())
    store.acquire("a", ttl_ms=300)
    [renewer] = [each for each in threading.enumerate() if each is store._renewer]
    del store
    gc.collect()
    wait_until(lambda: not renewer.is_alive(), "the thread ends")
    wait_until(lambda: not redis.exists(f"{KEY_PREFIX}a"), "the lease runs out")


@pytest.fixture
def book(redis: Redis) -> LeaseBook:
    return LeaseBook(redis, Clock())


def test_people_see_who_holds_a_lease_since_when_and_for_how_long_yet(
    leases: LeaseStore, book: LeaseBook
) -> None:
    assert book.held() == []
    with (
        leases.hold("social-record:a", ttl_ms=60_000, owner="job-1") as lease,
        leases.hold("social-url:b", ttl_ms=60_000),
    ):
        assert [each.name for each in book.held()] == ["social-record:a", "social-url:b"]
        [found] = book.held("social-record:")
        assert found.holder == lease.owner
        assert found.holder.startswith("job-1:")
        assert found.age_s is not None
        assert 0 <= found.age_s < 30
        assert 30 < found.ttl_s <= 60
        assert book.find("social-record:a") is not None
    assert book.find("social-record:a") is None


def test_a_prefix_is_taken_literally(leases: LeaseStore, book: LeaseBook) -> None:
    with leases.hold("a*b", ttl_ms=60_000), leases.hold("a-b", ttl_ms=60_000):
        assert [each.name for each in book.held("a*")] == ["a*b"]
        assert [each.name for each in book.held("a[*-]")] == []


def test_a_lease_is_taken_only_from_the_holder_that_was_named(leases: LeaseStore, book: LeaseBook) -> None:
    dead = leases.acquire("a", ttl_ms=60_000)
    assert not book.release("a", "somebody else")
    assert not book.release("free", dead.owner)
    assert book.release("a", dead.owner)
    assert not book.release("a", dead.owner)
    with leases.hold("a", ttl_ms=60_000) as now:
        assert not book.release("a", dead.owner)
        assert now.is_held


def test_a_living_holder_that_lost_its_lease_to_a_person_notices(leases: LeaseStore, book: LeaseBook) -> None:
    lease = leases.acquire("a", ttl_ms=300)
    assert book.release("a", lease.owner)
    wait_until(lambda: not lease.is_held, "the holder to notice")
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_key_of_an_unknown_form_is_shown_without_an_age(book: LeaseBook, redis: Redis) -> None:
    redis.set(f"{KEY_PREFIX}odd", "whoever", px=60_000)
    redis.set(f"{KEY_PREFIX}for-ever", "whoever")
    [found] = book.held()
    assert (found.name, found.holder, found.age_s) == ("odd", "whoever", None)
