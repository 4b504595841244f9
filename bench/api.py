"""Requests per second of the API against bare Flask routes, under the same gunicorn settings.

In turns, over 16 connections, the load of `api_load` asks for

- `health`: `GET /healthz`, against a route that answers as small a document,
- `job`: `GET` of an ended job, against that route and against one that reads a document of the same size from
  Redis and sends it,
- `post`: `POST` of a reconcile job, against a route that answers what was posted and one that sends it with
  Celery before.

There is no worker, so posted jobs wait in their queue, and nothing else runs meanwhile but the servers that
are asked. What is sent takes a part of one of the cores that the servers use; it is the same for both. Prints
one JSON object.

    python -m bench.api [--seconds 2] [--rounds 3] [--connections 16]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests
from redis import Redis

from bench import api_load
from bench.api_bare import BROKER, REDIS, STORED_KEY
from devstack import programs
from devstack.ports import start_on_free_port
from devstack.processes import ManagedProcess
from devstack.stack import Stack

PARTS = ("valkey", "mongo", "sandbox", "migrate", "worker", "api")
RECONCILE = "/api/v1/internal/social-recording/reconcile"
BODY = b'{"startDate": "2025-01-01T00:00:00Z", "endDate": "2025-01-02T00:00:00Z"}'
REDIS_DB, BROKER_DB = 10, 11
WARM_UP_S = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One request, as bytes, where it goes, and what it is answered with."""

    origin: str
    request: bytes
    status: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    print(json.dumps(measure(options.seconds, options.rounds, options.connections)))


def measure(seconds: float, rounds: int, connections: int) -> dict[str, Any]:
    """Load each route `rounds` times in turns; return the figures."""
    with Stack(parts=PARTS) as stack:
        job = end_a_job(stack)
        stack.processes["worker-1"].stop()
        environ = {**stack.environ, REDIS: stack.valkey.url_of(REDIS_DB)}
        environ[BROKER] = stack.valkey.url_of(BROKER_DB)
        with Redis.from_url(environ[REDIS]) as redis:
            redis.set(STORED_KEY, requests.get(job, headers=key_of(stack), timeout=10).content)
        port, bare = start_on_free_port(lambda port: bare_flask(stack, environ, port))
        try:
            asks = asks_of(stack, job, f"http://127.0.0.1:{port}")
            loads = load_in_turns(asks, seconds, rounds, connections)
        finally:
            bare.stop()
    per_s = {name: statistics.median(load.per_s for load in each) for name, each in loads.items()}
    every = [load for each in loads.values() for load in each]
    return {
        "connections": connections,
        "seconds": seconds,
        "rounds": rounds,
        "to_flask": {
            "health": round(per_s["health"] / per_s["flask_plain"], 2),
            "job": round(per_s["job"] / per_s["flask_plain"], 2),
            "post": round(per_s["post"] / per_s["flask_taken"], 2),
        },
        "to_redis_route": {"job": round(per_s["job"] / per_s["flask_stored"], 2)},
        "to_celery_route": {"post": round(per_s["post"] / per_s["flask_sent"], 2)},
        "per_s": {name: round(each) for name, each in per_s.items()},
        "all_per_s": {name: [round(load.per_s) for load in each] for name, each in loads.items()},
        "sender_cores": round(
            sum(load.processor_s for load in every) / sum(load.took_s for load in every), 2
        ),
        "load_average": round(os.getloadavg()[0], 2),
    }


def end_a_job(stack: Stack) -> str:
    """Run a job over an empty range; return its address."""
    answer = requests.post(
        stack.api_url + RECONCILE, data=BODY, headers={**key_of(stack), "Prefer": "wait=30"}, timeout=40
    )
    answer.raise_for_status()
    if answer.json()["state"] != "succeeded":
        raise RuntimeError(f"the job did not succeed: {answer.text}")
    return stack.api_url + answer.headers["Location"]


def key_of(stack: Stack) -> dict[str, str]:
    """The header that the API wants."""
    return {"x-api-key": stack.api_key}


def bare_flask(stack: Stack, environ: Mapping[str, str], port: int) -> ManagedProcess:
    """The bare app under the command line of the API, for a port."""
    process = programs.api(environ, stack.logs)(port)
    process.argv = [part.replace("app.wsgi:app", "bench.api_bare:app") for part in process.argv]
    process.name, process.log_file = "bare", stack.logs / "bare.log"
    process.ready = lambda _: is_there(f"http://127.0.0.1:{port}/plain")
    return process


def is_there(url: str) -> bool:
    """Whether a GET is answered."""
    try:
        return requests.get(url, timeout=2).ok
    except (requests.ConnectionError, requests.Timeout):
        return False


def asks_of(stack: Stack, job: str, flask: str) -> dict[str, Ask]:
    """The requests that are compared."""
    api, key = stack.api_url, key_of(stack)

    def get(url: str, headers: Mapping[str, str]) -> bytes:
        return api_load.request_bytes("GET", url, headers=headers)

    def post(url: str, headers: Mapping[str, str]) -> bytes:
        return api_load.request_bytes("POST", url, headers=headers, body=BODY)

    return {
        "health": Ask(origin=api, request=get(f"{api}/healthz", {}), status=200),
        "flask_plain": Ask(origin=flask, request=get(f"{flask}/plain", {}), status=200),
        "job": Ask(origin=api, request=get(job, key), status=200),
        "flask_stored": Ask(origin=flask, request=get(f"{flask}/stored", {}), status=200),
        "post": Ask(origin=api, request=post(api + RECONCILE, key), status=202),
        "flask_taken": Ask(origin=flask, request=post(f"{flask}/taken", {}), status=200),
        "flask_sent": Ask(origin=flask, request=post(f"{flask}/sent", {}), status=200),
    }


def load_in_turns(
    asks: Mapping[str, Ask], seconds: float, rounds: int, connections: int
) -> dict[str, list[api_load.Load]]:
    """Load each route in turns, after a short load that is not counted."""
    loads: dict[str, list[api_load.Load]] = {name: [] for name in asks}
    for turn in range(rounds + 1):
        for name, ask in asks.items():
            load = api_load.run(
                ask.origin,
                ask.request,
                status=ask.status,
                connections=connections,
                seconds=seconds if turn else WARM_UP_S,
            )
            if turn:
                loads[name].append(load)
    return loads


if __name__ == "__main__":
    main()
