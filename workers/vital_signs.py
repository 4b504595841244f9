"""How things are right now, as a few numbers for monitoring: jobs, queues, leases, the stream, the fundings.

Only reads, and never more than a bounded number of records. Each look is made on its own, so that a store
that is away takes only its own numbers with it; each raises `RetryableError` when its store does not answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import pymongo
from pymongo.errors import PyMongoError
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from celeryconfig import broker_transport_options, task_queues
from workers.clock import Clock
from workers.errors import RetryableError
from workers.funding.assembly import FundingAccess
from workers.funding.evaluate import Counters
from workers.funding.fundings import FundingState
from workers.funding.vocabulary import BlockReason
from workers.jobs.record import JobRecord, JobState, JobStore
from workers.leases import KEY_PREFIX as LEASE_PREFIX
from workers.mongo import MongoDatabase
from workers.social_recording.stream_pulse import live_consumers, stream_counts
from workers.telemetry_table import lease_family

JOBS_MAX = 500
TIMEOUT_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class FundingSigns:
    """What the counters of the active fundings say beside the truth.

    The drifts are sums of differences in bricks, whatever their sign; a counter that is missing or no number
    counts as 0 there. A purchase that is under way makes a counter say more for a moment.
    """

    blocked: Mapping[BlockReason, int]
    drifted_properties: int
    purchased_drift_bricks: int
    auto_invest_drift_bricks: int


class VitalSigns:
    """See the module docstring."""

    def __init__(
        self,
        *,
        redis: Redis,
        broker_url: str,
        store: JobStore,
        database: MongoDatabase,
        funding: FundingAccess,
        clock: Clock,
    ) -> None:
        self._redis = redis
        self._broker = Redis.from_url(
            broker_url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._store = store
        self._database = database
        self._funding = funding
        self._clock = clock

    def close(self) -> None:
        """Close the connections that are nobody else's."""
        self._broker.close()

    def jobs(self) -> Counter[tuple[str, JobState]]:
        """How many of the newest 500 jobs are of which kind and in which state."""
        ids = [job_id for job_id, _ in self._store.newest_ids(before=None, limit=JOBS_MAX)]
        return Counter((record.kind, state_of(record)) for record in self._store.get_many(ids))

    def queue_lengths(self) -> dict[str, int]:
        """How many tasks wait in each queue of Celery, of all priorities together."""
        prefix, separator = broker_transport_options["global_keyprefix"], broker_transport_options["sep"]
        steps = cast(list[int], broker_transport_options["priority_steps"])
        endings = [f"{separator}{step}" if step else "" for step in steps]
        with _reachable("the broker"), self._broker.pipeline(transaction=False) as pipe:
            for queue in task_queues:
                for ending in endings:
                    pipe.llen(f"{prefix}{queue.name}{ending}")
            lengths = [int(length) for length in pipe.execute()]
        starts = range(0, len(lengths), len(endings))
        return {
            queue.name: sum(lengths[start : start + len(endings)])
            for queue, start in zip(task_queues, starts, strict=True)
        }

    def leases_held(self) -> Counter[str]:
        """How many leases are held, by what they are for."""
        with _reachable("the lock store"):
            keys = {key.decode() for key in self._redis.scan_iter(f"{LEASE_PREFIX}*", count=1000)}
        return Counter(lease_family(key.removeprefix(LEASE_PREFIX)) for key in keys)

    def stream_messages(self) -> dict[str, int]:
        """How many messages of the live stream met which fate, since ever."""
        with _reachable("the counts of the stream"):
            return stream_counts(self._redis)

    def stream_consumers(self) -> tuple[int, int]:
        """How many consumers of the stream are alive, and how many messages they saw waiting in its queue.

        All consumers see the same queue, each a few seconds ago; the largest number is taken.
        """
        with _reachable("the pulse of the stream"):
            consumers = live_consumers(self._redis)
        return len(consumers), max((each.waiting for each in consumers), default=0)

    def ping_mongodb(self) -> bool:
        """Whether MongoDB answers; it never says no, it raises."""
        try:
            with pymongo.timeout(TIMEOUT_S):
                self._database.command("ping")
        except PyMongoError as exc:
            raise RetryableError("MongoDB cannot be reached") from exc
        return True

    def fundings(self) -> FundingSigns:
        """The drift of all active fundings. Raises `FundingNotConfigured` where there are none."""
        found = self._funding.active(self._clock.now())
        drifts = [_drift(state, counters) for state, counters in found]
        return FundingSigns(
            blocked=Counter(state.block.reason for state, _ in found if state.block is not None),
            drifted_properties=sum(any(drift) for drift in drifts),
            purchased_drift_bricks=sum(purchased for purchased, _ in drifts),
            auto_invest_drift_bricks=sum(auto_invest for _, auto_invest in drifts),
        )


def state_of(record: JobRecord) -> JobState:
    """The state of a job by its record alone, without its result.

    A job that could not get at its record is failed there and queued or expired here.
    """
    if record.started_at is None:
        if record.cancel_requested_at is not None:
            return JobState.CANCELLED
        return JobState.EXPIRED if record.read_at > record.expires_at else JobState.QUEUED
    if record.finished_at is None or record.outcome is None:
        return JobState.RUNNING if record.is_alive else JobState.LOST
    return record.outcome


def _drift(state: FundingState, counters: Counters) -> tuple[int, int]:
    pairs = (
        (counters.purchased, state.truth.purchased),
        (counters.auto_invest, state.truth.auto_invest),
    )
    purchased, auto_invest = (abs((counter.number or 0) - truth) for counter, truth in pairs)
    return purchased, auto_invest


@contextmanager
def _reachable(what: str) -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as exc:
        raise RetryableError(f"{what} cannot be reached") from exc
