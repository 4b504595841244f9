"""Backfills with real stores and a real job frame, and a node inside the process as the outside world."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from redis import Redis

from tests.conftest import FakeClock, make_settings
from tests.solana_node import ADDRESS, ENDPOINT, Node, NodeHTTP
from workers.clock import Clock
from workers.http.client import OutboundClient
from workers.jobs.record import JobStore
from workers.jobs.run import JobRunner
from workers.leases import LeaseStore
from workers.mongo import Document, MongoDatabase
from workers.mongo_indexes import migrate
from workers.solana_backfill.campaign import Backfill, BackfillParts
from workers.solana_backfill.indexes import INDEXES
from workers.solana_backfill.job_kinds import BACKFILL, BackfillRequest
from workers.solana_backfill.observations import ObservationRepository
from workers.solana_backfill.pacer import Pacer
from workers.solana_backfill.rpc import RPCClient
from workers.solana_backfill.schedule import EndpointSchedule
from workers.solana_backfill.transactions import TransactionRepository
from workers.solana_endpoints import SolanaEndpoint

_numbers = itertools.count(1)


class SharedFakeClock(FakeClock):
    """A clock for many threads that no wait really takes time on."""

    def __init__(self) -> None:
        super().__init__()
        self._guard = threading.Lock()

    def advance(self, seconds: float) -> None:
        with self._guard:
            super().advance(seconds)


@dataclass
class RunningCampaign:
    """A job that runs on a thread of its own; `result` waits for its end and returns it or raises its
    error.
    """

    job_id: str
    thread: threading.Thread
    ended: list[Any] = field(default_factory=list)

    def result(self, timeout_s: float = 30) -> dict[str, Any]:
        self.thread.join(timeout_s)
        assert not self.thread.is_alive(), "the campaign did not end"
        [end] = self.ended
        if isinstance(end, BaseException):
            raise end
        found: dict[str, Any] = end
        return found


class SolanaPlace:
    """See the module docstring. `build` makes the engine anew, with what a test wants otherwise."""

    def __init__(self, redis: Redis, database: MongoDatabase) -> None:
        self.redis, self.database = redis, database
        self.store = JobStore(redis, retention_s=600)
        self.leases = LeaseStore(redis, Clock())
        self.shutdown = threading.Event()
        self.node = Node()
        self.clock: Clock = SharedFakeClock()
        self.build()

    def build(
        self,
        *,
        clock: Clock | None = None,
        http: object = None,
        version_max: int = 1,
        transactions: TransactionRepository | None = None,
        **endpoint: Any,
    ) -> None:
        """Build the engine; further arguments change the endpoint."""
        self.clock = clock or SharedFakeClock()
        self.http = NodeHTTP(self.node, self.clock)
        self.endpoint = replace(ENDPOINT, **endpoint)
        is_fake = isinstance(self.clock, FakeClock)
        self.client = build_client(
            self.redis,
            self.endpoint,
            self.clock,
            http or self.http,
            now_us=(lambda: round(self.clock.monotonic() * 1_000_000)) if is_fake else None,
            version_max=version_max,
        )
        self.transactions = transactions or TransactionRepository(self.database, Clock())
        self.observations = ObservationRepository(self.database)
        self.backfill = Backfill(
            BackfillParts(
                clients={self.endpoint.role: self.client},
                transactions=self.transactions,
                observations=self.observations,
                clock=self.clock,
                random=lambda: 0.0,
            )
        )
        self.settings = make_settings(
            solana_endpoints=(self.endpoint,), solana_backfill_role=self.endpoint.role
        )

    def run(self, **body: Any) -> dict[str, Any]:
        """Run a campaign to its end and return the job's result."""
        return self.start(**body).result()

    def start(self, **body: Any) -> RunningCampaign:
        """Start a campaign on a thread of its own; by default of a program, from the newest on."""
        if "signatures" in body:
            body = {"mode": "signatures", **body}
        else:
            body = {"mode": "program", "address": ADDRESS, **body}
        request = BackfillRequest.model_validate(body).with_defaults(self.settings)
        values = request.model_dump(mode="json", by_alias=True)
        job_id = f"backfill-{next(_numbers)}"
        self.store.create(job_id, BACKFILL.name, values, expires_s=60, claim=None)
        runner = JobRunner(
            self.store,
            self.leases,
            Clock(),
            heartbeat_ttl_ms=5000,
            lease_ttls_ms={BACKFILL.name: 5000},
            shutdown=self.shutdown,
        )
        running = RunningCampaign(job_id=job_id, thread=threading.Thread())

        def work() -> None:
            try:
                running.ended.append(runner.run(BACKFILL, job_id, values, self.backfill.run))
            except Exception as exc:  # noqa: BLE001 - `result` raises it again
                running.ended.append(exc)

        running.thread = threading.Thread(target=work, name=job_id, daemon=True)
        running.thread.start()
        return running

    def stored(self) -> set[str]:
        """The signatures that are stored."""
        return {row["signature"] for row in self.database["raw_transactions"].find({}, {"signature": 1})}

    def rows(self, signature: str | None = None) -> list[Document]:
        """The observations, oldest first; of one signature or of all."""
        condition = {} if signature is None else {"signature": signature}
        return list(self.database["transaction_observations"].find(condition, {"_id": 0}).sort("_id", 1))


def build_client(
    redis: Redis,
    endpoint: SolanaEndpoint,
    clock: Clock,
    http: object,
    *,
    now_us: Callable[[], int] | None = None,
    version_max: int = 1,
) -> RPCClient:
    """A client of the endpoint whose pauses have no jitter."""
    pacer = Pacer(
        EndpointSchedule(redis, endpoint, open_s=20, now_us=now_us),
        clock,
        pause_s=endpoint.pause_after_rate_limit_ms / 1000,
        random=lambda: 0.0,
    )
    return RPCClient(
        endpoint, cast(OutboundClient, http), pacer, clock, timeout_s=20, version_max=version_max
    )


@pytest.fixture
def place(redis: Redis, database: MongoDatabase) -> Iterator[SolanaPlace]:
    migrate(database, INDEXES)
    found = SolanaPlace(redis, database)
    yield found
    found.shutdown.set()
