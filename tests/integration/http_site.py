"""A server that answers byte for byte what a test wants."""

from __future__ import annotations

import contextlib
import socketserver
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

MIB = 1_048_576
TLS_HELLO = b"\x16"
Send = Callable[[bytes], None]
Page = Callable[["Site", str, Send], None]


class Site:
    """A server that says byte for byte what a test wants, and counts connections and requests."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.connections = 0
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.closing = threading.Event()
        site = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                site.connections += 1
                with contextlib.suppress(OSError):
                    while site.answer_one(self.rfile, self.wfile.write):
                        pass

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 64

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def answer_one(self, stream: Any, send: Send) -> bool:
        if stream.peek(1)[:1] == TLS_HELLO:
            send(head(400))
            return False
        first = stream.readline().decode("latin-1").split()
        if len(first) < 2:
            return False
        headers: dict[str, str] = {}
        while (line := stream.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        stream.read(int(headers.get("content-length", "0")))
        self.requests.append((first[1], headers))
        page = self.pages.get(first[1].partition("?")[0], not_found)
        page(self, first[1], send)
        return not getattr(page, "closes", False)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def head(status: int, **headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status} X",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def not_found(site: Site, path: str, send: Send) -> None:
    send(head(404, Content_Length="0"))


def page(body: bytes, status: int = 200, **headers: str) -> Page:
    def answer(site: Site, path: str, send: Send) -> None:
        send(head(status, Content_Length=str(len(body)), **headers) + body)

    return answer


def stream(headers: bytes, blocks: Callable[[Site], Iterator[bytes]]) -> Page:
    """An answer without a length, which ends when the connection does."""

    def answer(site: Site, path: str, send: Send) -> None:
        send(headers)
        for block in blocks(site):
            send(block)

    answer.closes = True  # type: ignore[attr-defined]
    return answer


def redirect(location: str, status: int = 302) -> Page:
    return page(b"", status, Location=location)


def drip(headers: bytes, block: bytes = b"x") -> Page:
    def blocks(site: Site) -> Iterator[bytes]:
        while not site.closing.wait(0.03):
            yield block

    return stream(headers, blocks)


def bomb(unpacked_bytes: int) -> Iterator[bytes]:
    """A gzip stream of zeros: 16 MiB at a time, each the same 16 KiB on the wire."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(16 * MIB)
    yield packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(unpacked_bytes // len(zeros) - 1):
        yield block
