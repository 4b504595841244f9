"""How long the whole stack takes until all of its parts are ready, from nothing. Prints one JSON object.

python -m bench.start_up [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
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
    for _ in range(rounds):
        loads.append(round(os.getloadavg()[0], 2))
        started = time.monotonic()
        with Stack():
            ready_s.append(time.monotonic() - started)
    return {
        "parts": PARTS,
        "ready_s": [round(each, 2) for each in ready_s],
        "ready_s_median": round(statistics.median(ready_s), 2),
        "ready_s_max": round(max(ready_s), 2),
        "load_average": loads,
    }


if __name__ == "__main__":
    main()
