"""The schedule as real processes keep it: many ticks, two beats, a night without workers, a long sweep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from redis import Redis

from devstack import programs
from devstack.processes import ManagedProcess
from devstack.stack import Stack
from tests.conftest import make_settings
from tests.faults.crew import Crew
from tests.operator import Operator
from tests.waiting import wait_until
from workers.celery_app import create_celery

TICK = "converge.schedule.retry_sweep"
QUEUE = "converge:jobs"
MARKS = "converge:sweep:*"
# Another key than the API's: a tick that went over HTTP would be turned away there.
ON = {
    "SCHEDULE_ENABLED": "1",
    "APP_SECRET_KEY": "not-the-key-of-the-api",
    "SOCIAL_RECORD_RETRY_MIN_INTERVAL_MINUTES": "0",
}
START_S = 60.0


class Line:
    """The queue on which ticks wait, seen from outside."""

    def __init__(self, celery: Celery, broker: Redis) -> None:
        self._celery, self._broker = celery, broker

    def __len__(self) -> int:
        return int(self._broker.llen(QUEUE))

    def send(self, *, expires: datetime | None = None) -> str:
        """Send a tick as beat does; return its id."""
        return str(self._celery.send_task(TICK, queue="jobs", expires=expires).id)


@pytest.fixture
def line(stack: Stack) -> Iterator[Line]:
    """The queue, empty."""
    addresses = {name: stack.environ[name.upper()] for name in ("broker_url", "result_backend_url")}
    celery = create_celery(lambda: make_settings(**addresses), polls_only=True)
    with Redis.from_url(addresses["broker_url"]) as broker:
        broker.delete(QUEUE)
        yield Line(celery, broker)
    celery.close()


@contextmanager
def beat(stack: Stack, folder: Path, *, number: int = 1, **environ: str) -> Iterator[ManagedProcess]:
    """Inside, a real beat ticks every second."""
    process = programs.beat(
        {**stack.environ, **ON, **environ}, stack.logs, schedule_file=folder / f"schedule-{number}"
    )
    argv = list(process.argv)
    argv[argv.index("-A") + 1] = "tests.faults.quick_beat"
    process = replace(
        process, argv=argv, name=f"beat-{number}", log_file=stack.logs / f"{folder.name}-beat-{number}.log"
    )
    process.start()
    try:
        yield process
    finally:
        process.stop()


def retry_jobs(operator: Operator) -> list[dict[str, Any]]:
    url = f"{operator.stack.api_url}/api/v1/jobs"
    found: list[dict[str, Any]] = operator.session.get(
        url, params={"kind": "social.retry", "limit": "100"}, timeout=10
    ).json()["data"]
    return found


def ticks_done(worker: ManagedProcess) -> int:
    """How many ticks the worker has run to their end."""
    lines = worker.log_file.read_text().splitlines()
    return sum(f"{TICK}[" in line and "succeeded" in line for line in lines)


def ticks_sent(process: ManagedProcess) -> int:
    return process.log_file.read_text().count(f"({TICK})")


def test_a_beat_fires_and_its_ticks_of_one_hour_are_one_job_with_the_defaults_of_an_empty_body(
    stack: Stack, operator: Operator, crew: Crew, tmp_path: Path
) -> None:
    worker = crew.hire(threads=8, **ON)
    with beat(stack, tmp_path) as process:
        wait_until(lambda: ticks_done(worker) >= 4, "four ticks", timeout_s=START_S)
    assert ticks_sent(process) >= 4
    jobs = retry_jobs(operator)
    assert len(jobs) == len(operator.redis.keys(MARKS)), "one for each hour in which there was a tick"
    job = operator.ended(jobs[0]["id"])
    assert job["state"] == "succeeded"
    by_hand = operator.job(operator.start("retry"))["request"]
    assert job["request"] == {**by_hand, "minIntervalMinutes": 0}


def test_two_beats_ask_for_one_sweep_an_hour(
    stack: Stack, operator: Operator, crew: Crew, tmp_path: Path
) -> None:
    """`test_without_the_mark_of_the_hour_each_scheduler_would_ask` is the twin."""
    worker = crew.hire(threads=8, **ON)
    with beat(stack, tmp_path, number=1) as first, beat(stack, tmp_path, number=2) as second:
        wait_until(lambda: ticks_sent(first) >= 3 and ticks_sent(second) >= 3, "both tick", timeout_s=START_S)
        sent = ticks_sent(first) + ticks_sent(second)
        wait_until(lambda: ticks_done(worker) >= sent, "all ticks are over", timeout_s=START_S)
    assert len(retry_jobs(operator)) == len(operator.redis.keys(MARKS))


def test_a_beat_sends_nothing_where_the_schedule_is_off(stack: Stack, line: Line, tmp_path: Path) -> None:
    with (
        beat(stack, tmp_path, number=1, SCHEDULE_ENABLED="0") as off,
        beat(stack, tmp_path, number=2) as on,
    ):
        wait_until(lambda: ticks_sent(on) >= 3, "the other one ticks", timeout_s=START_S)
        assert off.running
    assert ticks_sent(off) == 0
    assert len(line) >= 3


def test_after_a_night_without_workers_one_sweep_runs(
    stack: Stack, operator: Operator, crew: Crew, line: Line, tmp_path: Path
) -> None:
    """Ticks of hours ago, which have expired, and ticks of just now wait on the queue."""
    old = [line.send(expires=datetime.now(UTC) - timedelta(hours=hours)) for hours in range(1, 5)]
    with beat(stack, tmp_path):
        wait_until(lambda: len(line) >= len(old) + 5, "five fresh ticks", timeout_s=START_S)
    # Not what beat's log says: it names a tick before sending it, and may be stopped between the two.
    fresh = len(line) - len(old)
    worker = crew.hire(threads=8, **ON)
    wait_until(lambda: ticks_done(worker) >= fresh, "all ticks are over", timeout_s=START_S)
    # The retry that the sweep has asked for goes through the same queue.
    wait_until(lambda: len(line) == 0, "nothing waits any more", timeout_s=START_S)
    for tick in old:
        assert not worker.logged(f"[{tick}] succeeded")
    jobs = retry_jobs(operator)
    assert len(jobs) == len(operator.redis.keys(MARKS))
    assert operator.ended(jobs[0]["id"])["state"] == "succeeded"


def test_a_tick_during_a_sweep_that_takes_long_is_a_success_that_did_nothing(
    operator: Operator, crew: Crew, line: Line
) -> None:
    tokens = operator.set_tokens([{"website": "https://github.com/slow-owner/anchor"}])
    operator.sandbox.set_faults({"route": "/github/", "body": "<html></html>"})
    worker = crew.hire(threads=8, **ON)
    operator.run("reconcile")
    operator.sandbox.set_faults({"route": "/github/", "latency_ms": 4000})
    before = operator.calls().total
    line.send()
    wait_until(lambda: operator.calls().total > before, "the sweep is at its URL")
    calls = operator.calls().total
    for mark in operator.redis.keys(MARKS):
        operator.redis.delete(mark)  # the next hour has none yet
    done = ticks_done(worker)
    line.send()
    wait_until(lambda: ticks_done(worker) > done, "the next tick")
    second, first = retry_jobs(operator)
    assert operator.ended(second["id"])["result"]["meta"] == {"skipped": "already running"}
    assert operator.calls().total == calls
    assert operator.job(first["id"])["state"] == "running"
    assert operator.ended(first["id"])["result"]["meta"]["converged"] == 1
    assert operator.url_of(tokens[0])["attempts"] == 2
