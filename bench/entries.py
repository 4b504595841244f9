"""What `make bench` measures: the entries, what is shown of each, and what was asked for.

Each entry is a module of this package that prints one JSON object and can be run by itself; here it gets the
sizes that let the whole run end within a quarter of an hour on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number of an entry: where it lies in what the entry prints, and what was asked for.

    `path` joins keys and places in lists with dots. `at_most` and `at_least` are the number asked for, None
    where none was.
    """

    name: str
    path: str
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    def value_in(self, details: Mapping[str, Any]) -> float:
        """The number. Raises `LookupError` or `TypeError` when the entry has printed no such number."""
        found: Any = details
        for step in self.path.split("."):
            found = found[int(step)] if isinstance(found, list) else found[step]
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise TypeError(f"{self.path} is no number: {found!r}")
        return found

    @property
    def asked(self) -> str:
        """What was asked for, for people."""
        if self.at_most is not None:
            return f"<= {self.at_most:g}"
        return "" if self.at_least is None else f">= {self.at_least:g}"

    def is_met_by(self, value: float) -> bool:
        """Whether the number is what was asked for; true where nothing was."""
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A module of this package, how it is called in the whole run, and what is shown of it."""

    name: str
    module: str
    figures: tuple[Figure, ...]
    options: tuple[str, ...] = ()
    timeout_s: float = 240.0


ENTRIES = (
    Entry(
        name="fan-out",
        module="reconcile",
        figures=(
            Figure(name="time to that of a plain script with threads", path="to.script", at_most=1.15),
            Figure(name="time to that of the same recording on a Celery chord", path="to.chord"),
            Figure(name="time to that of the same recording on Dramatiq", path="to.dramatiq"),
            Figure(name="time to the ideal, calls x latency / threads", path="to.ideal", at_most=1.35),
            Figure(name="one token after the other to it", path="to_it.one_by_one", at_least=9),
            Figure(name="100 tokens of 4 links, 200 ms per call", path="median_s.converge", unit="s"),
            Figure(name="a POST's answer, median", path="post_ms_median", unit="ms"),
        ),
    ),
    Entry(
        name="retry",
        module="retry",
        options=("--rounds", "3", "--paid-urls", "20", "--kills", "2"),
        figures=(
            Figure(name="time to that of a plain script with threads", path="wall.wall_to_script_median"),
            Figure(
                name="time to the ideal, calls x latency / threads",
                path="wall.wall_to_ideal_median",
                at_most=1.35,
            ),
            Figure(name="one URL after the other to it", path="wall.one_by_one_to_wall"),
            Figure(name="200 URLs, 200 ms per call", path="wall.wall_s_median", unit="s"),
            Figure(name="round trips to Redis for a URL", path="redis.round_trips_per_url", at_most=8),
            Figure(name="of these not the broker's", path="redis.round_trips_per_url_ours"),
            Figure(name="paid calls for a URL", path="paid.quiet.calls_per_url", at_most=1),
            Figure(
                name="paid calls for 20 URLs while 2 workers are killed",
                path="paid.killed.calls",
                at_most=22,
            ),
        ),
    ),
    Entry(
        name="router",
        module="router",
        options=("--links", "200000", "--memory-links", "400000"),
        figures=(
            Figure(name="time to that of social-links, same links", path="to_others.social_links"),
            Figure(name="time to that of socials, same links", path="to_others.socials"),
            Figure(name="time to that of urllib.parse", path="parses_per_link.urlsplit"),
            Figure(name="links per second of a core", path="as_is.links_per_s"),
            Figure(name="share of links recognised", path="recognised.converge"),
            Figure(name="share of links recognised by social-links", path="recognised.social_links"),
            Figure(name="share of links recognised by socials", path="recognised.socials"),
        ),
    ),
    Entry(
        name="graph",
        module="graph",
        options=("--tokens", "160", "--links", "30000"),
        figures=(
            Figure(name="time to that of plain insert_many", path="concurrency.wall_to_floor"),
            Figure(
                name="round trips to MongoDB for a URL, most",
                path="round_trips.most.recorded.commands",
                at_most=6,
            ),
            Figure(name="the same, URL tried again", path="round_trips.most.retried.commands", at_most=6),
            Figure(name="round trips of a token with 4 links", path="concurrency.commands_per_token"),
            Figure(name="duplicate links", path="concurrency.duplicate_links", at_most=0),
            Figure(
                name="count as of a time, among 10 times as many links",
                path="as_of.count_references_as_of.ratio_median",
            ),
        ),
    ),
    Entry(
        name="selection",
        module="selection",
        figures=(
            Figure(name="time among 1,000,000 URLs to that among 10,000", path="to_first.s.2"),
            Figure(name="time among 100,000 URLs to that among 10,000", path="to_first.s.1"),
            Figure(name="memory among 1,000,000 URLs to that among 10,000", path="to_first.python_peak_kb.2"),
            Figure(name="50 of 10,000 due URLs among 1,000,000", path="s_median.2", unit="s"),
        ),
    ),
    Entry(
        name="backfill",
        module="backfill",
        options=("--seconds", "15"),
        figures=(
            Figure(name="requests a second to those allowed", path="rate.of_allowed", at_least=0.95),
            Figure(name="to those of a plain script at the same rate", path="rate.to_script"),
            Figure(name="to those of one request after the other", path="rate.to_one_by_one"),
            Figure(
                name="most starts in any second, 50 allowed", path="rate.most_in_a_second.started", at_most=50
            ),
        ),
    ),
    Entry(
        name="canonical",
        module="canonical",
        figures=(
            Figure(name="time to that of solders, parsed and read", path="to_solders.canonical"),
            Figure(name="time to that of json.loads", path="canonical_of_floor"),
            Figure(name="transactions per second of a core", path="canonical_per_s"),
        ),
    ),
    Entry(
        name="funding",
        module="funding",
        options=("--delay-ms", "2000"),
        figures=(
            Figure(name="20 properties to one", path="all_to_one"),
            Figure(name="one after the other to it", path="one_by_one_to_all"),
            Figure(name="queries to choose among 1,000", path="selection_queries", at_most=1),
            Figure(name="round trips to Redis for that", path="selection_round_trips", at_most=1),
        ),
    ),
    Entry(
        name="leases",
        module="leases",
        figures=(
            Figure(name="time to that of redis-py's Lock", path="to.redis_py"),
            Figure(name="time to that of python-redis-lock", path="to.python_redis_lock"),
            Figure(name="round trips of taking and giving back", path="converge.round_trips", at_most=2),
            Figure(name="taking and giving back", path="converge.us", unit="us"),
        ),
    ),
    Entry(
        name="api",
        module="api",
        options=("--rounds", "5"),
        figures=(
            Figure(name="health to a bare Flask route", path="to_flask.health", at_least=0.5),
            Figure(name="GET of a job to one that reads Redis", path="to_redis_route.job", at_least=0.5),
            Figure(name="GET of a job to one that does nothing", path="to_flask.job"),
            Figure(name="POST of a job to one that sends a task", path="to_celery_route.post", at_least=0.5),
            Figure(name="POST of a job to one that does nothing", path="to_flask.post"),
            Figure(name="GETs of a job per second", path="per_s.job", unit="/s"),
        ),
    ),
    Entry(
        name="memory",
        module="memory",
        options=("--tokens", "10000"),
        figures=(
            Figure(name="growth from token 1,000 to 10,000", path="growth_percent", unit="%", at_most=5),
            Figure(name="a worker's memory after 10,000 tokens", path="mib.-1", unit="MiB"),
        ),
        timeout_s=400.0,
    ),
    Entry(
        name="start-up",
        module="start_up",
        figures=(
            Figure(name="until all parts are ready, median", path="ready_s_median", unit="s", at_most=6),
            Figure(name="until all parts are ready, slowest", path="ready_s_max", unit="s"),
        ),
    ),
)
