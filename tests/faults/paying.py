"""Asking a paid source in a process that dies at one of its calls, as a crash would end it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess

from redis import Redis

from tests.conftest import make_settings
from tests.forks import FORKS
from workers.clock import Budget, Clock
from workers.http.client import OutboundClient
from workers.social_recording.generators.apify.runs import RedisRunMemory
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.routing import route

NEVER = 1000


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where to find the memory of runs and the outside world."""

    redis_url: str
    outside: Mapping[str, str]


class KillAtCall(CallCounter):
    """Ends this process right before its `number`-th call."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def add(self) -> None:
        super().add()
        if self.calls == self._number:
            os.kill(os.getpid(), signal.SIGKILL)


def attempt(place: Place, url: str, *, dies_at: int = NEVER) -> SocialObjectGraph:
    """One attempt at `url` with paid calls on, in this process."""
    names = {name.lower(): value for name, value in place.outside.items()}
    settings = make_settings(apify_token="apify-secret", **names)
    clock = Clock()
    with Redis.from_url(place.redis_url) as redis:
        way = route(url)
        generators = Generators(OutboundClient(settings, clock), settings, RedisRunMemory(redis))
        generator = generators.for_route(way, is_paid_enabled=True)
        assert generator is not None
        context = FetchContext(budget=Budget.of(clock, 30), calls=KillAtCall(dies_at), is_paid_enabled=True)
        return generator.generate(way, context)


def _attempt(place: Place, url: str, dies_at: int) -> None:
    attempt(place, url, dies_at=dies_at)


def start_attempt(place: Place, url: str, *, dies_at: int = NEVER) -> ForkServerProcess:
    """One attempt in a process of its own."""
    child = FORKS.Process(target=_attempt, args=(place, url, dies_at))
    child.start()
    return child
