"""The social graph under load: is it right with many writers, what does a URL cost, do counts stay fast?

The stores are real, the outside world is made up inside the process. Prints lists for people on stderr and,
last, one JSON object:

- `concurrency`: duplicates, losses and the time for tokens that share 40 accounts (`graph_concurrency`),
- `round_trips`: the commands to MongoDB per kind of URL (`graph_round_trips`),
- `as_of`: what a count costs among ten times as many links of others (`graph_as_of`).

    python -m bench.graph [--tokens 400] [--threads 16] [--links 100000]

`--unprotected` drops the unique indexes before recording: the run that shows that duplicates are found.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from pymongo import monitoring

from bench.graph_as_of import measure_as_of
from bench.graph_concurrency import ACCOUNTS, measure_concurrency, record_all
from bench.graph_recording import CommandLog, Recording
from bench.graph_round_trips import measure_round_trips
from devstack.stack import Stack

PARTS = ("valkey", "mongo")
TOKENS_MIN = 2 * ACCOUNTS
LINKS_MIN = 2000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--links", type=int, default=100_000)
    parser.add_argument("--unprotected", action="store_true")
    options = parser.parse_args()
    if options.tokens < TOKENS_MIN or options.links < LINKS_MIN:
        parser.error(f"at least {TOKENS_MIN} tokens and {LINKS_MIN} links are needed")
    print(json.dumps(measure(options.tokens, options.threads, options.links, not options.unprotected)))


def measure(tokens: int, threads: int, links: int, is_protected: bool) -> dict[str, Any]:
    """Record `tokens` tokens with `threads` threads, count among `links` links; return the figures."""
    log = CommandLog()
    monitoring.register(log)
    with Stack(parts=PARTS) as stack:
        round_trips = measure_round_trips(Recording(stack, "round_trips"), log)
        # A small run first, so that imports and first connections are not measured.
        record_all(Recording(stack, "warm_up"), TOKENS_MIN, threads)
        concurrency = measure_concurrency(
            stack,
            log,
            count=tokens,
            threads=threads,
            is_protected=is_protected,
        )
        as_of = measure_as_of(stack, log, links)
    return {"concurrency": concurrency, "round_trips": round_trips, "as_of": as_of}


if __name__ == "__main__":
    main()
