"""Commands that nobody waits for: their order, their cost, and what becomes of them without a store."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from tests.waiting import wait_until
from workers.clock import Clock
from workers.errors import Busy
from workers.leases import KEY_PREFIX, LeaseStore
from workers.write_behind import Command, WriteBehind

WAIT_S = 5.0


class HeldBack(WriteBehind):
    """Sends nothing before `go` is set, like a process whose sending thread is slow."""

    def __init__(self, redis: Redis) -> None:
        super().__init__(redis)
        self.go = threading.Event()

    def send_what_waits(self) -> None:
        self.go.wait(WAIT_S)
        super().send_what_waits()


@pytest.fixture
def behind(redis: Redis) -> Iterator[WriteBehind]:
    found = WriteBehind(redis)
    yield found
    found.flush(WAIT_S)


@pytest.fixture
def held_back(redis: Redis) -> Iterator[HeldBack]:
    found = HeldBack(redis)
    yield found
    found.go.set()
    found.flush(WAIT_S)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which nobody listens, kept from others."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()[1]


def test_commands_of_many_threads_arrive_each_in_the_order_of_its_thread(
    redis: Redis, behind: WriteBehind
) -> None:
    def hand_in(name: str) -> None:
        for number in range(200):
            behind.add(("RPUSH", "seen", f"{name}:{number}"))

    threads = [threading.Thread(target=hand_in, args=[name]) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert behind.flush(WAIT_S)
    seen = [entry.decode().split(":") for entry in redis.lrange("seen", 0, -1)]
    assert len(seen) == 800
    for name in "abcd":
        assert [int(number) for owner, number in seen if owner == name] == list(range(200))


def test_all_that_waits_goes_out_at_once(redis: Redis, held_back: HeldBack) -> None:
    for number in range(50):
        held_back.add(("RPUSH", "seen", number), ("EXPIRE", "seen", 60))
    before = redis.info("commandstats").get("cmdstat_exec", {"calls": 0})["calls"]
    held_back.go.set()
    assert held_back.flush(WAIT_S)
    assert redis.llen("seen") == 50
    assert redis.info("commandstats")["cmdstat_exec"]["calls"] - before == 1


def test_a_command_that_redis_refuses_is_told_to_its_own_sender_only(
    redis: Redis, behind: WriteBehind
) -> None:
    told: dict[str, bool] = {}

    def told_to(name: str) -> Callable[[bool], None]:
        return lambda is_carried_out: told.update({name: is_carried_out})

    behind.add(("SET", "text", "abc"), done=told_to("first"))
    behind.add(("RPUSH", "text", "no list"), ("SET", "other", "1"), done=told_to("second"))
    behind.add(("SET", "last", "1"), done=told_to("third"))
    assert behind.flush(WAIT_S)
    assert told == {"first": True, "second": False, "third": True}
    assert redis.get("last") == b"1"


@pytest.mark.parametrize("command", [("RPUSH", "seen", "1"), ("NO-SUCH-COMMAND",)])
def test_without_a_store_nothing_is_kept_and_the_sender_is_told(closed_port: int, command: Command) -> None:
    told: list[bool] = []
    behind = WriteBehind(Redis(port=closed_port, socket_connect_timeout=0.2))
    behind.add(command, done=told.append)
    assert behind.flush(WAIT_S)
    assert told == [False]


def test_a_sender_that_fails_in_our_own_code_holds_up_nobody_else(redis: Redis, behind: WriteBehind) -> None:
    told: list[bool] = []
    behind.add(("SET", "key", object()), done=told.append)  # type: ignore[arg-type]
    assert behind.flush(WAIT_S)
    behind.add(("SET", "key", "1"), done=told.append)
    assert behind.flush(WAIT_S)
    assert (told, redis.get("key")) == ([False, True], b"1")


def test_waiting_for_the_commands_ends_when_its_time_is_over(held_back: HeldBack) -> None:
    held_back.add(("SET", "key", "1"))
    assert not held_back.flush(0.05)


def test_a_lease_that_is_on_its_way_back_is_free_for_the_same_process_at_once(
    redis: Redis, held_back: HeldBack
) -> None:
    leases = LeaseStore(redis, Clock(), write_behind=held_back)
    with leases.hold("one", ttl_ms=60_000, is_released_behind=True):
        pass
    assert redis.exists(KEY_PREFIX + "one") == 1
    threading.Timer(0.05, held_back.go.set).start()
    with leases.hold("one", ttl_ms=60_000):
        assert redis.exists(KEY_PREFIX + "one") == 1


def test_without_looking_at_what_is_on_its_way_it_would_be_taken(redis: Redis, held_back: HeldBack) -> None:
    leases = LeaseStore(redis, Clock(), write_behind=held_back)
    with leases.hold("one", ttl_ms=60_000, is_released_behind=True):
        pass
    other = LeaseStore(redis, Clock())
    with pytest.raises(Busy), other.hold("one", ttl_ms=60_000):
        pytest.fail("the release has not been sent yet")


def test_a_lease_that_cannot_be_given_back_is_left_to_expire(redis: Redis, closed_port: int) -> None:
    away = WriteBehind(Redis(port=closed_port, socket_connect_timeout=0.2))
    leases = LeaseStore(redis, Clock(), write_behind=away)
    lease = leases.acquire("one", ttl_ms=300)
    leases.release_behind(lease)
    assert away.flush(WAIT_S)
    assert lease.lost.is_set()
    wait_until(lambda: redis.exists(KEY_PREFIX + "one") == 0, "the lease to expire")
