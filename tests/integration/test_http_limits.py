"""Permits to ask a source are counted for all workers together."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from devstack.valkey import ValkeyServer
from tests.conftest import make_settings
from tests.integration.http_site import Send, Site, page
from tests.integration.limited_client import (
    FIVE_IN_200_MS,
    ONE_AN_HOUR,
    ONE_AT_ONCE,
    PLENTY,
    TWO_AT_ONCE,
    ask,
    client_for,
    is_free,
    refusal,
    take,
    use_up,
)
from tests.integration.permit_takers import (
    SOURCE,
    URL,
    Taking,
    limiter_of,
    most_at_once,
    most_in_a_window,
    take_in_processes,
    take_in_threads,
)
from workers.errors import FetchFailed
from workers.http.limiter import KEY_PREFIX, SourceLimiter, accounts_of
from workers.social_recording.routing import registrable_domain
from workers.source_limits import Rate, SourceLimit


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    yield server
    server.close()


def test_threads_of_two_processes_never_exceed_a_rate_in_any_window(
    valkey: ValkeyServer, redis: Redis
) -> None:
    permits = take_in_processes(Taking(redis_url=valkey.url, limit=FIVE_IN_200_MS, for_s=1.5), processes=2)
    assert most_in_a_window(permits, 0.2) <= 5
    assert len(permits) >= 20, "the limit is used, not only kept"


def test_twin_threads_that_count_for_themselves_exceed_the_rate(valkey: ValkeyServer, redis: Redis) -> None:
    taking = Taking(redis_url=valkey.url, limit=FIVE_IN_200_MS, for_s=0.5, is_shared=False)
    assert most_in_a_window(take_in_processes(taking, processes=2), 0.2) > 5


def test_threads_of_two_processes_never_have_more_calls_open_than_allowed(
    valkey: ValkeyServer, redis: Redis
) -> None:
    taking = Taking(redis_url=valkey.url, limit=TWO_AT_ONCE, hold_s=0.02)
    permits = take_in_processes(taking, processes=2)
    assert most_at_once(permits) == 2
    assert is_free(redis)


def test_twin_threads_that_count_for_themselves_have_more_calls_open(
    valkey: ValkeyServer, redis: Redis
) -> None:
    taking = Taking(redis_url=valkey.url, limit=TWO_AT_ONCE, hold_s=0.02, for_s=0.3, is_shared=False)
    assert most_at_once(take_in_threads(taking)) > 2


@pytest.mark.parametrize(("has_limiter", "at_once"), [(True, 2), (False, 8)])
def test_eight_workers_have_no_more_requests_open_at_a_server_than_its_cap(
    site: Site, redis: Redis, has_limiter: bool, at_once: int
) -> None:
    lock, enough = threading.Lock(), threading.Event()
    now_open, seen = [0], [0]

    def counted(site: Site, path: str, send: Send) -> None:
        with lock:
            now_open[0] += 1
            seen[0] = max(seen[0], now_open[0])
            if seen[0] == 8:
                enough.set()
        # Long enough for all eight to be here, if they may.
        enough.wait(0.2)
        with lock:
            now_open[0] -= 1
        page(b"{}")(site, path, send)

    site.pages["/a"] = counted
    client = client_for(site, limiter_of(redis, {SOURCE: TWO_AT_ONCE}) if has_limiter else None)
    threads = [threading.Thread(target=ask, args=(client, f"{site.url}/a")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert (seen[0], len(site.requests)) == (at_once, 8)


def test_several_rates_hold_together_and_a_refused_call_uses_up_none_of_them(redis: Redis) -> None:
    short, long = Rate(calls=2, window_ms=3_600_000), Rate(calls=3, window_ms=7_200_000)
    assert use_up(limiter_of(redis, {SOURCE: SourceLimit(rates=(short, long))})) == 2
    for _ in range(5):
        refusal(limiter_of(redis, {SOURCE: SourceLimit(rates=(short, long))}))
    assert use_up(limiter_of(redis, {SOURCE: SourceLimit(rates=(long,))})) == 1


def test_a_call_that_finds_no_place_uses_up_nothing_of_the_rate(redis: Redis) -> None:
    limiter = limiter_of(
        redis, {SOURCE: SourceLimit(rates=(Rate(calls=2, window_ms=3_600_000),), open_max=1)}
    )
    with take(limiter):
        for _ in range(5):
            refusal(limiter)
    with take(limiter):
        pass


def test_a_lower_limit_counts_what_was_asked_under_the_higher_one(redis: Redis) -> None:
    def limiter(calls: int) -> SourceLimiter:
        return limiter_of(redis, {SOURCE: SourceLimit(rates=(Rate(calls=calls, window_ms=3_600_000),))})

    assert use_up(limiter(5)) == 5
    assert use_up(limiter(3)) == 0
    assert use_up(limiter(6)) == 1


def test_the_counts_leave_nothing_behind_when_their_time_is_over(redis: Redis) -> None:
    limiter = limiter_of(redis, {SOURCE: SourceLimit(rates=(Rate(calls=3, window_ms=200),), open_max=1)})
    assert use_up(limiter) == 3
    limiter.pause(SOURCE, URL, 60)
    keys = list(redis.scan_iter(f"{KEY_PREFIX}*"))
    assert keys
    assert all(0 < redis.pttl(key) <= 60_100 for key in keys)


def test_a_server_whose_clock_was_set_back_does_not_refuse_for_ever(redis: Redis) -> None:
    limiter = limiter_of(redis, {SOURCE: ONE_AN_HOUR})
    with take(limiter):
        pass
    (key,) = redis.scan_iter(f"{KEY_PREFIX}*:log:*")
    redis.lset(key, 0, int((time.time() + 86_400) * 1_000_000))
    with take(limiter):
        pass
    assert refusal(limiter).retry_in_s == pytest.approx(3600, abs=5)


class Stammering(Redis):
    """A client that sends each script twice, as if the first answer had got lost."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if args[0] == "EVALSHA":
            super().execute_command(*args, **options)
        return super().execute_command(*args, **options)


