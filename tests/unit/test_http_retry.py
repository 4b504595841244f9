"""How long to wait, and what is worth another try."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import responses
from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.structures import CaseInsensitiveDict

from tests.conftest import FakeClock, make_settings
from workers.clock import Budget
from workers.errors import BudgetExceeded, FetchFailed
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.http.retry import (
    FREE,
    PAID,
    PAUSE_WITHOUT_HINT_S,
    SITE,
    TRACKER,
    RetryPolicy,
    pause_s,
    retry_after_s,
    wait_hint_s,
)

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
URL = "https://api.github.com/users/somebody"


def later(seconds: int) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        (later(120), 120),
        (later(-3600), 0),
        (later(3 * 86_400), 86_400),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 20, 86_400),
        ("9" * 400, 86_400),
        ("Thu, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
def test_every_way_to_say_later_is_read_capped_and_never_raises(text: str, wait: float | None) -> None:
    assert retry_after_s({"Retry-After": text}, NOW) == wait


def test_an_answer_without_a_hint_gives_none() -> None:
    assert retry_after_s({}, NOW) is None
    assert wait_hint_s({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "60"}, NOW) is None


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW.timestamp()) + 90)}, 90),
        ({"x-ratelimit-remaining": "0.0", "x-ratelimit-reset": "45"}, 45),
        ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": str(int(NOW.timestamp()) - 5)}, 0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "nan"}, None),
        ({"x-ratelimit-remaining": "0"}, None),
        ({"Retry-After": "3", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "45"}, 3),
    ],
)
def test_a_used_up_rate_limit_is_a_hint_as_a_moment_or_as_seconds(
    headers: dict[str, str], wait: float | None
) -> None:
    assert wait_hint_s(CaseInsensitiveDict(headers), NOW) == wait


USED_UP = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "45"}


@pytest.mark.parametrize(
    ("status", "headers", "heeds_used_up", "pause"),
    [
        (429, {"Retry-After": "120"}, False, 120),
        (429, {"Retry-After": later(120)}, False, 120),
        (429, {"Retry-After": later(-120)}, False, 0),
        (429, {"Retry-After": "soon"}, False, PAUSE_WITHOUT_HINT_S),
        (429, {}, False, PAUSE_WITHOUT_HINT_S),
        (429, {"Retry-After": "9" * 20}, False, 86_400),
        (403, {"Retry-After": "60"}, False, 60),
        (403, USED_UP, False, 45),
        (403, {}, True, 0),
        (503, {"Retry-After": "60"}, False, 60),
        (503, {}, True, 0),
        (500, {"Retry-After": "60"}, True, 0),
        (301, {"Retry-After": "60"}, True, 0),
        (200, {"Retry-After": "60"}, True, 0),
        (200, USED_UP, True, 45),
        (200, USED_UP, False, 0),
        (200, {**USED_UP, "x-ratelimit-remaining": "1"}, True, 0),
    ],
)
def test_what_makes_everybody_pause(
    status: int, headers: dict[str, str], heeds_used_up: bool, pause: float
) -> None:
    assert pause_s(status, CaseInsensitiveDict(headers), NOW, heeds_used_up=heeds_used_up) == pause


def fetch(
    clock: FakeClock, policy: RetryPolicy = FREE, *, budget_s: float = 300, calls: list[int] | None = None
) -> Response:
    client = OutboundClient(make_settings(), clock)
    request = Request(source="github", url=URL, destination=Destination.SERVICE, retry=policy)
    counted = [] if calls is None else calls
    return client.fetch(request, Budget.of(clock, budget_s), lambda: counted.append(1))


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
@responses.activate
def test_a_free_source_is_tried_three_times_with_growing_waits(status: int, clock: FakeClock) -> None:
    responses.get(URL, status=status)
    calls: list[int] = []
    assert fetch(clock, calls=calls).status == status
    assert clock.waits == [0.8, 1.6]
    assert len(calls) == len(responses.calls) == 3


@pytest.mark.parametrize("status", [200, 301, 400, 401, 404, 410, 501])
@responses.activate
def test_an_answer_that_would_not_change_is_asked_for_once(status: int, clock: FakeClock) -> None:
    responses.get(URL, status=status)
    assert fetch(clock).status == status
    assert len(responses.calls) == 1


@responses.activate
def test_a_connection_that_breaks_is_tried_again_and_the_good_answer_is_returned(clock: FakeClock) -> None:
    responses.get(URL, body=RequestsConnectionError("reset"))
    responses.get(URL, json={"login": "somebody"})
    assert fetch(clock).json() == {"login": "somebody"}
    assert clock.waits == [0.8]


@responses.activate
def test_a_connection_that_keeps_breaking_fails_after_three_tries(clock: FakeClock) -> None:
    responses.get(URL, body=RequestsConnectionError("reset"))
    with pytest.raises(FetchFailed) as caught:
        fetch(clock)
    assert caught.value.reason == "connection_failed"
    assert len(responses.calls) == 3


@responses.activate
def test_a_paid_source_is_asked_once_whatever_it_says(clock: FakeClock) -> None:
    responses.get(URL, status=429, headers={"Retry-After": "1"})
    assert fetch(clock, PAID).status == 429
    assert clock.waits == []
    assert len(responses.calls) == 1


@responses.activate
def test_a_short_hint_replaces_the_own_wait(clock: FakeClock) -> None:
    responses.get(URL, status=429, headers={"Retry-After": "12"})
    responses.get(URL, status=200)
    assert fetch(clock).status == 200
    assert clock.waits == [12]


@pytest.mark.parametrize(("hint", "wait"), [("soon", 0.8), ("Mon, 05 Jan 2026 00:00:00 GMT", 0)])
@responses.activate
def test_an_unreadable_hint_means_the_own_wait_and_a_past_one_none(
    hint: str, wait: float, clock: FakeClock
) -> None:
    responses.get(URL, status=503, headers={"Retry-After": hint})
    responses.get(URL, status=200)
    assert fetch(clock).status == 200
    assert clock.waits == [wait]


@pytest.mark.parametrize(("hint", "retry_in_s"), [("120", 120), ("9" * 20, 86_400)])
@responses.activate
def test_a_long_hint_ends_the_attempt_and_is_handed_on(
    hint: str, retry_in_s: float, clock: FakeClock
) -> None:
    responses.get(URL, status=429, headers={"Retry-After": hint})
    with pytest.raises(FetchFailed) as caught:
        fetch(clock)
    assert (caught.value.reason, caught.value.retry_in_s) == ("rate_limited", retry_in_s)
    assert clock.waits == []
    assert len(responses.calls) == 1


@responses.activate
def test_a_long_maintenance_keeps_its_status_as_the_reason(clock: FakeClock) -> None:
    responses.get(URL, status=503, headers={"Retry-After": "3600"})
    with pytest.raises(FetchFailed) as caught:
        fetch(clock)
    assert (caught.value.reason, caught.value.retry_in_s) == ("http_503", 3600)


@responses.activate
def test_a_refusal_that_says_when_to_come_back_is_a_rate_limit(clock: FakeClock) -> None:
    responses.get(URL, status=403, headers={"Retry-After": "60"})
    with pytest.raises(FetchFailed) as caught:
        fetch(clock)
    assert (caught.value.reason, caught.value.retry_in_s) == ("rate_limited", 60)


@responses.activate
def test_a_hint_beyond_the_remaining_time_ends_the_attempt(clock: FakeClock) -> None:
    responses.get(URL, status=429, headers={"Retry-After": "10"})
    with pytest.raises(FetchFailed) as caught:
        fetch(clock, budget_s=5)
    assert caught.value.retry_in_s == 10
    assert clock.waits == []


@responses.activate
def test_when_the_time_does_not_allow_the_own_wait_the_last_answer_stands(clock: FakeClock) -> None:
    responses.get(URL, status=503)
    assert fetch(clock, budget_s=1).status == 503
    assert clock.waits == [0.8]


@responses.activate
def test_without_time_nothing_is_asked(clock: FakeClock) -> None:
    with pytest.raises(BudgetExceeded):
        fetch(clock, budget_s=0)
    assert len(responses.calls) == 0


@responses.activate
def test_a_stop_ends_the_wait_between_tries(clock: FakeClock) -> None:
    responses.get(URL, status=503)
    budget = Budget.of(clock, 60)
    budget.stop.set()
    client = OutboundClient(make_settings(), clock)
    with pytest.raises(BudgetExceeded):
        client.fetch(Request(source="github", url=URL, destination=Destination.SERVICE), budget)
    assert len(responses.calls) == 1


@responses.activate
def test_a_site_that_refuses_is_asked_once_more_and_no_third_time(clock: FakeClock) -> None:
    responses.get(URL, status=403)
    assert fetch(clock, SITE).status == 403
    assert len(responses.calls) == 2


@responses.activate
def test_the_tracker_waits_one_and_two_seconds_and_takes_no_hints(clock: FakeClock) -> None:
    responses.get(URL, status=599, headers={"Retry-After": "25"})
    assert fetch(clock, TRACKER).status == 599
    assert clock.waits == [1, 2]
