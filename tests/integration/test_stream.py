"""The consumer of the live stream on a real Redis: what it asks for, what it buries, what it gives back."""

from __future__ import annotations

import base64
import json
import logging
import threading

import pytest
from kombu import Connection, Exchange
from kombu import Queue as KombuQueue
from redis import Redis

from devstack.sandbox.tokens import address_of
from devstack.valkey import ValkeyServer
from tests.integration.stream_place import DEAD, QUEUE, StreamPlace, flow, publish, seconds_of
from tests.waiting import wait_until
from workers.social_recording.stream import ASKED_KEY, StreamConsumer
from workers.social_recording.stream_broker import LiveMessage, RedisChannel, StreamBroker, StreamSession
from workers.social_recording.stream_pulse import host_name, live_consumers, stream_counts


@pytest.fixture
def place(redis: Redis, valkey: ValkeyServer) -> StreamPlace:
    return StreamPlace(redis, valkey.url)


def buried(redis: Redis) -> list[tuple[str, str, bytes]]:
    """Reason, field and body of each malformed message, the oldest first."""
    envelopes = [json.loads(raw) for raw in reversed(redis.lrange(DEAD, 0, -1))]
    return [
        (
            each["headers"]["converge-reason"],
            each["headers"]["converge-field"],
            base64.b64decode(each["body"]),
        )
        for each in envelopes
    ]


def test_a_token_with_enough_investors_is_asked_for_once(place: StreamPlace) -> None:
    with place.running(place.consumer()):
        publish(place.url, flow("a", 2), flow("b", 3), flow("c", 300), flow("b", 4), flow("a", 1))
        place.wait_until_dealt_with()
    assert place.requests.asked == [address_of("b"), address_of("c")]
    assert place.counts() == {"asked": 2, "belowThreshold": 2, "repeated": 1}
    assert place.redis.exists(DEAD) == 0


def test_a_token_is_asked_for_again_when_the_time_is_over(place: StreamPlace) -> None:
    with place.running(place.consumer(repeat_after_s=300)):
        publish(place.url, flow("a"))
        place.wait_until_dealt_with()
        assert 290 < place.redis.ttl(ASKED_KEY + address_of("a")) <= 300
        place.redis.delete(ASKED_KEY + address_of("a"))
        publish(place.url, flow("a"))
        place.wait_until_dealt_with()
    assert len(place.requests.asked) == 2


