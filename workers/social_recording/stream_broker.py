"""Where live messages come from: a queue on Redis or RabbitMQ, and all that differs between the two.

                                        Redis                                     RabbitMQ
    a message in the hands of a dead
    consumer comes again                after `redeliver_after_s`                 at once
    malformed messages are bounded      by cutting their list after each          by a property of their queue
    a message between the two           lies in a list of the connection          is the server's business
    an item that kombu did not write    becomes a message like any other          does not exist
    a broker that fell silent           is noticed by commands that time out      is noticed by its heartbeat

It owns connections, queues and acknowledgements, and decides nothing about a message. Invariant: a message is
gone from the broker only when it was acknowledged, or buried among the malformed ones; it may come twice.
"""

from __future__ import annotations

import base64
import logging
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty
from typing import Any, cast

from kombu import Connection, Consumer, Producer, Queue
from kombu.message import Message
from kombu.transport import pyamqp
from kombu.transport import redis as kombu_redis
from kombu.utils.json import loads
from redis import Redis

from workers.errors import RetryableError

log = logging.getLogger(__name__)

DEAD_SUFFIX = ".dead"
CONNECT_TIMEOUT_S = 3
# A broker that takes longer for one command is taken for gone.
COMMAND_TIMEOUT_S = 5
CLOSE_TIMEOUT_S = 2
HEARTBEAT_S = 20
RESTORED_AT_ONCE_MAX = 1000
BURIED_BODY_MAX_BYTES = 65_536
NOT_FOUND = 404
REDIS_SCHEMES = ("redis://", "rediss://")
# What RabbitMQ answers when a queue that is full takes nothing more.
REFUSED: type[Exception] = pyamqp.amqp.exceptions.MessageNacked  # type: ignore[attr-defined]
# What reading an envelope that a stranger wrote may raise; kombu's reader builds values that it names.
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)


class StreamAway(RetryableError):
    """The broker of the stream cannot be reached or does not answer; what was in hand comes again."""


class LiveMessage:
    """One message in our hands; `body` is as it came."""

    def __init__(self, message: Message, *, is_undecodable: bool = False) -> None:
        self._message = message
        self.is_undecodable = is_undecodable

    @property
    def body(self) -> bytes:
        """What the publisher sent."""
        body: Any = self._message.body
        if isinstance(body, str):
            return body.encode(errors="surrogatepass")
        return bytes(body or b"")

    def acknowledge(self) -> None:
        """Let the broker forget it."""
        self._message.ack()


class StreamBroker:
    """The queue of live messages and the one of the malformed ones; see the module docstring."""

    def __init__(self, url: str, *, queue: str, redeliver_after_s: int, dead_letters_max: int) -> None:
        self.queue = queue
        self.dead_letters_max = dead_letters_max
        self._url = url
        self.is_redis = url.startswith(REDIS_SCHEMES)
        self._options = _redis_options(queue, redeliver_after_s) if self.is_redis else _amqp_options(url)

    @property
    def dead_queue(self) -> str:
        """Where malformed messages lie."""
        return self.queue + DEAD_SUFFIX

    @contextmanager
    def session(self, prefetch: int) -> Iterator[StreamSession]:
        """Consume with at most `prefetch` messages in hand; what is in hand at the end goes back.

        Raises `StreamAway`, also out of the body.
        """
        options: dict[str, Any] = (
            {"transport": RedisTransport} if self.is_redis else {"heartbeat": HEARTBEAT_S}
        )
        connection = Connection(
            self._url, connect_timeout=CONNECT_TIMEOUT_S, transport_options=self._options, **options
        )
        session = StreamSession(connection, self, prefetch)
        try:
            session.begin()
            yield session
        finally:
            session.close()


