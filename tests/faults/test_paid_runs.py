"""A worker that dies while it pays: the next attempt finds what was paid for, and nobody pays twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from redis import Redis

from devstack.sandbox.client import SandboxClient
from devstack.sandbox.process import SandboxServer
from devstack.valkey import ValkeyServer
from tests.faults.paying import Place, attempt, start_attempt
from tests.waiting import wait_until

VIDEO = "7524354453693802698"
URL = f"https://tiktok.com/@_/video/{VIDEO}"
STARTS = r"^POST /apify/acts/clockworks~tiktok-scraper/runs\?"
# The start of the run, the wait for it, its dataset, and what was spoken in the video.
CALLS = 4
CHILD_TIMEOUT_S = 30


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "data") as server:
        yield server


@pytest.fixture
def sandbox(server: SandboxServer) -> SandboxClient:
    server.client.reset()
    return server.client


@pytest.fixture
def place(redis: Redis, valkey: ValkeyServer, server: SandboxServer) -> Place:
    return Place(redis_url=valkey.url, outside=server.settings())


def dies(place: Place, dies_at: int) -> None:
    child = start_attempt(place, URL, dies_at=dies_at)
    child.join(CHILD_TIMEOUT_S)
    assert child.exitcode == -signal.SIGKILL


def is_found(place: Place) -> bool:
    content = attempt(place, URL).groups[0].content
    return content is not None and content.platform_key == VIDEO and bool(content.text_from_media)


@pytest.mark.parametrize("dies_at", range(1, CALLS + 1))
def test_an_attempt_killed_before_any_of_its_calls_costs_one_run_in_all(
    dies_at: int, place: Place, sandbox: SandboxClient
) -> None:
    dies(place, dies_at)
    assert is_found(place)
    assert sandbox.calls().matching(STARTS) == 1


@pytest.mark.parametrize("dies_at", range(2, CALLS + 1))
def test_twin_without_the_memory_a_killed_attempt_is_paid_for_twice(
    dies_at: int, place: Place, sandbox: SandboxClient, redis: Redis
) -> None:
    dies(place, dies_at)
    redis.flushall()
    assert is_found(place)
    assert sandbox.calls().matching(STARTS) == 2


def hang_until_killed(place: Place, sandbox: SandboxClient) -> None:
    """Let a child die while it waits for the answer to its start, which Apify has begun by then."""
    sandbox.set_faults({"route": STARTS, "hang": True, "times": 1})
    child = start_attempt(place, URL)
    wait_until(lambda: sandbox.calls().matching(STARTS) == 1, "the start has arrived")
    child.kill()
    child.join(CHILD_TIMEOUT_S)
    assert child.exitcode == -signal.SIGKILL


def test_an_attempt_killed_before_it_learns_the_runs_id_costs_one_run_in_all(
    place: Place, sandbox: SandboxClient
) -> None:
    hang_until_killed(place, sandbox)
    assert is_found(place)
    calls = sandbox.calls()
    assert calls.matching(STARTS) == 1
    assert calls.matching(r"^GET /apify/acts/.*/runs\?.*startedAfter") == 1


def test_twin_without_the_memory_a_run_of_unknown_id_is_paid_for_twice(
    place: Place, sandbox: SandboxClient, redis: Redis
) -> None:
    hang_until_killed(place, sandbox)
    redis.flushall()
    assert is_found(place)
    assert sandbox.calls().matching(STARTS) == 2


def test_a_second_reading_of_one_run_is_an_observation_of_the_same_time(
    place: Place, sandbox: SandboxClient
) -> None:
    first, second = attempt(place, URL), attempt(place, URL)
    assert first == second
    assert sandbox.calls().matching(STARTS) == 1
