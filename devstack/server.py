"""What the stores and the sandbox have in common: a server in a child process, on a port of the loopback.

Owns the port, which stays the same for as long as the object lives, and the way from stopped to running and
back. Never knows a protocol: a subclass says how the process is made and when it answers.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from devstack.ports import start_on_free_port
from devstack.processes import ManagedProcess

# A child sees these of our variables and nothing else: a proxy or a stray setting of the caller's shell must
# not reach a server whose behaviour the tests rely on.
INHERITED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")


def plain_environ() -> dict[str, str]:
    """The few variables that every child needs."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


class Server(ABC):
    """A server with its data in `data_dir`; `port` 0 means any free one, chosen at the first start."""

    name: str

    def __init__(self, data_dir: Path, *, port: int = 0, log_file: Path | None = None) -> None:
        self.data_dir = data_dir.resolve()
        self.log_file = log_file or self.data_dir.with_name(f"{self.data_dir.name}.log")
        self._port = port
        self._process: ManagedProcess | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find the server."""

    @abstractmethod
    def _build(self, port: int) -> ManagedProcess:
        """Describe the process that listens on `port`."""

    def _prepare(self) -> None:
        """Bring about what the process needs before it can start."""
        self.data_dir.mkdir(parents=True, exist_ok=True)

    def remove_data(self) -> None:
        """Remove what the stopped server has kept."""
        shutil.rmtree(self.data_dir, ignore_errors=True)

    @property
    def port(self) -> int:
        """The port; known once the server has been started."""
        if not self._port:
            raise RuntimeError(f"{self.name} has not been started yet")
        return self._port

    @property
    def process(self) -> ManagedProcess:
        """The child process; known once the server has been started."""
        if self._process is None:
            raise RuntimeError(f"{self.name} has not been started yet")
        return self._process

    @property
    def pid(self) -> int:
        """The pid of the running server."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start and return when the server answers. Raises `StartFailed`."""
        self._prepare()
        if self._process is None:
            self._port, self._process = start_on_free_port(self._build, fixed_port=self._port)
        else:
            self._process.start()

    def stop(self) -> None:
        """Let the server end in good order; harmless when it is not running."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """End the server as a crash would."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Stop, when it still runs, and start on the same port with the same data."""
        self.stop()
        self.start()

    def environ(self) -> Mapping[str, str]:
        """The environment of the process."""
        return plain_environ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
