"""What the measurements of the social graph share: a recorder over a database of its own, and a command log.

Stores are real and empty; the outside world is a `World`. The clock can be put forward, so that what was
recorded a moment ago is old.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import SecretStr
from pymongo import monitoring
from redis import Redis

from bench.graph_world import TRACKER_KEY, World, WorldClient, WorldGenerators
from devstack.stack import Stack
from workers.clock import Clock
from workers.leases import LeaseStore
from workers.mongo import Document, connect
from workers.settings import Settings
from workers.social_graph.indexes import migrate
from workers.social_graph.token import TokenRepository
from workers.social_graph.token_link import TokenLinkRepository
from workers.social_recording.credit import CreditFlags
from workers.social_recording.detours import Detours
from workers.social_recording.graph_writer import GraphWriter, StoredObjects
from workers.social_recording.recording import TokenRecorder
from workers.social_recording.retry import URLRetrier
from workers.social_recording.tracker import TrackerClient
from workers.social_recording.url_collection import RecordingLimits, URLCollector

LIMITS = RecordingLimits(
    budget_s=300, token_lease_ttl_ms=60_000, url_lease_wait_s=30, max_attempts=5, is_paid_enabled=False
)
WRITE_KINDS = ("insert", "update", "delete")


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One command as it was sent; `writes` are those of a `bulkWrite`, `pipeline` that of an aggregation."""

    name: str
    collections: frozenset[str]
    writes: tuple[str, ...] = ()
    pipeline: Sequence[Document] = ()

    @classmethod
    def of(cls, name: str, sent: Mapping[str, Any]) -> Command:
        """Read what was sent; documents are left out, because a log of them would fill the memory."""
        if name == "bulkWrite":
            targets = [str(each["ns"]).partition(".")[2] for each in sent["nsInfo"]]
            writes = tuple(
                f"{kind} {targets[write[kind]]}"
                for write in sent["ops"]
                for kind in WRITE_KINDS
                if kind in write
            )
            return cls(name=name, collections=frozenset(targets), writes=writes)
        collection = str(sent["collection"] if name == "getMore" else sent.get(name))
        return cls(name=name, collections=frozenset({collection}), pipeline=tuple(sent.get("pipeline", ())))

    def __str__(self) -> str:
        if self.writes:
            counts = Counter(self.writes).items()
            return f"{self.name} ({', '.join(f'{write} x{n}' if n > 1 else write for write, n in counts)})"
        return f"{self.name} {', '.join(self.collections)}"


class CommandLog(monitoring.CommandListener):
    """The commands of every client that connects after it was registered."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Note the command."""
        self.commands.append(Command.of(event.command_name, event.command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Nothing to note."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nothing to note."""

    @contextmanager
    def noted(self) -> Iterator[list[Command]]:
        """The list is filled with the commands of the body, when that ends."""
        found: list[Command] = []
        start = len(self.commands)
        yield found
        found += self.commands[start:]


class MovableClock(Clock):
    """The system's clock, put forward by hand."""

    def __init__(self) -> None:
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        """The time as moved."""
        return super().now() + self._ahead

    def advance(self, by: timedelta) -> None:
        """Let time pass."""
        self._ahead += by


class Recording:
    """What records tokens, over a database of its own with all indexes, and its outside world."""

    def __init__(self, stack: Stack, name: str) -> None:
        settings = Settings(
            app_secret_key=SecretStr("unused"),
            tracker_base_url="http://127.0.0.1:9/tracker",
            tracker_api_key=SecretStr(TRACKER_KEY),
            social_record_af_group_ids=("1",),
            mongo_url=stack.mongo.url,
            mongo_database=name,
            mongo_timeout_ms=120_000,
        )
        self.world = World()
        self.clock = MovableClock()
        self.database = connect(settings)
        migrate(self.database)
        self.tokens = TokenRepository(self.database, self.clock)
        self.links = TokenLinkRepository(self.database, self.clock)
        http = WorldClient(settings, self.clock, self.world)
        redis = Redis.from_url(stack.valkey.url)
        leases = LeaseStore(redis, self.clock)
        collector = URLCollector(
            leases=leases,
            generators=WorldGenerators(http, settings, self.world, self.clock),
            detours=Detours(http, redis),
            stored=StoredObjects(self.database, self.clock),
            writer=GraphWriter(self.database, self.clock),
            credit=CreditFlags(redis),
            clock=self.clock,
            limits=LIMITS,
        )
        self.recorder = TokenRecorder(
            leases=leases,
            tracker=TrackerClient(http, settings),
            tokens=self.tokens,
            links=self.links,
            collector=collector,
            clock=self.clock,
            limits=LIMITS,
        )
        self.retrier = URLRetrier(
            leases=leases, tokens=self.tokens, collector=collector, clock=self.clock, limits=LIMITS
        )
