"""What Prometheus reads: the counts of all workers, and how things are right now.

Behind the key like everything else. The numbers are those of the whole system, whichever process is asked, so
one scrape of any API process is enough. Each part is looked at on its own, in parallel and at most every few
seconds: what cannot be seen is left out, `converge_store_up` says why, and the answer is a 200 all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import Generic, TypeVar

from flask import Flask, Response, current_app
from flask_openapi import APIBlueprint, Tag
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app.specification import NEEDS_KEY, answer, problems
from workers.clock import Budget, Clock
from workers.errors import ConvergeError
from workers.funding.vocabulary import BlockReason
from workers.jobs.record import JobState
from workers.latest_look import LatestLook, Seen
from workers.services import JOB_KINDS, JobAccess
from workers.social_graph.vocabulary import FetchStatus, Platform
from workers.social_recording.overview import URLCounts
from workers.social_recording.stream import Fate
from workers.telemetry import Histogram, Readings
from workers.telemetry_table import LEASE_FAMILY, CounterSpec, HistogramSpec
from workers.vital_signs import FundingSigns

# A scrape waits so long for all parts together; a part that takes longer is shown as it was before.
WAIT_S = 1.0
# What is older is no longer how things are. Counting all URLs may take a while, and says how old it is.
STALE_AFTER = timedelta(seconds=60)
MINDED_AT_ONCE_S = 4.0
MINDED_SELDOM_S = 20.0
_EXPOSITION = "converge.exposition"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class GaugeSpec:
    """A number that is read when somebody looks."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()


STORE_UP = GaugeSpec(
    name="converge_store_up",
    meaning="Whether a store answers (1) or not (0); what needs it is left out meanwhile",
    labels=("store",),
)
JOBS = GaugeSpec(
    name="converge_jobs", meaning="The newest 500 jobs, by kind and state", labels=("kind", "state")
)
QUEUES = GaugeSpec(
    name="converge_queue_messages",
    meaning="Tasks that wait in a queue and that no worker has taken",
    labels=("queue",),
)
LEASES_HELD = GaugeSpec(
    name="converge_leases_held", meaning="Leases that are held, by what they are for", labels=("family",)
)
STREAM_CONSUMERS = GaugeSpec(
    name="converge_stream_consumers", meaning="Consumers of the live stream that are alive", labels=()
)
STREAM_WAITING = GaugeSpec(
    name="converge_stream_waiting_messages",
    meaning="Messages that wait in the queue of the live stream, as its consumers saw it a few seconds ago",
    labels=(),
)
URLS = GaugeSpec(
    name="converge_urls", meaning="Links of tokens, by platform and status", labels=("platform", "status")
)
URLS_AGE = GaugeSpec(
    name="converge_urls_age_seconds",
    meaning="How old the numbers of converge_urls are, in seconds",
)
FUNDING_DRIFT = GaugeSpec(
    name="converge_funding_drift_bricks",
    meaning="Differences between the counters of active fundings and the truth, summed up, in bricks",
    labels=("counter",),
)
FUNDINGS_DRIFTED = GaugeSpec(
    name="converge_funding_drifted_properties",
    meaning="Active fundings of which a counter is not the truth",
)
FUNDINGS_BLOCKED = GaugeSpec(
    name="converge_funding_blocked_properties",
    meaning="Active fundings that sell nothing for the time being",
    labels=("reason",),
)
GAUGES = (
    STORE_UP,
    JOBS,
    QUEUES,
    LEASES_HELD,
    STREAM_CONSUMERS,
    STREAM_WAITING,
    URLS,
    URLS_AGE,
    FUNDING_DRIFT,
    FUNDINGS_DRIFTED,
    FUNDINGS_BLOCKED,
)
# Counted by the stream itself.
STREAM_MESSAGES = "converge_stream_messages"

blueprint = APIBlueprint("metrics", __name__, abp_tags=[Tag(name="description")], abp_security=NEEDS_KEY)


