"""The two kinds of broker without a server: what is asked of each, and what is made of foreign items."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kombu import Connection, Producer
from kombu.transport import memory
from kombu.transport.virtual import Message

from workers.social_recording import stream_broker
from workers.social_recording.stream_broker import StreamBroker, in_envelope

QUEUE, DEAD = "token.flow", "token.flow.dead"


class MemoryChannel(memory.Channel):
    """kombu's in-memory channel; notes what is declared."""

    declared: dict[str, Any] = {}  # noqa: RUF012 - one for all channels, as the queues are

    def queue_declare(self, queue: str | None = None, passive: bool = False, **kwargs: Any) -> Any:
        answer = super().queue_declare(queue, passive, **kwargs)
        if not passive:
            self.declared[str(queue)] = kwargs
        return answer


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamBroker]:
    """A broker on kombu's memory transport, which goes the way of RabbitMQ."""
    monkeypatch.setattr(memory.Transport, "Channel", MemoryChannel)
    memory.Channel.queues.clear()
    MemoryChannel.declared.clear()
    yield StreamBroker("memory://", queue=QUEUE, redeliver_after_s=60, dead_letters_max=7)
    memory.Channel.queues.clear()


def put(*bodies: bytes, **headers: str) -> None:
    with Connection("memory://") as connection, connection.channel() as channel:
        for body in bodies:
            Producer(channel).publish(
                body, routing_key=QUEUE, content_type="text/plain", content_encoding="binary", headers=headers
            )


def waiting(queue: str) -> int:
    return memory.Channel.queues[queue].qsize() if queue in memory.Channel.queues else 0


def test_missing_queues_are_made_durable_and_the_malformed_ones_are_bounded(broker: StreamBroker) -> None:
    with broker.session(1):
        pass
    assert MemoryChannel.declared[QUEUE] == {"durable": True, "auto_delete": False, "arguments": None}
    assert MemoryChannel.declared[DEAD]["arguments"] == {"x-max-length": 7, "x-overflow": "drop-head"}


def test_a_queue_that_is_there_is_taken_as_it_is(broker: StreamBroker) -> None:
    put(b"first")
    with broker.session(1):
        pass
    assert QUEUE not in MemoryChannel.declared


def test_messages_arrive_up_to_the_prefetch_and_more_after_acknowledging(broker: StreamBroker) -> None:
    put(*(b"%d" % number for number in range(5)))
    with broker.session(2) as session:
        held = [message for _ in range(5) for message in session.drain(0.01)]
        assert [message.body for message in held] == [b"0", b"1"]
        session.acknowledge(held[0])
        [third] = session.drain(0.01)
        assert third.body == b"2"
        assert session.keep_up() == 2


def test_a_malformed_message_is_buried_with_its_reason_and_a_bounded_body(broker: StreamBroker) -> None:
    put(b"x" * (stream_broker.BURIED_BODY_MAX_BYTES + 5))
    with broker.session(1) as session:
        [message] = session.drain(0.01)
        session.bury(message, reason="too_large", field="body", at="2026-01-15T12:00:00.000Z")
        assert session.drain(0.01) == []
    assert (waiting(QUEUE), waiting(DEAD)) == (0, 1)
    buried = memory.Channel.queues[DEAD].get()
    assert buried["headers"] == {
        "converge-reason": "too_large",
        "converge-field": "body",
        "converge-at": "2026-01-15T12:00:00.000Z",
    }
    assert len(base64.b64decode(buried["body"])) == stream_broker.BURIED_BODY_MAX_BYTES


