"""Processes that need not import everything anew: forks of one that has imported and not connected.

A worker that is started like this is a process of its own with the arguments, environment and log file that
it would have had; it is a child of whoever asked, may be killed like any other, and dies with its parent. It
leaves out the seconds in which each Python process loads the same modules, and nothing else.

Run as `python -m tests.faults.nursery`: one JSON object per line on standard input, one pid per line on
standard output. It ends with its standard input. Linux only.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devstack.die_with_parent import PR_SET_PDEATHSIG
from devstack.processes import Owner
from devstack.server import plain_environ

PR_SET_CHILD_SUBREAPER = 36
CHECKOUT = Path(__file__).parents[2]
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

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: int, owner: Owner | None
    ) -> Forked:
        """Start the process; what `ManagedProcess` wants of its `spawn`."""
        python, dash_m, module, *arguments = argv
        assert (python, dash_m, owner) == (sys.executable, "-m", None)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        order = {
            "module": module,
            "arguments": arguments,
            "env": dict(env),
            "cwd": str(cwd),
            "log": f"/proc/{os.getpid()}/fd/{log}",
            "parent": os.getpid(),
        }
        # The fork's parent ends at once, and the fork becomes ours then, so that we can wait for it.
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


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _become(order: Mapping[str, Any], log: int) -> None:
    """Turn this fork into the process that was ordered, up to the call of its module."""
    os.setsid()
    # The wish to die with the parent is about the parent at that moment.
    while os.getppid() != order["parent"]:
        time.sleep(0.001)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    sys.argv = [order["module"], *order["arguments"]]


def _fork(order: Mapping[str, Any]) -> bool:
    """Fork twice, so that the second one is left to its subreaper; whether this is the second one."""
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND)
    reader, writer = os.pipe()
    between = os.fork()
    if between == 0:
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.close(writer)
            _become(order, log)
            return True
        os.write(writer, str(child).encode())
        os._exit(0)
    os.close(writer)
    os.close(log)
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
