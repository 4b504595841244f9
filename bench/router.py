"""How many links per second one core normalises and routes, and whether that leaves memory behind.

Prints one JSON object:

- `as_is`: the sample corpus, again and again. Nothing about a link is remembered between rounds; only what
  is known about hosts is (`hosts.facts_of`), and the sample has few of them.
- `distinct`: links made from the corpus, no two of them the same. Each has another name or number in its
  path, and each web site another host, so that nearly every web site has to be looked up.
- `ada_url`, `urlsplit`: the floors. What it costs only to take the same links apart, as a browser does and
  by their signs.
- `parses_per_link`: the time for a link of the corpus as a multiple of these, in this run.
- `social_links`, `socials`: other packages that say to which platform a link of the corpus leads;
  `to_others` is our time as a multiple of theirs, `recognised` how many links each knows, `agreeing` how many
  of its own it shares with us (`router_others`).
- `memory`: by how much the process grew over another million distinct links, after the caches were full.

Times are the processor's, taken in slices that alternate so that all suffer the same from neighbours;
`links_per_s` is over all slices, `links_per_s_best` is the fastest slice.

    python -m bench.router [--links 500000] [--memory-links 1000000]
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, cycle, islice
from pathlib import Path
from urllib.parse import urlsplit

import ada_url

from bench import router_others
from workers.social_graph.vocabulary import Platform
from workers.social_recording.routing import normalize, route
from workers.social_recording.routing.hosts import HOST_CACHE_SIZE

CORPUS = Path(__file__).parent.parent / "tests" / "corpus" / "urls" / "token_urls_sample.tsv"
SLICE = 2_000
# The other packages take so long that they get a part of each slice.
OTHERS_EVERY = 10
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024

_HOST = re.compile(r"(?P<scheme>(?:https?://)?(?:www\.)?)(?P<name>[A-Za-z0-9.-]+)")
# What is varied in a link: the first long label of a web site's host, and the last name or number behind it.
_LABEL = re.compile(r"([A-Za-z0-9]{4,})(?=[A-Za-z0-9-]*\.)")
_LAST_NAME = re.compile(r"([A-Za-z0-9]{5,})(?=[^A-Za-z0-9]*\Z)")


@dataclass
class Measure:
    """What one kind of work cost so far."""

    work: Callable[[list[str]], None]
    links: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    best_per_s: float = 0.0

    def run(self, sample: list[str]) -> None:
        """Measure one slice."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.work(sample)
        cpu_s = time.process_time() - cpu
        self.wall_s += time.perf_counter() - wall
        self.cpu_s += cpu_s
        self.links += len(sample)
        self.best_per_s = max(self.best_per_s, len(sample) / cpu_s)

    def to_json(self) -> dict[str, float]:
        """The measure for the report."""
        return {
            "links": self.links,
            "cpu_s": round(self.cpu_s, 3),
            "wall_s": round(self.wall_s, 3),
            "links_per_s": round(self.links / self.cpu_s),
            "links_per_s_best": round(self.best_per_s),
        }


def normalize_and_route(sample: list[str]) -> None:
    """What is measured."""
    for text in sample:
        url = normalize(text).url
        if url is not None:
            route(url)


def parse(sample: list[str]) -> None:
    """The floor that knows what a browser would open."""
    for text in sample:
        ada_url.URL(text)


def split(sample: list[str]) -> None:
    """The floor that only cuts; its own cache of 128 URLs is of no use here."""
    for text in sample:
        urlsplit(text)


def ask_social_links(sample: list[str]) -> None:
    """What people would use instead, thorough."""
    for text in sample:
        router_others.by_social_links(text)


def ask_socials(sample: list[str]) -> None:
    """What people would use instead, small."""
    for text in sample:
        router_others.by_socials(text)


