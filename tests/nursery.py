"""Processes that need not import everything anew: forks of one that has imported and not connected.

A worker or command that is started like this is a process of its own with the arguments, environment and
files that it would have had; it is a child of whoever asked, may be killed like any other, and dies with its
parent. It leaves out the seconds in which each Python process loads the same modules, and nothing else.

Run as `python -m tests.nursery`: one JSON object per line on standard input, one pid per line on
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

from devstack.die_with_parent import PR_SET_PDEATHSIG
from devstack.processes import Owner
from devstack.server import plain_environ
from tests.waiting import wait_until

PR_SET_CHILD_SUBREAPER = 36
CHECKOUT = Path(__file__).parents[1]
LOADED = (
    "celery.bin.celery",
    "celery.apps.worker",
    "celery.concurrency.thread",
    "workers.celery_parts",
    "workers.cli",
)


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
            env={**plain_environ(), "PYTHONUNBUFFERED": "1"},
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
        """Start the process; what `ManagedProcess` wants of its `spawn`."""
        assert owner is None
        return self._fork(argv, env=env, cwd=cwd, out=log, err=log)

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with nothing on its standard input."""
        with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
            child = self._fork(argv, env=env, cwd=cwd, out=out.fileno(), err=err.fileno())
            try:
                wait_until(child.has_ended, f"{argv} ends", timeout_s=timeout_s)
            except AssertionError:
                os.kill(child.pid, signal.SIGKILL)
                raise
            finally:
                status = child.wait()
            said = [file.seek(0) or file.read().decode() for file in (out, err)]
        return subprocess.CompletedProcess(argv, status, *said)

    def _fork(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, out: int, err: int) -> Forked:
        python, dash_m, module, *arguments = argv
        assert (python, dash_m) == (sys.executable, "-m")
        assert self._server.stdin is not None
        assert self._server.stdout is not None
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
                self._server.stdin.write(json.dumps(order) + "\n")
                self._server.stdin.flush()
                return Forked(int(self._server.stdout.readline()))
            finally:
                _prctl(PR_SET_CHILD_SUBREAPER, 0)

    def close(self) -> None:
        """End the process that forks; what it has forked goes on."""
        self._server.communicate()


@functools.cache
def the_nursery() -> Nursery:
    """The one of this process, which lives as long as it does."""
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
    from workers.celery_app import TASK_MODULES

    for module in (*LOADED, *TASK_MODULES):
        importlib.import_module(module)
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        if _fork(order):
            runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
            return


if __name__ == "__main__":
    _serve()
