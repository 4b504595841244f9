"""Retry against its limits: what is paid, what Redis is asked, how long it takes.

Everything is real but the outside world, which is the sandbox. Prints lists for people on stderr and, last,
one JSON object:

- `paid`: calls to a paid source per URL, undisturbed and with workers that are killed (`retry_paid`),
- `redis`: round trips and commands per URL (`retry_redis`),
- `wall`: the time of a job against the time that its calls alone would take, against a script with threads,
  and against one URL after the other (`retry_wall`).

What is chosen is another measurement, `bench.selection`.

    python -m bench.retry [--paid-urls 40] [--kills 4] [--retried 200] [--rounds 3]

Times say little on a busy machine, so the load average stands beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

from bench.retry_desk import PARTS, RetryDesk
from bench.retry_paid import measure_paid
from bench.retry_redis import measure_redis
from bench.retry_wall import measure_wall
from devstack.stack import Stack

RETRIED_MAX = 200


def main() -> None:
    """Measure and print."""
    print(json.dumps(measure(_options())))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure with these sizes, which are those of the command line; return the figures."""
    started = time.monotonic()
    load_before = os.getloadavg()
    with Stack(parts=PARTS, sandbox_latency_ms=options.latency_ms) as stack, RetryDesk(stack) as desk:
        with desk.workers(threads=options.threads) as worker:
            wall = measure_wall(
                desk,
                worker,
                urls=options.retried,
                latency_ms=options.latency_ms,
                threads=options.threads,
                rounds=options.rounds,
            )
            redis = measure_redis(desk, worker, options.retried)
        paid = measure_paid(desk, options.paid_urls, options.kills)
    return {
        "paid": paid,
        "redis": redis,
        "wall": wall,
        "cpus": os.cpu_count(),
        "load_average_before": [round(each, 2) for each in load_before],
        "load_average_after": [round(each, 2) for each in os.getloadavg()],
        "took_s": round(time.monotonic() - started, 1),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--paid-urls", type=int, default=40)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--retried", type=int, default=200)
    parser.add_argument("--latency-ms", type=int, default=200)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not 1 <= options.retried <= RETRIED_MAX:
        parser.error(f"a job retries at most {RETRIED_MAX} URLs")
    if options.paid_urls > RETRIED_MAX or options.kills > options.paid_urls // 2:
        parser.error("too many paid URLs for one job, or too many kills for them")
    return options


if __name__ == "__main__":
    main()
