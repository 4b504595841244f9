"""A token in work belongs to one worker: for as long as the work takes, and no longer."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.recording_place import (
    OwnGenerator,
    RecordingPlace,
    failed_url,
    new_site,
    place,
    sandbox,
)
from workers.clock import Clock
from workers.leases import LeaseStore
from workers.social_graph.token import RetryableURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.live import LiveRecording
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.recording import TokenOutcome, token_lease
from workers.social_recording.routing import Route
from workers.social_recording.url_collection import graph_of_route

__all__ = ["place", "sandbox"]

TTL_MS = 2000
WORK_S = 7.0


class SlowSource(OwnGenerator):
    """Begins to answer and waits until it may go on."""

    def __init__(self) -> None:
        super().__init__(show=self._show)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def _show(self, way: Route) -> SocialObjectGraph:
        self.begun.set()
        assert self.may_end.wait(30)
        return graph_of_route(way, Clock().now())


@contextmanager
def in_work(source: SlowSource, work: Callable[[], Any]) -> Iterator[Future[Any]]:
    """Inside, `work` has begun and waits for its source."""
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(work)
        try:
            assert source.begun.wait(10)
            yield begun
        finally:
            source.may_end.set()


def second_worker(place: RecordingPlace) -> RecordingPlace:
    """Another worker over the same stores, with leases of its own."""
    return RecordingPlace(place.redis, place.database, place.sandbox)


def refusals_until(place: RecordingPlace, address: str, is_over: Callable[[], bool]) -> int:
    """Ask for the token once a second until the work on it is over; count how often that was refused."""
    count = 0
    while not is_over():
        assert place.recorder.record(address).outcome is TokenOutcome.LOCKED_OUT
        count += 1
        threading.Event().wait(1.0)
    return count


def test_work_of_three_times_the_lease_keeps_the_token_and_the_next_one_gets_in_right_after(
    place: RecordingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    """The twin below shows that the time to live would not have sufficed."""
    source, other = SlowSource(), second_worker(place)
    place.rebuild(generator=source, token_lease_ttl_ms=TTL_MS)
    [address] = place.list_tokens({"website": new_site()})
    with in_work(source, lambda: place.recorder.record(address)) as first:
        started = time.monotonic()
        count = refusals_until(other, address, lambda: time.monotonic() - started >= WORK_S)
        source.may_end.set()
        assert first.result(timeout=10).outcome is TokenOutcome.RECORDED
    place.leases.write_behind.flush(5.0)
    assert count > WORK_S / 2
    assert other.recorder.record(address).outcome is TokenOutcome.ALREADY_SEEN
    assert not [each for each in caplog.records if "lease" in each.getMessage()]
    other.close()


def test_without_renewal_a_second_worker_would_be_at_the_token_at_the_same_time(
    place: RecordingPlace,
) -> None:
    class Unrenewed(LeaseStore):
        """Lets every lease run out."""

        def renew(self, lease: object) -> None:
            """Do nothing."""

    source, other = SlowSource(), second_worker(place)
    place.rebuild(generator=source, leases=Unrenewed(place.redis, place.clock), token_lease_ttl_ms=TTL_MS)
    other.rebuild(generator=OwnGenerator())
    [address] = place.list_tokens({"website": new_site()})
    with (
        in_work(source, lambda: place.recorder.record(address)) as first,
        other.leases.hold(token_lease(address), ttl_ms=TTL_MS, wait_s=10),
    ):
        assert not first.done()
    other.close()


def candidate_of(address: str, url: str) -> RetryableURL:
    return RetryableURL(
        address=address,
        symbol=None,
        first_transfer_at=None,
        url=url,
        status=FetchStatus.ERROR,
        attempts=1,
        attempted_at=None,
    )


def test_a_token_that_the_stream_records_is_in_nobody_elses_hands(place: RecordingPlace) -> None:
    source, url, other = SlowSource(), new_site(), second_worker(place)
    place.rebuild(generator=source)
    [address] = place.list_tokens({"website": url})
    with in_work(source, lambda: LiveRecording(place.recorder).record(address)):
        assert other.retrier.retry(candidate_of(address, url)) == {"outcome": "lockedOut"}
        assert other.recorder.record(address).outcome is TokenOutcome.LOCKED_OUT
    assert place.element(address)["status"] == "ok"
    other.close()


def test_a_token_that_is_retried_is_left_alone_by_the_stream(
    place: RecordingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    source, other = SlowSource(), second_worker(place)
    place.rebuild(generator=source)
    address = place.store_token(failed_url(new_site()))
    candidate = place.candidate(address)
    calls = place.sandbox.client.calls().total
    with in_work(source, lambda: place.retrier.retry(candidate)) as retried:
        with caplog.at_level(logging.INFO, logger="workers.social_recording.live"):
            LiveRecording(other.recorder).record(address)
        source.may_end.set()
        assert retried.result(timeout=10)["status"] == "ok"
    [said] = [each for each in caplog.records if each.name == "workers.social_recording.live"]
    assert vars(said)["outcome"] == TokenOutcome.LOCKED_OUT
    assert place.sandbox.client.calls().total == calls
    other.close()
