"""Answers that are made to use up memory, time, files or keys."""

from __future__ import annotations

import contextlib
import gzip
import logging
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.conftest import make_settings
from tests.integration.http_site import MIB, Page, Site, bomb, head, page, redirect, stream
from tests.waiting import wait_until
from workers.clock import Budget, Clock
from workers.errors import FetchFailed
from workers.http.client import OutboundClient
from workers.http.dialer import Candidate, connect_by_system
from workers.http.messages import Destination, LargeBody, Redirects, Request, Response
from workers.http.retry import PAID

KEY_IN_HEADER = "hidden-header-key"
KEY_IN_QUERY = "hidden-query-key"


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    yield server
    server.close()


def client_for(site: Site, **changes: Any) -> OutboundClient:
    names: dict[str, Any] = {
        "http_connect_timeout_ms": 1000,
        "http_read_timeout_ms": 1000,
        "http_total_timeout_ms": 20_000,
        **{name: changes.pop(name) for name in list(changes) if name.startswith("http_")},
    }
    return OutboundClient(make_settings(github_base_url=site.url, **names), Clock(), **changes)


def ask(client: OutboundClient, url: str, **changes: Any) -> Response:
    facts: dict[str, Any] = {
        "source": "github",
        "destination": Destination.SERVICE,
        "retry": PAID,
        "headers": {"Authorization": f"Bearer {KEY_IN_HEADER}"},
        **changes,
    }
    return client.fetch(Request(url=url, **facts), Budget.of(Clock(), 60))


def failure(client: OutboundClient, url: str, **changes: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        ask(client, url, **changes)
    return caught.value


# --- bodies


@pytest.mark.parametrize("window_bits", [15, -15], ids=["deflate", "deflate without a header"])
def test_a_deflated_bomb_stops_at_the_cap(site: Site, window_bits: int) -> None:
    headers = head(200, Content_Encoding="deflate")
    site.pages["/bomb"] = stream(headers, lambda _: bomb(2048 * MIB, window_bits))
    assert failure(client_for(site), f"{site.url}/bomb").reason == "body_too_large"


def test_a_bomb_inside_a_bomb_stops_at_the_cap(site: Site) -> None:
    body = gzip.compress(gzip.compress(bytes(64 * MIB)))
    assert len(body) < 1000
    site.pages["/bomb"] = page(body, Content_Encoding="gzip, gzip")
    assert failure(client_for(site), f"{site.url}/bomb").reason == "body_too_large"


def packed_nothing(site: Site) -> Iterator[bytes]:
    """A gzip stream of empty blocks, which never becomes a byte of a body."""
    yield b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    while not site.closing.is_set():
        yield b"\x00\x00\x00\xff\xff" * 10_000


def interim_answers(site: Site) -> Iterator[bytes]:
    while not site.closing.is_set():
        yield b"HTTP/1.1 100 Continue\r\nX-Long: " + b"y" * 5000 + b"\r\n\r\n"


def trailers(site: Site) -> Iterator[bytes]:
    yield b"5\r\nhello\r\n0\r\n"
    while not site.closing.is_set():
        yield b"X-Long: " + b"y" * 5000 + b"\r\n"


ENDLESS = {
    "packed nothing": stream(head(200, Content_Encoding="gzip"), packed_nothing),
    "interim answers": stream(b"", interim_answers),
    "trailers": stream(head(200, Transfer_Encoding="chunked"), trailers),
    "redirect": stream(head(302, Content_Encoding="gzip", Location="/a"), packed_nothing),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_what_never_becomes_a_body_is_bounded_on_the_wire(site: Site, what: str) -> None:
    site.pages["/endless"] = ENDLESS[what]
    assert failure(client_for(site), f"{site.url}/endless", body_max_bytes=10_000).reason == "body_too_large"


@pytest.mark.parametrize("what", ENDLESS)
def test_twin_with_a_far_bound_only_the_time_ends_it(site: Site, what: str) -> None:
    site.pages["/endless"] = ENDLESS[what]
    client = client_for(site, http_total_timeout_ms=300)
    error = failure(client, f"{site.url}/endless", body_max_bytes=1024 * MIB)
    assert error.reason == "timeout"


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "Compress"])
def test_a_body_packed_as_nobody_asked_for_is_not_taken_for_text(site: Site, coding: str) -> None:
    site.pages["/packed"] = page(b"\x0b\x02\x80hello\x03", Content_Encoding=coding)
    assert failure(client_for(site), f"{site.url}/packed").reason == "bad_encoding"


@pytest.mark.parametrize("coding", ["identity", "", "utf-8", "none"])
def test_what_is_no_coding_changes_nothing(site: Site, coding: str) -> None:
    site.pages["/plain"] = page(b"hello", Content_Encoding=coding)
    assert ask(client_for(site), f"{site.url}/plain").body == b"hello"


BROKEN = {
    "two lengths": stream(
        b"HTTP/1.1 200 X\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", lambda _: iter([b"hello!"])
    ),
    "no chunk size": stream(head(200, Transfer_Encoding="chunked"), lambda _: iter([b"zz\r\nhello"])),
    "no last chunk": stream(head(200, Transfer_Encoding="chunked"), lambda _: iter([b"5\r\nhello\r\n"])),
    "an endless chunk size": stream(
        head(200, Transfer_Encoding="chunked"), lambda _: iter(lambda: b"1" * 65_536, None)
    ),
    "a long header": stream(b"HTTP/1.1 200 X\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", lambda _: iter([b"x"])),
    "many headers": stream(b"HTTP/1.1 200 X\r\n" + b"X: y\r\n" * 200 + b"\r\n", lambda _: iter([b"x"])),
    "no status": stream(b"hello\r\n\r\n", lambda _: iter([b"x"])),
}


