"""A small HTTP/1.1 server on asyncio: keep-alive, bodies by content-length, nothing else.

Owns the bytes on the wire. Never decides what is answered: a handler does, and it may raise `DropConnection`
or `HoldConnection` to give no answer at all. One connection never waits for another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from devstack.sandbox.samples import Answer

HEAD_BYTES_MAX = 65_536
BODY_BYTES_MAX = 16_777_216
LISTEN_BACKLOG = 1024
NO_BODY = frozenset({204, 304})
REASONS = {status.value: status.phrase for status in HTTPStatus}


class DropConnection(Exception):
    """Raised by a handler: close the connection without an answer."""


class HoldConnection(Exception):
    """Raised by a handler: keep the connection open and never answer."""


class _BadRequest(Exception):
    """The client does not speak HTTP as we understand it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request; `target` is path and query as sent, header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """The query without its question mark."""
        return self.target.partition("?")[2]


Handler = Callable[[Request], Awaitable[Answer]]


async def listen(handler: Handler, *, host: str, port: int) -> asyncio.Server:
    """Start to answer requests on `host`; the port is in the sockets of what is returned."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _converse(handler, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, DropConnection, asyncio.CancelledError):
            # The client has gone, is to be dropped, or the server ends: in each case the talk is over.
            pass
        finally:
            writer.close()

    return await asyncio.start_server(connected, host, port, limit=HEAD_BYTES_MAX, backlog=LISTEN_BACKLOG)


async def _converse(handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        try:
            request = await _read(reader)
        except _BadRequest as exc:
            text = Answer(status=400, headers={"content-type": "text/plain"}, body=str(exc).encode())
            writer.write(_encode(text, keep_alive=False, with_body=True))
            return
        if request is None:
            return
        keep_alive = request.headers.get("connection", "").lower() != "close"
        try:
            answer = await handler(request)
        except HoldConnection:
            # Until the client closes it; whatever it still sends is thrown away.
            while await reader.read(HEAD_BYTES_MAX):
                pass
            return
        writer.write(_encode(answer, keep_alive=keep_alive, with_body=request.method != "HEAD"))
        await writer.drain()
        if not keep_alive:
            return


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """Read one request; None when the client has closed the connection between two."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as exc:
        if exc.partial:
            raise
        return None
    except asyncio.LimitOverrunError:
        raise _BadRequest("the request's head is too long") from None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    try:
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        length = int(headers.get("content-length", "0"))
    except ValueError:
        raise _BadRequest("not an HTTP request") from None
    if "transfer-encoding" in headers or not 0 <= length <= BODY_BYTES_MAX:
        raise _BadRequest("a body needs a content-length below 16 MiB")
    body = await reader.readexactly(length) if length else b""
    return Request(method=method, target=target, headers=headers, body=body)


def _encode(answer: Answer, *, keep_alive: bool, with_body: bool) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    if answer.status not in NO_BODY:
        lines.append(f"content-length: {len(answer.body)}")
    if not keep_alive:
        lines.append("connection: close")
    head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
    return head + answer.body if with_body and answer.status not in NO_BODY else head
