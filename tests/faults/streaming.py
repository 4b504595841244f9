"""A consumer of the stream in a process that kills itself at a chosen moment of its first message."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from enum import StrEnum

from tests.conftest import make_settings
from tests.forks import FORKS
from workers.services import open_stream
from workers.social_recording.live import LiveRequests
from workers.social_recording.stream import StreamConsumer
from workers.social_recording.stream_broker import LiveMessage, StreamSession

CHILD_TIMEOUT_S = 30
SETTINGS = ("BROKER_URL", "RESULT_BACKEND_URL", "REDIS_URL")


class Moment(StrEnum):
    """When the child dies."""

    BEFORE_THE_TASK = "before the task is published"
    AFTER_THE_TASK = "after the task was published, before the message is acknowledged"


class DyingRequests(LiveRequests):
    """Asks for a token and dies, or dies instead."""

    def __init__(self, real: LiveRequests, moment: Moment) -> None:
        self._real = real
        self._moment = moment

    def ask_for(self, address: str) -> None:
        if self._moment is Moment.AFTER_THE_TASK:
            self._real.ask_for(address)
        os.kill(os.getpid(), signal.SIGKILL)


def _acknowledge_first(consumer: StreamConsumer) -> None:
    """What a consumer does that has its messages acknowledged as they come."""
    deal_with = consumer._deal_with

    def deal_with_acknowledged(session: StreamSession, message: LiveMessage) -> object:
        session.acknowledge(message)
        return deal_with(session, message)

    consumer._deal_with = deal_with_acknowledged  # type: ignore[method-assign,assignment]


def _consume(environ: Mapping[str, str], moment: Moment, is_acknowledged_first: bool) -> None:
    settings = make_settings(**{name.lower(): environ[name] for name in SETTINGS})
    consumer = open_stream(settings, threading.Event())
    consumer._intake._requests = DyingRequests(consumer._intake._requests, moment)
    if is_acknowledged_first:
        _acknowledge_first(consumer)
    consumer.run()


def consume_and_die(
    environ: Mapping[str, str], moment: Moment, *, is_acknowledged_first: bool = False
) -> None:
    """Let a child consume until it has killed itself."""
    child = FORKS.Process(target=_consume, args=(dict(environ), moment, is_acknowledged_first))
    child.start()
    child.join(CHILD_TIMEOUT_S)
    status = child.exitcode
    if status is None:
        child.kill()
        child.join()
    child.close()
    assert status == -signal.SIGKILL, f"the child ended with {status}"
