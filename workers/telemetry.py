"""Counting what the workers do: in the process first, from there into Redis, and back for those who look.

    Meter (memory, any thread) -> MeterWriter (one thread, every few seconds) -> Redis -> TelemetryReader

Counting never fails and never waits for a store. While Redis is away the counts stay in memory, which is
bounded, because labels have closed sets of values and the oldest hours are dropped first. A batch that may
have arrived is sent again under its name, and counted once. Who is killed loses what was not written yet:
the last five seconds while Redis is there.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias, cast

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Clock
from workers.errors import RetryableError
from workers.telemetry_table import (
    CALLS,
    COUNTERS,
    HISTOGRAMS,
    JOB_SECONDS,
    JOBS_ENDED,
    META_COUNTS,
    CounterSpec,
    HistogramSpec,
)

log = logging.getLogger(__name__)

KEY_PREFIX = "converge:metrics:"
HOUR_KEY_PREFIX = f"{KEY_PREFIX}hour:"
BATCH_KEY_PREFIX = f"{KEY_PREFIX}batch:"
HOURS_KEPT = 7 * 24
FLUSH_EVERY_S = 5.0
# A batch is repeated with the next flush; only an outage that begins between the two may last longer.
BATCH_KNOWN_S = 3600
# No value of a label has it.
SEPARATOR = "|"
SUM = "sum"
INFINITE = "+Inf"
STORE_AWAY = (RedisError, OSError)

# KEYS: the mark of the batch, then hashes, those of hours last. ARGV: seconds to keep the mark, seconds to
# keep an hour, place of the first hour among the keys, then place of the key, field and amount of each
# number. The client repeats a command whose answer got lost, so a batch is marked and a marked one adds
# nothing. Returns how many numbers were not added, because something else stands in their place.
_ADD = """
if not redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return 0 end
local refused = 0
for i = 4, #ARGV, 3 do
  local answer = redis.pcall('HINCRBYFLOAT', KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2])
  if type(answer) == 'table' and answer.err then refused = refused + 1 end
end
for i = tonumber(ARGV[3]), #KEYS do redis.call('EXPIRE', KEYS[i], ARGV[2]) end
return refused
"""

Numbers: TypeAlias = dict[str, float]
Labelled: TypeAlias = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Counts by hash and field; `name` is one that no other batch has."""

    totals: dict[str, Numbers]
    hours: dict[str, Numbers]
    name: str = field(default_factory=lambda: secrets.token_hex(8))