def test_a_malformed_message_that_nobody_keeps_is_let_go_instead_of_blocking_the_queue(
    broker: StreamBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(b"poison", b"good")

    def refuse(self: MemoryChannel, queue: str, message: Any, **_: Any) -> None:
        raise stream_broker.REFUSED

    monkeypatch.setattr(MemoryChannel, "_put", refuse)
    with broker.session(1) as session:
        [message] = session.drain(0.01)
        session.bury(message, reason="not_json", field="body", at="2026-01-15T12:00:00.000Z")
        [following] = session.drain(0.01)
    assert following.body == b"good"
    assert "a malformed message could not be kept" in caplog.messages


def test_a_body_that_cannot_be_unpacked_arrives_as_undecodable(broker: StreamBroker) -> None:
    put(b"not packed at all", compression="gzip")
    with broker.session(1) as session:
        [message] = session.drain(0.01)
        assert message.is_undecodable
        assert message.body == b"not packed at all"


def test_rabbitmq_confirms_what_is_buried_and_beats_while_it_is_silent() -> None:
    broker = StreamBroker("amqp://u:p@127.0.0.1:9//", queue=QUEUE, redeliver_after_s=1, dead_letters_max=1)
    assert broker._options["confirm_publish"] is True
    assert not broker.is_redis
    assert "stream_keys" not in broker._options


@pytest.mark.parametrize("url", ["redis://127.0.0.1:9/0", "rediss://127.0.0.1:9/0?ssl_cert_reqs=required"])
def test_redis_keeps_what_is_in_hand_under_names_of_the_streams_own(url: str) -> None:
    broker = StreamBroker(url, queue=QUEUE, redeliver_after_s=5, dead_letters_max=1)
    assert broker.is_redis
    assert broker._options["visibility_timeout"] == 5
    names = [name for key, name in broker._options.items() if key.startswith("unacked_") and "_key" in key]
    assert len(names) == 3
    assert all(str(name).startswith("converge:stream:token.flow:") for name in names)


class Channel:
    """What a message of kombu's asks of its channel."""

    def decode_body(self, body: str, encoding: str | None = None) -> Any:
        return base64.b64decode(body) if encoding == "base64" else body


def opened(item: bytes) -> Message:
    """The item as kombu hands it out."""
    return Message(in_envelope(item, QUEUE), channel=Channel())


def as_kombu(**changes: Any) -> dict[str, Any]:
    return {
        "body": base64.b64encode(b"the body").decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"a": "b"},
        "properties": {
            "delivery_tag": "their-tag",
            "body_encoding": "base64",
            "delivery_info": {"exchange": "flows", "routing_key": "somewhere.else"},
            "priority": 3,
        },
        **changes,
    }


def test_a_message_of_kombu_keeps_its_body_and_headers_and_goes_back_to_this_queue() -> None:
    message = opened(json.dumps(as_kombu()).encode())
    assert (message.body, message.headers) == (b"the body", {"a": "b"})
    assert message.delivery_info == {"exchange": "", "routing_key": QUEUE}


def test_each_item_has_a_tag_of_its_own_even_when_it_was_published_twice() -> None:
    item = json.dumps(as_kombu()).encode()
    assert opened(item).delivery_tag != opened(item).delivery_tag


@pytest.mark.parametrize(
    "item",
    [
        b"",
        b"plain text",
        b"\xff\xfe",
        b"null",
        b"7",
        b'"text"',
        b"[]",
        b'{"tokenAddress": "x", "totalInvestedAlphaFinders": 1}',
        b'{"properties": 1, "body": ""}',
        json.dumps(as_kombu(body=None)).encode(),
        json.dumps(as_kombu(body=5)).encode(),
        json.dumps(as_kombu(body="no base64: \u20ac")).encode(),
        json.dumps(as_kombu(headers=[1])).encode(),
        json.dumps(as_kombu(properties={"body_encoding": "rot13"})).encode(),
        json.dumps(as_kombu(headers={"x": {"__type__": "none", "__value__": 1}})).encode(),
        json.dumps(as_kombu(headers={"x": {"__type__": "datetime", "__value__": "never"}})).encode(),
        b"[" * 100_000,
    ],
)
def test_an_item_that_kombu_did_not_write_becomes_the_body_of_a_message(item: bytes) -> None:
    message = opened(item)
    assert (message.body or b"") == item
    assert message.delivery_info == {"exchange": "", "routing_key": QUEUE}
    assert message.errors == []


@given(st.binary(max_size=100))
def test_no_bytes_keep_the_queue_from_being_read(item: bytes) -> None:
    assert (opened(item).body or b"") == item


def test_an_envelope_without_headers_can_be_given_back() -> None:
    """kombu marks what it gives back in the headers, and would drop a message that has none."""
    assert in_envelope(json.dumps(as_kombu(headers=None)).encode(), QUEUE)["headers"] == {}
