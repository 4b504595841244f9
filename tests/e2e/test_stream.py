"""Live messages in, recorded tokens out; and how an operator sees that the stream is alive."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from devstack.sandbox.tokens import Token
from devstack.stack import Stack
from tests.e2e.conftest import PARTS, QUICK
from tests.operator import Operator, sites
from tests.waiting import wait_until
from workers.social_recording.stream_pulse import stream_counts


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(parts=(*PARTS, "stream"), worker_threads=8, environ=QUICK) as stack:
        yield stack


def tell(stack: Stack, token: Token, investors: object) -> None:
    """Publish as somebody does who has nothing but a client of Redis."""
    message = {"tokenAddress": token["tokenAddress"], "totalInvestedAlphaFinders": investors}
    with Redis.from_url(stack.environ["BROKER_URL"]) as broker:
        broker.lpush("token.flow", json.dumps(message))


def repeated(operator: Operator) -> int:
    """How many messages were about tokens that had been asked for already."""
    return stream_counts(operator.redis).get("repeated", 0)


def check(stack: Stack) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "workers.cli", "stream", "--check"),
        env=stack.environ,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_moving_token_is_recorded_with_its_links_without_any_job(stack: Stack, operator: Operator) -> None:
    tokens = operator.set_tokens([{"website": "https://github.com/moving-owner/moving"}, *sites(2)])
    followed, unknown, small = tokens
    operator.sandbox.set_tokens(tokens, missing=[unknown["tokenAddress"]])
    tell(stack, small, 2)
    tell(stack, unknown, 3)
    tell(stack, followed, "no number")
    tell(stack, followed, 3)
    wait_until(lambda: operator.documents([followed]), "it is recorded")
    assert (operator.url_of(followed)["status"], operator.url_of(followed)["attempts"]) == ("ok", 1)
    worker = stack.processes["worker-1"]
    wait_until(lambda: worker.logged('"outcome": "unresolved"'), "the other one has been asked for as well")
    assert operator.documents([small, unknown]) == {}
    assert operator.calls().by_address == {followed["tokenAddress"]: 1, unknown["tokenAddress"]: 1}
    jobs = operator.session.get(f"{stack.api_url}/api/v1/jobs", timeout=10).json()["data"]
    assert jobs == []
    # What the stream could not use and what the tracker does not know yet is nobody's debt but a reconcile's.
    operator.sandbox.set_tokens(tokens)
    meta = operator.meta("reconcile")
    assert (meta["alreadySeen"], meta["recorded"]) == (1, 2)


def test_a_token_that_moves_on_is_recorded_once(stack: Stack, operator: Operator) -> None:
    [token] = operator.set_tokens(sites(1))
    repeated_before = repeated(operator)
    for investors in range(3, 23):
        tell(stack, token, investors)
    wait_until(lambda: repeated(operator) == repeated_before + 19, "all are counted")
    wait_until(lambda: operator.documents([token]), "it is recorded")
    assert operator.calls().by_address == {token["tokenAddress"]: 1}


def test_the_check_says_whether_a_consumer_lives_here(stack: Stack, operator: Operator) -> None:
    done = check(stack)
    assert done.returncode == 0, done.stderr
    assert f":{stack.processes['stream'].pid} since" in done.stdout
    assert "0 held" in done.stdout
    stack.processes["stream"].stop()
    done = check(stack)
    assert done.returncode == 1
    assert "no consumer" in done.stderr
    stack.processes["stream"].start()
    wait_until(lambda: check(stack).returncode == 0, "it lives again", timeout_s=20)


def test_the_check_fails_with_a_sentence_when_redis_is_away(stack: Stack) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "workers.cli", "stream", "--check"),
        env={**stack.environ, "REDIS_URL": "redis://127.0.0.1:9/0"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Redis" in done.stderr
    assert "Traceback" not in done.stderr
