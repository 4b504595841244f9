"""Requests as fast as a server takes them: one thread, open connections, and nothing made anew per request.

Each connection sends the same bytes again as soon as its answer is complete. After some answers it is
replaced by a new one, because a connection stays with the worker of gunicorn that has accepted it, and those
that are opened together often meet the same one. An answer is found by its `Content-Length` and compared by
its status line alone. One core sends several times as many requests as two workers of gunicorn can answer;
`processor_s` shows how much of a core it took.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

RECEIVE_BYTES = 65_536
ANSWER_TIMEOUT_S = 10.0
ANSWERS_PER_CONNECTION = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What came of it; `processor_s` is what sending took of this process."""

    answers: int
    took_s: float
    processor_s: float

    @property
    def per_s(self) -> float:
        """Answers per second."""
        return self.answers / self.took_s


class _Connection:
    """One open connection and what has come of the present answer."""

    def __init__(self, host: str, port: int, answers_left: int) -> None:
        self.socket = socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers_left = answers_left
        self._received = b""

    def takes_in(self, status: int) -> bool:
        """Read what is there; whether the answer is complete. Raises `RuntimeError` for another status."""
        block = self.socket.recv(RECEIVE_BYTES)
        self._received += block
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not block:
            raise RuntimeError(f"the connection was closed after {self._received[:200]!r}")
        if not found:
            return False
        if head.split(b" ", 2)[1] != str(status).encode():
            raise RuntimeError(f"answered with {self._received[:400]!r}")
        _, _, length = head.lower().partition(b"content-length:")
        if len(body) < int(length.partition(b"\r\n")[0]):
            return False
        self._received = b""
        self.answers_left -= 1
        return True


def request_bytes(method: str, url: str, *, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A whole request that leaves its connection open."""
    parts = urlsplit(url)
    lines = [
        f"{method} {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        *(f"{k}: {v}" for k, v in headers.items()),
    ]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def run(origin: str, request: bytes, *, status: int, connections: int, seconds: float) -> Load:
    """Send `request` for `seconds` over that many connections. Raises `RuntimeError` for another status."""
    parts = urlsplit(origin)
    if parts.hostname is None or parts.port is None:
        raise ValueError(f"no host and port in {origin}")
    host, port = parts.hostname, parts.port
    answers = 0
    with selectors.DefaultSelector() as selector:

        def connect(answers_left: int) -> None:
            each = _Connection(host, port, answers_left)
            selector.register(each.socket, selectors.EVENT_READ, each)
            each.socket.sendall(request)

        started, processor_before = time.monotonic(), time.process_time()
        for number in range(connections):
            # Not all of them are replaced at once.
            connect(1 + ANSWERS_PER_CONNECTION * number // connections)
        while (now := time.monotonic()) - started < seconds:
            events = selector.select(ANSWER_TIMEOUT_S)
            if not events:
                raise RuntimeError(f"no answer within {ANSWER_TIMEOUT_S:g} s")
            for key, _ in events:
                each: _Connection = key.data
                if not each.takes_in(status):
                    continue
                answers += 1
                if each.answers_left:
                    each.socket.sendall(request)
                else:
                    selector.unregister(each.socket)
                    each.socket.close()
                    connect(ANSWERS_PER_CONNECTION)
        processor_s = time.process_time() - processor_before
        for key in list(selector.get_map().values()):
            key.data.socket.close()
    return Load(answers=answers, took_s=now - started, processor_s=processor_s)
