"""The transport of `requests`, its connections opened by a `Dialer`. Built once per thread, reused after.

It is used without a session, which would add cookies and what the environment says about proxies and
passwords, and read the whole body of a redirect into memory. This module is the only one that reaches into
urllib3's connection classes.
"""

from __future__ import annotations

import logging
import socket
import ssl
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.poolmanager import PoolManager
from urllib3.util.ssl_ import create_urllib3_context

from workers.http.addresses import Origin
from workers.http.dialer import BoundedTLSSocket, Dialer

# One thread talks to one host at a time, so a second connection to it would never be used.
_CONNECTIONS_PER_HOST = 1


class _DialedConnection(HTTPConnection):
    """A connection to whatever address the dialer allows."""

    def __init__(self, *args: Any, dialer: Dialer, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._dialer = dialer

    def _new_conn(self) -> socket.socket:
        return self._dialer.open(Origin(scheme="http", host=self._dns_host.strip("[]"), port=self.port))


class _DialedTLSConnection(HTTPSConnection):
    """The same for TLS; the certificate is checked against the name, the connection goes to the address."""

    def __init__(self, *args: Any, dialer: Dialer, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._dialer = dialer

    def _new_conn(self) -> socket.socket:
        return self._dialer.open(Origin(scheme="https", host=self._dns_host.strip("[]"), port=self.port))

    def connect(self) -> None:
        """Connect and shake hands, then put the reads under the call's bounds."""
        super().connect()
        if isinstance(self.sock, BoundedTLSSocket):
            self.sock.bounds = self._dialer.bounds


class _DialedPool(HTTPConnectionPool):
    ConnectionCls = _DialedConnection


class _DialedTLSPool(HTTPSConnectionPool):
    ConnectionCls = _DialedTLSConnection


class _DialedPoolManager(PoolManager):
    """Hands the dialer on to each new connection."""

    def __init__(self, dialer: Dialer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pool_classes_by_scheme = {"http": _DialedPool, "https": _DialedTLSPool}
        self._dialer = dialer

    def _new_pool(
        self, scheme: str, host: str, port: int, request_context: dict[str, Any] | None = None
    ) -> HTTPConnectionPool:
        pool = super()._new_pool(scheme, host, port, request_context)
        pool.conn_kw["dialer"] = self._dialer
        return pool


class DialedAdapter(HTTPAdapter):
    """Keeps connections to the last `hosts_max` hosts open, and makes each call once: repeating is the
    client's decision.
    """

    def __init__(self, dialer: Dialer, *, hosts_max: int) -> None:
        self.dialer = dialer
        # Debug lines of the first quote the path of every call, and warnings of the second the URL of an
        # answer whose headers are odd. There are services that want their key in there.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)
        logging.getLogger("urllib3.connection").setLevel(logging.ERROR)
        super().__init__(pool_connections=hosts_max, pool_maxsize=_CONNECTIONS_PER_HOST)

    def init_poolmanager(
        self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any
    ) -> None:
        """Build the pools around the dialer and a TLS context that makes bounded sockets."""
        context: ssl.SSLContext = create_urllib3_context()
        context.sslsocket_class = BoundedTLSSocket
        self.poolmanager = _DialedPoolManager(
            self.dialer,
            num_pools=connections,
            maxsize=maxsize,
            block=block,
            ssl_context=context,
            **pool_kwargs,
        )
