"""Processes that need not import everything anew: forks of one that has imported and not connected.

A worker or command that is started like this is a process of its own with the arguments, environment and
files that it would have had; it is a child of whoever asked, may be killed like any other, and dies with its
parent. It leaves out the seconds in which each Python process loads the same modules, and nothing else.

Run as `python -m devstack.nursery`: one JSON object per line on standard input, one pid per line on
standard output. It ends with its standard input. Linux only.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import setproctitle

from devstack.die_with_parent import PR_SET_PDEATHSIG
from devstack.folders import CHECKOUT
from devstack.processes import Owner, Spawn, poll, spawn
from devstack.server import plain_environ

PR_SET_CHILD_SUBREAPER = 36
LOADED = (
    "celery.bin.celery",
    "celery.apps.worker",
    "workers.celery_parts",
    "workers.cli",
    "app.api.jobs",
)
# `SPT_NOENV`: a fork's title must not take the place of its environment, as others see it; see setproctitle.
FOR_THE_NURSERY = {"PYTHONUNBUFFERED": "1", "SPT_NOENV": "1"}


@dataclass(frozen=True, slots=True)
class Forked:
    """A child of this process that somebody else has forked."""

    pid: int

    def wait(self) -> int:
        """Reap the child; return how it ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def has_ended(self) -> bool:
        """Whether there is something to reap."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class Nursery:
    """Starts `python -m MODULE ARGUMENT...` in forks, for this process."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env={**plain_environ(), **FOR_THE_NURSERY},
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._turn = threading.Lock()

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: int, owner: Owner | None
    ) -> Forked:
        """Start the process; what `ManagedProcess` wants of its `spawn`. Raises `OSError`."""
        if owner is not None:
            raise ValueError("a fork runs as the same user")
        return self._fork(argv, env=env, cwd=cwd, out=log, err=log)

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with nothing on its standard input."""
        with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
            child = self._fork(argv, env=env, cwd=cwd, out=out.fileno(), err=err.fileno())
            try:
                if not poll(child.has_ended, timeout_s):
                    raise subprocess.TimeoutExpired(argv, timeout_s)
            finally:
                if not child.has_ended():
                    os.kill(child.pid, signal.SIGKILL)
                status = child.wait()
            for file in (out, err):
                file.seek(0)
            said = [file.read().decode() for file in (out, err)]
        return subprocess.CompletedProcess(argv, status, *said)

    def _fork(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, out: int, err: int) -> Forked:
        python, dash_m, module, *arguments = argv
        if (python, dash_m) != (sys.executable, "-m"):
            raise ValueError(f"not a module of this Python: {argv}")
        into, out_of = self._server.stdin, self._server.stdout
        if into is None or out_of is None:
            raise ValueError("the nursery has no pipes")
        order = {
            "module": module,
            "arguments": arguments,
            "env": dict(env),
            "cwd": str(cwd),
            "files": [f"/proc/{os.getpid()}/fd/{each}" for each in (out, err)],
            "parent": os.getpid(),
        }
        # The fork's parent ends at once, and the fork becomes ours then, so that we can wait for it.
        with self._turn:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
            try:
                into.write(json.dumps(order) + "\n")
                into.flush()
                answer = out_of.readline()
            finally:
                _prctl(PR_SET_CHILD_SUBREAPER, 0)
        if not answer:
            raise BrokenPipeError("the process that forks has ended")
        return Forked(int(answer))

    def close(self) -> None:
        """End the process that forks; what it has forked goes on."""
        self._server.communicate()


def quick_spawn() -> Spawn:
    """How modules of this project are started: as forks, and plainly where there are none."""
    return the_nursery().spawn if sys.platform == "linux" else spawn


@functools.cache
def the_nursery() -> Nursery:
    """The one of this process, which lives as long as it does; it loads while its maker goes on."""
    nursery = Nursery()
    atexit.register(nursery.close)
    return nursery


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _become(order: Mapping[str, Any], files: Sequence[int]) -> None:
    """Turn this fork into the process that was ordered, up to the call of its module."""
    os.setsid()
    # The wish to die with the parent is about the parent at that moment.
    while os.getppid() != order["parent"]:
        time.sleep(0.001)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    standard = [os.open(os.devnull, os.O_RDONLY), *files]
    for target, source in enumerate(standard):
        os.dup2(source, target)
        os.close(source)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = [order["module"], *order["arguments"]]
    setproctitle.setproctitle(" ".join(["python", "-m", *sys.argv]))


def _fork(order: Mapping[str, Any]) -> bool:
    """Fork twice, so that the second one is left to its subreaper; whether this is the second one."""
    files = [os.open(each, os.O_WRONLY | os.O_APPEND) for each in order["files"]]
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.close(writer)
            _become(order, files)
            return True
        os.write(writer, str(child).encode())
        os._exit(0)
    os.close(writer)
    for each in files:
        os.close(each)
    os.waitpid(between, 0)
    sys.stdout.write(os.read(reader, 32).decode() + "\n")
    sys.stdout.flush()
    os.close(reader)
    return False


def _serve() -> None:
    from workers.celery_app import TASK_MODULES  # noqa: PLC0415 - whoever only asks for forks needs it not

    for module in (*LOADED, *TASK_MODULES):
        importlib.import_module(module)
    # It looks for the place of the title in memory, which it finds only before the environment has changed.
    setproctitle.getproctitle()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        if _fork(order):
            runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
            return


if __name__ == "__main__":
    _serve()
