"""Retry against its limits: what is chosen, what is paid, what Redis is asked, how long it takes.

Everything is real but the outside world, which is the sandbox. Prints lists for people on stderr and, last,
one JSON object:

- `selection`: 50 URLs out of many stored ones; memory and time must not follow the number of converged ones
  (`retry_selection`),
- `paid`: calls to a paid source per URL, undisturbed and with workers that are killed (`retry_paid`),
- `redis`: round trips and commands per URL (`retry_redis`),
- `wall`: the time of a job against the time that its calls alone would take (`retry_wall`).

    python -m bench.retry [--urls 1000000] [--paid-urls 40] [--kills 4] [--retried 200]

Times say little on a busy machine, so the load average stands beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import time

from bench.retry_desk import PARTS, RetryDesk
from bench.retry_paid import measure_paid
from bench.retry_redis import measure_redis
from bench.retry_selection import measure_selection
from bench.retry_wall import measure_wall
from devstack.stack import Stack

URLS_MIN = 100_000
RETRIED_MAX = 200


def main() -> None:
    """Measure and print."""
    options = _options()
    started = time.monotonic()
    load_before = os.getloadavg()
    with Stack(parts=("mongo",)) as stack:
        selection = measure_selection(stack, options.urls)
    with Stack(parts=PARTS, sandbox_latency_ms=options.latency_ms) as stack, RetryDesk(stack) as desk:
        with desk.workers(threads=options.threads) as worker:
            wall = measure_wall(desk, worker, options.retried, options.latency_ms, options.threads)
            redis = measure_redis(desk, worker, options.retried)
        paid = measure_paid(desk, options.paid_urls, options.kills)
    report = {
        "selection": selection,
        "paid": paid,
        "redis": redis,
        "wall": wall,
        "cpus": os.cpu_count(),
        "load_average_before": [round(each, 2) for each in load_before],
        "load_average_after": [round(each, 2) for each in os.getloadavg()],
        "took_s": round(time.monotonic() - started, 1),
    }
    print(json.dumps(report))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--urls", type=int, default=1_000_000)
    parser.add_argument("--paid-urls", type=int, default=40)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--retried", type=int, default=200)
    parser.add_argument("--latency-ms", type=int, default=200)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    if options.urls < URLS_MIN:
        parser.error(f"at least {URLS_MIN} URLs are needed")
    if not 1 <= options.retried <= RETRIED_MAX:
        parser.error(f"a job retries at most {RETRIED_MAX} URLs")
    if options.paid_urls > RETRIED_MAX or options.kills > options.paid_urls // 2:
        parser.error("too many paid URLs for one job, or too many kills for them")
    return options


if __name__ == "__main__":
    main()
