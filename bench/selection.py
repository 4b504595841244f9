"""Choosing 50 URLs to retry out of 10 thousand, 100 thousand and a million (`retry_selection`).

Prints one JSON object.

    python -m bench.selection [--urls 1000000]
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from bench.retry_selection import measure_selection
from devstack.stack import Stack

URLS_MIN = 100_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--urls", type=int, default=1_000_000, help="in the largest store")
    urls = parser.parse_args().urls
    if urls < URLS_MIN:
        parser.error(f"at least {URLS_MIN} URLs are needed")
    print(json.dumps(measure(urls)))


def measure(urls: int) -> dict[str, Any]:
    """Choose among up to `urls` URLs; return the figures."""
    load_before = os.getloadavg()[0]
    with Stack(parts=("mongo",)) as stack:
        figures = measure_selection(stack, urls)
    return {**figures, "load_average": [round(load_before, 2), round(os.getloadavg()[0], 2)]}


if __name__ == "__main__":
    main()
