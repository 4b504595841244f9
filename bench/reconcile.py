"""Reconcile against what else does the same: 100 tokens with 4 links each, 200 ms for every outside call.

In turns, and each with tokens of its own, the tokens are recorded by

- `converge`: a job over HTTP, handed out to one worker of 16 threads; it works on up to 24 tokens, but has no
  more than 16 calls open (`workers.http.slots`),
- `chord`, `dramatiq`: the same recorder as the members of a plain Celery chord and of a Dramatiq group, each
  in one worker of 16 threads; what differs is what hands the tokens out,
- `script`: a pool of 16 threads with the same client code, which stores nothing (`fan_out_work.Script`),
- `one_by_one`: the same recorder, one token after the other in one thread. It takes so long that it is
  measured on fewer tokens (`one_by_one_tokens`) and multiplied.

The ideal is what the calls alone would take when 16 are open all the time. A token costs seven calls: the
tracker, two posts, two sites and the registries of their domains. 100 tokens take 16 threads seven rounds, so
with a thread for each call nothing gets below 1.12 of the ideal. Prints one JSON object.

    python -m bench.reconcile [--tokens 100] [--latency-ms 200] [--threads 16] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import requests

from bench.fan_out_work import CHORD_BROKER, CHORD_RESULTS, DRAMATIQ_BROKER, END, START, Script, record
from devstack.folders import CHECKOUT
from devstack.processes import ManagedProcess
from devstack.sandbox.client import SandboxClient
from devstack.sandbox.tokens import Token, make_token
from devstack.stack import Stack
from workers.settings import read_settings

PARTS = ("valkey", "mongo", "sandbox", "migrate", "worker", "api")
FIRST_POST_ID = 2_000_000_000_000_000_000
POSTS_MEASURED = 50
LINKS_PER_TOKEN = 4
ONE_BY_ONE_TOKENS = 12
WARM_UP_TOKENS = 16
# Databases of the stack's server that it does not use itself.
CHORD_BROKER_DB, CHORD_RESULTS_DB, DRAMATIQ_DB = 10, 11, 12


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--latency-ms", type=int, default=200)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps(measure(options.tokens, options.latency_ms, options.threads, options.rounds)))


def measure(tokens: int, latency_ms: int, threads: int, rounds: int) -> dict[str, Any]:
    """Record `tokens` tokens in each way, `rounds` times in turns; return the figures."""
    with (
        Stack(parts=PARTS, worker_threads=threads, sandbox_latency_ms=latency_ms) as stack,
        ExitStack() as exits,
    ):
        course = _Course(stack, threads)
        for worker in other_workers(stack, threads):
            exits.callback(worker.stop)
            worker.start()
        # Imports, first connections and the registries' list are not measured.
        for way in course.ways:
            course.time(way, WARM_UP_TOKENS)
        load_before = os.getloadavg()[0]
        times = {way: list[float]() for way in course.ways}
        made: dict[str, int] = {}
        for _ in range(rounds):
            for way in course.ways:
                took_s, made[way] = course.time(way, tokens)
                times[way].append(took_s)
        if len(set(made.values())) > 1:
            raise RuntimeError(f"not all ways make the same calls: {made}")
        load_after = os.getloadavg()[0]
        few = min(tokens, ONE_BY_ONE_TOKENS)
        one_by_one_s = course.time_one_by_one(few) * tokens / few
        posts_ms = course.time_posts()
    median_s = {way: statistics.median(each) for way, each in times.items()}
    calls = made["converge"]
    ideal_s = calls * latency_ms / 1000 / threads
    return {
        "tokens": tokens,
        "threads": threads,
        "latency_ms": latency_ms,
        "calls": calls,
        "to": {way: round(median_s["converge"] / median_s[way], 3) for way in times if way != "converge"}
        | {"ideal": round(median_s["converge"] / ideal_s, 3)},
        "to_it": {"one_by_one": round(one_by_one_s / median_s["converge"], 2)},
        "to_ideal": {way: round(each / ideal_s, 3) for way, each in median_s.items()},
        "median_s": {way: round(each, 3) for way, each in median_s.items()},
        "all_s": {way: [round(each, 3) for each in taken] for way, taken in times.items()},
        "ideal_s": round(ideal_s, 3),
        "one_by_one_s": round(one_by_one_s, 1),
        "one_by_one_tokens": few,
        "post_ms_median": round(statistics.median(posts_ms), 1),
        "post_ms_max": round(max(posts_ms), 1),
        "load_average": [round(load_before, 2), round(load_after, 2)],
    }


def other_workers(stack: Stack, threads: int) -> list[ManagedProcess]:
    """The workers of the chord and of Dramatiq, not started. Their addresses are put into the environment."""
    os.environ.update(stack.environ)
    os.environ[CHORD_BROKER] = stack.valkey.url_of(CHORD_BROKER_DB)
    os.environ[CHORD_RESULTS] = stack.valkey.url_of(CHORD_RESULTS_DB)
    os.environ[DRAMATIQ_BROKER] = stack.valkey.url_of(DRAMATIQ_DB)
    # Celery's command line prefers `BROKER_URL`, which is the stack's, to what the app says.
    celery = ["-m", "celery", "-A", "bench.fan_out_chord", "-b", os.environ[CHORD_BROKER], "worker"]
    celery += ["-P", "threads", "-c", str(threads), "--without-gossip", "--without-mingle", "-l", "INFO"]
    commands = {
        "chord": (celery, " ready."),
        "dramatiq": (["-m", "bench.fan_out_dramatiq", str(threads)], "dramatiq is ready"),
    }
    return [
        ManagedProcess(
            name=name,
            argv=[sys.executable, *arguments],
            env=dict(os.environ),
            cwd=CHECKOUT,
            log_file=stack.logs / f"{name}.log",
            ready=lambda process, mark=mark: process.logged(mark),  # type: ignore[misc]
        )
        for name, (arguments, mark) in commands.items()
    ]


def make_tokens(first: int, count: int) -> list[Token]:
    """Tokens with four links of their own, two to sites and two to posts."""
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
        for number in range(first, first + count)
    ]


class _Course:
    """Runs and times each way of recording over a running stack; each run has tokens of its own."""

    def __init__(self, stack: Stack, threads: int) -> None:
        os.environ.update(stack.environ)
        self._stack = stack
        self._threads = threads
        self._sandbox = SandboxClient(stack.sandbox_url)
        self._session = requests.Session()
        self._session.headers["x-api-key"] = stack.api_key
        self._script = Script(read_settings())
        self._used = 0
        self.ways: Mapping[str, Callable[[], Sequence[str]]] = {
            "converge": self._run_job,
            "script": self._run_script,
            "chord": self._run_chord,
            "dramatiq": self._run_dramatiq,
        }

    def time(self, way: str, count: int) -> tuple[float, int]:
        """Run `count` new tokens one way; return how many seconds and how many calls it took.

        Raises `RuntimeError` when a link was not collected.
        """
        self._give_tokens(count)
        calls = self._sandbox.calls().total
        started = time.monotonic()
        statuses = self.ways[way]()
        took_s = time.monotonic() - started
        print(f"{way}: {count} tokens in {took_s:.2f} s", file=sys.stderr)
        if list(statuses) != ["ok"] * count * LINKS_PER_TOKEN:
            raise RuntimeError(f"{way}: not all links were collected: {set(statuses)}, {len(statuses)}")
        return took_s, self._sandbox.calls().total - calls

    def time_one_by_one(self, count: int) -> float:
        """Record `count` new tokens in this process, one after the other; return the seconds."""
        addresses = [token["tokenAddress"] for token in self._give_tokens(count + 1)]
        record(addresses[0])  # imports and first connections are not measured
        started = time.monotonic()
        statuses = {status for address in addresses[1:] for status in record(address)}
        took_s = time.monotonic() - started
        if statuses != {"ok"}:
            raise RuntimeError(f"one by one: not all links were collected: {statuses}")
        return took_s

    def time_posts(self) -> list[float]:
        """How long the POST takes to answer, in ms."""
        times = []
        for _ in range(POSTS_MEASURED):
            started = time.monotonic()
            self._post({"startDate": "2025-01-01T00:00:00Z", "endDate": "2025-01-02T00:00:00Z"})
            times.append((time.monotonic() - started) * 1000)
        return times

    def _give_tokens(self, count: int) -> list[Token]:
        tokens = make_tokens(self._used, count)
        self._used += count
        self._sandbox.set_tokens(tokens)
        return tokens

    def _run_job(self) -> list[str]:
        body = {
            "startDate": START.isoformat(),
            "endDate": END.isoformat(),
            "limit": 100,
            "deadlineMs": 300_000,
        }
        location = self._post(body).headers["Location"]
        while True:
            job: dict[str, Any] = self._session.get(self._stack.api_url + location, timeout=10).json()
            if job["state"] not in ("queued", "running"):
                return [url["status"] for row in job["result"]["data"] for url in row["urls"]]
            time.sleep(0.1)

    def _run_script(self) -> list[str]:
        return ["ok"] * self._script.run(self._threads)

    def _run_chord(self) -> list[str]:
        from bench import fan_out_chord  # noqa: PLC0415 - reads its addresses when it is imported

        return fan_out_chord.run(self._script.addresses())

    def _run_dramatiq(self) -> list[str]:
        from bench import fan_out_dramatiq  # noqa: PLC0415 - reads its addresses when it is imported

        return fan_out_dramatiq.run(self._script.addresses())

    def _post(self, body: Mapping[str, object]) -> requests.Response:
        url = f"{self._stack.api_url}/api/v1/internal/social-recording/reconcile"
        response = self._session.post(url, json=body, timeout=10)
        response.raise_for_status()
        return response


if __name__ == "__main__":
    main()