def test_a_command_whose_answer_got_lost_takes_one_place_only(valkey: ValkeyServer, redis: Redis) -> None:
    limiter = limiter_of(Stammering.from_url(valkey.url), {SOURCE: ONE_AT_ONCE})
    with contextlib.suppress(FetchFailed), take(limiter):
        pass  # the server has learned the scripts now
    with take(limiter):
        assert [redis.zcard(key) for key in redis.scan_iter(f"{KEY_PREFIX}*:open")] == [1]
    assert is_free(redis)


class Counting(Redis):
    """A client that counts its commands."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commands: list[str] = []

    def execute_command(self, *args: Any, **options: Any) -> Any:
        self.commands.append(str(args[0]))
        return super().execute_command(*args, **options)


@pytest.mark.parametrize(
    ("limit", "commands"),
    [
        (SourceLimit(), []),
        (SourceLimit(rates=(Rate(calls=9, window_ms=1000), Rate(calls=99, window_ms=60_000))), ["EVALSHA"]),
        (PLENTY, ["EVALSHA", "ZREM"]),
    ],
    ids=["no limit", "rates", "rates and open calls"],
)
def test_a_call_costs_two_commands_at_most(
    valkey: ValkeyServer, redis: Redis, site: Site, limit: SourceLimit, commands: list[str]
) -> None:
    site.pages["/a"] = page(b"{}")
    counting = Counting.from_url(valkey.url)
    client = client_for(site, limiter_of(counting, {SOURCE: limit}))
    ask(client, f"{site.url}/a")  # the server has learned the scripts now
    counting.commands.clear()
    ask(client, f"{site.url}/a")
    assert counting.commands == commands


# --- what is counted together


def test_hosts_of_one_owner_are_counted_together_and_others_apart(redis: Redis) -> None:
    limit = dataclasses.replace(ONE_AN_HOUR, is_per_host=True)
    limiter = limiter_of(redis, {"web": limit})
    with take(limiter, source="web", url="https://shop.example.co.uk/a"):
        pass
    refusal(limiter, source="web", url="http://www.example.co.uk/b?c=1")
    for other in ("https://other.co.uk/", "https://a.github.io/", "https://b.github.io/", "http://8.8.8.8/"):
        with take(limiter, source="web", url=other):
            pass
        refusal(limiter, source="web", url=other)


def test_a_source_asked_with_another_key_starts_anew(redis: Redis) -> None:
    def limiter(**names: Any) -> SourceLimiter:
        settings = make_settings(source_limits="github=1/hour", **names)
        return SourceLimiter.of(settings, redis, domain_of=registrable_domain)

    assert [use_up(limiter()), use_up(limiter(github_token="one")), use_up(limiter(github_token="two"))] == [
        1,
        1,
        1,
    ]
    assert use_up(limiter(github_token="one")) == 0


def test_no_key_of_ours_is_in_redis(redis: Redis) -> None:
    settings = make_settings(github_token="hidden-key", source_limits="*=5/hour;2 at once")
    limiter = SourceLimiter.of(settings, redis, domain_of=registrable_domain)
    with take(limiter):
        stored = b" ".join(redis.scan_iter(f"{KEY_PREFIX}*"))
    assert stored.count(accounts_of(settings)["github"].encode()) == 2
    assert b"hidden-key" not in stored


def test_a_source_that_nobody_gave_a_limit_is_a_mistake_and_not_unlimited(redis: Redis) -> None:
    limiter = SourceLimiter.of(make_settings(), redis, domain_of=registrable_domain)
    with pytest.raises(KeyError), take(limiter, source="another"):
        pass
