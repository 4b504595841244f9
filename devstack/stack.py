"""Everything Converge needs, and Converge itself, on this machine.

Owns the order: stores and sandbox; then migration, dashboard, stream and beat; then API and workers. What
stands together here starts at once. What is Converge itself ends at once, and what it leans on after it.
Never leaves anything behind: after `stop`, after a start that failed, and after Ctrl-C no process lives, no
port is taken and, unless its data are kept, no folder remains. Everything listens on the loopback interface
alone.

    with Stack(parts=STORES + ("sandbox",)) as stack:
        requests.get(stack.sandbox_url + "/_sandbox/calls")
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from devstack import programs
from devstack.folders import CHECKOUT, DataFolder, abandoned, open_fresh, open_kept
from devstack.mongo import MongoServer
from devstack.nursery import quick_spawn
from devstack.ports import LOOPBACK, start_on_free_port
from devstack.postgres import PostgresServer
from devstack.processes import ManagedProcess, poll
from devstack.sandbox.process import SandboxServer
from devstack.server import Server, plain_environ
from devstack.valkey import ValkeyServer

STORES = ("valkey", "mongo", "postgres")
PARTS = (*STORES, "sandbox", "migrate", "worker", "beat", "stream", "flower", "api")
WORKER_THREADS = 24
FLOWER_USER = "converge"
GROUP_IDS = "1,2"
FUNDING_DATABASE = "converge"
BROKER_DB, RESULT_DB, LEASES_DB = 0, 1, 2
WATCH_INTERVAL_S = 0.5


class Stack:
    """The processes of `parts`, in the order of `PARTS`.

    `root` holds the data; with `keep_data` they stay, and one stack at a time may use them. `workers` is the
    number of Celery workers, `worker_threads` that of each one's threads. A port of 0 means any free one.
    `environ` overrides and adds variables of the processes of Converge; a part that is left out may have to
    be named there, e.g. `MONGO_URL`.
    """

    valkey: ValkeyServer
    mongo: MongoServer
    postgres: PostgresServer
    sandbox: SandboxServer

    def __init__(
        self,
        *,
        parts: Iterable[str] = PARTS,
        root: Path = CHECKOUT,
        keep_data: bool = False,
        workers: int = 1,
        worker_threads: int = WORKER_THREADS,
        api_port: int = 0,
        flower_port: int = 0,
        sandbox_latency_ms: int = 0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.parts = frozenset(parts)
        if unknown := self.parts.difference(PARTS):
            raise ValueError(f"no such parts: {', '.join(sorted(unknown))}")
        self.root = root.resolve()
        self.keep_data = keep_data
        self.worker_threads = worker_threads
        self.processes: dict[str, ManagedProcess] = {}
        self.environ: dict[str, str] = {}
        self._workers = workers
        self._ports = {"api": api_port, "flower": flower_port}
        self._sandbox_latency_ms = sandbox_latency_ms
        self._overrides = dict(environ or {})
        self._exits = ExitStack()
        self._folder: DataFolder | None = None

    @property
    def folder(self) -> Path:
        """Where data and logs are. Raises `RuntimeError` unless started."""
        if self._folder is None:
            raise RuntimeError("the stack is not started")
        return self._folder.path

    @property
    def logs(self) -> Path:
        """Where each process's log file is."""
        return self.folder / "logs"

    @property
    def api_url(self) -> str:
        """The API's origin."""
        return self._url_of("api")

    @property
    def flower_url(self) -> str:
        """The dashboard's origin; log in with `FLOWER_USER` and `flower_password`."""
        return self._url_of("flower")

    @property
    def sandbox_url(self) -> str:
        """The sandbox's origin."""
        return self.sandbox.url

    @property
    def api_key(self) -> str:
        """What the API wants as `x-api-key`."""
        return self.environ["APP_SECRET_KEY"]

    @property
    def flower_password(self) -> str:
        """The dashboard's password."""
        return self._secret("flower_password")

    def start(self) -> None:
        """Start all parts and return when all are ready.

        Raises `StartFailed` with the end of the log of what failed, or `InUse` when the kept data are in use;
        nothing of the stack runs then.
        """
        if self._folder is not None:
            raise RuntimeError("the stack is started already")
        try:
            self._open_folder()
            # What the programs are forked from loads beside the servers.
            quick_spawn()
            self._start_servers()
            self.environ = self._build_environ()
            self._end_before_what_runs()
            self._start_programs()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything, the servers last, whatever fails on the way; harmless when nothing runs."""
        with _undisturbed():
            self._exits.close()
        self._folder = None

    def wait(self) -> str:
        """Block until one of the processes ends by itself; return its name.

        SIGTERM raises `KeyboardInterrupt` meanwhile, as Ctrl-C does. For the main thread.
        """
        previous = signal.signal(signal.SIGTERM, _interrupt)
        try:
            poll(lambda: bool(self._ended()), math.inf, interval_s=WATCH_INTERVAL_S)
        finally:
            signal.signal(signal.SIGTERM, previous)
        return self._ended()[0]

    def start_worker(self, *, threads: int | None = None) -> ManagedProcess:
        """Start one more worker; `processes` has it under its name, `worker-1` and so on."""
        number = 1 + sum(name.startswith("worker-") for name in self.processes)
        process = _started(self._worker(number, threads or self.worker_threads))
        self._add(process)
        return process

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _open_folder(self) -> None:
        for leftover in abandoned(self.root):
            _forget(leftover)
        self._folder = open_kept(self.root) if self.keep_data else open_fresh(self.root)
        self._exits.callback(self._folder.close)

    def _start_servers(self) -> None:
        keep, folder, logs = self.keep_data, self.folder, self.logs
        # Made even when they are not to be started: making one costs nothing, and `valkey.running` is a fair
        # question.
        self.valkey = ValkeyServer(folder / "valkey", log_file=logs / "valkey.log", keep=keep)
        self.mongo = MongoServer(folder / "mongo", log_file=logs / "mongo.log", keep=keep)
        self.postgres = PostgresServer(folder / "postgres", log_file=logs / "postgres.log", keep=keep)
        self.sandbox = SandboxServer(
            folder / "sandbox", log_file=logs / "sandbox.log", latency_ms=self._sandbox_latency_ms
        )
        servers: tuple[Server, ...] = (self.valkey, self.mongo, self.postgres, self.sandbox)
        wanted = [server for server in servers if server.name in self.parts]
        for server in wanted if not keep else ():
            self._exits.callback(server.remove_data)
        self._end_before_what_runs()
        self._start_together([_starting(server) for server in wanted])

    def _start_programs(self) -> None:
        self._start_together(self._beside_the_migration())
        if "flower" in self.parts:
            # The console links to it.
            self.environ.setdefault("FLOWER_URL", self.flower_url)
        self._start_together(self._behind_the_migration())

    def _beside_the_migration(self) -> list[Callable[[], ManagedProcess | None]]:
        """How the migration is started, and what asks only the broker."""
        starts: list[Callable[[], ManagedProcess | None]] = []
        if "migrate" in self.parts:
            starts.append(partial(programs.migrate, self.environ, self.logs))
        if "flower" in self.parts:
            user, password = FLOWER_USER, self.flower_password
            dashboard = programs.flower(self.environ, self.logs, user=user, password=password)
            starts.append(partial(self._on_port, "flower", dashboard))
        if "stream" in self.parts:
            starts.append(partial(_started, programs.stream(self.environ, self.logs)))
        if "beat" in self.parts:
            beat = programs.beat(self.environ, self.logs, schedule_file=self.folder / "beat-schedule")
            starts.append(partial(_started, beat))
        return starts

    def _behind_the_migration(self) -> list[Callable[[], ManagedProcess | None]]:
        """How the processes are started that read and write the stores."""
        starts: list[Callable[[], ManagedProcess | None]] = []
        if "api" in self.parts:
            starts.append(partial(self._on_port, "api", programs.api(self.environ, self.logs)))
        if "worker" in self.parts:
            numbers = range(1, self._workers + 1)
            starts += [partial(_started, self._worker(number, self.worker_threads)) for number in numbers]
        return starts

    def _start_together(self, starts: Sequence[Callable[[], ManagedProcess | None]]) -> None:
        """Start several at once; when one fails, the others are there to be stopped."""
        started: list[ManagedProcess | None] = [None] * len(starts)

        def start_one(place: int) -> None:
            started[place] = starts[place]()

        try:
            _at_once([partial(start_one, place) for place in range(len(starts))])
        finally:
            for process in started:
                if process is not None:
                    self._add(process)

    def _worker(self, number: int, threads: int) -> ManagedProcess:
        return programs.worker(f"worker-{number}", self.environ, self.logs, threads=threads)

    def _on_port(self, name: str, build: Callable[[int], ManagedProcess]) -> ManagedProcess:
        self._ports[name], process = start_on_free_port(build, fixed_port=self._ports[name])
        return process

    def _add(self, process: ManagedProcess) -> None:
        self.processes[process.name] = process

    def _end_before_what_runs(self) -> None:
        """Let all that is started from here on end at once, before what has been started already."""
        earlier = frozenset(self.processes)

        def stop_later_ones() -> None:
            later = [self.processes.pop(name) for name in set(self.processes) - earlier]
            _at_once([process.stop for process in later])

        self._exits.callback(stop_later_ones)

    def _build_environ(self) -> dict[str, str]:
        """The environment of the processes of Converge; the names are those of `workers.settings`."""
        environ = {**plain_environ(), "PYTHONUNBUFFERED": "1"}
        environ["APP_SECRET_KEY"] = self._secret("api_key")
        environ["SOCIAL_RECORD_AF_GROUP_IDS"] = GROUP_IDS
        if self.valkey.running:
            environ["BROKER_URL"] = self.valkey.url_of(BROKER_DB)
            environ["RESULT_BACKEND_URL"] = self.valkey.url_of(RESULT_DB)
            environ["REDIS_URL"] = self.valkey.url_of(LEASES_DB)
        if self.mongo.running:
            environ["MONGO_URL"] = self.mongo.url
        if self.postgres.running:
            environ["FUNDING_DATABASE_URL"] = self.postgres.create_database(FUNDING_DATABASE)
        if self.sandbox.running:
            environ |= self.sandbox.settings()
        return {**environ, **self._overrides}

    def _secret(self, name: str) -> str:
        """A random word that stays the same for as long as the folder exists."""
        file = self.folder / "secrets.json"
        known: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
        if name not in known:
            known[name] = secrets.token_urlsafe(24)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as out:
                json.dump(known, out)
        return known[name]

    def _url_of(self, name: str) -> str:
        if name not in self.processes:
            raise RuntimeError(f"{name} is not started")
        return f"http://{LOOPBACK}:{self._ports[name]}"

    def _ended(self) -> list[str]:
        return [name for name, process in self.processes.items() if not process.running]


def _at_once(steps: Sequence[Callable[[], object]]) -> None:
    """Take all steps side by side and return when each has ended; then raise what one of them has raised."""
    if not steps:
        return
    threads = ThreadPoolExecutor(len(steps))
    futures = [threads.submit(step) for step in steps]
    try:
        wait(futures)
    finally:
        with _undisturbed():
            threads.shutdown()
    for future in futures:
        future.result()


def _started(process: ManagedProcess) -> ManagedProcess:
    process.start()
    return process


def _starting(server: Server) -> Callable[[], ManagedProcess]:
    def start() -> ManagedProcess:
        server.start()
        return server.process

    return start


def _forget(folder: Path) -> None:
    """Remove what a killed stack has left."""
    PostgresServer(folder / "postgres").remove_data()
    shutil.rmtree(folder, ignore_errors=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold Ctrl-C off, so that a second one does not cut short what the first has begun."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
