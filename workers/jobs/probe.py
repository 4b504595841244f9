"""Whether workers take tasks from the queues: a canary per queue, sent when somebody asks.

A worker that answers pings may still have no free slot; only a task that ran shows that tasks run.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis

from workers.clock import Budget, Clock
from workers.jobs.messenger import CeleryMessenger

CANARY_TASK = "converge.canary"
ALIVE_TTL_S = 60
RESEND_AFTER_S = 5
POLL_S = 0.05


def seen_key(queue: str) -> str:
    """Where it is noted that a task of the queue has run; a busy worker notes it with its work."""
    return f"converge:canary:seen:{queue}"


def note_canary(redis: Redis, queue: str) -> None:
    """What the canary does when it runs."""
    redis.set(seen_key(queue), "1", ex=ALIVE_TTL_S)


class WorkerProbe:
    """The asking side."""

    def __init__(self, redis: Redis, messenger: CeleryMessenger, clock: Clock, queues: Sequence[str]) -> None:
        self._redis = redis
        self._messenger = messenger
        self._clock = clock
        self._queues = queues

    def silent_queues(self, *, wait_s: float) -> list[str]:
        """The queues from which no canary has run within the last minute, asking and waiting `wait_s`.

        Raises `RedisError` or `BrokerUnavailable` when Redis is away.
        """
        budget = Budget.of(self._clock, wait_s)
        silent = self._unseen()
        for queue in silent:
            if self._redis.set(f"converge:canary:sent:{queue}", "1", nx=True, ex=RESEND_AFTER_S):
                self._messenger.publish_member(task=CANARY_TASK, arguments={"queue": queue}, queue=queue)
        while silent and budget.remaining_s > POLL_S:
            budget.sleep(POLL_S)
            silent = self._unseen()
        return silent

    def _unseen(self) -> list[str]:
        seen = self._redis.mget([seen_key(queue) for queue in self._queues])
        return [queue for queue, mark in zip(self._queues, seen, strict=True) if mark is None]
