"""How long the whole stack takes until all of its parts are ready, from nothing. Prints one JSON object.

python -m bench.start_up [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from devstack.stack import PARTS, Stack


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    print(json.dumps(measure(parser.parse_args().rounds)))


def measure(rounds: int) -> dict[str, Any]:
    """Start and end the stack `rounds` times; return the figures."""
    ready_s, loads = [], []
    # Each in a process of its own: what one stack has loaded would be there for the next.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for _ in range(rounds):
            loads.append(round(os.getloadavg()[0], 2))
            ready_s.append(processes.submit(start_once).result())
    return {
        "parts": PARTS,
        "ready_s": [round(each, 2) for each in ready_s],
        "ready_s_median": round(statistics.median(ready_s), 2),
        "ready_s_max": round(max(ready_s), 2),
        "load_average": loads,
    }


def start_once() -> float:
    """Start a stack and end it; return how many seconds the start took."""
    started = time.monotonic()
    with Stack():
        return time.monotonic() - started


if __name__ == "__main__":
    main()
