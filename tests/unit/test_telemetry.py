"""Counting in memory: closed sets of labels, bounded memory, and what a call that ended is called."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta

import pytest
import requests

from tests.conftest import FakeClock, make_settings
from workers.clock import Clock
from workers.errors import BudgetExceeded, FetchFailed, TargetGone, UnsafeAddress
from workers.funding.reconciliation import Outcome, property_lease
from workers.http.client import OutboundClient
from workers.http.messages import Request
from workers.http.retry import FREE, PAID
from workers.http.tally import CallTally, outcome_of_error, outcome_of_status
from workers.jobs.fan_out import process_lease
from workers.jobs.record import JobState, alive_lease
from workers.services import JOB_KINDS
from workers.social_graph.vocabulary import FetchStatus, Platform
from workers.social_recording.generators.registry import Generators
from workers.social_recording.recording import TokenOutcome, token_lease
from workers.social_recording.url_collection import url_lease
from workers.solana_backfill.campaign_words import CandidateOutcome
from workers.source_limits import SOURCES
from workers.telemetry import HOURS_KEPT, SEPARATOR, Meter
from workers.telemetry_table import (
    BACKFILL_OUTCOME,
    CALL_OUTCOME,
    CALLS,
    COUNTERS,
    FUNDING_OUTCOME,
    HISTOGRAMS,
    JOB_END,
    JOB_KIND,
    JOB_SECONDS,
    LEASE_FAMILY,
    OTHER,
    PAID_SOURCES,
    PERMIT_REFUSALS,
    PERMIT_WAIT_SECONDS,
    PERMIT_WAITS,
    PLATFORM,
    SOURCE,
    TOKEN_OUTCOME,
    URL_STATUS,
    Label,
    lease_family,
)

SERIES_MAX = 2500


def totals(meter: Meter) -> dict[str, dict[str, float]]:
    batch = meter.take()
    return {} if batch is None else batch.totals


def test_names_follow_the_rules_of_prometheus_and_say_their_unit() -> None:
    names = [spec.name for spec in (*COUNTERS, *HISTOGRAMS)]
    assert len(set(names)) == len(names)
    for spec in (*COUNTERS, *HISTOGRAMS):
        assert re.fullmatch(r"converge_[a-z]+(_[a-z]+)*", spec.name)
        assert not spec.name.endswith("_total"), "it is added where the counter is shown"
        assert ("seconds" in spec.name) == spec.meaning.endswith("in seconds")
        for label in spec.labels:
            assert re.fullmatch(r"[a-z]+", label.name)


def test_every_label_has_a_closed_set_of_values_and_all_series_together_are_few() -> None:
    series = 0
    for spec in COUNTERS:
        product = 1
        for label in spec.labels:
            assert OTHER in label.values
            assert not any(SEPARATOR in value for value in label.values)
            product *= len(label.values)
        series += product
    assert series < SERIES_MAX


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (SOURCE, SOURCES),
        (PLATFORM, Platform),
        (URL_STATUS, FetchStatus),
        (TOKEN_OUTCOME, TokenOutcome),
        (BACKFILL_OUTCOME, CandidateOutcome),
        (FUNDING_OUTCOME, Outcome),
        (JOB_KIND, JOB_KINDS),
        (JOB_END, (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)),
    ],
    ids=lambda value: value.name if isinstance(value, Label) else "",
)
def test_the_values_of_a_label_are_the_words_of_its_context(label: Label, words: tuple[str, ...]) -> None:
    assert label.values == {*map(str, words), OTHER}


def test_every_lease_has_a_family() -> None:
    names = {
        token_lease("So1"): "social-record",
        url_lease("https://a.example"): "social-url",
        alive_lease("job-1"): "job-alive",
        process_lease("host:1"): "process",
        property_lease("harbour"): "funding",
        **{kind.lease: kind.lease for kind in JOB_KINDS.values()},
    }
    assert {name: lease_family(name) for name in names} == names
    assert set(names.values()) | {OTHER} == LEASE_FAMILY.values
    assert lease_family("something:else") == OTHER


def test_the_paid_sources_are_those_of_the_paid_generators(clock: FakeClock) -> None:
    settings = make_settings(apify_token="a", twitterapiio_api_key="b", x_api_bearer_token="c")
    generators = Generators(OutboundClient(settings, clock), settings)
    assert {each.source for each in generators._generators if each.is_paid} == PAID_SOURCES


def test_a_value_outside_its_set_is_counted_as_other(clock: FakeClock) -> None:
    meter = Meter(clock)
    for number in range(1000):
        meter.count(CALLS, f"https://{number}.example/", "ok", "no")
    assert totals(meter) == {CALLS.name: {"other|ok|no": 1000}}


@pytest.mark.parametrize("amount", [0, -1, float("nan"), float("inf")])
def test_what_is_no_positive_number_is_not_counted(clock: FakeClock, amount: float) -> None:
    meter = Meter(clock)
    meter.count(CALLS, "github", "ok", "no", amount=amount)
    assert meter.take() is None


def test_what_was_taken_is_not_taken_twice(clock: FakeClock) -> None:
    meter = Meter(clock)
    meter.count(CALLS, "github", "ok", "no")
    first, second = meter.take(), meter.take()
    assert first is not None
    assert first.totals == {CALLS.name: {"github|ok|no": 1}}
    assert second is None


def test_many_threads_lose_no_count() -> None:
    meter = Meter()

    def count() -> None:
        for _ in range(2000):
            meter.count(CALLS, "github", "ok", "no")

    threads = [threading.Thread(target=count) for _ in range(8)]
    taken = []
    for each in threads:
        each.start()
    while any(each.is_alive() for each in threads):
        taken.append(totals(meter))
    taken.append(totals(meter))
    assert sum(each.get(CALLS.name, {}).get("github|ok|no", 0) for each in taken) == 16_000


def test_calls_are_counted_by_the_hour_and_the_oldest_hours_are_dropped(clock: FakeClock) -> None:
    meter = Meter(clock)
    for _ in range(HOURS_KEPT + 5):
        meter.count(CALLS, "github", "ok", "no")
        clock.advance(3600)
    batch = meter.take()
    assert batch is not None
    assert len(batch.hours) == HOURS_KEPT
    first = datetime(2026, 1, 15, 12, tzinfo=UTC) + timedelta(hours=5)
    assert min(batch.hours) == first.strftime("%Y-%m-%dT%H")
    assert batch.totals[CALLS.name] == {"github|ok|no": HOURS_KEPT + 5}, "the total knows them all"


def test_a_duration_lies_in_the_first_bucket_that_holds_it(clock: FakeClock) -> None:
    meter = Meter(clock)
    for seconds in (0.5, 0.6, 3600.0, 3601.0):
        meter.observe(JOB_SECONDS, "social.retry", seconds=seconds)
    assert totals(meter)[JOB_SECONDS.name] == {
        "social.retry|0.5": 1,
        "social.retry|1.0": 1,
        "social.retry|3600.0": 1,
        "social.retry|+Inf": 1,
        "social.retry|sum": pytest.approx(7202.1),
    }


def test_a_job_that_counts_its_targets_is_counted_with_them_unless_it_only_looked(clock: FakeClock) -> None:
    meter = Meter(clock)
    meta = {"persisted": 7, "missing": 0, "failed": 2, "selected": 9, "note": "text"}
    meter.count_job("solana.backfill", "succeeded", seconds=1, meta=meta)
    meter.count_job("solana.backfill", "succeeded", seconds=1, meta={**meta, "dryRun": True})
    found = totals(meter)
    assert found["converge_backfill_signatures"] == {"persisted": 7, "failed": 2}
    assert found["converge_jobs_ended"] == {"solana.backfill|succeeded": 2}


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, "ok"),
        (204, "ok"),
        (301, "redirect"),
        (401, "blocked"),
        (402, "payment_required"),
        (403, "blocked"),
        (404, "not_found"),
        (410, "not_found"),
        (418, "client_error"),
        (429, "rate_limited"),
        (500, "server_error"),
        (503, "server_error"),
        (999, OTHER),
    ],
)
def test_an_answer_has_the_class_of_its_status(status: int, outcome: str) -> None:
    assert outcome_of_status(status) == outcome
    assert outcome in CALL_OUTCOME.values


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (FetchFailed("x", reason="timeout"), "timeout"),
        (FetchFailed("x", reason="connection_failed"), "connection_failed"),
        (FetchFailed("x", reason="dns_temporary"), "dns_failed"),
        (FetchFailed("x", reason="body_too_large"), "bad_answer"),
        (FetchFailed("x", reason="something new"), OTHER),
        (TargetGone("x", reason="dns_nxdomain"), "dns_failed"),
        (UnsafeAddress("x"), "unsafe_address"),
        (BudgetExceeded("x"), "timeout"),
        (requests.exceptions.ReadTimeout(), "timeout"),
        (requests.exceptions.SSLError(), "tls_failed"),
        (requests.exceptions.ConnectionError(), "connection_failed"),
        (requests.exceptions.ContentDecodingError(), "bad_answer"),
    ],
)
def test_a_call_without_an_answer_has_the_class_of_its_failure(error: Exception, outcome: str) -> None:
    assert outcome_of_error(error) == outcome
    assert outcome in CALL_OUTCOME.values


@pytest.mark.parametrize(
    ("source", "policy", "is_paid"),
    [
        ("twitterapiio", PAID, "yes"),
        ("apify", PAID, "yes"),
        ("apify", FREE, "no"),
        ("solana_rpc", PAID, "no"),
    ],
)
def test_a_call_is_paid_when_source_and_policy_say_so(
    clock: FakeClock, source: str, policy: object, is_paid: str
) -> None:
    meter = Meter(clock)
    request = Request(source=source, url="https://a.example/", retry=policy)  # type: ignore[arg-type]
    with CallTally(meter, clock).call(request) as heard:
        heard.status = 200
        clock.advance(2)
    assert totals(meter) == {
        CALLS.name: {f"{source}|ok|{is_paid}": 1},
        "converge_outbound_call_seconds": {source: 2},
    }


def test_a_call_that_fails_is_counted_and_its_error_goes_on(clock: FakeClock) -> None:
    meter = Meter(clock)
    tally = CallTally(meter, clock)
    request = Request(source="github", url="https://a.example/")
    with pytest.raises(FetchFailed), tally.call(request):
        raise FetchFailed("cut off", reason="timeout")
    assert totals(meter)[CALLS.name] == {"github|timeout|no": 1}


def test_the_wait_for_a_permit_is_counted_and_so_is_a_refusal(clock: FakeClock) -> None:
    class Permit:
        def __init__(self, wait_s: float, error: Exception | None = None) -> None:
            self.wait_s, self.error, self.is_given_back = wait_s, error, False

        def __enter__(self) -> None:
            clock.advance(self.wait_s)
            if self.error is not None:
                raise self.error

        def __exit__(self, *_: object) -> None:
            self.is_given_back = True

    meter = Meter(clock)
    tally = CallTally(meter, clock)
    waited, at_once = Permit(3), Permit(0)
    for permit in (waited, at_once):
        with tally.permit("github", permit):
            pass
        assert permit.is_given_back
    for error in (FetchFailed("x", reason="rate_limited"), BudgetExceeded("x")):
        with pytest.raises(type(error)), tally.permit("github", Permit(1, error)):
            raise AssertionError("nobody gets here")
    with pytest.raises(FetchFailed), tally.permit("github", Permit(0)):
        raise FetchFailed("inside", reason="rate_limited")
    found = totals(meter)
    assert found[PERMIT_WAITS.name] == {"github": 1}
    assert found[PERMIT_WAIT_SECONDS.name] == {"github": 3}
    assert found[PERMIT_REFUSALS.name] == {"github|rate_limited": 1, "github|out_of_time": 1}


def test_counting_costs_microseconds() -> None:
    clock, meter = Clock(), Meter()
    started = clock.monotonic()
    for _ in range(10_000):
        meter.count(CALLS, "github", "ok", "no")
    assert clock.monotonic() - started < 2, "about a tenth of that where nobody else is at work"
