"""Workers that are told to end: once, and what is in work is finished; twice, and they are gone."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace

import pytest

from devstack import programs
from devstack.processes import ManagedProcess
from devstack.sandbox.tokens import Token
from tests.faults.crew import Crew, assert_recorded_once, by_addresses, leases_of
from tests.operator import Operator, sites
from tests.waiting import wait_until

# So long that a lease which is free was given back.
LONG = {
    "JOB_HEARTBEAT_TTL_MS": "600000",
    "SOCIAL_RECORD_TOKEN_LOCK_TTL_MS": "600000",
    "SOCIAL_RECORD_RECONCILE_LOCK_TTL_MS": "600000",
}
# One call that hangs is enough to keep a thread busy for the whole test.
PATIENT = {"TRACKER_TIMEOUT_MS": "60000", "HTTP_READ_TIMEOUT_MS": "60000"}
AT_ONCE_S = 2.0
LEASE_TTL_S = 2.0
GRACE_S = 2.0


def tell(worker: ManagedProcess, number: signal.Signals = signal.SIGTERM) -> float:
    """Send the signal; return when."""
    os.kill(worker.pid, number)
    return time.monotonic()


def ended_after(worker: ManagedProcess, told_at: float, *, timeout_s: float) -> float:
    """Wait until the process has ended; return how many seconds after it was told to."""
    wait_until(lambda: not worker.running, "the process ends", timeout_s=timeout_s)
    return time.monotonic() - told_at


def hanging(operator: Operator, count: int = 1) -> list[Token]:
    """Tokens about which the tracker does not answer."""
    tokens = operator.set_tokens(sites(count))
    operator.sandbox.set_faults(*({"route": by_addresses(token), "hang": True} for token in tokens))
    return tokens


@pytest.mark.parametrize("threads", [4, 24])
def test_a_worker_that_is_told_to_end_finishes_what_is_in_work_and_starts_nothing(
    operator: Operator, crew: Crew, threads: int
) -> None:
    tokens = operator.set_tokens(sites(80))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 400})
    worker = crew.hire(threads=threads, **LONG)
    job_id = operator.start("reconcile", {"limit": 80})
    wait_until(lambda: operator.job(job_id)["progress"]["done"], "something is done")
    told_at = tell(worker)
    assert ended_after(worker, told_at, timeout_s=20) < 8
    assert worker.status == 0
    assert leases_of(operator) == [], "free at once, not by their times"
    job = operator.job(job_id)
    assert job["state"] == "succeeded"
    meta = job["result"]["meta"]
    assert meta["stoppedBy"] == "shutdown"
    assert 0 < meta["recorded"] < 80
    assert meta["remaining"] == 80 - meta["recorded"]
    assert (meta["lost"], meta["failed"], meta["lockedOut"]) == (0, 0, 0)
    assert len(operator.documents(tokens)) == meta["recorded"]

    operator.sandbox.clear_faults()
    crew.hire()
    again = operator.meta("reconcile", {"limit": 80})
    assert (again["alreadySeen"], again["recorded"]) == (meta["recorded"], meta["remaining"])
    assert_recorded_once(operator, tokens)


def test_a_worker_that_is_killed_leaves_its_leases_to_their_times(operator: Operator, crew: Crew) -> None:
    """The twin of the above: nobody gives back what a killed worker held."""
    hanging(operator)
    worker = crew.hire(**LONG)
    operator.start("reconcile")
    wait_until(lambda: operator.calls().by_address, "the token is in work")
    worker.kill()
    assert len(leases_of(operator)) == 3, "those of the job, its kind and the token"


def test_tasks_that_wait_in_a_worker_that_ends_are_done_by_others_meanwhile(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens(sites(8))
    operator.sandbox.set_faults({"route": "by-addresses", "hang": True, "times": 1})
    crew.hire("jobs")
    ending = crew.hire("records", threads=1, **PATIENT)
    job_id = operator.start("reconcile")
    wait_until(lambda: len(operator.calls().by_address) == 1, "the thread is busy")
    wait_until(lambda: ending.log_file.read_text().count("record_token[") >= 2, "one more waits behind it")
    tell(ending)
    wait_until(lambda: ending.logged("waiting tasks were given back"), "they are given back")
    crew.hire("records")
    wait_until(lambda: len(operator.documents(tokens)) == 7, "the other seven are recorded", timeout_s=30)
    assert ending.running, "its one is still in work"
    ending.kill()
    meta = operator.ended(job_id)["result"]["meta"]
    assert (meta["recorded"], meta["lost"]) == (7, 1)


def test_without_giving_back_they_would_wait_for_what_is_in_work(operator: Operator, crew: Crew) -> None:
    """The twin of the above: the same worker without the step."""
    tokens = operator.set_tokens(sites(8))
    operator.sandbox.set_faults({"route": "by-addresses", "hang": True, "times": 1})
    crew.hire("jobs")
    plain = programs.worker("plain-worker", {**crew.environ, **PATIENT}, crew.logs, threads=1)
    argv = [each.replace("jobs,records", "records") for each in plain.argv]
    argv[argv.index("-A") + 1] = "tests.faults.plain_worker"
    ending = replace(plain, argv=argv)
    ending.start()
    crew.workers.append(ending)
    operator.start("reconcile")
    wait_until(lambda: len(operator.calls().by_address) == 1, "the thread is busy")
    wait_until(lambda: ending.log_file.read_text().count("record_token[") >= 2, "one more waits behind it")
    tell(ending)
    wait_until(lambda: ending.logged("Warm shutdown"), "it has heard")
    crew.hire("records")
    wait_until(
        lambda: len(operator.documents(tokens)) == 6, "what was on the queue is recorded", timeout_s=30
    )
    told_at = time.monotonic()
    wait_until(lambda: time.monotonic() - told_at > GRACE_S, "the grace is over")
    assert ending.running
    assert len(operator.documents(tokens)) == 6


@pytest.mark.parametrize(
    "second", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT], ids=lambda each: each.name
)
def test_a_second_signal_ends_a_worker_at_once_and_its_leases_run_out(
    operator: Operator, crew: Crew, second: signal.Signals
) -> None:
    tokens = hanging(operator)
    worker = crew.hire()
    job_id = operator.start("reconcile")
    wait_until(lambda: operator.calls().by_address, "the token is in work")
    tell(worker)
    wait_until(lambda: worker.logged("Warm shutdown"), "it has heard the first one")
    assert worker.running
    told_at = tell(worker, second)
    assert ended_after(worker, told_at, timeout_s=10) < AT_ONCE_S
    assert worker.status == 128 + second
    wait_until(lambda: leases_of(operator) == [], "no lease is left", timeout_s=LEASE_TTL_S + GRACE_S)
    assert operator.job(job_id)["state"] == "lost"
    assert operator.documents(tokens) == {}

    operator.sandbox.clear_faults()
    crew.hire()
    assert operator.meta("reconcile")["recorded"] == 1


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_after_one_signal_a_worker_waits_for_what_is_in_work(
    operator: Operator, crew: Crew, first: signal.Signals
) -> None:
    """The twin of the above."""
    hanging(operator)
    worker = crew.hire(**LONG)
    operator.start("reconcile")
    wait_until(lambda: operator.calls().by_address, "the token is in work")
    told_at = tell(worker, first)
    wait_until(lambda: time.monotonic() - told_at > AT_ONCE_S + GRACE_S, "enough time has passed")
    assert worker.running
    assert len(leases_of(operator)) == 3


def test_sigquit_ends_a_worker_at_once(operator: Operator, crew: Crew) -> None:
    hanging(operator)
    worker = crew.hire()
    operator.start("reconcile")
    wait_until(lambda: operator.calls().by_address, "the token is in work")
    assert ended_after(worker, tell(worker, signal.SIGQUIT), timeout_s=10) < AT_ONCE_S
    assert worker.status == 128 + signal.SIGQUIT


def test_a_worker_that_does_not_come_to_an_end_is_cut_off_and_gives_its_leases_back(
    operator: Operator, crew: Crew
) -> None:
    tokens = hanging(operator, 3)
    worker = crew.hire(WORKER_STOP_LIMIT_S="2", **LONG)
    job_id = operator.start("reconcile")
    wait_until(lambda: len(operator.calls().by_address) == 3, "all are in work")
    took_s = ended_after(worker, tell(worker), timeout_s=20)
    assert 2 <= took_s < 2 + GRACE_S
    assert worker.status == 1
    assert leases_of(operator) == [], "free at once, not by their times"
    assert operator.job(job_id)["state"] == "lost"
    assert operator.documents(tokens) == {}

    operator.sandbox.clear_faults()
    crew.hire()
    assert operator.meta("reconcile")["recorded"] == 3
    assert_recorded_once(operator, tokens)
