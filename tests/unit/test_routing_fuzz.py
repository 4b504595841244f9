"""Links of the corpus with changed bytes: what comes out is a URL that a browser would leave as it is.

The suite runs a short round with a fixed seed. By hand, for as long as one likes:

    python -m tests.unit.test_routing_fuzz [--seconds 60] [--seed 1]
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

import ada_url

from workers.social_graph.vocabulary import Platform
from workers.social_recording.routing import links_in, normalize, route
from workers.social_recording.routing.hosts import facts_of
from workers.social_recording.routing.normalize import plain_url
from workers.social_recording.routing.parts import LINK_MAX

CORPUS = Path(__file__).parent.parent / "corpus" / "urls"
ROUNDS = 3_000
TEXT_CPU_S = 1.0
# Pieces that mean something to a parser, to a browser or to the repairs.
_WORDS = r"""
:// // / \ @ : :80 :443 :99999 ? # & = % %2e %2F %00 %ff .. /./ /../ . , ; ( ) [ ] < ' www. m. http:// https:
javascript: user:pw@ 127.1 0x7f.1 [::1] localhost xn-- .evil.io x.com t.me #!/ utm_a=b&
"""
_SIGNS = " \t\n\x00\x7f\u200b\u202e\u3002\uff0f\uff58\u0445\u0131\u00df\U0001f975"
TOKENS = [token.encode() for token in (*_WORDS.split(), *_SIGNS)]


def corpus() -> list[bytes]:
    """The links of both lists."""
    links = []
    for name in ("labelled_examples.tsv", "token_urls_sample.tsv"):
        with (CORPUS / name).open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            links.extend(row["url"].encode() for row in rows)
    return links


class Fuzzer:
    """Makes texts out of links; the same seed makes the same texts."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - it is to be the same every time
        self._links = corpus()

    def text(self) -> str:
        """One text, which may hold anything that a string can hold."""
        link = bytearray(self._random.choice(self._links))
        for _ in range(self._random.choice((1, 1, 1, 2, 2, 3, 5, 9))):
            self._change(link)
        errors = self._random.choice(("replace", "ignore", "surrogateescape"))
        return link.decode(self._random.choice(("utf-8", "utf-8", "utf-8", "latin-1")), errors=errors)

    def _change(self, link: bytearray) -> None:
        at = self._random.randint(0, len(link))
        until = min(len(link), at + self._random.choice((0, 0, 1, 1, 2, 4, 8)))
        kind = self._random.randrange(6)
        if kind == 0:
            link[at:until] = b""
        elif kind == 1:
            link[at:until] = bytes([self._random.randrange(256)])
        elif kind == 2 and at < len(link):
            link[at] ^= 1 << self._random.randrange(8)
        elif kind == 3:
            other = self._random.choice(self._links)
            start = self._random.randint(0, len(other))
            link[at:until] = other[start : start + self._random.randint(1, 40)]
        elif kind == 4:
            link[at:until] = link[at:until] * self._random.choice((2, 3, 50))
        else:
            link[at:until] = self._random.choice(TOKENS)


def check(text: str) -> None:
    """Fail when the router breaks a promise on this text."""
    started = time.process_time()
    found = links_in(text)
    first = normalize(text)
    route(text)
    assert time.process_time() - started < TEXT_CPU_S
    assert found
    assert first[:2] == next((each for each in found if each.url is not None), found[0])[:2]
    for each in found:
        assert (each.url is None) != (each.reason is None)
        if each.url is not None:
            check_canonical(each.url)
    if plain_url(text) is not None and "://" in text:
        check_host(text)


def check_canonical(url: str) -> None:
    """A canonical URL is one that a browser leaves as it is, and that we leave as it is."""
    parsed = ada_url.URL(url)
    assert parsed.href == url
    assert parsed.protocol in ("http:", "https:")
    assert not parsed.username
    assert not parsed.password
    assert len(url) <= LINK_MAX
    assert normalize(url)[:2] == (url, None)
    where = route(url)
    assert where.url == url
    assert where.key


def check_host(text: str) -> None:
    """A link that is not parsed leads to the host that a browser would open."""
    url = normalize(text).url
    assert url is not None
    opened = ada_url.URL(text)
    facts = facts_of(opened.hostname)
    if facts.places is None or opened.port:
        assert route(url).platform is Platform.WEB
        assert ada_url.URL(url).hostname == facts.name
    else:
        assert route(url).platform is not Platform.WEB


def test_links_with_changed_bytes_give_urls_that_a_browser_leaves_as_they_are() -> None:
    fuzzer = Fuzzer(seed=20260101)
    for _ in range(ROUNDS):
        check_and_name(fuzzer.text())


def check_and_name(text: str) -> None:
    """Check; an error names the text."""
    try:
        check(text)
    except Exception as exc:
        exc.add_note(f"on {text!a}")
        raise


def main() -> None:
    """Fuzz until the first error or for some seconds; say how many texts there were and what they gave."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fuzzer = Fuzzer(options.seed)
    seen: Counter[str] = Counter()
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        text = fuzzer.text()
        check_and_name(text)
        seen[normalize(text).reason or "url"] += 1
    sys.stdout.write(json.dumps({"seed": options.seed, "texts": seen.total(), **seen}) + "\n")


if __name__ == "__main__":
    main()
