"""How many calls the threads of one client have open at a time, with slots and without."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.conftest import FakeClock, make_settings
from tests.integration.http_site import Send, Site, page
from tests.waiting import wait_until
from workers.clock import Budget, Clock
from workers.errors import BudgetExceeded
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request
from workers.http.retry import PAID
from workers.http.slots import CallSlots

SLOTS = 2
THREADS = 5


class Doorman:
    """A page that lets nobody go before it is told to, and counts who stands there."""

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0
        self.may_go = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, site: Site, path: str, send: Send) -> None:
        with self._lock:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
        self.may_go.wait(10)
        with self._lock:
            self.waiting -= 1
        page(b"ok")(site, path, send)


@pytest.fixture
def doorman() -> Doorman:
    return Doorman()


@pytest.fixture
def site(doorman: Doorman) -> Iterator[Site]:
    server = Site()
    server.pages["/a"] = doorman
    yield server
    doorman.may_go.set()
    server.close()


def ask(client: OutboundClient, site: Site, *, budget_s: float = 10) -> int:
    request = Request(source="test", url=f"{site.url}/a", destination=Destination.SERVICE, retry=PAID)
    return client.fetch(request, Budget.of(Clock(), budget_s)).status


def client_for(site: Site, slots: CallSlots | None) -> OutboundClient:
    return OutboundClient(make_settings(tracker_base_url=site.url), Clock(), slots=slots)


def test_no_more_calls_are_open_than_there_are_slots_and_all_are_made(site: Site, doorman: Doorman) -> None:
    client = client_for(site, CallSlots(SLOTS))
    with ThreadPoolExecutor(THREADS) as pool:
        answers = [pool.submit(ask, client, site) for _ in range(THREADS)]
        wait_until(lambda: doorman.waiting == SLOTS, "the slots are taken")
        doorman.may_go.set()
        assert [answer.result() for answer in answers] == [200] * THREADS
    assert doorman.most == SLOTS


def test_without_slots_every_thread_calls(site: Site, doorman: Doorman) -> None:
    client = client_for(site, None)
    with ThreadPoolExecutor(THREADS) as pool:
        answers = [pool.submit(ask, client, site) for _ in range(THREADS)]
        wait_until(lambda: doorman.waiting == THREADS, "all of them call")
        doorman.may_go.set()
        assert [answer.result() for answer in answers] == [200] * THREADS


def test_who_gets_no_slot_in_time_makes_no_call(site: Site, doorman: Doorman) -> None:
    client = client_for(site, CallSlots(1))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, client, site)
        wait_until(lambda: doorman.waiting == 1, "the slot is taken")
        with pytest.raises(BudgetExceeded):
            ask(client, site, budget_s=0.2)
        doorman.may_go.set()
        assert first.result() == 200
    assert len(site.requests) == 1


def test_a_call_that_fails_gives_its_slot_back() -> None:
    slots = CallSlots(1)
    budget = Budget.of(Clock(), 10)
    with pytest.raises(ConnectionError), slots.hold(budget):
        raise ConnectionError
    with slots.hold(Budget.of(Clock(), 0.1)):
        pass


class LateSlots(CallSlots):
    """A slot that is free after a while only."""

    def __init__(self, clock: FakeClock, wait_s: float) -> None:
        super().__init__(1)
        self.clock = clock
        self.wait_s = wait_s

    @contextmanager
    def hold(self, budget: Budget) -> Iterator[None]:
        self.clock.advance(self.wait_s)
        with super().hold(budget):
            yield


class LatePermits:
    """Permits that come after a while, and the time for which each was asked to hold its place."""

    def __init__(self, clock: FakeClock, wait_s: float) -> None:
        self.clock = clock
        self.wait_s = wait_s
        self.open_s: list[float] = []

    @contextmanager
    def permit(
        self, source: str, url: str, budget: Budget, *, open_s: float, wait_max_s: float | None
    ) -> Iterator[None]:
        self.open_s.append(open_s)
        self.clock.advance(self.wait_s)
        yield

    def pause(self, source: str, url: str, wait_s: float | None) -> None:
        """Nobody is asked to wait here."""


def test_a_permit_holds_its_place_for_the_whole_call_however_long_a_slot_was_waited_for(
    site: Site, doorman: Doorman, clock: FakeClock
) -> None:
    doorman.may_go.set()
    settings = make_settings(tracker_base_url=site.url, http_total_timeout_ms=20_000)
    permits = LatePermits(clock, wait_s=25)
    client = OutboundClient(settings, clock, limiter=permits, slots=LateSlots(clock, wait_s=32))
    request = Request(source="test", url=f"{site.url}/a", destination=Destination.SERVICE, retry=PAID)
    # The wait for the permit is not the call's own time either: it is made, and has all of its time.
    assert client.fetch(request, Budget.of(clock, 300)).status == 200
    assert permits.open_s == [20]
