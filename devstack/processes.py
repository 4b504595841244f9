"""Child processes: start one, wait until it is ready, stop it.

Owns spawning, readiness, the log file and the end of a child with everything it has started itself. Never
knows what the child does. Invariants: after `stop`, `kill` or a failed `start` nothing of the child's family
lives; and when this process ends, even by SIGKILL, its children are killed by the kernel.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

LAUNCHER = Path(__file__).with_name("die_with_parent.py")
LOG_LINES_SHOWN = 40
LOG_TAIL_BYTES = 32_768
GONE_WITHIN_S = 10.0

# The kernel takes the thread that forked for the parent. This one lives as long as the process, so a child
# that was started from a passing thread does not end with it.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


class StartFailed(Exception):
    """A child did not become ready; the text ends with the last lines of its log.

    `status` is its exit status when it has ended by itself, negative for a signal.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Owner(NamedTuple):
    """The user that a child runs as, when it is not our own."""

    uid: int
    gid: int


class Child(Protocol):
    """A child of this process that nobody has waited for."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def wait(self) -> int:
        """Reap it when it has ended."""


class Spawn(Protocol):
    """How a child comes into being: in a session of its own, writing to `log`, and dying with us."""

    def __call__(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: int, owner: Owner | None
    ) -> Child:
        """Start it. Raises `OSError`."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A living process; `started` tells it from a later one with the same pid, so these two say who it is."""

    pid: int
    started: str
    parent: int = field(compare=False)
    group: int = field(compare=False)


def poll(check: Callable[[], bool], timeout_s: float, *, interval_s: float = 0.02) -> bool:
    """Ask `check` until it says yes or `timeout_s` has passed; return its last answer."""
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval_s)
    return True


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: int, owner: Owner | None
) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own, so that Ctrl-C in our terminal does not reach it.

    Raises `OSError`.
    """
    identity = f"{owner.uid}:{owner.gid}" if owner else "-"
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), identity]

    def fork() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*launcher, *argv],
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    return _spawner.submit(fork).result()


@dataclass(kw_only=True)
class ManagedProcess:
    """One child process; may be started again after it was stopped.

    `ready` is asked over and over while the child lives. `stop_signal` goes to the child alone; what then
    remains after `stop_wait_s` is killed together with everything the child has started.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log_file: Path
    ready: Callable[[ManagedProcess], bool]
    start_deadline_s: float = 30.0
    stop_wait_s: float = 10.0
    stop_signal: signal.Signals = signal.SIGTERM
    owner: Owner | None = None
    spawn: Spawn = spawn
    _child: Child | None = field(default=None, init=False, repr=False)
    _log_start: int = field(default=0, init=False, repr=False)

    @property
    def pid(self) -> int:
        """The child's process id, which is also that of its process group."""
        if self._child is None:
            raise RuntimeError(f"{self.name} is not started")
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the child was started and has not ended."""
        return self._child is not None and self._ended_with() is None

    @property
    def status(self) -> int | None:
        """The exit status of a child that has ended by itself, negative for a signal; None while it runs."""
        return self._ended_with()

    def start(self) -> None:
        """Start the child and return when it is ready.

        Raises `StartFailed` when it ends before or is not ready in time; nothing of it remains then.
        """
        if self.running:
            raise RuntimeError(f"{self.name} is running already")
        self.kill()
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            try:
                self._child = self.spawn(
                    self.argv, env=self.env, cwd=self.cwd, log=log.fileno(), owner=self.owner
                )
            except OSError as exc:
                raise StartFailed(f"{self.name} cannot be started: {exc}") from exc
        try:
            self._await_ready()
        except BaseException:
            self.kill()
            raise

    def _await_ready(self) -> None:
        ended: list[int] = []

        def settled() -> bool:
            # Readiness is looked at first and the child's life after it, so that the answer of a stranger
            # on the same port does not pass for the answer of a child that has just ended.
            is_ready = self.ready(self)
            status = self._ended_with()
            if status is not None:
                ended.append(status)
            return is_ready or status is not None

        in_time = poll(settled, self.start_deadline_s)
        if ended:
            message = f"{self.name} ended with status {ended[0]} before it was ready\n{self.log_tail()}"
            raise StartFailed(message, status=ended[0])
        if not in_time:
            raise StartFailed(
                f"{self.name} was not ready after {self.start_deadline_s:g} s\n{self.log_tail()}"
            )

    def stop(self) -> None:
        """Ask the child to end, wait, then kill what is left of it; harmless when it is not running."""
        if self._child is None:
            return
        known = _family(self.pid)
        with suppress(ProcessLookupError):
            os.kill(self.pid, self.stop_signal)
        poll(lambda: self._ended_with() is not None, self.stop_wait_s)
        self._end(known)

    def kill(self) -> None:
        """End the child and everything it has started at once, as a crash would."""
        if self._child is not None:
            self._end(_family(self.pid))

    def _end(self, known: set[_Seen]) -> None:
        """Kill the family, reap the child, and wait until none of them lives.

        The child is reaped last: until then its pid, which names the group, cannot go to a stranger.
        """
        child = self._child
        if child is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        family = known | _family(child.pid)
        for member in family & set(_living()):
            with suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGKILL)
        child.wait()
        if not poll(lambda: family.isdisjoint(_living()), GONE_WITHIN_S):
            raise RuntimeError(f"processes of {self.name} outlived SIGKILL")
        self._child = None

    def _ended_with(self) -> int | None:
        """The exit status (negative: the signal) of a child that has ended; it is not reaped by asking."""
        if self._child is None:
            return None
        result = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def logged(self, text: str) -> bool:
        """Whether the child has written `text` to its log since it was started last."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return text.encode() in log.read()

    def log_tail(self) -> str:
        """The last lines of this run's log."""
        return _tail(self.log_file, self._log_start)