def test_poison_between_good_messages_is_buried_and_keeps_nobody_waiting(
    place: StreamPlace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    poison = [
        b"no json: the-secret",
        b"\x80\x04\x95 a pickle",
        b"[]",
        flow("x", "many"),
        flow("x", None),
        json.dumps({"totalInvestedAlphaFinders": 9}).encode(),
        json.dumps({"tokenAddress": "the-secret", "totalInvestedAlphaFinders": 9}).encode(),
    ]
    good = [flow(number) for number in range(len(poison))]
    with place.running(place.consumer(prefetch=1)):
        publish(place.url, *(each for pair in zip(poison, good, strict=True) for each in pair))
        place.wait_until_dealt_with()
    assert place.requests.asked == [address_of(str(number)) for number in range(len(good))]
    assert place.counts() == {"asked": 7, "malformed": 7}
    assert buried(place.redis) == [
        ("not_json", "body", poison[0]),
        ("not_json", "body", poison[1]),
        ("no_object", "body", poison[2]),
        ("wrong_type", "totalInvestedAlphaFinders", poison[3]),
        ("wrong_type", "totalInvestedAlphaFinders", poison[4]),
        ("missing", "tokenAddress", poison[5]),
        ("no_public_key", "tokenAddress", poison[6]),
    ]
    told = [record for record in caplog.records if record.message == "a message of the stream is malformed"]
    assert [record.__dict__["reason"] for record in told] == [reason for reason, _, _ in buried(place.redis)]
    assert not any("the-secret" in str(record.__dict__) for record in caplog.records)


def test_items_that_kombu_did_not_write_are_read_or_buried_like_all_others(place: StreamPlace) -> None:
    """A plain LPUSH is enough to publish, and whatever else lies in the list stops nothing."""
    garbage = [b"\xff\x00", b"{}", b'{"properties": {"delivery_tag": "x"}}', b'{"body": "x"}', b"7", b""]
    with place.running(place.consumer()):
        for number, item in enumerate(garbage):
            place.redis.lpush(QUEUE, item)
            place.redis.lpush(QUEUE, flow(number))
        place.wait_until_dealt_with()
    assert place.requests.asked == [address_of(str(number)) for number in range(len(garbage))]
    assert [body for _, _, body in buried(place.redis)] == garbage


def test_malformed_messages_are_bounded_and_the_oldest_go_first(place: StreamPlace) -> None:
    with place.running(place.consumer(dead_letters_max=5)):
        publish(place.url, *(b"poison %d" % number for number in range(12)))
        place.wait_until_dealt_with()
    assert [body for _, _, body in buried(place.redis)] == [b"poison %d" % number for number in range(7, 12)]
    assert place.counts() == {"malformed": 12}


def test_a_message_that_came_by_an_exchange_is_taken_and_can_be_given_back(place: StreamPlace) -> None:
    with Connection(place.url) as connection:
        KombuQueue(QUEUE, Exchange("flows", "direct"), routing_key="token.moved")(
            connection.channel()
        ).declare()
    publish(place.url, flow("a"), exchange="flows", routing_key="token.moved")
    place.requests.is_away = True
    with place.running(place.consumer()):
        wait_until(lambda: place.requests.refused, "it is in hand")
    assert (place.waiting(), place.in_hand()) == (1, 0)
    place.requests.is_away = False
    with place.running(place.consumer()):
        place.wait_until_dealt_with()
    assert place.requests.asked == [address_of("a")]


def test_while_no_task_can_be_published_messages_wait_and_then_all_go_on(place: StreamPlace) -> None:
    place.requests.is_away = True
    with place.running(place.consumer(prefetch=4)):
        publish(place.url, *(flow(number) for number in range(10)), b"poison")
        wait_until(lambda: place.in_hand() == 4, "it holds as many as it may")
        wait_until(lambda: place.requests.refused >= 2, "it tries again")
        assert place.waiting() == 7, "the others wait"
        assert place.counts() == {}
        place.requests.is_away = False
        place.wait_until_dealt_with()
    assert place.requests.asked == [address_of(str(number)) for number in range(10)], "in order"
    assert place.counts() == {"asked": 10, "malformed": 1}


def test_what_is_in_hand_at_the_end_goes_back_to_the_queue(place: StreamPlace) -> None:
    place.requests.is_away = True
    with place.running(place.consumer(prefetch=4)):
        publish(place.url, *(flow(number) for number in range(6)))
        wait_until(lambda: place.in_hand() == 4, "it holds some")
        took_s = seconds_of(lambda: end(place))
    assert took_s < 3
    assert (place.waiting(), place.in_hand()) == (6, 0)
    assert left_behind(place.redis) == []


def end(place: StreamPlace) -> None:
    place.ending.set()
    wait_until(lambda: place.in_hand() == 0, "all is given back")


def left_behind(redis: Redis) -> list[bytes]:
    """What a consumer that has ended must not leave."""
    keys = [key for key in redis.keys("converge:stream:*") if isinstance(key, bytes)]
    return [key for key in keys if not key.startswith((ASKED_KEY.encode(), b"converge:stream:counts"))]


def test_a_message_in_work_is_finished_before_the_end(place: StreamPlace) -> None:
    began, may_go_on = threading.Event(), threading.Event()

    def hold(_: str) -> None:
        began.set()
        assert may_go_on.wait(10)

    place.requests.before = hold
    with place.running(place.consumer()):
        publish(place.url, flow("a"), flow("b"))
        assert began.wait(10)
        place.ending.set()
        may_go_on.set()
    assert place.requests.asked == [address_of("a")]
    assert (place.waiting(), place.in_hand()) == (1, 0)
    assert place.counts() == {"asked": 1}


def test_losing_the_marks_costs_a_second_task_and_nothing_else(place: StreamPlace) -> None:
    with place.running(place.consumer()):
        publish(place.url, flow("a"))
        place.wait_until_dealt_with()
        for key in place.redis.keys(ASKED_KEY + "*"):
            place.redis.delete(key)
        publish(place.url, flow("a"))
        place.wait_until_dealt_with()
    assert place.requests.asked == [address_of("a")] * 2


def test_a_living_consumer_is_seen_with_what_waits_and_a_gone_one_is_not(place: StreamPlace) -> None:
    place.requests.is_away = True
    publish(place.url, *(flow(number) for number in range(3)))
    with place.running(place.consumer(prefetch=1)):
        [consumer] = wait_until(lambda: live_consumers(place.redis, host_name()), "it is alive")
        assert consumer.name.startswith(f"{host_name()}:")
        assert (consumer.waiting, consumer.held) == (3, 0)
        assert live_consumers(place.redis, "another-host") == []
    assert live_consumers(place.redis, host_name()) == []
    assert stream_counts(place.redis) == {}


def broker_of(place: StreamPlace, redeliver_after_s: int = 1) -> StreamBroker:
    return StreamBroker(place.url, queue=QUEUE, redeliver_after_s=redeliver_after_s, dead_letters_max=10)


def drained(session: StreamSession, *, turns: int) -> list[bytes]:
    """The bodies of what arrives within some turns of upkeep and looking."""
    found: list[LiveMessage] = []
    for _ in range(turns):
        session.keep_up()
        found += session.drain(0.2)
    return [message.body for message in found]


class DiesBeforeNoting(RedisChannel):
    """Takes what Redis hands out and is gone before it has noted that it has it."""

    def _brpop_read(self, **options: object) -> bool:
        self.client.parse_response(self.client.connection, "BLMOVE", **options)
        raise ConnectionError("gone")

    def close(self) -> None:
        """A dead process closes nothing."""
        self._disconnect_pools()
        self._close_clients()


class PopsAndDies(DiesBeforeNoting):
    """The same without the list in between: kombu's own way."""

    def _brpop_start(self, timeout: int | None = None) -> None:
        connection = self.client.connection
        self._in_poll = connection
        connection.send_command("BRPOP", self.stream_queue, 1)

    def _brpop_read(self, **options: object) -> bool:
        self.client.parse_response(self.client.connection, "BRPOP", **options)
        raise ConnectionError("gone")


def take_and_die(place: StreamPlace, channel: type[RedisChannel], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("workers.social_recording.stream_broker.RedisTransport.Channel", channel)
        session = broker_of(place).session(1)
        living = session.__enter__()
        with pytest.raises(Exception, match="away"):
            living.drain(5)
        living._connection._connection = None


def test_a_message_that_was_handed_out_and_not_noted_comes_again(
    place: StreamPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.redis.lpush(QUEUE, b"precious")
    take_and_die(place, DiesBeforeNoting, monkeypatch)
    assert place.waiting() == 0
    with broker_of(place).session(1) as session:
        assert drained(session, turns=12) == [b"precious"]


def test_popping_it_would_lose_it(place: StreamPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the above."""
    place.redis.lpush(QUEUE, b"precious")
    take_and_die(place, PopsAndDies, monkeypatch)
    assert place.waiting() == 0
    with broker_of(place).session(1) as session:
        assert drained(session, turns=12) == []


def test_a_living_consumer_keeps_what_it_has_been_handed(place: StreamPlace) -> None:
    place.redis.lpush(QUEUE, b"mine")
    with broker_of(place, redeliver_after_s=60).session(1) as first:
        [message] = first.drain(5)
        with broker_of(place, redeliver_after_s=60).session(1) as second:
            assert drained(second, turns=5) == []
        first.acknowledge(message)
    assert (place.waiting(), place.in_hand()) == (0, 0)


class AcknowledgesFirst(StreamConsumer):
    """Lets the broker forget each message before anything is done about it."""

    def _deal_with(self, session: StreamSession, message: LiveMessage) -> object:  # type: ignore[override]
        session.acknowledge(message)
        message.acknowledge = lambda: None  # type: ignore[method-assign]
        return super()._deal_with(session, message)


@pytest.mark.parametrize(("kind", "comes_again"), [(StreamConsumer, True), (AcknowledgesFirst, False)])
def test_only_a_message_that_is_acknowledged_last_survives_a_task_that_nobody_took(
    place: StreamPlace, kind: type[StreamConsumer], comes_again: bool
) -> None:
    place.requests.is_away = True
    publish(place.url, flow("a"))
    with place.running(place.consumer(kind=kind)):
        wait_until(lambda: place.requests.refused, "it was tried")
    place.requests.is_away = False
    with place.running(place.consumer()):
        place.wait_until_dealt_with()
    assert bool(place.requests.asked) is comes_again
