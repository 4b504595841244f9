"""Permits around calls: given back, refused without a trace, and paused for everybody."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from devstack.ports import free_port
from devstack.valkey import ValkeyServer
from tests.conftest import FakeClock
from tests.integration.http_site import Page, Send, Site, head, page, redirect, stream
from tests.integration.limited_client import (
    ONE_AN_HOUR,
    ONE_AT_ONCE,
    PLENTY,
    TWO_AT_ONCE,
    ask,
    client_for,
    is_free,
    refusal,
    take,
)
from tests.integration.permit_takers import (
    SOURCE,
    URL,
    Taking,
    die_with_a_permit,
    limiter_of,
)
from workers.clock import Budget, Clock
from workers.errors import BudgetExceeded, ConvergeError, FetchFailed
from workers.http.client import OutboundClient
from workers.http.messages import Destination, LargeBody, Redirects, Request
from workers.http.retry import FREE
from workers.source_limits import Rate, SourceLimit


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    yield server
    server.close()


# --- permits are given back


EXITS: dict[str, tuple[Page, dict[str, Any]]] = {
    "answer": (page(b"{}"), {}),
    "error status": (page(b"no", 500), {}),
    "redirect": (redirect("/end"), {}),
    "redirect that is refused": (redirect("https://elsewhere.example.com/"), {}),
    "redirect to an inside address": (redirect("http://10.0.0.5/"), {"redirects": Redirects.ANYWHERE}),
    "broken connection": (stream(b"", lambda _: iter(())), {}),
    "body that is too large": (page(bytes(5000)), {"body_max_bytes": 2000}),
    "body that is cut": (page(bytes(5000)), {"body_max_bytes": 2000, "large_body": LargeBody.CUT}),
    "body that is no gzip": (page(b"no gzip", Content_Encoding="gzip"), {}),
    "no answer in time": (stream(b"", lambda site: iter([b""] if site.closing.wait(20) else [])), {}),
    "header that cannot be sent": (page(b"{}"), {"headers": {"X-Key": "a\nb"}}),
}


@pytest.mark.parametrize("how", EXITS)
def test_a_permit_is_given_back_however_the_call_ends(site: Site, redis: Redis, how: str) -> None:
    site.pages["/a"], changes = EXITS[how]
    site.pages["/end"] = page(b"{}")
    client = client_for(site, limiter_of(redis, {SOURCE: ONE_AT_ONCE}), http_read_timeout_ms=200)
    with contextlib.suppress(ConvergeError):
        ask(client, f"{site.url}/a", **changes)
    assert is_free(redis)


def test_a_permit_is_given_back_when_the_caller_fails_in_between(site: Site, redis: Redis) -> None:
    client = client_for(site, limiter_of(redis, {SOURCE: ONE_AT_ONCE}))

    def failing() -> None:
        raise RuntimeError

    request = Request(source=SOURCE, destination=Destination.SERVICE, url=f"{site.url}/a")
    with pytest.raises(RuntimeError):
        client.fetch(request, Budget.of(Clock(), 5), failing)
    assert is_free(redis)


def test_a_worker_that_died_with_a_permit_blocks_its_place_for_the_time_of_a_call_only(
    valkey: ValkeyServer, redis: Redis
) -> None:
    limiter = limiter_of(redis, {SOURCE: TWO_AT_ONCE})
    with take(limiter, open_s=60):
        die_with_a_permit(Taking(redis_url=valkey.url, limit=TWO_AT_ONCE, for_s=1.0))
        refusal(limiter)
        started = time.monotonic()
        with take(limiter, wait_max_s=5):
            assert time.monotonic() - started < 3
            refusal(limiter)


def test_a_permit_that_expired_is_not_given_back_in_the_name_of_another(redis: Redis) -> None:
    limiter = limiter_of(redis, {SOURCE: ONE_AT_ONCE})
    late = take(limiter, open_s=0.01)
    late.__enter__()
    with take(limiter, wait_max_s=5):
        late.__exit__(None, None, None)
        refusal(limiter)


def test_giving_back_survives_a_store_that_went_away(tmp_path: Path) -> None:
    with ValkeyServer(tmp_path / "data") as server:
        limiter = limiter_of(Redis.from_url(server.url, retry=None), {SOURCE: ONE_AT_ONCE})
        permit = take(limiter)
        permit.__enter__()
    permit.__exit__(None, None, None)


# --- refused


def test_a_call_that_gets_no_permit_is_not_made_and_not_counted(site: Site, redis: Redis) -> None:
    site.pages["/a"] = page(b"{}")
    client = client_for(site, limiter_of(redis, {SOURCE: ONE_AN_HOUR}))
    calls: list[int] = []
    ask(client, f"{site.url}/a", calls=calls)
    with pytest.raises(FetchFailed) as caught:
        ask(client, f"{site.url}/a", calls=calls, retry=FREE)
    assert caught.value.reason == "rate_limited"
    assert caught.value.retry_in_s == pytest.approx(3600, abs=5)
    assert (len(calls), len(site.requests)) == (1, 1)


def test_each_hop_of_a_redirect_needs_a_permit(site: Site, redis: Redis) -> None:
    site.pages["/a"] = redirect("/b")
    site.pages["/b"] = page(b"{}")
    client = client_for(site, limiter_of(redis, {SOURCE: ONE_AN_HOUR}))
    calls: list[int] = []
    with pytest.raises(FetchFailed) as caught:
        ask(client, f"{site.url}/a", calls=calls)
    assert caught.value.reason == "rate_limited"
    assert len(calls) == len(site.requests) == 1


def test_a_wait_that_is_known_to_be_too_long_is_not_begun(redis: Redis) -> None:
    limiter, clock = limiter_of(redis, {SOURCE: ONE_AN_HOUR}), FakeClock()
    with take(limiter):
        pass
    error = refusal(limiter, budget=Budget.of(clock, 300), wait_max_s=30)
    assert (error.reason, clock.waits) == ("rate_limited", [])


@pytest.mark.parametrize(("budget_s", "wait_max_s", "waited_s"), [(300, 30, 30), (7, 30, 7), (300, 2, 2)])
def test_a_place_is_waited_for_within_the_budget_and_the_cap(
    redis: Redis, budget_s: float, wait_max_s: float, waited_s: float
) -> None:
    limiter, clock = limiter_of(redis, {SOURCE: ONE_AT_ONCE}), FakeClock()
    with take(limiter):
        error = refusal(limiter, budget=Budget.of(clock, budget_s), wait_max_s=wait_max_s)
    assert (error.reason, error.retry_in_s) == ("rate_limited", None)
    assert waited_s - 0.2 <= sum(clock.waits) <= waited_s


def test_a_stop_ends_the_wait(redis: Redis) -> None:
    limiter, clock = limiter_of(redis, {SOURCE: ONE_AT_ONCE}), FakeClock()
    budget = Budget.of(clock, 300)
    budget.stop.set()
    with take(limiter), pytest.raises(BudgetExceeded), take(limiter, budget=budget, wait_max_s=30):
        pass
    assert clock.waits == []


def test_a_wait_for_a_permit_does_not_use_up_the_time_of_the_call(site: Site, redis: Redis) -> None:
    def slow(site: Site, path: str, send: Send) -> None:
        site.closing.wait(0.15)
        page(b"{}")(site, path, send)

    site.pages["/a"] = slow
    limit = SourceLimit(rates=(Rate(calls=1, window_ms=800),))
    client = client_for(site, limiter_of(redis, {SOURCE: limit}), http_total_timeout_ms=700)
    started = time.monotonic()
    for _ in range(3):
        assert ask(client, f"{site.url}/a").status == 200
    assert time.monotonic() - started > 1.6


def test_without_the_store_a_source_with_a_limit_is_not_asked_and_one_without_is(site: Site) -> None:
    site.pages["/a"] = page(b"{}")
    away = Redis.from_url(f"redis://127.0.0.1:{free_port()}", retry=None)
    calls: list[int] = []
    with pytest.raises(FetchFailed) as caught:
        ask(client_for(site, limiter_of(away, {SOURCE: PLENTY})), f"{site.url}/a", calls=calls)
    assert (caught.value.reason, calls, site.requests) == ("lock_unavailable", [], [])
    ask(client_for(site, limiter_of(away, {SOURCE: SourceLimit()})), f"{site.url}/a", calls=calls)
    assert len(site.requests) == 1


# --- pauses


def other_worker(valkey: ValkeyServer, site: Site) -> OutboundClient:
    return client_for(site, limiter_of(Redis.from_url(valkey.url), {SOURCE: PLENTY}))


PAUSES = {
    "in seconds": (429, {"Retry_After": "120"}, 120),
    "no hint": (429, {}, 5),
    "a refusal with a hint": (403, {"Retry_After": "60"}, 60),
    "maintenance": (503, {"Retry_After": "90"}, 90),
    "a refusal of what is used up": (403, {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "300"}, 300),
    "the last good answer": (200, {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "300"}, 300),
}


@pytest.mark.parametrize("how", PAUSES)
def test_an_answer_that_asks_for_a_pause_is_heard_by_every_worker(
    valkey: ValkeyServer, redis: Redis, site: Site, how: str
) -> None:
    status, headers, retry_in_s = PAUSES[how]
    site.pages["/a"] = page(b"{}", status, **headers)
    first = client_for(site, limiter_of(redis, {SOURCE: PLENTY}))
    assert ask(first, f"{site.url}/a").status == status
    calls: list[int] = []
    with pytest.raises(FetchFailed) as caught:
        ask(other_worker(valkey, site), f"{site.url}/a", calls=calls, permit_wait_max_s=0)
    assert caught.value.reason == "rate_limited"
    assert caught.value.retry_in_s == pytest.approx(retry_in_s, abs=2)
    assert (calls, len(site.requests)) == ([], 1)


@pytest.mark.parametrize(
    ("status", "headers"),
    [(200, {}), (200, {"Retry_After": "60"}), (404, {}), (403, {}), (503, {}), (500, {"Retry_After": "60"})],
)
def test_other_answers_pause_nothing(
    valkey: ValkeyServer, redis: Redis, site: Site, status: int, headers: dict[str, str]
) -> None:
    site.pages["/a"] = page(b"{}", status, **headers)
    for client in (client_for(site, limiter_of(redis, {SOURCE: PLENTY})), other_worker(valkey, site)):
        assert ask(client, f"{site.url}/a", permit_wait_max_s=0).status == status


def test_twin_without_a_shared_limiter_the_other_worker_asks_all_the_same(site: Site) -> None:
    site.pages["/a"] = page(b"{}", 429, Retry_After="120")
    for _ in range(2):
        assert ask(client_for(site, None), f"{site.url}/a").status == 429
    assert len(site.requests) == 2


def test_after_a_short_pause_the_call_is_made(valkey: ValkeyServer, redis: Redis, site: Site) -> None:
    answers = iter([page(b"", 429, Retry_After="1"), page(b"{}")])

    def next_answer(site: Site, path: str, send: Send) -> None:
        next(answers)(site, path, send)

    site.pages["/a"] = next_answer
    started = time.monotonic()
    assert ask(client_for(site, limiter_of(redis, {SOURCE: PLENTY})), f"{site.url}/a").status == 429
    assert ask(other_worker(valkey, site), f"{site.url}/a").status == 200
    assert time.monotonic() - started >= 1


def test_a_pause_is_never_made_shorter(redis: Redis) -> None:
    limiter = limiter_of(redis, {SOURCE: PLENTY})
    limiter.pause(SOURCE, URL, 60)
    limiter.pause(SOURCE, URL, 1)
    assert refusal(limiter).retry_in_s == pytest.approx(60, abs=2)
    limiter.pause(SOURCE, URL, 90)
    assert refusal(limiter).retry_in_s == pytest.approx(90, abs=2)


def test_the_pause_of_one_site_leaves_others_alone(redis: Redis) -> None:
    limiter = limiter_of(redis, {"web": dataclasses.replace(PLENTY, is_per_host=True)})
    limiter.pause("web", "https://shop.example.com/a", 60)
    refusal(limiter, source="web", url="https://example.com/")
    with take(limiter, source="web", url="https://example.org/"):
        pass


def test_a_site_cannot_be_paused_by_a_count_that_means_something_else(redis: Redis, site: Site) -> None:
    limiter = limiter_of(redis, {SOURCE: PLENTY})
    client = client_for(site, limiter, http_site_relay_url=f"{site.url}/relay")
    site.pages["/relay"] = page(b"x", X_RateLimit_Remaining="0", X_RateLimit_Reset="3600")
    for _ in range(2):
        ask(client, "https://example.com/", destination=Destination.SITE, permit_wait_max_s=0)
    assert len(site.requests) == 2


def test_a_pause_that_cannot_be_noted_does_not_lose_the_answer(tmp_path: Path, site: Site) -> None:
    with ValkeyServer(tmp_path / "data") as server:
        client = client_for(site, limiter_of(Redis.from_url(server.url, retry=None), {SOURCE: PLENTY}))

        def answer(site: Site, path: str, send: Send) -> None:
            server.stop()
            send(head(429, Content_Length="0"))

        site.pages["/a"] = answer
        assert ask(client, f"{site.url}/a").status == 429
