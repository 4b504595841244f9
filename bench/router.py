"""How many links per second one core normalises and routes, and whether that leaves memory behind.

Prints one JSON object. The links are the sample corpus, again and again; only what is known about hosts is
remembered between rounds. The time is that of the processor, so that neighbours count less.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import resource
import sys
import time
from pathlib import Path

from workers.social_recording.routing import normalize, route

CORPUS = Path(__file__).parent.parent / "tests" / "corpus" / "urls" / "token_urls_sample.tsv"


def links() -> list[str]:
    """The corpus, as it was written."""
    with CORPUS.open(encoding="utf-8", newline="") as file:
        return [row["url"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def work(sample: list[str]) -> int:
    """Normalise and route each link; the number of URLs found."""
    found = 0
    for text in sample:
        url = normalize(text).url
        if url is not None:
            route(url)
            found += 1
    return found


def peak_kib() -> int:
    """The largest size that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=500_000)
    wanted = parser.parse_args().links
    sample = links()
    rounds = max(1, wanted // len(sample))
    urls = work(sample)
    gc.collect()
    before = peak_kib()
    started = time.process_time()
    for _ in range(rounds):
        work(sample)
    cpu_s = time.process_time() - started
    done = rounds * len(sample)
    result = {
        "links": done,
        "urls_in_sample": urls,
        "sample": len(sample),
        "cpu_s": round(cpu_s, 3),
        "links_per_s": round(done / cpu_s),
        "memory_growth_kib": peak_kib() - before,
    }
    json.dump(result, sys.stdout)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