@pytest.mark.parametrize("what", BROKEN)
def test_an_answer_that_breaks_the_rules_is_a_broken_connection_and_no_fault_of_ours(
    site: Site, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.pages["/broken"] = BROKEN[what]
    assert failure(client_for(site), f"{site.url}/broken").reason == "connection_failed"
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


# --- connections


AFTER: dict[str, tuple[Page, dict[str, Any]]] = {
    "a body that was cut": (
        page(b"old" * 50_000),
        {"body_max_bytes": 2000, "large_body": LargeBody.CUT},
    ),
    "a body that was refused": (page(b"old" * 50_000), {"body_max_bytes": 2000}),
    "a long redirect": (page(b"old" * 50_000, 302, Location="/new"), {}),
    "more than its length": (page(b"old" + head(200, Content_Length="3") + b"old", Content_Length="3"), {}),
}


@pytest.mark.parametrize("what", AFTER)
def test_the_rest_of_an_answer_is_not_taken_for_the_next_one(site: Site, what: str) -> None:
    site.pages["/old"], changes = AFTER[what]
    site.pages["/new"] = page(b"new")
    client = client_for(site)
    with contextlib.suppress(FetchFailed):
        ask(client, f"{site.url}/old", **changes)
    for _ in range(2):
        assert ask(client, f"{site.url}/new").body == b"new"


def test_a_thread_keeps_few_connections_to_strangers_open(site: Site) -> None:
    def resolve(host: str, port: int) -> Sequence[Candidate]:
        return [(socket.AF_INET, ("93.184.215.14", port))]

    def connect(sock: socket.socket, address: tuple[Any, ...]) -> None:
        connect_by_system(sock, ("127.0.0.1", site.port))

    site.pages["/"] = page(b"hello")
    client = client_for(site, resolve=resolve, connect=connect)
    for number in range(12):
        ask(client, f"http://site-{number}.example.com/", destination=Destination.SITE)
    assert site.connections == 12
    wait_until(lambda: site.open_connections <= 4, "the oldest connections are closed")
    ask(client, "http://site-11.example.com/", destination=Destination.SITE)
    assert site.connections == 12, "the newest are used again"


# --- keys


FAILING = {
    "dropped": stream(b"", lambda _: iter(())),
    "cut short": stream(head(200, Content_Length="100"), lambda _: iter([b"x"])),
    "badly packed": page(b"this is not gzip", Content_Encoding="gzip"),
    "silent": stream(b"", lambda site: iter([b""] if site.closing.wait(20) else [])),
    "too large": page(bytes(5000)),
    "contradicting itself": BROKEN["two lengths"],
    "in a circle": redirect("?"),
    "leading inside": redirect("http://10.0.0.5/"),
}


def everything_in(error: BaseException | None, seen: set[int] | None = None) -> Iterator[str]:
    """The texts and facts of an error and of all that it keeps: causes, contexts, what hangs on them."""
    seen = set() if seen is None else seen
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield repr(error)
    for value in (*error.args, *vars(error).values()):
        if isinstance(value, BaseException):
            yield from everything_in(value, seen)
        else:
            yield f"{value!r} {getattr(value, '__dict__', '')!r}"
    yield from everything_in(error.__cause__, seen)
    yield from everything_in(error.__context__, seen)


@pytest.mark.parametrize("how", FAILING)
def test_no_error_keeps_a_key_however_deep_one_looks(site: Site, how: str) -> None:
    site.pages["/a"] = FAILING[how]
    client = client_for(site, http_read_timeout_ms=200)
    error = failure(
        client,
        f"{site.url}/a",
        query={"key": KEY_IN_QUERY},
        body_max_bytes=2000,
        redirects=Redirects.ANYWHERE,
    )
    told = " ".join(everything_in(error))
    assert KEY_IN_HEADER not in told
    assert KEY_IN_QUERY not in told


def test_a_header_of_ours_that_cannot_be_sent_is_not_kept_by_the_error_either(site: Site) -> None:
    error = failure(client_for(site), f"{site.url}/a", headers={"X-Key": f"{KEY_IN_HEADER}\n"})
    assert error.reason == "misconfigured"
    assert KEY_IN_HEADER not in " ".join(everything_in(error))


def test_odd_headers_of_an_answer_put_no_key_into_the_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.pages["/a"] = stream(b"HTTP/1.1 200 X\r\nno colon here\r\n\r\n", lambda _: iter([b"ok"]))
    with caplog.at_level(logging.DEBUG):
        assert ask(client_for(site), f"{site.url}/a", query={"key": KEY_IN_QUERY}).status == 200
    assert KEY_IN_QUERY not in caplog.text


def test_the_time_of_a_call_is_kept_also_when_bytes_come_without_end(site: Site) -> None:
    site.pages["/endless"] = stream(
        head(200, Transfer_Encoding="chunked"), lambda _: iter(lambda: b"1\r\nx\r\n" * 1000, None)
    )
    started = time.monotonic()
    client = client_for(site, http_total_timeout_ms=300)
    assert failure(client, f"{site.url}/endless", body_max_bytes=1024 * MIB).reason == "timeout"
    assert time.monotonic() - started < 2
