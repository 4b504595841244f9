"""The tracker's client against a real server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.conftest import FakeClock, make_settings
from workers.clock import Budget
from workers.errors import UpstreamFailed
from workers.http.client import OutboundClient
from workers.social_recording.tracker import TrackerClient

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 2, tzinfo=UTC)


class FakeTracker:
    """Answers each call with what the test put in line, the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes] | None] = []
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.released = threading.Event()
        tracker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                headers = {name.lower(): value for name, value in self.headers.items()}
                tracker.requests.append((self.command, self.path, headers, body))
                answer = tracker.answers[min(len(tracker.requests), len(tracker.answers)) - 1]
                if answer is None:
                    tracker.released.wait(20)
                    self.close_connection = True
                    return
                self.send_response(answer[0])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer[1])))
                self.end_headers()
                self.wfile.write(answer[1])

            def log_message(self, format: str, *args: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/base"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def tracker() -> Iterator[FakeTracker]:
    server = FakeTracker()
    yield server
    server.close()


def client_of(tracker: FakeTracker, clock: FakeClock, timeout_ms: int = 5000) -> TrackerClient:
    settings = make_settings(
        tracker_base_url=tracker.url,
        tracker_timeout_ms=timeout_ms,
        social_record_af_group_ids=("7", "12"),
    )
    return TrackerClient(OutboundClient(settings, clock), settings)


def test_the_list_is_asked_for_with_range_groups_and_key(tracker: FakeTracker, clock: FakeClock) -> None:
    tracker.answers = [(200, b'{"data": [], "meta": {"total": 0}}')]
    assert client_of(tracker, clock).tokens_in_range(START, END, Budget.of(clock, 60)) == []
    method, path, headers, _ = tracker.requests[0]
    assert (method, urlsplit(path).path) == ("GET", "/base/api/v1/tokens")
    assert parse_qs(urlsplit(path).query) == {
        "startDate": ["2026-01-01T00:00:00.000Z"],
        "endDate": ["2026-01-02T00:00:00.000Z"],
        "groupIds": ["7,12"],
    }
    assert headers["x-api-key"] == "tracker-key"


def test_one_token_is_asked_for_by_its_address(tracker: FakeTracker, clock: FakeClock) -> None:
    tracker.answers = [(200, b'{"data": [{"tokenAddress": "So1", "investorCount": 4}]}')]
    info = client_of(tracker, clock).token_by_address("So1", Budget.of(clock, 60))
    assert info is not None
    assert (info.address, info.investor_count) == ("So1", 4)
    method, path, headers, body = tracker.requests[0]
    assert (method, path) == ("POST", "/base/api/v1/tokens/by-addresses")
    assert json.loads(body) == {"addresses": ["So1"]}
    assert headers["x-api-key"] == "tracker-key"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_tracker_that_keeps_failing_is_tried_three_times(
    tracker: FakeTracker, clock: FakeClock, status: int
) -> None:
    tracker.answers = [(status, b"{}")]
    with pytest.raises(UpstreamFailed, match=str(status)):
        client_of(tracker, clock).tokens_in_range(START, END, Budget.of(clock, 60))
    assert len(tracker.requests) == 3
    assert clock.waits == [1, 2]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 302])
def test_an_answer_that_would_not_change_is_asked_for_once(
    tracker: FakeTracker, clock: FakeClock, status: int
) -> None:
    tracker.answers = [(status, b"{}")]
    with pytest.raises(UpstreamFailed):
        client_of(tracker, clock).token_by_address("So1", Budget.of(clock, 60))
    assert len(tracker.requests) == 1
    assert clock.waits == []


def test_a_tracker_that_hangs_once_is_asked_again(tracker: FakeTracker, clock: FakeClock) -> None:
    tracker.answers = [None, (200, b"[]")]
    assert client_of(tracker, clock, 200).tokens_in_range(START, END, Budget.of(clock, 60)) == []
    assert clock.waits == [1]


def test_a_tracker_that_hangs_for_good_fails_after_three_time_limits(
    tracker: FakeTracker, clock: FakeClock
) -> None:
    tracker.answers = [None]
    with pytest.raises(UpstreamFailed) as caught:
        client_of(tracker, clock, 200).tokens_in_range(START, END, Budget.of(clock, 60))
    assert "tracker-key" not in str(caught.value)
    assert len(tracker.requests) == 3


def test_a_tracker_that_refuses_connections_is_tried_three_times(
    tracker: FakeTracker, clock: FakeClock
) -> None:
    client = client_of(tracker, clock)
    tracker.close()
    with pytest.raises(UpstreamFailed):
        client.tokens_in_range(START, END, Budget.of(clock, 60))
    assert clock.waits == [1, 2]