@blueprint.get(
    "/metrics",
    summary="Numbers for Prometheus",
    operation_id="getMetrics",
    responses={
        200: {
            **answer(None, "Counters and gauges in the text format of Prometheus."),
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(401, 500),
    },
)
def metrics() -> Response:
    """Counters of all workers and gauges of the whole system.

    What needs a store that does not answer is left out; `converge_store_up` tells which.
    """
    registry: CollectorRegistry = current_app.extensions[_EXPOSITION]
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def prepare(app: Flask, access: JobAccess) -> None:
    """Give the app what it reads the numbers with; asks nobody."""
    registry = CollectorRegistry()
    registry.register(SystemCollector(access, Clock()))
    app.extensions[_EXPOSITION] = registry


class _Part(Generic[T]):
    """One part of the numbers, and what it makes of them."""

    def __init__(
        self,
        look: Callable[[], T],
        clock: Clock,
        *,
        good_for_s: float,
        render: Callable[[T], Iterator[Metric]],
        shows: str | None = None,
    ) -> None:
        self._look = LatestLook(look, clock, good_for_s=good_for_s)
        self._clock = clock
        self._render = render
        # The store whose answer this part shows.
        self.shows = shows

    def begin(self) -> None:
        self._look.begin()

    def collect(self, wait_s: float) -> list[Metric] | None:
        """What is there to see, None when nothing is."""
        try:
            seen = self._look.latest(wait_s=wait_s)
        except ConvergeError:
            return None
        if seen is None or self._clock.now() - seen.at > STALE_AFTER:
            return None
        return list(self._render(seen.value))


class SystemCollector(Collector):
    """Reads everything anew for each scrape, as far as that is due. One for a process."""

    def __init__(self, access: JobAccess, clock: Clock) -> None:
        self._clock = clock
        self._overview = access.overview
        vitals, telemetry = access.vitals, access.telemetry
        self._parts: list[_Part[object]] = []
        self._add(telemetry.read, _counted, good_for_s=MINDED_AT_ONCE_S, shows="redis")
        self._add(vitals.queue_lengths, _queues, good_for_s=MINDED_AT_ONCE_S, shows="broker")
        self._add(vitals.ping_mongodb, _nothing, good_for_s=MINDED_AT_ONCE_S, shows="mongodb")
        self._add(vitals.jobs, _jobs, good_for_s=MINDED_AT_ONCE_S)
        self._add(vitals.stream_messages, _stream, good_for_s=MINDED_AT_ONCE_S)
        self._add(vitals.stream_consumers, _stream_queue, good_for_s=MINDED_AT_ONCE_S)
        self._add(vitals.leases_held, _leases, good_for_s=MINDED_SELDOM_S)
        if access.funding.is_configured:
            ping = _truthful(access.funding.ping)
            self._add(ping, _nothing, good_for_s=MINDED_AT_ONCE_S, shows="postgresql")
            self._add(vitals.fundings, _fundings, good_for_s=MINDED_SELDOM_S)

    def collect(self) -> Iterator[Metric]:
        """All families there are to see now; never raises for a store that is away."""
        budget = Budget.of(self._clock, WAIT_S)
        for part in self._parts:
            part.begin()
        up = _gauge(STORE_UP)
        for part in self._parts:
            found = part.collect(budget.remaining_s)
            if part.shows is not None:
                up.add_metric([part.shows], int(found is not None))
            yield from found or ()
        yield up
        yield from self._urls(budget.remaining_s)

    def _add(
        self,
        look: Callable[[], T],
        render: Callable[[T], Iterator[Metric]],
        *,
        good_for_s: float,
        shows: str | None = None,
    ) -> None:
        part = _Part(look, self._clock, good_for_s=good_for_s, render=render, shows=shows)
        self._parts.append(part)  # type: ignore[arg-type]  # nobody looks at what a part is made of

    def _urls(self, wait_s: float) -> Iterator[Metric]:
        """The numbers of URLs, however old they are; the first look is waited for."""
        try:
            seen = self._overview.counts(wait_s=0.0) or self._overview.counts(wait_s=wait_s)
        except ConvergeError:
            return
        if seen is not None:
            yield from _urls(seen)
            age = _gauge(URLS_AGE)
            age.add_metric([], max(0.0, (self._clock.now() - seen.at).total_seconds()))
            yield age


def _truthful(ping: Callable[[], None]) -> Callable[[], bool]:
    def look() -> bool:
        ping()
        return True

    return look


def _gauge(spec: GaugeSpec) -> GaugeMetricFamily:
    return GaugeMetricFamily(spec.name, spec.meaning, labels=spec.labels)


def _nothing(_: bool) -> Iterator[Metric]:
    """What a ping has to show beside that it was answered."""
    yield from ()


def _counted(readings: Readings) -> Iterator[Metric]:
    for spec, numbers in readings.counters.items():
        yield _counter(spec, numbers)
    for histogram, found in readings.histograms.items():
        yield _histogram(histogram, found)


def _counter(spec: CounterSpec, numbers: Mapping[tuple[str, ...], float]) -> Metric:
    family = CounterMetricFamily(spec.name, spec.meaning, labels=[label.name for label in spec.labels])
    for values, number in sorted(numbers.items()):
        family.add_metric(values, number)
    return family


def _histogram(spec: HistogramSpec, found: Mapping[tuple[str, ...], Histogram]) -> Metric:
    family = HistogramMetricFamily(spec.name, spec.meaning, labels=[label.name for label in spec.labels])
    for values, histogram in sorted(found.items()):
        sums = accumulate(histogram.buckets.values())
        family.add_metric(values, list(zip(histogram.buckets, sums, strict=True)), histogram.sum_s)
    return family


def _queues(lengths: Mapping[str, int]) -> Iterator[Metric]:
    family = _gauge(QUEUES)
    for queue, length in lengths.items():
        family.add_metric([queue], length)
    yield family


def _jobs(counts: Mapping[tuple[str, JobState], int]) -> Iterator[Metric]:
    family = _gauge(JOBS)
    for kind in JOB_KINDS:
        for state in JobState:
            family.add_metric([kind, state], counts.get((kind, state), 0))
    yield family


def _leases(held: Mapping[str, int]) -> Iterator[Metric]:
    family = _gauge(LEASES_HELD)
    for name in sorted(LEASE_FAMILY.values):
        family.add_metric([name], held.get(name, 0))
    yield family


def _stream_queue(seen: tuple[int, int]) -> Iterator[Metric]:
    """Without a consumer nobody has seen the queue, so nothing is said about it."""
    consumers, waiting = seen
    for spec, number in ((STREAM_CONSUMERS, consumers), (STREAM_WAITING, waiting)):
        if spec is STREAM_CONSUMERS or consumers:
            family = _gauge(spec)
            family.add_metric([], number)
            yield family


def _stream(fates: Mapping[str, int]) -> Iterator[Metric]:
    family = CounterMetricFamily(
        STREAM_MESSAGES, "Messages of the live stream, by what became of them", labels=["fate"]
    )
    for fate in Fate:
        family.add_metric([fate], fates.get(fate, 0))
    yield family


def _urls(seen: Seen[URLCounts]) -> Iterator[Metric]:
    family = _gauge(URLS)
    for platform in Platform:
        for status in FetchStatus:
            family.add_metric([platform, status], seen.value.number(platform, status))
    yield family


def _fundings(signs: FundingSigns) -> Iterator[Metric]:
    drift, drifted, blocked = _gauge(FUNDING_DRIFT), _gauge(FUNDINGS_DRIFTED), _gauge(FUNDINGS_BLOCKED)
    drift.add_metric(["purchased"], signs.purchased_drift_bricks)
    drift.add_metric(["auto_invest"], signs.auto_invest_drift_bricks)
    drifted.add_metric([], signs.drifted_properties)
    for reason in BlockReason:
        blocked.add_metric([reason], signs.blocked.get(reason, 0))
    yield from (drift, drifted, blocked)