def corpus() -> list[str]:
    """The links of the sample, as they were written."""
    with CORPUS.open(encoding="utf-8", newline="") as file:
        return [row["url"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def distinct_links(sample: list[str]) -> Iterator[str]:
    """Links like those of the sample, without end. What is no plain link cannot be varied and is left out."""
    forms = [form for form in map(form_of, sample) if len(form) > 1]
    for turn in count(1):
        for form in forms:
            yield "".join(_counted_on(part, turn) if at % 2 else part for at, part in enumerate(form))


def form_of(text: str) -> list[str]:
    """A link cut into what stays and what is varied, in turns."""
    url = normalize(text).url
    host = _HOST.match(text)
    if url is None or host is None:
        return [text]
    is_web = route(url).platform is Platform.WEB
    name = _LABEL.split(host["name"], maxsplit=1) if is_web else [host["name"]]
    behind = _LAST_NAME.split(text[host.end() :], maxsplit=1)
    form = [*name[:-1], name[-1] + behind[0], *behind[1:]]
    return [host["scheme"] + form[0], *form[1:]]


def _counted_on(name: str, turn: int) -> str:
    """Add `turn` to a name as to a number; digits stay digits, letters stay letters of their case."""
    signs = list(name)
    for at in range(len(signs) - 1, -1, -1):
        first, size = ("0", 10) if signs[at].isdigit() else ("a", 26) if signs[at].islower() else ("A", 26)
        turn, rest = divmod(turn + ord(signs[at]) - ord(first), size)
        signs[at] = chr(ord(first) + rest)
        if turn == 0:
            break
    return "".join(signs)


def share_of_same_kind(sample: list[str]) -> float:
    """How many of the distinct links lead to the same kind of place as the links they were made from."""
    varied = [text for text in sample if len(form_of(text)) > 1]
    made = distinct_links(sample)
    return sum(_kind_of(text) == _kind_of(other) for text, other in zip(varied, made, strict=False)) / len(
        varied
    )


def _kind_of(text: str) -> tuple[object, ...]:
    url = normalize(text).url
    return () if url is None else route(url)[1:4]


def is_absolute(text: str) -> bool:
    """Whether both parsers take the text."""
    try:
        return bool(urlsplit(ada_url.URL(text).href).netloc)
    except ValueError:
        return False


def memory(made: Iterator[str], wanted: int) -> dict[str, int]:
    """Work on `wanted` links that were not there before, after the cache of hosts was filled."""
    _drain(made, max(wanted // 5, 4 * HOST_CACHE_SIZE))
    gc.collect()
    before = rss_kib()
    _drain(made, wanted)
    gc.collect()
    return {"links": wanted, "rss_kib": before, "growth_kib": rss_kib() - before}


def _drain(made: Iterator[str], wanted: int) -> None:
    for _ in range(0, wanted, SLICE):
        normalize_and_route(list(islice(made, SLICE)))


def rss_kib() -> int:
    """The memory that this process has now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_KIB


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--links", type=int, default=500_000)
    parser.add_argument("--memory-links", type=int, default=1_000_000)
    options = parser.parse_args()
    print(json.dumps(measure(options.links, options.memory_links)))


def measure(links: int, memory_links: int) -> dict[str, object]:
    """Normalise and route `links` links of each kind, then `memory_links` more; return the figures."""
    sample = corpus()
    repeated, made = cycle(sample), distinct_links(sample)
    absolute = cycle([text for text in sample if is_absolute(text)])
    measures = {
        "as_is": Measure(normalize_and_route),
        "distinct": Measure(normalize_and_route),
        "ada_url": Measure(parse),
        "urlsplit": Measure(split),
        "social_links": Measure(ask_social_links),
        "socials": Measure(ask_socials),
    }
    normalize_and_route(sample)
    for _ in range(0, links, SLICE):
        measures["as_is"].run(list(islice(repeated, SLICE)))
        measures["distinct"].run(list(islice(made, SLICE)))
        whole = list(islice(absolute, SLICE))
        measures["ada_url"].run(whole)
        measures["urlsplit"].run(whole)
        few = list(islice(repeated, SLICE // OTHERS_EVERY))
        measures["social_links"].run(few)
        measures["socials"].run(few)
    cost = {name: each.cpu_s / each.links for name, each in measures.items()}
    return {
        "sample": len(sample),
        "distinct_of_same_kind": round(share_of_same_kind(sample), 3),
        "load": os.getloadavg()[0],
        **{name: each.to_json() for name, each in measures.items()},
        "parses_per_link": {name: round(cost["as_is"] / cost[name], 2) for name in ("ada_url", "urlsplit")},
        "to_others": {name: round(cost["as_is"] / cost[name], 2) for name in ("social_links", "socials")},
        "recognised": router_others.recognised(sample),
        "agreeing": router_others.agreeing(sample),
        "memory": memory(made, memory_links),
    }


if __name__ == "__main__":
    main()
