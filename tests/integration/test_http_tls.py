"""The outbound client over TLS: whom it believes, and that its bounds hold there as well."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests.adapters

from tests.conftest import make_settings
from tests.integration.http_site import Site, drip, head, page, stream
from workers.clock import Budget, Clock
from workers.errors import FetchFailed
from workers.http.client import OutboundClient
from workers.http.dialer import Candidate
from workers.http.messages import Destination, Request, Response
from workers.http.retry import PAID

NAME = "good.example.com"


@pytest.fixture
def pem(checkout: Path) -> Path:
    """A key and a certificate for `NAME` that it signed itself, for nothing but these tests."""
    return checkout / "tests" / "samples" / "tls" / f"{NAME}.pem"


@pytest.fixture
def site(pem: Path) -> Iterator[Site]:
    server = Site(pem)
    yield server
    server.close()


@pytest.fixture
def believed(pem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the certificate among those that are believed."""
    monkeypatch.setattr(requests.adapters, "DEFAULT_CA_BUNDLE_PATH", str(pem))


def resolve_here(host: str, port: int) -> Sequence[Candidate]:
    return [(socket.AF_INET, ("127.0.0.1", port))]


def client_for(port: int, host: str = NAME, **changes: Any) -> OutboundClient:
    settings = make_settings(
        github_base_url=f"https://{host}:{port}",
        **{
            "http_connect_timeout_ms": 1000,
            "http_read_timeout_ms": 1000,
            "http_total_timeout_ms": 5000,
            **changes,
        },
    )
    return OutboundClient(settings, Clock(), resolve=resolve_here)


def ask(client: OutboundClient, port: int, path: str = "/a", host: str = NAME, **changes: Any) -> Response:
    request = Request(
        source="github",
        destination=Destination.SERVICE,
        url=f"https://{host}:{port}{path}",
        retry=PAID,
        **changes,
    )
    return client.fetch(request, Budget.of(Clock(), 30))


def reason(client: OutboundClient, port: int, path: str = "/a", **changes: Any) -> str:
    with pytest.raises(FetchFailed) as caught:
        ask(client, port, path, **changes)
    return caught.value.reason


@pytest.mark.usefixtures("believed")
def test_a_believed_certificate_is_accepted_and_the_connection_used_again(site: Site) -> None:
    site.pages["/a"] = page(b"hello")
    client = client_for(site.port)
    assert [ask(client, site.port).body for _ in range(3)] == [b"hello"] * 3
    assert site.connections == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(site: Site) -> None:
    assert reason(client_for(site.port), site.port) == "tls_failed"
    assert site.requests == []


@pytest.mark.usefixtures("believed")
def test_a_certificate_for_another_name_is_refused(site: Site) -> None:
    client = client_for(site.port, "other.example.com")
    assert reason(client, site.port, host="other.example.com") == "tls_failed"
    assert site.requests == []


@pytest.mark.usefixtures("believed")
def test_a_dripping_body_is_left_after_the_total_time_limit(site: Site) -> None:
    site.pages["/a"] = drip(head(200))
    started = time.monotonic()
    assert reason(client_for(site.port, http_total_timeout_ms=400), site.port) == "timeout"
    assert time.monotonic() - started < 2


@pytest.mark.usefixtures("believed")
def test_what_never_becomes_a_body_is_bounded_on_the_wire(site: Site) -> None:
    def interim(site: Site) -> Iterator[bytes]:
        while not site.closing.is_set():
            yield b"HTTP/1.1 100 Continue\r\nX-Long: " + b"y" * 5000 + b"\r\n\r\n"

    site.pages["/a"] = stream(b"", interim)
    assert reason(client_for(site.port), site.port, body_max_bytes=10_000) == "body_too_large"


def test_a_handshake_that_drips_is_left_after_the_connect_time_limit() -> None:
    closing = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                # The header of a handshake record of 16,000 bytes, and then a byte now and then.
                connection.sendall(b"\x16\x03\x03\x3e\x80\x02")
                while not closing.wait(0.05):
                    try:
                        connection.sendall(b"\x00")
                    except OSError:
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        started = time.monotonic()
        found = reason(client_for(port, http_connect_timeout_ms=300), port)
        took_s = time.monotonic() - started
        closing.set()
        thread.join(5)
    assert (found, took_s < 2) == ("timeout", True)
