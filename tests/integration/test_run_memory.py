"""The memory of paid runs, in a real server."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from devstack.ports import LOOPBACK
from workers.errors import RetryableError
from workers.social_recording.generators.apify.runs import KEY_PREFIX, RedisRunMemory, RunNote

BEGUN = RunNote(begun_at=datetime(2026, 1, 15, 12, 0, 0, 123_000, tzinfo=UTC))
STARTED = RunNote(begun_at=BEGUN.begun_at, run_id="oZlOTbfIWlqY5ePF6")


def test_a_note_is_there_for_every_worker_until_it_expires(redis: Redis) -> None:
    RedisRunMemory(redis).keep("actor url", BEGUN, ttl_s=60)
    other = RedisRunMemory(redis)
    assert other.recall("actor url") == BEGUN
    assert other.recall("actor another-url") is None
    (key,) = redis.keys(f"{KEY_PREFIX}*")
    assert 0 < redis.ttl(key) <= 60


def test_a_newer_note_takes_the_place_and_the_time_to_live_of_the_older_one(redis: Redis) -> None:
    memory = RedisRunMemory(redis)
    memory.keep("actor url", BEGUN, ttl_s=1000)
    memory.keep("actor url", STARTED, ttl_s=10)
    assert memory.recall("actor url") == STARTED
    (key,) = redis.keys(f"{KEY_PREFIX}*")
    assert 0 < redis.ttl(key) <= 10


def test_what_is_forgotten_is_gone(redis: Redis) -> None:
    memory = RedisRunMemory(redis)
    memory.keep("actor url", STARTED, ttl_s=60)
    memory.forget("actor url")
    memory.forget("actor url")
    assert memory.recall("actor url") is None


@pytest.mark.parametrize("text", ["", "words", "[]", "7", "{}", '{"begun_at": "soon", "run_id": null}'])
def test_a_note_that_nobody_can_read_is_none(redis: Redis, text: str) -> None:
    memory = RedisRunMemory(redis)
    memory.keep("actor url", STARTED, ttl_s=60)
    (key,) = redis.keys(f"{KEY_PREFIX}*")
    redis.set(key, text)
    assert memory.recall("actor url") is None


def test_a_store_that_is_away_is_said_to_be_away(caplog: pytest.LogCaptureFixture) -> None:
    # Nothing listens on the discard port of this machine.
    away = Redis(host=LOOPBACK, port=9, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))
    memory = RedisRunMemory(away)
    with pytest.raises(RetryableError):
        memory.recall("actor url")
    with pytest.raises(RetryableError):
        memory.keep("actor url", BEGUN, ttl_s=60)
    with caplog.at_level(logging.WARNING):
        memory.forget("actor url")
    assert "could not be forgotten" in caplog.text
    away.close()