def run_to_end(
    argv: Sequence[str],
    *,
    name: str,
    env: Mapping[str, str],
    cwd: Path,
    log_file: Path,
    timeout_s: float,
    owner: Owner | None = None,
    spawn: Spawn = spawn,
) -> None:
    """Run a command that ends by itself.

    Raises `StartFailed` with the last lines of its log when it fails or takes longer than `timeout_s`.
    """
    command = ManagedProcess(
        name=name,
        argv=argv,
        env=env,
        cwd=cwd,
        log_file=log_file,
        ready=lambda _: False,
        start_deadline_s=timeout_s,
        owner=owner,
        spawn=spawn,
    )
    try:
        command.start()
    except StartFailed as exc:
        # A command is never "ready"; it has done its work when it has ended well.
        if exc.status != 0:
            raise


def _tail(log_file: Path, start: int) -> str:
    with log_file.open("rb") as log:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(start, size - LOG_TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    shown = "\n".join(f"  | {line}" for line in lines[-LOG_LINES_SHOWN:])
    return f"{log_file}:\n{shown}" if shown else f"{log_file} is empty"


def _living() -> Iterator[_Seen]:
    """Every process of this machine that is not a zombie; none where there is no /proc."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        # The process may end while we read about it.
        with suppress(OSError):
            stat = entry.read_text(errors="replace")
            # The second field is the name in brackets and may hold anything, brackets and blanks included.
            state, parent, group, *rest = stat[stat.rindex(")") + 2 :].split()
            if state not in "ZX":
                yield _Seen(int(entry.parent.name), rest[16], int(parent), int(group))


def _family(leader: int) -> set[_Seen]:
    """The living among `leader`, its group, and all that descends from them.

    Descent matters because a server may give each of its children a session of its own, as PostgreSQL does.
    """
    living = list(_living())
    family = {seen for seen in living if leader in {seen.pid, seen.group}}
    while True:
        pids = {seen.pid for seen in family}
        more = {seen for seen in living if seen.parent in pids} - family
        if not more:
            return family
        family |= more
