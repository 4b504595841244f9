"""A consumer of the stream in a thread, on a real Redis, with the asking for tasks in the test's hands."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kombu import Connection, Producer
from redis import Redis

from devstack.sandbox.tokens import address_of
from tests.waiting import wait_until
from workers.clock import Clock
from workers.errors import BrokerUnavailable
from workers.social_recording.live import LiveRequests
from workers.social_recording.stream import StreamConsumer, TokenFlowIntake
from workers.social_recording.stream_broker import StreamBroker
from workers.social_recording.stream_pulse import StreamPulse, stream_counts

QUEUE = "token.flow"
DEAD = "token.flow.dead"
THRESHOLD = 3


def flow(name: object, investors: object = THRESHOLD, **others: object) -> bytes:
    """A message about the token of that name."""
    return json.dumps(
        {"tokenAddress": address_of(str(name)), "totalInvestedAlphaFinders": investors, **others}
    ).encode()


def publish(url: str, *bodies: bytes, exchange: str = "", routing_key: str = QUEUE) -> None:
    """Publish as any program does that uses kombu with its defaults."""
    with Connection(url) as connection, connection.channel() as channel:
        producer = Producer(channel)
        for body in bodies:
            producer.publish(
                body,
                exchange=exchange,
                routing_key=routing_key,
                content_type="application/json",
                content_encoding="utf-8",
                retry=False,
            )


class Requests(LiveRequests):
    """Notes which tokens were asked for; takes none while `is_away`. `before` is told of each."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_away = False
        self.refused = 0
        self.before: Callable[[str], None] = lambda _: None

    def ask_for(self, address: str) -> None:
        if self.is_away:
            self.refused += 1
            raise BrokerUnavailable("the broker did not take the task")
        self.before(address)
        self.asked.append(address)


class StreamPlace:
    """See the module docstring."""

    def __init__(self, redis: Redis, url: str) -> None:
        self.redis, self.url = redis, url
        self.requests = Requests()
        self.ending = threading.Event()

    def consumer(
        self,
        *,
        kind: type[StreamConsumer] = StreamConsumer,
        prefetch: int = 4,
        redeliver_after_s: int = 60,
        dead_letters_max: int = 1000,
        repeat_after_s: int = 300,
    ) -> StreamConsumer:
        """A consumer that asks this place's `requests`."""
        clock = Clock()
        broker = StreamBroker(
            self.url,
            queue=QUEUE,
            redeliver_after_s=redeliver_after_s,
            dead_letters_max=dead_letters_max,
        )
        intake = TokenFlowIntake(
            self.redis, self.requests, threshold=THRESHOLD, repeat_after_s=repeat_after_s
        )
        return kind(
            broker=broker,
            intake=intake,
            pulse=StreamPulse(self.redis, clock),
            clock=clock,
            prefetch=prefetch,
            ending=self.ending,
        )

    @contextmanager
    def running(self, consumer: StreamConsumer) -> Iterator[None]:
        """Let the consumer run for the body, and end it as a signal would."""
        errors: list[BaseException] = []

        def run() -> None:
            try:
                consumer.run()
            except BaseException as exc:
                errors.append(exc)
                raise

        thread = threading.Thread(target=run, name="stream")
        thread.start()
        try:
            yield
        finally:
            self.ending.set()
            thread.join(20)
            assert not thread.is_alive()
            assert errors == []
            self.ending.clear()

    def waiting(self) -> int:
        """How many messages lie in the queue."""
        return int(self.redis.llen(QUEUE))

    def in_hand(self) -> int:
        """How many messages a consumer has and has not acknowledged."""
        return int(self.redis.hlen(f"converge:stream:{QUEUE}:unacked"))

    def counts(self) -> Counter[str]:
        """How many messages met which fate."""
        return Counter(stream_counts(self.redis))

    def is_dealt_with(self) -> bool:
        """Whether no message is in the queue, on its way or in hand; asked in the order of its way."""
        return (
            self.waiting() == 0
            and self.redis.keys(f"converge:stream:{QUEUE}:taken:*") == []
            and self.in_hand() == 0
        )

    def wait_until_dealt_with(self, *, timeout_s: float = 10) -> None:
        """Wait until no message is left to deal with."""
        wait_until(self.is_dealt_with, "all messages are dealt with", timeout_s=timeout_s)


def seconds_of(action: Callable[[], None]) -> float:
    """How long something takes."""
    started = time.monotonic()
    action()
    return time.monotonic() - started
