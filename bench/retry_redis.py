"""What one retried URL costs in Redis, as the server sees it.

A round trip is a command that a client has sent and waits for; a transaction is one, a script is one. They
are read from the server's own `MONITOR`, in a run of their own, and told apart by database: the broker's are
Celery's (a message, its receipt, the events for the dashboard), ours are all others. A run without `MONITOR`
gives the server's own count of commands, which also counts what transactions and scripts consist of. What an
idle worker sends in the same time is taken off each.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.retry_desk import RetryDesk
from devstack.processes import ManagedProcess, poll
from devstack.stack import BROKER_DB

IDLE_S = 4.0
# Between two messages that are published one by one lies their making, which takes ten times as long.
ONE_PACKET_S = 0.0001
MARK = "the bench looks no longer"


def measure_redis(desk: RetryDesk, worker: ManagedProcess, urls: int) -> dict[str, Any]:
    """Retry `urls` URLs of one call each, twice: once counted by the server, once watched."""
    commands_before = _commands(desk)
    took_s = _timed(lambda: time.sleep(IDLE_S))
    idle_commands_per_s = (_commands(desk) - commands_before) / took_s
    addresses = desk.store_posts(urls)
    commands_before = _commands(desk)
    took_s = _timed(lambda: desk.run_retry(worker, addresses))
    commands = _commands(desk) - commands_before - idle_commands_per_s * took_s

    with _watched(desk) as idle:
        idle_s = _timed(lambda: time.sleep(IDLE_S))
    addresses = desk.store_posts(urls)
    with _watched(desk) as busy:
        busy_s = _timed(lambda: desk.run_retry(worker, addresses))
    trips = Counter(busy)
    for trip, count in idle.items():
        trips[trip] -= round(count * busy_s / idle_s)
    for (database, words), count in trips.most_common():
        if count >= urls / 20:
            print(f"{count / urls:6.2f} per URL, database {database}: {words}", file=sys.stderr)
    of_broker = sum(count for (database, _), count in trips.items() if database == BROKER_DB)
    return {
        "urls": urls,
        "round_trips_per_url": round(sum(trips.values()) / urls, 2),
        "round_trips_per_url_ours": round((sum(trips.values()) - of_broker) / urls, 2),
        "round_trips_per_url_broker": round(of_broker / urls, 2),
        "commands_per_url": round(commands / urls, 2),
        "idle_commands_per_s": round(idle_commands_per_s, 2),
    }


def _timed(act: Callable[[], object]) -> float:
    started = time.monotonic()
    act()
    return time.monotonic() - started


def _commands(desk: RetryDesk) -> int:
    stats: Mapping[str, Mapping[str, int]] = desk.redis.info("commandstats")
    return sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info")


@contextmanager
def _watched(desk: RetryDesk) -> Iterator[Counter[tuple[int, str]]]:
    """Filled with the round trips of the body, by database and first words, when that ends."""
    trips: Counter[tuple[int, str]] = Counter()
    started, ended = threading.Event(), threading.Event()

    def watch() -> None:
        counting = _Trips(trips)
        with desk.redis.monitor() as monitor:  # type: ignore[no-untyped-call]
            started.set()
            for line in monitor.listen():
                if MARK in line["command"]:
                    break
                counting.add(line)
        ended.set()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    started.wait()
    yield trips
    if not poll(lambda: bool(desk.redis.echo(MARK)) and ended.wait(0.1), 10.0):
        raise RuntimeError("the server's commands could not be watched to their end")


class _Trips:
    """Counts commands that were waited for, by database and first words."""

    def __init__(self, trips: Counter[tuple[int, str]]) -> None:
        self._trips = trips
        self._in_transaction: set[str] = set()
        self._last_at: dict[str, float] = {}

    def add(self, line: Mapping[str, Any]) -> None:
        """Count one line of `MONITOR`."""
        if line["client_type"] == "lua":
            return
        client = f"{line['client_address']}:{line['client_port']}"
        words = line["command"].split()
        name = words[0].upper()
        # Messages that are published together come in one packet: no answer can have been waited for.
        is_of_one_packet = name == "LPUSH" and line["time"] - self._last_at.get(client, 0.0) < ONE_PACKET_S
        self._last_at[client] = line["time"]
        if name == "EXEC":
            self._in_transaction.discard(client)
        elif client not in self._in_transaction and not is_of_one_packet:
            self._trips[line["db"], _name_of(words)] += 1
        if name == "MULTI":
            self._in_transaction.add(client)


def _name_of(words: list[str]) -> str:
    """The command, for a script with the kind of key that it is about."""
    if words[0].upper() != "EVALSHA":
        return words[0].upper()
    return f"EVALSHA {':'.join(words[3].split(':')[:3])}"
