"""TCP ports on the loopback interface.

Owns the choice of a port for a server that we start. Never keeps a port reserved: between the choice and the
server's bind somebody else may take it, so `start_on_free_port` tries again with another.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from pathlib import Path

from devstack.processes import ManagedProcess, StartFailed

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 15_000
EPHEMERAL_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
EPHEMERAL_START_DEFAULT = 32_768
CHOICES_MAX = 200
START_TRIES_MAX = 5
TAKEN_MARKS = ("address already in use", "connection in use")


def is_free(port: int) -> bool:
    """Whether nobody listens on `port` of the loopback interface at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: a connection that has just been closed does not keep the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def is_listening(port: int) -> bool:
    """Whether somebody accepts connections on `port` of the loopback interface."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A port that is free now and outside the range that the kernel gives to outgoing connections.

    Inside that range a client that reconnects to a stopped server can be given the server's own port as its
    source port: it would connect to itself, and the server could not come back.
    """
    end = _ephemeral_start()
    if end > LOWEST_PORT:
        chooser = random.SystemRandom()
        for _ in range(CHOICES_MAX):
            port = chooser.randrange(LOWEST_PORT, end)
            if is_free(port):
                return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def start_on_free_port(
    build: Callable[[int], ManagedProcess], *, fixed_port: int = 0
) -> tuple[int, ManagedProcess]:
    """Start what `build` makes for a port; return the port and the process.

    With a `fixed_port` only that one is tried. Raises `StartFailed`.
    """
    tries = 1 if fixed_port else START_TRIES_MAX
    while True:
        port = fixed_port or free_port()
        process = build(port)
        try:
            process.start()
        except StartFailed as exc:
            tries -= 1
            if not tries or not _port_was_taken(exc):
                raise
        else:
            return port, process


def _port_was_taken(failure: StartFailed) -> bool:
    text = str(failure).lower()
    return any(mark in text for mark in TAKEN_MARKS)


def _ephemeral_start() -> int:
    try:
        return int(EPHEMERAL_RANGE_FILE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return EPHEMERAL_START_DEFAULT
