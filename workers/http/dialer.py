"""Opens the sockets of one HTTP session, to checked addresses only, and bounds what is read from them.

The invariant: a socket is connected to exactly the address that was checked, after the name was resolved
once. A name that changes its address between a check and a connection therefore gains nothing. Trusted
origins are exempt: they are the services that the settings name.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from workers.errors import FetchFailed, TargetGone
from workers.http.addresses import WEB_PORTS, Origin, check_address, check_host_literally

if TYPE_CHECKING:
    from typing_extensions import Buffer

# (family, address as the socket API wants it); the address's first part is the IP address as text.
Candidate: TypeAlias = tuple[socket.AddressFamily, tuple[Any, ...]]
Resolve: TypeAlias = Callable[[str, int], Sequence[Candidate]]
Connect: TypeAlias = Callable[[socket.socket, tuple[Any, ...]], None]


class Flooded(OSError):
    """The other side sent more bytes than any answer of the wanted size needs."""


class CallBounds:
    """How long the sockets of one session may still block, and how much they may hear.

    One call at a time uses a session. A time-out of a socket starts anew with each byte, so somebody who
    sends a byte every few seconds could hold us for ever. This is asked before each read instead. What never
    becomes a body (interim answers, trailers, a compressed nothing) is found nowhere but here.
    """

    def __init__(self) -> None:
        self._ends_at = float("inf")
        self._step_s = float("inf")
        self._bytes_left = sys.maxsize

    def start(self, total_s: float, step_s: float, bytes_max: int) -> None:
        """Begin a call of at most `total_s` in all, `step_s` without hearing anything, and `bytes_max`."""
        self._ends_at = time.monotonic() + total_s
        self._step_s = step_s
        self._bytes_left = bytes_max

    def hear(self, count: int) -> int:
        """Note that so many bytes came; return the number. Raises `Flooded` when they are too many."""
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise Flooded("more was sent than any answer needs")
        return count

    def next_wait_s(self, step_s: float | None = None) -> float:
        """How long the next blocking step may take.

        Raises `TimeoutError` when the call's time is used up.
        """
        left_s = self._ends_at - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the time for this call is used up")
        return min(left_s, self._step_s if step_s is None else step_s)


class BoundedSocket(socket.socket):
    """A plain socket whose reads keep the bounds of its call."""

    bounds: CallBounds | None = None

    def recv_into(self, buffer: Buffer, nbytes: int = 0, flags: int = 0) -> int:
        """Receive, within what is left."""
        if self.bounds is None:
            return super().recv_into(buffer, nbytes, flags)
        self.settimeout(self.bounds.next_wait_s())
        return self.bounds.hear(super().recv_into(buffer, nbytes, flags))


class BoundedTLSSocket(ssl.SSLSocket):
    """The same for TLS. The `ssl` module makes these itself, so the bounds are set after the handshake."""

    bounds: CallBounds | None = None

    def recv_into(self, buffer: Buffer, nbytes: int | None = None, flags: int = 0) -> int:
        """Receive, within what is left."""
        if self.bounds is None:
            return super().recv_into(buffer, nbytes, flags)
        self.settimeout(self.bounds.next_wait_s())
        return self.bounds.hear(super().recv_into(buffer, nbytes, flags))


def resolve_by_system(host: str, port: int) -> Sequence[Candidate]:
    """Ask the system's resolver for all addresses of `host`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def connect_by_system(sock: socket.socket, address: tuple[Any, ...]) -> None:
    """Connect `sock`; the one place where an outbound connection is made."""
    sock.connect(address)


class Dialer:
    """Turns an origin into a connected socket, or refuses."""

    def __init__(
        self,
        *,
        connect_timeout_s: float,
        trusted: frozenset[Origin] = frozenset(),
        ports: frozenset[int] = WEB_PORTS,
        resolve: Resolve = resolve_by_system,
        connect: Connect = connect_by_system,
    ) -> None:
        self.bounds = CallBounds()
        self._connect_timeout_s = connect_timeout_s
        self._trusted = trusted
        self._ports = ports
        self._resolve = resolve
        self._connect = connect

    def open(self, origin: Origin) -> socket.socket:
        """Return a socket connected to `origin`.

        Raises `UnsafeAddress`, `TargetGone` (`dns_nxdomain`), or `FetchFailed` (`dns_temporary`,
        `dns_failed`, `timeout`, `connection_failed`).
        """
        is_trusted = origin in self._trusted
        if not is_trusted:
            check_host_literally(origin, self._ports)
        candidates = self._look_up(origin)
        if not is_trusted:
            # All of them, not only the one we would use: a name with one inside address is up to no good.
            for _, address in candidates:
                check_address(str(address[0]))
        return self._open_first(candidates)

    def _look_up(self, origin: Origin) -> Sequence[Candidate]:
        """Resolve in a thread of its own: the system's resolver takes no time limit."""
        outcome: list[Sequence[Candidate] | BaseException] = []

        def work() -> None:
            try:
                outcome.append(self._resolve(origin.host, origin.port))
            except (OSError, UnicodeError) as exc:
                outcome.append(exc)

        thread = threading.Thread(target=work, name="resolve", daemon=True)
        thread.start()
        thread.join(self._time_left_s())
        if not outcome:
            raise FetchFailed("the name server did not answer in time", reason="dns_temporary")
        if isinstance(outcome[0], BaseException):
            raise _dns_error(outcome[0]) from outcome[0]
        if not outcome[0]:
            raise FetchFailed("the name has no address", reason="dns_failed")
        return outcome[0]

    def _open_first(self, candidates: Sequence[Candidate]) -> socket.socket:
        failure: OSError | None = None
        for family, address in candidates:
            sock = BoundedSocket(family, socket.SOCK_STREAM)
            try:
                sock.settimeout(self._time_left_s())
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connect(sock, address)
            except OSError as exc:
                sock.close()
                failure = exc
                continue
            sock.bounds = self.bounds
            return sock
        if isinstance(failure, TimeoutError):
            raise FetchFailed("no connection within the time limit", reason="timeout") from failure
        raise FetchFailed("the connection was refused or broke", reason="connection_failed") from failure

    def _time_left_s(self) -> float:
        try:
            return self.bounds.next_wait_s(self._connect_timeout_s)
        except TimeoutError as exc:
            raise FetchFailed("the time for this call is used up", reason="timeout") from exc


def _dns_error(error: BaseException) -> FetchFailed | TargetGone:
    """Tell a name that does not exist from a name server that cannot say."""
    if isinstance(error, UnicodeError):
        return TargetGone("the host cannot be a name", reason="dns_nxdomain")
    code = error.errno if isinstance(error, socket.gaierror) else None
    if code == socket.EAI_NONAME:
        return TargetGone("the host name does not exist", reason="dns_nxdomain")
    if code == socket.EAI_AGAIN:
        return FetchFailed("the name server cannot say now", reason="dns_temporary")
    return FetchFailed("the host name cannot be resolved", reason="dns_failed")