class StreamSession:
    """One connection that consumes. For one thread."""

    def __init__(self, connection: Connection, broker: StreamBroker, prefetch: int) -> None:
        self._connection = connection
        self._broker = broker
        self._prefetch = prefetch
        self._arrived: deque[LiveMessage] = deque()
        self._channel: Any = None
        self._dead_channel: Any = None
        self._errors = (*connection.connection_errors, *connection.channel_errors)

    def begin(self) -> None:
        """Connect, make queues that are missing, and consume."""
        with self._driver_errors():
            self._connection.connect()
            bound = {"x-max-length": self._broker.dead_letters_max, "x-overflow": "drop-head"}
            self._declare(self._broker.queue)
            self._declare(self._broker.dead_queue, bound)
            self._channel = self._connection.channel()
            if self._broker.is_redis:
                # Before the first message, or the list that it is moved into would be nobody's.
                self._channel.keep_taken()
            consumer = Consumer(
                self._channel,
                queues=[Queue(self._broker.queue, no_declare=True)],
                auto_declare=False,
                on_message=lambda message: self._arrived.append(LiveMessage(message)),
                on_decode_error=lambda message, _: self._arrived.append(
                    LiveMessage(message, is_undecodable=True)
                ),
                prefetch_count=self._prefetch,
            )
            consumer.consume()

    def drain(self, timeout_s: float) -> list[LiveMessage]:
        """The messages that arrive next; none when none does within `timeout_s`."""
        with self._driver_errors(), suppress(TimeoutError):
            self._connection.drain_events(timeout=timeout_s)
        arrived = list(self._arrived)
        self._arrived.clear()
        return arrived

    def acknowledge(self, message: LiveMessage) -> None:
        """Let the broker forget a message that was dealt with."""
        with self._driver_errors():
            message.acknowledge()

    def bury(self, message: LiveMessage, *, reason: str, field: str, at: str) -> None:
        """Put a message that nobody can use among the malformed ones, and let the queue forget it."""
        with self._driver_errors():
            if self._dead_channel is None:
                self._dead_channel = self._connection.channel()
            try:
                Producer(self._dead_channel).publish(
                    message.body[:BURIED_BODY_MAX_BYTES],
                    exchange="",
                    routing_key=self._broker.dead_queue,
                    content_type="application/octet-stream",
                    content_encoding="binary",
                    delivery_mode=2,
                    headers={"converge-reason": reason, "converge-field": field, "converge-at": at},
                    retry=False,
                )
            except REFUSED:
                # Somebody made the queue of the malformed ones so. Waiting would keep all others waiting.
                log.warning("a malformed message could not be kept", extra={"queue": self._broker.dead_queue})
            if self._broker.is_redis:
                with self._dead_channel.conn_or_acquire() as client:
                    client.ltrim(self._broker.dead_queue, 0, self._broker.dead_letters_max - 1)
        self.acknowledge(message)

    def keep_up(self) -> int:
        """Do what a consumer owes its broker, every few seconds; return how many messages wait."""
        with self._driver_errors():
            if self._broker.is_redis:
                # kombu does it by itself only when the queue is empty.
                self._channel.qos.restore_visible(num=RESTORED_AT_ONCE_MAX, interval=1)
                self._channel.keep_taken()
            self._connection.heartbeat_check()
            return self._waiting()

    def close(self) -> None:
        """End the connection. The broker has all messages again that were not acknowledged."""
        driver: Any = self._connection.connection if self._connection.connected else None
        if driver is not None and not self._broker.is_redis and getattr(driver, "sock", None) is not None:
            # RabbitMQ confirms the end, unless it hangs.
            driver.sock.settimeout(CLOSE_TIMEOUT_S)
        with suppress(*self._errors):
            if self._channel is not None:
                self._channel.close()
        with suppress(*self._errors):
            self._connection.close()

    def _declare(self, name: str, arguments: dict[str, object] | None = None) -> None:
        """Take the queue as whoever made it wanted it, or make it."""
        channel: Any
        try:
            with self._connection.channel() as channel:
                channel.queue_declare(name, passive=True)
        except self._connection.channel_errors as exc:
            if int(getattr(exc, "reply_code", None) or 0) != NOT_FOUND:
                raise
            with self._connection.channel() as channel:
                channel.queue_declare(name, durable=True, auto_delete=False, arguments=arguments)

    def _waiting(self) -> int:
        # A list of Redis that is empty does not exist.
        answer = self._channel.queue_declare(self._broker.queue, passive=not self._broker.is_redis)
        return int(answer.message_count)

    @contextmanager
    def _driver_errors(self) -> Iterator[None]:
        try:
            yield
        except self._errors as exc:
            raise StreamAway(f"the broker of the stream is away: {type(exc).__name__}") from exc


