"""The work of the fan-outs that are compared: the calls alone, and the whole recording.

What `Script` does is what a person would write who wants each token's links looked up: a pool of threads and
the same client code, but no queue, no lease, no limits and no store.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from workers.celery_app import create_celery
from workers.clock import Budget, Clock
from workers.http.client import OutboundClient
from workers.jobs.messenger import CeleryMessenger
from workers.services import Services
from workers.settings import Settings, read_settings
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.recording import links_of
from workers.social_recording.routing import route
from workers.social_recording.tracker import TrackerClient

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
BUDGET_S = 120.0
RESULT_TIMEOUT_S = 180.0
# Where the processes of the other queues find the addresses of their databases.
CHORD_BROKER, CHORD_RESULTS, DRAMATIQ_BROKER = "BENCH_CHORD_BROKER", "BENCH_CHORD_RESULTS", "BENCH_DRAMATIQ"


class Script:
    """Looks links up with a pool of threads."""

    def __init__(self, settings: Settings) -> None:
        self._clock = Clock()
        http = OutboundClient(settings, self._clock)
        self._tracker = TrackerClient(http, settings)
        self._generators = Generators(http, settings)

    def addresses(self) -> list[str]:
        """The tokens of the range: one call to the tracker, as each job makes it."""
        budget = Budget.of(self._clock, BUDGET_S, threading.Event())
        return [token.address for token in self._tracker.tokens_in_range(START, END, budget)]

    def collect(self, address: str) -> int:
        """Ask for one token and for each of its links; return the number of links."""
        info = self._tracker.token_by_address(address, Budget.of(self._clock, BUDGET_S))
        if info is None:
            raise RuntimeError(f"the tracker does not know {address}")
        links, _ = links_of(info)
        return sum(bool(self.look_up(url).groups) for url in links)

    def look_up(self, url: str) -> SocialObjectGraph:
        """Ask what one link shows."""
        way = route(url)
        generator = self._generators.for_route(way, is_paid_enabled=False)
        if generator is None:
            raise RuntimeError(f"nobody can be asked about {url}")
        context = FetchContext(
            budget=Budget.of(self._clock, BUDGET_S),
            calls=CallCounter(),
            token_name=None,
            is_paid_enabled=False,
        )
        return generator.generate(way, context)

    def run(self, threads: int) -> int:
        """Collect the tokens of the range; return the number of links."""
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(self.collect, self.addresses()))

    def run_urls(self, urls: Sequence[str], threads: int) -> None:
        """Look links up."""
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self.look_up, urls))


@functools.cache
def _build_services() -> Services:
    settings = read_settings()
    return Services(settings, CeleryMessenger(create_celery(lambda: settings)), Clock())


_building = threading.Lock()


def services() -> Services:
    """The services of this process as a worker has them, built with the first call."""
    with _building:
        return _build_services()


def record(address: str) -> list[str]:
    """Record one token with the recorder of the workers; return how its links ended."""
    return [str(url["status"]) for url in services().recorder.record(address).urls]
