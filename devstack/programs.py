"""The processes of Converge itself: how each is started and when it is ready.

Owns their command lines. Never decides which of them run or in which order. All are forks of one process that
has loaded what they share (`devstack.nursery`), so that each need not load it again.
"""

from __future__ import annotations

import http.client
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from devstack.folders import CHECKOUT
from devstack.nursery import quick_spawn
from devstack.ports import LOOPBACK
from devstack.processes import ManagedProcess, run_to_end

MIGRATE_TIMEOUT_S = 60.0
START_DEADLINE_S = 60.0
PROBE_TIMEOUT_S = 2.0
STOP_WAIT_S = 10.0
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
        spawn=quick_spawn(),
    )


def worker(name: str, env: Mapping[str, str], logs: Path, *, threads: int) -> ManagedProcess:
    """A Celery worker for both queues."""
    argv = [*CELERY, "worker", "-n", f"{name}@%h", "-P", "threads", "-c", str(threads), "-Q", "jobs,records"]
    return _program(
        name,
        [*argv, "--without-gossip", "--without-mingle", "--loglevel", "INFO"],
        env,
        logs,
        ready=lambda process: process.logged(" ready."),
        stop_wait_s=WORKER_STOP_WAIT_S,
    )


def beat(env: Mapping[str, str], logs: Path, *, schedule_file: Path) -> ManagedProcess:
    """The Celery beat; what it has sent last is kept in `schedule_file`."""
    argv = [*CELERY, "beat", "--schedule", str(schedule_file), "--loglevel", "INFO"]
    return _program("beat", argv, env, logs, ready=lambda process: process.logged("beat: Starting"))


def stream(env: Mapping[str, str], logs: Path, *, name: str = "stream") -> ManagedProcess:
    """The consumer of the live stream."""
    argv = [sys.executable, "-m", "workers.cli", "stream"]
    return _program(name, argv, env, logs, ready=lambda process: process.logged("the stream is consumed"))


def api(env: Mapping[str, str], logs: Path) -> Callable[[int], ManagedProcess]:
    """The API, for a port."""
    argv = [sys.executable, "-m", "gunicorn", "-c", "python:app.serving", "app.wsgi:app"]
    return lambda port: _program(
        "api",
        [*argv, "-b", f"{LOOPBACK}:{port}"],
        env,
        logs,
        ready=lambda _: _gets(port, "/healthz") == 200,
        stop_wait_s=API_STOP_WAIT_S,
    )


def flower(
    env: Mapping[str, str], logs: Path, *, user: str, password: str
) -> Callable[[int], ManagedProcess]:
    """The task dashboard, for a port."""
    # Not an argument: arguments are shown to everybody on the machine.
    with_login = {**env, "FLOWER_BASIC_AUTH": f"{user}:{password}"}
    return lambda port: _program(
        "flower",
        [*CELERY, "flower", f"--address={LOOPBACK}", f"--port={port}"],
        with_login,
        logs,
        ready=lambda _: _gets(port, "/healthcheck") == 200,
    )


def _program(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    logs: Path,
    *,
    ready: Callable[[ManagedProcess], bool],
    stop_wait_s: float = STOP_WAIT_S,
) -> ManagedProcess:
    return ManagedProcess(
        name=name,
        argv=argv,
        env=env,
        cwd=CHECKOUT,
        log_file=logs / f"{name}.log",
        ready=ready,
        start_deadline_s=START_DEADLINE_S,
        stop_wait_s=stop_wait_s,
        spawn=quick_spawn(),
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