class RedisChannel(kombu_redis.Channel):
    """kombu's channel, for one queue that others than kombu fill as well, and that may lose nothing.

    kombu pops a message and notes afterwards that it has it; a death of either side in between loses it. Here
    Redis moves it into a list of this connection, where it stays until it is noted. The lists of connections
    that are gone are emptied back into the queue by any other. The order within the queue is the only one:
    priorities are not looked at.
    """

    from_transport_options = (*kombu_redis.Channel.from_transport_options, "stream_queue", "stream_keys")
    stream_queue = stream_keys = ""
    connection_errors: tuple[type[Exception], ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._taker = str(uuid.uuid4())

    @property
    def _takers_key(self) -> str:
        return f"{self.stream_keys}:takers"

    def _alive_key(self, taker: str) -> str:
        return f"{self.stream_keys}:taker:{taker}"

    def _taken_key(self, taker: str) -> str:
        return f"{self.stream_keys}:taken:{taker}"

    def _brpop_start(self, timeout: int | None = None) -> None:
        """Ask for the next message, without waiting for the answer."""
        if not self.active_queues:
            return
        connection = self.client.connection
        self._in_poll, self._brpop_sent_at = connection, time.monotonic()
        wait_s = timeout or self.brpop_timeout
        connection.send_command(
            "BLMOVE", self.stream_queue, self._taken_key(self._taker), "RIGHT", "LEFT", wait_s
        )

    def _brpop_read(self, **options: Any) -> bool:
        """Deliver the message that was asked for. Raises `Empty` when there was none."""
        try:
            try:
                item = self.client.parse_response(self.client.connection, "BLMOVE", **options)
            except self.connection_errors:
                self.client.connection.disconnect()
                raise
        finally:
            self._in_poll = None
        if item is None:
            raise Empty
        # It is noted in there.
        self.connection._deliver(in_envelope(item, self.stream_queue), self.stream_queue)
        with self.conn_or_acquire() as client:
            client.lrem(self._taken_key(self._taker), 1, item)
        return True

    def close(self) -> None:
        """Wait for the answer that is under way, then give back everything."""
        try:
            if self.active_queues and not self.closed:
                if self._in_poll:
                    with suppress(Empty):
                        self._brpop_read()
                with self.conn_or_acquire() as client:
                    self._give_back_taken(client, self._taker)
                    client.delete(self._alive_key(self._taker))
        finally:
            super().close()

    def keep_taken(self) -> None:
        """Say that this connection lives, and give back what those have left that do not any more."""
        with self.conn_or_acquire() as client:
            with client.pipeline() as pipe:
                pipe.set(self._alive_key(self._taker), "1", ex=self.visibility_timeout)
                pipe.sadd(self._takers_key, self._taker)
                pipe.execute()
            takers = cast(set[bytes], client.smembers(self._takers_key))
            for taker in map(bytes.decode, takers):
                if not client.exists(self._alive_key(taker)):
                    self._give_back_taken(client, taker)

    def _give_back_taken(self, client: Redis, taker: str) -> None:
        while client.lmove(self._taken_key(taker), self.stream_queue, "LEFT", "RIGHT") is not None:
            pass
        client.srem(self._takers_key, taker)


class RedisTransport(kombu_redis.Transport):
    """kombu's transport with that channel."""

    Channel = RedisChannel


def in_envelope(item: bytes, queue: str) -> dict[str, Any]:
    """The item as a message of kombu's in this queue; one that is none becomes the body of one.

    Each gets a tag of its own, because two with one tag would be acknowledged together. Of a message that
    came by an exchange the way is forgotten: whatever is given back goes back to this queue.
    """
    way = {"delivery_tag": str(uuid.uuid4()), "delivery_info": {"exchange": "", "routing_key": queue}}
    try:
        envelope: dict[str, Any] = loads(item)
        properties = envelope["properties"]
        body, headers = envelope["body"], envelope.get("headers") or {}
        if not isinstance(body, str) or not isinstance(headers, dict):
            raise TypeError("no message")
        encoding = properties.get("body_encoding")
        if encoding == "base64":
            base64.b64decode(body)
        elif encoding not in (None, "utf-8"):
            raise ValueError("no encoding of kombu's")
        envelope |= {"headers": headers, "properties": {**properties, **way}}
    except UNREADABLE:
        return {
            "body": base64.b64encode(item).decode(),
            "content-type": "application/octet-stream",
            "content-encoding": "binary",
            "headers": {},
            "properties": {"body_encoding": "base64", "delivery_mode": 2, "priority": 0, **way},
        }
    else:
        return envelope


def _redis_options(queue: str, redeliver_after_s: int) -> dict[str, object]:
    """With own names for what is in hand: workers on the same server give theirs back by other times."""
    keys = f"converge:stream:{queue}"
    return {
        "visibility_timeout": redeliver_after_s,
        "stream_queue": queue,
        "stream_keys": keys,
        "unacked_key": f"{keys}:unacked",
        "unacked_index_key": f"{keys}:unacked-index",
        "unacked_mutex_key": f"{keys}:unacked-mutex",
        "unacked_mutex_expire": CONNECT_TIMEOUT_S + COMMAND_TIMEOUT_S,
        "unacked_restore_limit": RESTORED_AT_ONCE_MAX,
        "socket_timeout": COMMAND_TIMEOUT_S,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_keepalive": True,
        "health_check_interval": COMMAND_TIMEOUT_S,
        "client_name": "converge-stream",
    }


def _amqp_options(url: str) -> dict[str, object]:
    if not url.startswith("amqp"):
        return {}
    return {
        # What is buried is acknowledged only when RabbitMQ has it.
        "confirm_publish": True,
        "read_timeout": COMMAND_TIMEOUT_S,
        "write_timeout": COMMAND_TIMEOUT_S,
        "client_properties": {"connection_name": "converge-stream"},
    }
