"""That a consumer of the stream is alive, and what the stream has brought so far, kept in Redis.

Both are for people and health checks; nothing else reads them. So no error of Redis leaves this module's
writing side.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Clock, from_iso, to_iso

log = logging.getLogger(__name__)

ALIVE_KEY = "converge:stream:alive:"
COUNTS_KEY = "converge:stream:counts"
# Several beats of five seconds, with an outage of the broker in between.
ALIVE_TTL_S = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveConsumer:
    """A consumer that beat within the last half minute.

    `waiting` messages lay in the queue then, and `held` ones could not be dealt with yet.
    """

    name: str
    started_at: datetime
    waiting: int
    held: int


class StreamPulse:
    """The writing side, one per consumer. `name` starts with the host's name."""

    def __init__(self, redis: Redis, clock: Clock) -> None:
        self._redis = redis
        self._started_at = clock.now()
        self.name = f"{host_name()}:{os.getpid()}"
        self._uncounted: Counter[str] = Counter()

    def beat(self, counts: Counter[str], *, waiting: int, held: int) -> None:
        """Say that the consumer lives and its broker answers, and add `counts` to the totals."""
        state = {"startedAt": to_iso(self._started_at), "waiting": waiting, "held": held}
        self._uncounted += counts
        try:
            with self._redis.pipeline() as pipe:
                pipe.set(ALIVE_KEY + self.name, json.dumps(state), ex=ALIVE_TTL_S)
                for fate, number in self._uncounted.items():
                    pipe.hincrby(COUNTS_KEY, fate, number)
                pipe.execute()
        except RedisError:
            log.warning("the pulse of the stream could not be written")
        else:
            self._uncounted.clear()

    def stop(self, counts: Counter[str]) -> None:
        """Add the last counts and be gone."""
        self.beat(counts, waiting=0, held=0)
        try:
            self._redis.delete(ALIVE_KEY + self.name)
        except RedisError:
            log.warning("the pulse of the stream is left to expire")


def host_name() -> str:
    """How this host, or this container, calls itself."""
    return socket.gethostname()


def live_consumers(redis: Redis, host: str | None = None) -> list[LiveConsumer]:
    """The living consumers on a host, on all of them without one. Raises `RedisError`."""
    prefix = ALIVE_KEY if host is None else f"{ALIVE_KEY}{host}:"
    keys = sorted(key.decode() for key in redis.scan_iter(f"{prefix}*", count=1000))
    found = []
    for key, raw in zip(keys, redis.mget(keys) if keys else (), strict=True):
        if raw is not None:
            state = json.loads(raw)
            found.append(
                LiveConsumer(
                    name=key.removeprefix(ALIVE_KEY),
                    started_at=from_iso(state["startedAt"]),
                    waiting=state["waiting"],
                    held=state["held"],
                )
            )
    return found


def stream_counts(redis: Redis) -> dict[str, int]:
    """How many messages met which fate, since the store of the counts exists. Raises `RedisError`."""
    raw = cast(dict[bytes, bytes], redis.hgetall(COUNTS_KEY))
    return {fate.decode(): int(number) for fate, number in sorted(raw.items())}
