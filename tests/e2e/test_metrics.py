"""Numbers of a running system: jobs run, the API shows what they did, and an end loses no count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from devstack.stack import Stack
from tests.e2e.conftest import PARTS, QUICK
from tests.operator import Operator, sites
from tests.waiting import wait_until
from workers.clock import Clock
from workers.telemetry import TelemetryReader

# A count is on its way for a flush and for as long as an answer is good.
ON_ITS_WAY_S = 30


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A stack whose worker has no counts of other tests still on their way."""
    with Stack(parts=PARTS, workers=1, worker_threads=6, environ=QUICK) as stack:
        yield stack


def total(operator: Operator, name: str, **labels: str) -> float:
    """The sum of all samples of this name with these labels, among others."""
    response = operator.session.get(f"{operator.stack.api_url}/metrics", timeout=10)
    assert response.status_code == 200
    samples = [
        sample
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(sample.value for sample in samples)


def settled(operator: Operator, name: str, number: float, **labels: str) -> bool:
    return wait_until(
        lambda: total(operator, name, **labels) == number,
        f"{name} {labels} is {number}",
        timeout_s=ON_ITS_WAY_S,
    )


def test_what_a_job_did_is_counted(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(3))
    meta = operator.meta("reconcile", {"limit": 10})
    assert meta["recorded"] == len(tokens)
    settled(operator, "converge_jobs_ended_total", 1, kind="social.reconcile", state="succeeded")
    settled(operator, "converge_token_outcomes_total", 3, outcome="recorded")
    settled(operator, "converge_url_outcomes_total", 3, axis="recorded", platform="web")
    made = operator.calls().matching(r"^[A-Z]+ /tracker/")
    assert made > 0
    settled(operator, "converge_outbound_calls_total", made, source="tracker")
    assert total(operator, "converge_job_duration_seconds_count", kind="social.reconcile") == 1
    assert total(operator, "converge_lease_acquisitions_total", family="social-record") >= 3
    assert total(operator, "converge_store_up") == 3


def test_a_worker_that_is_told_to_end_writes_its_counts_first(operator: Operator) -> None:
    jobs, tokens = written(operator, "converge_jobs_ended"), written(operator, "converge_token_outcomes")
    operator.set_tokens(sites(2))
    operator.run("reconcile")
    operator.stack.processes["worker-1"].stop()
    assert written(operator, "converge_jobs_ended") - jobs == Counter({("social.reconcile", "succeeded"): 1})
    assert written(operator, "converge_token_outcomes") - tokens == Counter({("recorded",): 2})


def written(operator: Operator, name: str) -> Counter[tuple[str, ...]]:
    """What has reached the store by now, by labels."""
    counters = TelemetryReader(operator.redis, Clock()).read().counters
    return Counter(*(numbers for spec, numbers in counters.items() if spec.name == name))