class Meter:
    """Counts in memory. One for a process; safe for any number of threads, and cheap."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._guard = threading.Lock()
        self._totals: dict[str, Numbers] = {}
        self._hours: dict[str, Numbers] = {}

    def count(self, spec: CounterSpec, *values: str, amount: float = 1.0) -> None:
        """Add `amount` to the counter with these values of its labels, in their order.

        What is no number from 0 on is not counted.
        """
        if not (math.isfinite(amount) and amount > 0):
            return
        name = _field(spec, values)
        with self._guard:
            _add(self._totals.setdefault(spec.name, {}), name, amount)
            if spec.is_hourly:
                _add(self._hour(), name, amount)

    def observe(self, spec: HistogramSpec, *values: str, seconds: float) -> None:
        """Put a duration of `seconds` into its bucket."""
        bound = next((str(float(each)) for each in spec.bounds_s if seconds <= each), INFINITE)
        name = _field(spec, values)
        with self._guard:
            numbers = self._totals.setdefault(spec.name, {})
            _add(numbers, f"{name}{SEPARATOR}{bound}", 1.0)
            _add(numbers, f"{name}{SEPARATOR}{SUM}", max(0.0, seconds))

    def count_job(self, kind: str, state: str, *, seconds: float, meta: Mapping[str, object]) -> None:
        """Count a job that has ended, with what its meta says of its targets."""
        self.count(JOBS_ENDED, kind, state)
        self.observe(JOB_SECONDS, kind, seconds=seconds)
        targets = META_COUNTS.get(kind)
        if targets is None or meta.get("dryRun"):
            return
        for outcome in targets.labels[0].values:
            number = meta.get(outcome)
            if isinstance(number, int):
                self.count(targets, outcome, amount=number)

    def take(self) -> Batch | None:
        """Everything counted since the last time, which is forgotten here; None when that is nothing."""
        with self._guard:
            totals, self._totals = self._totals, {}
            hours, self._hours = self._hours, {}
        return Batch(totals=totals, hours=hours) if totals else None

    def _hour(self) -> Numbers:
        hour = _hour_of(self._clock.now())
        if hour not in self._hours and len(self._hours) >= HOURS_KEPT:
            del self._hours[min(self._hours)]
        return self._hours.setdefault(hour, {})


class MeterWriter:
    """Writes what a meter has counted to Redis. One for a process."""

    def __init__(self, meter: Meter, redis: Redis, clock: Clock) -> None:
        self._meter = meter
        self._clock = clock
        self._add = redis.register_script(_ADD)
        self._flushing = threading.Lock()
        self._unsure: Batch | None = None
        self._is_away = False
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Write every few seconds, in a thread of its own, until `close`."""
        self._thread = threading.Thread(target=self._run, name="meter-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write for the last time."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()

    def flush(self) -> bool:
        """Write what was counted; False when Redis is away and it is kept. Raises nothing for that."""
        with self._flushing:
            while (batch := self._unsure or self._meter.take()) is not None:
                self._unsure = batch
                if not self._send(batch):
                    return False
                self._unsure = None
        return True

    def _send(self, batch: Batch) -> bool:
        keys = [f"{BATCH_KEY_PREFIX}{batch.name}"]
        numbers: list[str | int] = []
        hashes = [(f"{KEY_PREFIX}{name}", fields) for name, fields in batch.totals.items()]
        hours = [(f"{HOUR_KEY_PREFIX}{hour}", fields) for hour, fields in batch.hours.items()]
        for key, fields in hashes + hours:
            keys.append(key)
            for name, amount in fields.items():
                numbers += [len(keys), name, repr(amount)]
        times = [BATCH_KNOWN_S, HOURS_KEPT * 3600, len(hashes) + 2]
        try:
            refused = self._add(keys=keys, args=[*times, *numbers])
        except STORE_AWAY as exc:
            if not self._is_away:
                log.warning("counts are kept until Redis is back", extra={"error": repr(exc)})
            self._is_away = True
            return False
        self._is_away = False
        if refused:
            log.warning("some counts have no place in Redis", extra={"counts": refused})
        return True

    def _run(self) -> None:
        while not self._clock.wait(self._ending, FLUSH_EVERY_S):
            try:
                self.flush()
            except Exception:
                # Were this thread to end, nobody would see what this process does any more.
                log.exception("counts could not be written")


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """How many durations lie in each bucket (by its upper end, not summed up), and their sum in seconds."""

    buckets: Mapping[str, float]
    sum_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Readings:
    """All counts as Redis has them, by metric and values of the labels."""

    counters: Mapping[CounterSpec, Labelled]
    histograms: Mapping[HistogramSpec, Mapping[tuple[str, ...], Histogram]]


@dataclass(frozen=True, kw_only=True, slots=True)
class HourOfCalls:
    """The calls of the hour that begins at `at`, by source; `paid` are those of them that cost money."""

    at: datetime
    calls: Mapping[str, int]
    paid: Mapping[str, int]


class TelemetryReader:
    """Reads the counts of all processes. Raises `RetryableError` when Redis does not answer."""

    def __init__(self, redis: Redis, clock: Clock) -> None:
        self._redis = redis
        self._clock = clock

    def read(self) -> Readings:
        """Every counter and histogram, in one round trip. What is no count of ours is left out."""
        specs: tuple[CounterSpec | HistogramSpec, ...] = (*COUNTERS, *HISTOGRAMS)
        stored = self._hashes([f"{KEY_PREFIX}{spec.name}" for spec in specs])
        pairs = list(zip(specs, stored, strict=True))
        return Readings(
            counters={spec: _counts(spec, raw) for spec, raw in pairs if isinstance(spec, CounterSpec)},
            histograms={
                spec: _histograms(spec, raw) for spec, raw in pairs if isinstance(spec, HistogramSpec)
            },
        )

    def calls_by_hour(self, hours: int) -> list[HourOfCalls]:
        """The last `hours` hours (168 at most) with the one that is going on, the oldest first."""
        last = self._clock.now().replace(minute=0, second=0, microsecond=0)
        moments = [last - timedelta(hours=back) for back in reversed(range(min(hours, HOURS_KEPT)))]
        stored = self._hashes([f"{HOUR_KEY_PREFIX}{_hour_of(moment)}" for moment in moments])
        return [_hour_of_calls(moment, raw) for moment, raw in zip(moments, stored, strict=True)]

    def _hashes(self, keys: list[str]) -> list[Numbers]:
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.hgetall(key)
                answers = pipe.execute(raise_on_error=False)
        except STORE_AWAY as exc:
            raise RetryableError("the counts in Redis cannot be read") from exc
        return [_numbers(answer) for answer in answers]


def _field(spec: CounterSpec | HistogramSpec, values: tuple[str, ...]) -> str:
    pairs = zip(spec.labels, values, strict=True)
    return SEPARATOR.join(label.closest(value) for label, value in pairs)


def _add(numbers: Numbers, name: str, amount: float) -> None:
    numbers[name] = numbers.get(name, 0.0) + amount


def _hour_of(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H")


def _numbers(answer: object) -> Numbers:
    """The numbers of a hash; nothing where the key holds something else."""
    found: Numbers = {}
    if isinstance(answer, dict):
        for name, text in cast(dict[bytes, bytes], answer).items():
            try:
                number = float(text)
            except ValueError:
                continue
            if math.isfinite(number):
                found[name.decode(errors="replace")] = number
    return found


def _values(spec: CounterSpec | HistogramSpec, name: str) -> tuple[str, ...] | None:
    """The values of the labels in the name of a field; None when it is none of the metric's."""
    values = tuple(name.split(SEPARATOR))
    is_ours = len(values) == len(spec.labels) and all(
        value in label.values for label, value in zip(spec.labels, values, strict=True)
    )
    return values if is_ours else None


def _counts(spec: CounterSpec, raw: Numbers) -> Labelled:
    named = ((_values(spec, name), number) for name, number in raw.items())
    return {values: number for values, number in named if values is not None}


def _histograms(spec: HistogramSpec, raw: Numbers) -> dict[tuple[str, ...], Histogram]:
    bounds = [*(str(float(each)) for each in spec.bounds_s), INFINITE]
    heads = {name.rpartition(SEPARATOR)[0] for name in raw}
    named = ((head, _values(spec, head)) for head in sorted(heads))
    return {
        values: Histogram(
            buckets={bound: raw.get(f"{head}{SEPARATOR}{bound}", 0.0) for bound in bounds},
            sum_s=raw.get(f"{head}{SEPARATOR}{SUM}", 0.0),
        )
        for head, values in named
        if values is not None
    }


def _hour_of_calls(moment: datetime, raw: Numbers) -> HourOfCalls:
    calls, paid = Counter[str](), Counter[str]()
    for (source, _, is_paid), number in _counts(CALLS, raw).items():
        calls[source] += round(number)
        if is_paid == "yes":
            paid[source] += round(number)
    return HourOfCalls(at=moment, calls=calls, paid=paid)
