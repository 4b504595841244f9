"""What we do less often than Celery and kombu has the same effect."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Connection
from kombu.transport.redis import Channel as PlainChannel
from redis import Redis

from devstack.stack import Stack
from devstack.valkey import ValkeyServer
from tests.waiting import wait_until
from workers.celery_app import create_celery
from workers.celery_parts import Channel
from workers.jobs.probe import CANARY_TASK
from workers.settings import read_settings

TASKS = 60


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    root: Path = tmp_path_factory.mktemp("events")
    parts = ("valkey", "mongo", "sandbox", "migrate", "worker")
    with Stack(root=root, parts=parts, worker_threads=4) as running:
        yield running


@pytest.fixture
def celery(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Celery[Any]:
    for name, value in stack.environ.items():
        monkeypatch.setenv(name, value)
    return create_celery(read_settings)


def clients_of(channel: PlainChannel) -> tuple[object, object]:
    with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
        return first, second


def test_a_channel_keeps_its_client(redis: Redis, valkey: ValkeyServer) -> None:
    with Connection(valkey.url) as connection:
        channel = connection.channel()
        assert isinstance(channel, Channel)
        first, second = clients_of(channel)
        assert first is second


def test_kombus_own_makes_one_each_time(redis: Redis, valkey: ValkeyServer) -> None:
    with Connection(valkey.url, transport="kombu.transport.redis:Transport") as connection:
        first, second = clients_of(connection.channel())
        assert first is not second


def test_after_a_lost_connection_a_channel_takes_another_client(redis: Redis, valkey: ValkeyServer) -> None:
    with Connection(valkey.url) as connection:
        channel = connection.channel()
        lost, _ = clients_of(channel)
        channel._disconnect_pools()
        with channel.conn_or_acquire() as client:
            assert client is not lost
            assert client.ping()


def test_the_name_of_the_broker_stays_that_of_its_url() -> None:
    assert Connection("redis://127.0.0.1:1/3").as_uri().startswith("redis://")


def test_every_event_arrives_and_many_share_one_message(stack: Stack, celery: Celery[Any]) -> None:
    """Three events for each task: received, started, succeeded."""
    seen: Counter[str] = Counter()
    ended = threading.Event()
    server = Redis.from_url(stack.environ["BROKER_URL"])
    with celery.connection() as connection:
        receiver = celery.events.Receiver(
            connection, handlers={"*": lambda event: seen.update([str(event["type"])])}
        )

        def listen() -> None:
            while not ended.is_set():
                try:
                    receiver.capture(limit=None, timeout=0.5, wakeup=False)
                except TimeoutError:
                    continue

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            wait_until(lambda: server.pubsub_numpat() + len(server.pubsub_channels()) > 0, "the listener")
            before = published(server)
            for _ in range(TASKS):
                celery.send_task(
                    CANARY_TASK, kwargs={"queue": "records"}, queue="records", ignore_result=True
                )
            wait_until(lambda: seen["task-succeeded"] == TASKS, "the last event")
            messages = published(server) - before
        finally:
            ended.set()
            listener.join()
            server.close()
    assert (seen["task-received"], seen["task-started"]) == (TASKS, TASKS)
    assert messages < TASKS / 2


def published(server: Redis) -> int:
    """Messages that the server has passed on so far."""
    return int(server.info("commandstats").get("cmdstat_publish", {"calls": 0})["calls"])
