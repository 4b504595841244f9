"""What the tests of the social graph share: a database with its indexes, and a log of commands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from devstack.mongo import MongoServer
from workers.mongo import Document, MongoDatabase
from workers.social_graph.indexes import migrate

WORKERS = 8


@dataclass
class CommandLog(CommandListener):
    """The commands that were sent."""

    commands: list[tuple[str, Document]] = field(default_factory=list)

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in ("hello", "ping", "endSessions"):
            self.commands.append((event.command_name, dict(event.command)))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Nothing to note."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing to note."""

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.commands]

    @contextmanager
    def counted(self) -> Iterator[list[str]]:
        """Collect the names of the commands that the body sends."""
        names: list[str] = []
        start = len(self.commands)
        yield names
        names += self.names[start:]


@pytest.fixture
def graph_database(database: MongoDatabase) -> MongoDatabase:
    """An own database with the written indexes."""
    migrate(database)
    return database


@pytest.fixture
def command_log() -> CommandLog:
    return CommandLog()


@pytest.fixture
def logged_database(
    mongo: MongoServer, graph_database: MongoDatabase, command_log: CommandLog
) -> Iterator[MongoDatabase]:
    """The same database through a client that logs its commands."""
    client: MongoClient[dict[str, Any]] = MongoClient(mongo.url, tz_aware=True, event_listeners=[command_log])
    client.admin.command("ping")
    yield client[graph_database.name]
    client.close()


def run_together(work: Callable[[int], Any], times: int = WORKERS) -> list[Any]:
    """Run `work` in threads that start at the same moment; return its results."""
    barrier = threading.Barrier(times)

    def start(number: int) -> Any:
        barrier.wait(timeout=30)
        return work(number)

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(start, range(times)))
