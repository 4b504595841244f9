"""A MongoDB wire server (SecantusDB on WiredTiger), as a child process.

Owns the server's options and how its readiness is asked. Never reads a configuration file of the user.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from devstack.ports import LOOPBACK, is_listening
from devstack.processes import ManagedProcess
from devstack.server import Server

CACHE_SIZE = "256M"
PROBE_TIMEOUT_MS = 2000
# Per client. It is one Python process under one lock: what more of them ask at once waits there, dearly.
CONNECTIONS_MAX = 6


class MongoServer(Server):
    """The server; with `keep` an acknowledged write survives a power cut, without it the end is a crash."""

    name = "mongo"

    def __init__(
        self, data_dir: Path, *, port: int = 0, log_file: Path | None = None, keep: bool = False
    ) -> None:
        super().__init__(data_dir, port=port, log_file=log_file)
        self.keep = keep

    @property
    def url(self) -> str:
        """The address, without a database name."""
        return _url(self.port)

    @property
    def _config_file(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.toml")

    def _prepare(self) -> None:
        super()._prepare()
        # Naming a file, even an empty one, keeps the server from looking for one in the home directory.
        self._config_file.touch()

    def _build(self, port: int) -> ManagedProcess:
        argv = [sys.executable, "-m", "secantus", "--host", LOOPBACK, "--port", str(port)]
        argv += ["--storage-path", str(self.data_dir), "--cache-size", CACHE_SIZE, "--log-level", "WARNING"]
        # Without the change log of a replica set, which nobody reads here and every write pays for.
        argv += ["--config", str(self._config_file), "--standalone"]
        if self.keep:
            argv.append("--sync-on-commit")
        return ManagedProcess(
            name=self.name,
            argv=argv,
            env=self.environ(),
            cwd=self.data_dir.parent,
            log_file=self.log_file,
            ready=lambda process: _answers(port, process.pid),
            # It takes two seconds to say goodbye to its clients.
            stop_signal=signal.SIGTERM if self.keep else signal.SIGKILL,
        )


def _url(port: int) -> str:
    return f"mongodb://{LOOPBACK}:{port}/?directConnection=true&maxPoolSize={CONNECTIONS_MAX}"


def _answers(port: int, pid: int) -> bool:
    """Whether the server on `port` is ours and runs commands."""
    # A driver's client is dear and waits inside, so it is made only once somebody listens.
    if not is_listening(port):
        return False
    client: MongoClient[dict[str, Any]]
    with MongoClient(_url(port), timeoutMS=PROBE_TIMEOUT_MS) as client:
        try:
            return bool(client.admin.command("serverStatus")["pid"] == pid)
        except PyMongoError:
            return False
