"""What every test may use: a clock that is moved by hand, settings, and real servers of one test process."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic_settings import PydanticBaseSettingsSource
from redis import Redis

from devstack.mongo import MongoServer
from devstack.postgres import PostgresServer
from devstack.valkey import ValkeyServer
from workers.clock import Clock
from workers.funding.database import open_database
from workers.funding.migrations import migrate
from workers.mongo import MongoDatabase, connect
from workers.settings import Settings

PLAIN_SETTINGS: dict[str, Any] = {
    "app_env": "test",
    "app_secret_key": "test-key",
    "tracker_base_url": "http://127.0.0.1:9/tracker",
    "tracker_api_key": "tracker-key",
    "social_record_af_group_ids": ("1", "2"),
}

# A script's background commands ignore Ctrl-C, and so would everything that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class FakeClock(Clock):
    """A clock that stands still until a test or a wait moves it."""

    def __init__(self, now: datetime | None = None) -> None:
        self.moment = now or datetime(2026, 1, 15, 12, tzinfo=UTC)
        self.elapsed_s = 1000.0
        self.waits: list[float] = []

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.elapsed_s

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        if event.is_set():
            return True
        self.waits.append(timeout_s)
        self.advance(timeout_s)
        return event.is_set()

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        self.elapsed_s += seconds


class PlainSettings(Settings):
    """Settings that are as they were written down, whatever the environment of the tests holds."""

    @classmethod
    def settings_customise_sources(
        cls, *_: Any, init_settings: PydanticBaseSettingsSource, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def make_settings(**changes: Any) -> Settings:
    """Settings of a test, with what the test changes."""
    return PlainSettings(**{**PLAIN_SETTINGS, **changes})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path_factory.mktemp("valkey") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def mongo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with MongoServer(tmp_path_factory.mktemp("mongo") / "data") as server:
        yield server


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres") / "data") as server:
        yield server
        server.stop()
        server.remove_data()


@pytest.fixture
def funding_url(postgres: PostgresServer) -> Iterator[str]:
    """The address of an own, empty database of the session's server, dropped afterwards."""
    name = f"t{uuid.uuid4().hex}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def funding_database(postgres: PostgresServer) -> Iterator[str]:
    """The address of a database with the tables of fundings; making one takes a second."""
    name = f"f{uuid.uuid4().hex}"
    url = postgres.create_database(name)
    engine = open_database(url, timeout_ms=5000)
    assert migrate(engine).is_as_written
    engine.dispose()
    yield url
    postgres.drop_database(name)


@pytest.fixture
def redis(valkey: ValkeyServer) -> Iterator[Redis]:
    """An empty database of the session's server."""
    client = Redis.from_url(valkey.url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture
def database(mongo: MongoServer) -> Iterator[MongoDatabase]:
    """An own database, dropped afterwards."""
    found = connect(make_settings(mongo_url=mongo.url, mongo_database=f"t{uuid.uuid4().hex}"))
    yield found
    found.client.drop_database(found.name)
    found.client.close()


@pytest.fixture
def checkout() -> Path:
    return Path(__file__).parents[1]
