"""A server that answers byte for byte what a test wants."""

from __future__ import annotations

import contextlib
import socketserver
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MIB = 1_048_576
TLS_HELLO = b"\x16"
Send = Callable[[bytes], None]
Page = Callable[["Site", str, Send], None]


class Site:
    """A server that says byte for byte what a test wants, and counts connections and requests.

    With `pem`, the file of a key and its certificate, it speaks TLS.
    """

    def __init__(self, pem: Path | None = None) -> None:
        self.pages: dict[str, Page] = {}
        self.connections = 0
        self.open_connections = 0
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.closing = threading.Event()
        site = self

        tls: ssl.SSLContext | None = None
        if pem is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(pem)
        count = threading.Lock()

        class Handler(socketserver.StreamRequestHandler):
            def setup(self) -> None:
                if tls is not None:
                    self.request = tls.wrap_socket(self.request, server_side=True)
                super().setup()

            def finish(self) -> None:
                with contextlib.suppress(OSError):
                    super().finish()
                self.request.close()

            def handle(self) -> None:
                with count:
                    site.connections += 1
                    site.open_connections += 1
                with contextlib.suppress(OSError):
                    while site.answer_one(self.rfile, self.wfile.write):
                        pass
                with count:
                    site.open_connections -= 1

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that goes away, or does not like our certificate, is part of a test."""

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
        send(head(status, **{"Content_Length": str(len(body)), **headers}) + body)

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


def bomb(unpacked_bytes: int, window_bits: int = 31) -> Iterator[bytes]:
    """A stream of zeros: 16 MiB at a time, each the same 16 KiB on the wire.

    `window_bits` as in `zlib`: gzip is 31, deflate 15, deflate without a header -15.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, window_bits)
    zeros = bytes(16 * MIB)
    yield packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(unpacked_bytes // len(zeros) - 1):
        yield block
