"""The processes of Converge itself: how each is started and when it is ready.

Owns their command lines. Never decides which of them run or in which order.
"""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from devstack.ports import LOOPBACK
from devstack.processes import ManagedProcess, run_to_end

CHECKOUT = Path(__file__).resolve().parents[1]
MIGRATE_TIMEOUT_S = 60.0
START_DEADLINE_S = 60.0
PROBE_TIMEOUT_S = 2.0
# A worker first finishes what it has begun.
WORKER_STOP_WAIT_S = 30.0
# Longer than what `app.serving` grants to requests in work.
API_STOP_WAIT_S = 25.0
CELERY = (sys.executable, "-m", "celery", "-A", "workers")


def migrate(env: Mapping[str, str], logs: Path) -> None:
    """Create indexes and tables; return when that is done. Raises `StartFailed`."""
    run_to_end(
        [sys.executable, "-m", "workers.cli", "migrate"],
        name="migrate",
        env=env,
        cwd=CHECKOUT,
        log_file=logs / "migrate.log",
        timeout_s=MIGRATE_TIMEOUT_S,
    )


def worker(name: str, env: Mapping[str, str], logs: Path, *, threads: int) -> ManagedProcess:
    """A Celery worker for both queues."""
    argv = [*CELERY, "worker", "-n", f"{name}@%h", "-P", "threads", "-c", str(threads), "-Q", "jobs,records"]
    return ManagedProcess(
        name=name,
        argv=[*argv, "--without-gossip", "--without-mingle", "--loglevel", "INFO"],
        env=env,
        cwd=CHECKOUT,
        log_file=logs / f"{name}.log",
        ready=lambda process: process.logged(" ready."),
        start_deadline_s=START_DEADLINE_S,
        stop_wait_s=WORKER_STOP_WAIT_S,
    )


def beat(env: Mapping[str, str], logs: Path, *, schedule_file: Path) -> ManagedProcess:
    """The Celery beat; what it has sent last is kept in `schedule_file`."""
    return ManagedProcess(
        name="beat",
        argv=[*CELERY, "beat", "--schedule", str(schedule_file), "--loglevel", "INFO"],
        env=env,
        cwd=CHECKOUT,
        log_file=logs / "beat.log",
        ready=lambda process: process.logged("beat: Starting"),
        start_deadline_s=START_DEADLINE_S,
    )


def stream(env: Mapping[str, str], logs: Path, *, name: str = "stream") -> ManagedProcess:
    """The consumer of the live stream."""
    return ManagedProcess(
        name=name,
        argv=[sys.executable, "-m", "workers.cli", "stream"],
        env=env,
        cwd=CHECKOUT,
        log_file=logs / f"{name}.log",
        ready=lambda process: process.logged("the stream is consumed"),
        start_deadline_s=START_DEADLINE_S,
    )


def api(env: Mapping[str, str], logs: Path) -> Callable[[int], ManagedProcess]:
    """The API, for a port."""
    argv = [sys.executable, "-m", "gunicorn", "-c", "python:app.serving", "app.wsgi:app"]
    return lambda port: ManagedProcess(
        name="api",
        argv=[*argv, "-b", f"{LOOPBACK}:{port}"],
        env=env,
        cwd=CHECKOUT,
        log_file=logs / "api.log",
        ready=lambda _: _gets(port, "/healthz") == 200,
        start_deadline_s=START_DEADLINE_S,
        stop_wait_s=API_STOP_WAIT_S,
    )


def flower(
    env: Mapping[str, str], logs: Path, *, user: str, password: str
) -> Callable[[int], ManagedProcess]:
    """The task dashboard, for a port."""
    return lambda port: ManagedProcess(
        name="flower",
        argv=[*CELERY, "flower", f"--address={LOOPBACK}", f"--port={port}"],
        # Not an argument: arguments are shown to everybody on the machine.
        env={**env, "FLOWER_BASIC_AUTH": f"{user}:{password}"},
        cwd=CHECKOUT,
        log_file=logs / "flower.log",
        ready=lambda _: _gets(port, "/healthcheck") == 200,
        start_deadline_s=START_DEADLINE_S,
    )


def _gets(port: int, path: str) -> int | None:
    """The status that a GET is answered with; None without an answer."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=PROBE_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
