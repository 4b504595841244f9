"""Unit tests have no network: a connect to anything is an error."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        # A lease that an integration test of this process left behind may still be renewed.
        if threading.current_thread().name == "lease-renewer":
            connect(self, address)
            return
        raise AssertionError("a unit test opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
