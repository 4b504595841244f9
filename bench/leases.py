"""What a lease costs: taking it and giving it back, against two well-known locks over the same server.

Counted are round trips (a script is one, a pipeline is one), timed is the pair, with nobody else asking for
the key. `converge` and `python_redis_lock` are given the renewal of a held lock, which redis-py's `Lock` does
not have; `python_redis_lock_plain` is without it, since its renewal is a thread for each lock. Prints one
JSON object.

    python -m bench.leases [--pairs 2000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import redis_lock
from redis import Connection, ConnectionPool, Redis
from redis.lock import Lock

from devstack.stack import Stack
from workers.clock import Clock
from workers.leases import LeaseStore

SLICE = 100
TTL_S = 60
NAME = "bench:lease"


class CountedConnection(Connection):
    """Counts what is sent: a command, a script or a pipeline is one."""

    sent = 0

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send as ever."""
        CountedConnection.sent += 1
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=2000)
    print(json.dumps(measure(parser.parse_args().pairs)))


def measure(pairs: int) -> dict[str, Any]:
    """Take and give back `pairs` times with each lock, in slices that alternate; return the figures."""
    with Stack(parts=("valkey",)) as stack:
        redis = Redis(
            connection_pool=ConnectionPool.from_url(stack.valkey.url, connection_class=CountedConnection)
        )
        pair_of = pairs_of(redis)
        trips = {name: count_trips(pair) for name, pair in pair_of.items()}
        times_us: dict[str, list[float]] = {name: [] for name in pair_of}
        for _ in range(0, pairs, SLICE):
            for name, pair in pair_of.items():
                times_us[name].append(time_us(pair))
        redis.close()
    medians = {name: statistics.median(each) for name, each in times_us.items()}
    return {
        "pairs": pairs,
        **{
            name: {"round_trips": trips[name], "us": round(medians[name]), "us_best": round(min(each))}
            for name, each in times_us.items()
        },
        "to": {
            name: round(medians["converge"] / each, 2) for name, each in medians.items() if name != "converge"
        },
    }


def pairs_of(redis: Redis) -> Mapping[str, Callable[[], None]]:
    """What takes a lock and gives it back, by the name of the lock."""
    leases = LeaseStore(redis, Clock())

    def converge() -> None:
        with leases.hold(NAME, ttl_ms=TTL_S * 1000):
            pass

    def redis_py() -> None:
        with Lock(redis, NAME, timeout=TTL_S, blocking=False):
            pass

    def python_redis_lock() -> None:
        with redis_lock.Lock(redis, NAME, expire=TTL_S, auto_renewal=True, blocking=False):
            pass

    def python_redis_lock_plain() -> None:
        with redis_lock.Lock(redis, NAME, expire=TTL_S, blocking=False):
            pass

    ways = (converge, redis_py, python_redis_lock, python_redis_lock_plain)
    return {way.__name__: way for way in ways}


def count_trips(pair: Callable[[], None]) -> int:
    """The round trips of one pair, once its connection is there and the server knows its scripts."""
    pair()
    before = CountedConnection.sent
    pair()
    return CountedConnection.sent - before


def time_us(pair: Callable[[], None]) -> float:
    """The mean microseconds of a slice of pairs."""
    started = time.perf_counter()
    for _ in range(SLICE):
        pair()
    return (time.perf_counter() - started) * 1e6 / SLICE


if __name__ == "__main__":
    main()
