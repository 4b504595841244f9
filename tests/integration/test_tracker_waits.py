"""How long a tracker that does not answer keeps a job: five seconds a try, about eighteen in all."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import requests
import responses

from tests.conftest import FakeClock, make_settings
from tests.integration.test_tracker import END, START, FakeTracker, client_of, tracker
from workers.clock import Budget
from workers.errors import UpstreamFailed
from workers.http.client import OutboundClient
from workers.social_recording.reconcile import LIST_BUDGET_S
from workers.social_recording.tracker import TrackerClient

__all__ = ["tracker"]

LIMIT_S = 5.0


def test_a_tracker_that_hangs_is_given_up_after_five_seconds_by_default(
    tracker: FakeTracker, clock: FakeClock
) -> None:
    assert make_settings().tracker_timeout_ms == LIMIT_S * 1000
    tracker.answers = [None, (200, b"[]")]
    started = time.monotonic()
    assert client_of(tracker, clock).tokens_in_range(START, END, Budget.of(clock, 60)) == []
    assert LIMIT_S <= time.monotonic() - started < 2 * LIMIT_S
    assert len(tracker.requests) == 2


@pytest.fixture
def hanging(clock: FakeClock) -> Iterator[TrackerClient]:
    """A client of a tracker that lets every call run into its limit."""

    def hang(_: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        clock.advance(LIMIT_S)
        raise requests.ReadTimeout("no answer")

    settings = make_settings(tracker_base_url="https://tracker.example.com")
    with responses.RequestsMock() as outside:
        outside.add_callback(responses.GET, "https://tracker.example.com/api/v1/tokens", callback=hang)
        yield TrackerClient(OutboundClient(settings, clock), settings)


def test_the_longest_wait_for_the_tracker_is_three_tries_and_the_two_pauses_between_them(
    hanging: TrackerClient, clock: FakeClock
) -> None:
    started = clock.monotonic()
    with pytest.raises(UpstreamFailed):
        hanging.tokens_in_range(START, END, Budget.of(clock, LIST_BUDGET_S))
    assert clock.waits == [1, 2]
    assert clock.monotonic() - started == pytest.approx(3 * LIMIT_S + 1 + 2)
