"""Reconcile against its floor: 100 tokens with 4 links each, 200 ms for every outside call.

The floor is what the calls alone would take when 16 threads make them without a pause. The same code then
handles tokens one after the other, which is what the fan-out is worth. Prints one JSON object.

The one worker's threads are for the targets and for the job that hands them out, so 15 of 16 make calls, and
100 tokens of five calls each take them seven rounds: with these numbers no schedule gets below 1.15 of the
floor.

    python -m bench.reconcile [--tokens 100] [--latency-ms 200] [--threads 16]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

from devstack.sandbox.client import SandboxClient
from devstack.sandbox.tokens import Token, make_token
from devstack.stack import Stack
from workers.celery_app import create_celery
from workers.clock import Clock
from workers.jobs.messenger import CeleryMessenger
from workers.services import Services
from workers.settings import read_settings

PARTS = ("valkey", "mongo", "sandbox", "migrate", "worker", "api")
FIRST_POST_ID = 2_000_000_000_000_000_000
POSTS_MEASURED = 50


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--latency-ms", type=int, default=200)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    tokens = make_tokens(options.tokens * 2)
    side_by_side, one_by_one = tokens[: options.tokens], tokens[options.tokens :]
    with Stack(parts=PARTS, worker_threads=options.threads, sandbox_latency_ms=options.latency_ms) as stack:
        sandbox = SandboxClient(stack.sandbox_url)
        session = requests.Session()
        session.headers["x-api-key"] = stack.api_key
        _warm_up(stack, session, sandbox)
        fan_out = _run_job(stack, session, sandbox, side_by_side)
        loop = _run_loop(stack, sandbox, one_by_one)
        posts_ms = _time_posts(stack, session)
    ideal_s = fan_out["calls"] * options.latency_ms / 1000 / options.threads
    report = {
        "tokens": options.tokens,
        "threads": options.threads,
        "latency_ms": options.latency_ms,
        "calls": fan_out["calls"],
        "recorded": fan_out["recorded"],
        "wall_s": round(fan_out["wall_s"], 3),
        "ideal_s": round(ideal_s, 3),
        "wall_to_ideal": round(fan_out["wall_s"] / ideal_s, 3),
        "one_by_one_s": round(loop["wall_s"], 3),
        "one_by_one_to_wall": round(loop["wall_s"] / fan_out["wall_s"], 2),
        "post_ms_median": round(statistics.median(posts_ms), 1),
        "post_ms_max": round(max(posts_ms), 1),
    }
    print(json.dumps(report))


def make_tokens(count: int) -> list[Token]:
    """Tokens with four links that each cost one call: two sites and two posts."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        make_token(
            number,
            last_transfer_at=start + timedelta(minutes=number),
            links={
                "website": f"https://harbor{number}.com/",
                "twitter": f"https://x.com/harbor/status/{FIRST_POST_ID + 2 * number}",
                "telegram": f"https://lagoon{number}.com/",
                "tiktok": f"https://x.com/harbor/status/{FIRST_POST_ID + 2 * number + 1}",
            },
        )
        for number in range(count)
    ]


def _post(stack: Stack, session: requests.Session, body: Mapping[str, object]) -> requests.Response:
    url = f"{stack.api_url}/api/v1/internal/social-recording/reconcile"
    response = session.post(url, json=body, timeout=10)
    response.raise_for_status()
    return response


def _follow(stack: Stack, session: requests.Session, location: str) -> dict[str, Any]:
    while True:
        job: dict[str, Any] = session.get(stack.api_url + location, timeout=10).json()
        if job["state"] not in ("queued", "running"):
            return job
        time.sleep(0.1)


def _warm_up(stack: Stack, session: requests.Session, sandbox: SandboxClient) -> None:
    """One small job, so that imports and first connections are not measured."""
    sandbox.set_tokens(make_tokens(400)[-16:])
    body = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-02-01T00:00:00Z"}
    _follow(stack, session, _post(stack, session, body).headers["Location"])


def _run_job(
    stack: Stack, session: requests.Session, sandbox: SandboxClient, tokens: list[Token]
) -> dict[str, Any]:
    sandbox.set_tokens(tokens)
    before = sandbox.calls().total
    body = {
        "startDate": "2026-01-01T00:00:00Z",
        "endDate": "2026-02-01T00:00:00Z",
        "limit": len(tokens),
        "deadlineMs": 300_000,
    }
    started = time.monotonic()
    job = _follow(stack, session, _post(stack, session, body).headers["Location"])
    wall_s = time.monotonic() - started
    meta = job["result"]["meta"]
    statuses = {url["status"] for row in job["result"]["data"] for url in row["urls"]}
    if statuses != {"ok"}:
        raise RuntimeError(f"not all links were collected: {statuses}")
    return {"wall_s": wall_s, "calls": sandbox.calls().total - before, "recorded": meta["recorded"]}


def _run_loop(stack: Stack, sandbox: SandboxClient, tokens: list[Token]) -> dict[str, Any]:
    """The same recorder, in this process, a token at a time."""
    sandbox.set_tokens(tokens)
    os.environ.update(stack.environ)
    settings = read_settings()
    services = Services(settings, CeleryMessenger(create_celery(lambda: settings)), Clock())
    started = time.monotonic()
    reports = [services.recorder.record(token["tokenAddress"]) for token in tokens]
    wall_s = time.monotonic() - started
    if {url["status"] for report in reports for url in report.urls} != {"ok"}:
        raise RuntimeError("not all links were collected")
    return {"wall_s": wall_s}


def _time_posts(stack: Stack, session: requests.Session) -> list[float]:
    """How long the POST takes to answer, in ms."""
    times = []
    for _ in range(POSTS_MEASURED):
        started = time.monotonic()
        _post(stack, session, {"startDate": "2025-01-01T00:00:00Z", "endDate": "2025-01-02T00:00:00Z"})
        times.append((time.monotonic() - started) * 1000)
    return times


if __name__ == "__main__":
    main()
