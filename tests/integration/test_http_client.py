"""The outbound client against a real server on this machine, and against names that lie."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import time
import traceback
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import make_settings
from tests.integration.http_site import (
    MIB,
    Send,
    Site,
    bomb,
    drip,
    head,
    page,
    redirect,
    stream,
)
from workers.clock import Budget, Clock
from workers.errors import ConvergeError, FetchFailed, TargetGone, UnsafeAddress
from workers.http.client import OutboundClient
from workers.http.dialer import Candidate, Connect, connect_by_system
from workers.http.messages import Destination, LargeBody, Redirects, Request, Response
from workers.http.retry import PAID


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    yield server
    server.close()


def client_for(site: Site, **changes: Any) -> OutboundClient:
    names: dict[str, Any] = {
        "http_connect_timeout_ms": 1000,
        "http_read_timeout_ms": 1000,
        "http_total_timeout_ms": 2000,
        **{name: changes.pop(name) for name in list(changes) if name.startswith(("http_", "github_"))},
    }
    return OutboundClient(make_settings(tracker_base_url=site.url, **names), Clock(), **changes)


def ask(
    client: OutboundClient, url: str, *, budget_s: float = 30, calls: list[int] | None = None, **changes: Any
) -> Response:
    """Ask a configured service once, unless the test says otherwise."""
    counted = [] if calls is None else calls
    facts: dict[str, Any] = {"source": "test", "destination": Destination.SERVICE, "retry": PAID, **changes}
    return client.fetch(Request(url=url, **facts), Budget.of(Clock(), budget_s), lambda: counted.append(1))


def failure(client: OutboundClient, url: str, **changes: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        ask(client, url, **changes)
    return caught.value


# --- what goes over the wire


def test_an_answer_comes_back_with_its_facts(site: Site) -> None:
    site.pages["/a"] = page(b'{"ok": true}', Content_Type="application/json", X_Extra="1")
    response = ask(client_for(site), f"{site.url}/a", query={"q": "x y&z"}, headers={"X-API-Key": "k"})
    assert (response.status, response.json(), response.headers["x-extra"]) == (200, {"ok": True}, "1")
    assert response.chain == (response.url,) == (f"{site.url}/a?q=x+y%26z",)
    assert response.elapsed_s < 2
    path, headers = site.requests[0]
    assert path == "/a?q=x+y%26z"
    assert headers["x-api-key"] == "k"
    assert headers["user-agent"].startswith("converge/")
    assert headers["accept-encoding"] == "gzip, deflate"
    assert "cookie" not in headers


def test_a_body_is_posted_as_json(site: Site) -> None:
    site.pages["/a"] = page(b"{}")
    assert ask(client_for(site), f"{site.url}/a", method="POST", json_body={"a": [1]}).status == 200
    assert site.requests[0][1]["content-type"] == "application/json"


def test_a_form_is_posted_as_a_form(site: Site) -> None:
    site.pages["/a"] = page(b"{}")
    assert ask(client_for(site), f"{site.url}/a", method="POST", form_body={"grant": "a b"}).status == 200
    headers = site.requests[0][1]
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert headers["content-length"] == str(len("grant=a+b"))


def test_one_thread_uses_one_connection_again_and_another_thread_has_its_own(site: Site) -> None:
    site.pages["/a"] = page(b"hello")
    site.pages["/r"] = page(b"moved", 302, Location="/a")
    client = client_for(site)
    for _ in range(5):
        ask(client, f"{site.url}/a")
        ask(client, f"{site.url}/r")
    assert site.connections == 1
    other = threading.Thread(target=lambda: ask(client, f"{site.url}/a"))
    other.start()
    other.join()
    assert site.connections == 2


def test_cookies_of_one_answer_are_not_sent_with_the_next_call(site: Site) -> None:
    site.pages["/a"] = page(b"", Set_Cookie="id=1; Path=/")
    client = client_for(site)
    ask(client, f"{site.url}/a")
    ask(client, f"{site.url}/a")
    assert "cookie" not in site.requests[1][1]


def test_proxies_of_the_environment_are_ignored(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.pages["/a"] = page(b"direct")
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(client_for(site), f"{site.url}/a").body == b"direct"


def test_passwords_in_the_home_directory_are_ignored(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    ask(client_for(site), f"{site.url}/a")
    assert "authorization" not in site.requests[0][1]


# --- bodies


def test_a_small_body_that_unpacks_to_two_gigabytes_stops_at_the_cap_without_using_memory(site: Site) -> None:
    site.pages["/bomb"] = stream(head(200, Content_Encoding="gzip"), lambda _: bomb(2048 * MIB))
    client = client_for(site, http_total_timeout_ms=20_000)
    ask(client, site.url)
    tracemalloc.start()
    error = failure(client, f"{site.url}/bomb")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert error.reason == "body_too_large"
    # The server runs in this process as well: its 16 MiB of zeros and as much again for packing them.
    assert peak < 16 * MIB * 2 + 6 * MIB


def test_a_bomb_in_a_redirect_is_not_unpacked_either(site: Site) -> None:
    headers = head(302, Content_Encoding="gzip", Location="/a")
    site.pages["/bomb"] = stream(headers, lambda _: bomb(2048 * MIB))
    site.pages["/a"] = page(b"arrived")
    client = client_for(site, http_total_timeout_ms=20_000)
    assert ask(client, f"{site.url}/bomb").body == b"arrived"


def test_an_endless_body_stops_at_the_cap(site: Site) -> None:
    def endless(site: Site) -> Iterator[bytes]:
        while True:
            yield bytes(65_536)

    site.pages["/endless"] = stream(head(200), endless)
    assert failure(client_for(site), f"{site.url}/endless").reason == "body_too_large"


def test_a_page_may_be_cut_at_the_cap_because_its_head_is_enough(site: Site) -> None:
    site.pages["/long"] = page(b"<title>T</title>" + b"x" * 100_000)
    response = ask(client_for(site), f"{site.url}/long", large_body=LargeBody.CUT, body_max_bytes=20_000)
    assert (len(response.body), response.is_cut) == (20_000, True)
    assert response.body.startswith(b"<title>")


def test_a_body_of_exactly_the_cap_is_whole(site: Site) -> None:
    site.pages["/full"] = page(gzip.compress(b"y" * 5000), Content_Encoding="gzip")
    response = ask(client_for(site), f"{site.url}/full", body_max_bytes=5000)
    assert (response.body, response.is_cut) == (b"y" * 5000, False)


def test_a_body_that_ends_too_early_is_no_answer(site: Site) -> None:
    site.pages["/short"] = stream(head(200, Content_Length="100"), lambda _: iter([b"only this"]))
    assert failure(client_for(site), f"{site.url}/short").reason == "connection_failed"


def test_a_body_that_cannot_be_unpacked_is_named(site: Site) -> None:
    site.pages["/bad"] = page(b"this is not gzip", Content_Encoding="gzip")
    assert failure(client_for(site), f"{site.url}/bad").reason == "bad_encoding"


def test_a_page_in_an_old_charset_is_read_right_and_an_unknown_one_does_not_fail(site: Site) -> None:
    site.pages["/old"] = page('<meta charset="windows-1251"><title>Гавань'.encode("cp1251"))
    site.pages["/odd"] = page(b'<meta charset="klingon"><title>caf\xe9')
    client = client_for(site)
    assert "Гавань" in ask(client, f"{site.url}/old").text()
    assert "caf\ufffd" in ask(client, f"{site.url}/odd").text()


# --- time


def test_a_server_that_says_nothing_is_left_after_the_read_time_limit(site: Site) -> None:
    site.pages["/hang"] = stream(b"", lambda site: iter([b""] if site.closing.wait(20) else []))
    started = time.monotonic()
    assert failure(client_for(site, http_read_timeout_ms=200), f"{site.url}/hang").reason == "timeout"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "begin",
    [head(200, Content_Length="1000000"), head(200), b"HTTP/1.1 200 X\r\nX-Slow: "],
    ids=["body with a length", "body without a length", "headers"],
)
def test_a_server_that_drips_is_left_after_the_total_time_limit(site: Site, begin: bytes) -> None:
    site.pages["/drip"] = drip(begin)
    started = time.monotonic()
    assert failure(client_for(site, http_total_timeout_ms=400), f"{site.url}/drip").reason == "timeout"
    assert time.monotonic() - started < 5


def test_a_dripping_chunked_body_is_left_as_well(site: Site) -> None:
    site.pages["/drip"] = drip(head(200, Transfer_Encoding="chunked"), b"1\r\nx\r\n")
    assert failure(client_for(site, http_total_timeout_ms=400), f"{site.url}/drip").reason == "timeout"


def test_the_remaining_budget_bounds_a_call(site: Site) -> None:
    site.pages["/drip"] = drip(head(200))
    started = time.monotonic()
    assert failure(client_for(site), f"{site.url}/drip", budget_s=0.3).reason == "timeout"
    assert time.monotonic() - started < 5


def test_a_request_may_bring_its_own_time_limit(site: Site) -> None:
    site.pages["/drip"] = drip(head(200))
    started = time.monotonic()
    assert failure(client_for(site), f"{site.url}/drip", timeout_s=0.3).reason == "timeout"
    assert time.monotonic() - started < 5


def test_a_call_may_bring_a_longer_pause_than_the_client_allows(site: Site) -> None:
    def late(site: Site, path: str, send: Send) -> None:
        site.closing.wait(0.4)
        page(b"late")(site, path, send)

    site.pages["/late"] = late
    client = client_for(site, http_read_timeout_ms=200)
    assert failure(client, f"{site.url}/late").reason == "timeout"
    assert ask(client, f"{site.url}/late", read_timeout_s=1.5).body == b"late"


def test_the_time_limit_covers_all_hops_together(site: Site) -> None:
    def slow(site: Site, path: str, send: Send) -> None:
        site.closing.wait(0.15)
        send(head(302, Content_Length="0", Location=f"/slow?{len(site.requests)}"))

    site.pages["/slow"] = slow
    error = failure(client_for(site, http_total_timeout_ms=400), f"{site.url}/slow")
    assert error.reason == "timeout"


def test_a_name_server_that_does_not_answer_is_left_too(site: Site) -> None:
    def hang(host: str, port: int) -> Sequence[Candidate]:
        site.closing.wait(20)
        return []

    client = client_for(site, http_connect_timeout_ms=100, resolve=hang)
    assert failure(client, "http://slow.example.com/", destination=Destination.SITE).reason == "dns_temporary"


# --- redirects


def test_redirects_are_followed_and_the_chain_is_kept(site: Site) -> None:
    site.pages["/a"] = redirect("b/c?x=1", 301)
    site.pages["/b/c"] = redirect(f"//127.0.0.1:{site.port}/d#top", 308)
    site.pages["/d"] = page(b"here")
    response = ask(client_for(site), f"{site.url}/a")
    assert response.chain == (f"{site.url}/a", f"{site.url}/b/c?x=1", f"{site.url}/d")
    assert (response.url, response.body) == (f"{site.url}/d", b"here")


def test_a_location_outside_ascii_is_read_as_utf_8(site: Site) -> None:
    site.pages["/a"] = redirect("/größe".encode().decode("latin-1"))
    site.pages["/gr%C3%B6%C3%9Fe"] = page(b"here")
    assert ask(client_for(site), f"{site.url}/a").body == b"here"


def test_each_hop_is_told_to_the_counter(site: Site) -> None:
    site.pages["/a"] = redirect("/b")
    site.pages["/b"] = page(b"")
    calls: list[int] = []
    ask(client_for(site), f"{site.url}/a", calls=calls)
    assert len(calls) == 2


def test_a_circle_ends_at_its_first_repetition(site: Site) -> None:
    site.pages["/a"] = redirect("/b")
    site.pages["/b"] = redirect("/a")
    assert failure(client_for(site), f"{site.url}/a").reason == "redirect_loop"
    assert len(site.requests) == 2


@pytest.mark.parametrize(("hops", "outcome"), [(5, "ok"), (6, "too_many_redirects")])
def test_five_redirects_are_followed_and_no_sixth(site: Site, hops: int, outcome: str) -> None:
    for hop in range(hops):
        site.pages[f"/{hop}"] = redirect(f"/{hop + 1}")
    site.pages[f"/{hops}"] = page(b"")
    client = client_for(site)
    if outcome == "ok":
        assert ask(client, f"{site.url}/0").status == 200
    else:
        assert failure(client, f"{site.url}/0").reason == outcome


def test_a_redirect_without_a_place_or_of_a_post_is_returned_as_it_is(site: Site) -> None:
    site.pages["/a"] = page(b"", 302)
    site.pages["/b"] = redirect("/c", 307)
    client = client_for(site)
    assert ask(client, f"{site.url}/a").status == 302
    assert ask(client, f"{site.url}/b", method="POST", json_body={}).status == 307
    assert len(site.requests) == 2


def test_a_redirect_that_nobody_wants_to_follow_is_the_answer(site: Site) -> None:
    site.pages["/a"] = redirect("https://elsewhere.example.com/")
    response = ask(client_for(site), f"{site.url}/a", redirects=Redirects.NEVER)
    assert (response.status, response.headers["location"]) == (302, "https://elsewhere.example.com/")
    assert (response.url, len(site.requests)) == (f"{site.url}/a", 1)


def test_a_key_in_a_path_is_in_no_log_however_much_is_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.pages["/bot1:secret-key/getMe"] = page(b"{}")
    with caplog.at_level(logging.DEBUG):
        assert ask(client_for(site), f"{site.url}/bot1:secret-key/getMe").status == 200
        assert ask(client_for(site), f"{site.url}/bot1:secret-key/getNothing").status == 404
    assert "secret-key" not in caplog.text


def test_a_service_is_not_followed_to_another_origin_with_its_key(site: Site) -> None:
    other = Site()
    try:
        site.pages["/a"] = redirect(f"{other.url}/b")
        client = client_for(site, github_base_url=other.url)
        error = failure(client, f"{site.url}/a", headers={"Authorization": "Bearer secret"})
        assert error.reason == "redirect_refused"
        assert other.connections == 0
    finally:
        other.close()


def test_another_origin_never_gets_the_headers_of_the_first(site: Site) -> None:
    other = Site()
    try:
        other.pages["/b"] = page(b"")
        site.pages["/a"] = redirect("http://other.example.com/b")
        client = client_for(site, resolve=public_or_local, connect=connect_to(other))
        ask(
            client,
            f"{site.url}/a",
            redirects=Redirects.ANYWHERE,
            headers={"Authorization": "Bearer secret", "X-API-Key": "k", "Accept": "text/html"},
        )
        _, headers = other.requests[0]
        assert "authorization" not in headers
        assert "x-api-key" not in headers
        assert headers["accept"] == "text/html"
    finally:
        other.close()


def public_or_local(host: str, port: int) -> Sequence[Candidate]:
    """A name server for which every name is public; addresses are themselves."""
    return [(socket.AF_INET, (host if host == "127.0.0.1" else "93.184.215.14", port))]


def connect_to(stranger: Site) -> Connect:
    """A network in which every public address is this server."""

    def connect(sock: socket.socket, address: tuple[Any, ...]) -> None:
        connect_by_system(sock, address if address[0] == "127.0.0.1" else ("127.0.0.1", stranger.port))

    return connect


def test_a_redirect_of_a_service_gains_no_trust(site: Site) -> None:
    inside = Site()
    try:
        inside.pages["/b"] = page(b"our tracker")
        site.pages["/a"] = redirect(f"{inside.url}/b")
        client = client_for(site, github_base_url=inside.url)
        assert ask(client, f"{inside.url}/b").body == b"our tracker"
        assert failure(client, f"{site.url}/a", redirects=Redirects.ANYWHERE).reason == "misconfigured"
        assert len(inside.requests) == 1
    finally:
        inside.close()


@pytest.mark.parametrize("location", ["http://10.0.0.5/", "ftp://example.com/", "https://example.com:8443/"])
def test_a_service_that_leads_inside_says_nothing_about_its_targets(site: Site, location: str) -> None:
    site.pages["/a"] = redirect(location)
    error = failure(client_for(site), f"{site.url}/a", redirects=Redirects.ANYWHERE)
    assert error.reason == "misconfigured"


@pytest.mark.parametrize("location", [None, "http://me:secret@again.example.com/b"])
def test_a_name_and_password_in_a_url_are_not_sent(site: Site, location: str | None) -> None:
    site.pages["/a"] = page(b"") if location is None else redirect(location)
    site.pages["/b"] = page(b"")
    client = client_for(site, resolve=public_or_local, connect=connect_to(site))
    response = ask(
        client,
        "http://me:secret@first.example.com/a",
        destination=Destination.SITE,
        redirects=Redirects.ANYWHERE,
    )
    assert all("authorization" not in headers for _, headers in site.requests)
    assert "secret" not in " ".join(response.chain)


# --- unsafe addresses


@pytest.mark.parametrize(
    "location",
    [
        "http://10.0.0.5/",
        "http://169.254.169.254/latest/",
        "http://2130706433/",
        "http://[::1]/",
        "http://localhost:6379/",
        "//127.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_INFO",
    ],
)
def test_a_page_that_redirects_inside_is_refused_without_a_connection(site: Site, location: str) -> None:
    connected: list[Any] = []

    def connect(sock: socket.socket, address: tuple[Any, ...]) -> None:
        connected.append(address)
        connect_by_system(sock, ("127.0.0.1", site.port))

    site.pages["/"] = redirect(location)
    client = client_for(site, connect=connect, resolve=RebindingName().resolve)
    with pytest.raises(UnsafeAddress):
        ask(
            client,
            "http://public.example.com/",
            destination=Destination.SITE,
            redirects=Redirects.ANYWHERE,
        )
    assert connected == [("93.184.215.14", 80)]


@pytest.mark.parametrize(
    "answer",
    [
        ["10.0.0.5"],
        ["93.184.215.14", "127.0.0.1"],
        ["100.64.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
    ],
)
def test_a_name_with_one_inside_address_is_refused(site: Site, answer: list[str]) -> None:
    def resolve(host: str, port: int) -> Sequence[Candidate]:
        return [(socket.AF_INET6 if ":" in each else socket.AF_INET, (each, port)) for each in answer]

    client = client_for(site, resolve=resolve, connect=refuse_any_connection)
    with pytest.raises(UnsafeAddress):
        ask(client, "https://lying.example.com/", destination=Destination.SITE)


def refuse_any_connection(sock: socket.socket, address: tuple[Any, ...]) -> None:
    raise AssertionError(f"a connection to {address}")


class RebindingName:
    """A name server that says a public address first and this machine's from then on."""

    def __init__(self) -> None:
        self.questions = 0

    def resolve(self, host: str, port: int) -> Sequence[Candidate]:
        self.questions += 1
        return [(socket.AF_INET, ("93.184.215.14" if self.questions == 1 else "127.0.0.1", port))]


def test_a_name_that_changes_after_the_check_is_connected_to_the_checked_address_only(site: Site) -> None:
    name = RebindingName()
    connected: list[str] = []

    def connect(sock: socket.socket, address: tuple[Any, ...]) -> None:
        connected.append(address[0])
        raise ConnectionRefusedError

    client = client_for(site, resolve=name.resolve, connect=connect, site_ports=frozenset({site.port}))
    url = f"http://rebind.example.com:{site.port}/"
    assert failure(client, url, destination=Destination.SITE).reason == "connection_failed"
    assert (connected, name.questions) == (["93.184.215.14"], 1)
    with pytest.raises(UnsafeAddress):
        ask(client, url, destination=Destination.SITE)
    assert connected == ["93.184.215.14"]
    assert site.connections == 0


def test_twin_without_the_check_at_connect_time_the_same_name_reaches_this_machine(site: Site) -> None:
    site.pages["/"] = page(b"our secrets")
    name = RebindingName()
    url = f"http://rebind.example.com:{site.port}/"
    checked = name.resolve("rebind.example.com", site.port)
    assert checked[0][1][0] == "93.184.215.14"
    # A trusted origin is connected to without the check: the name is asked again, and has changed.
    client = client_for(site, resolve=name.resolve, github_base_url=f"http://rebind.example.com:{site.port}")
    assert ask(client, url).body == b"our secrets"


def test_a_strangers_url_does_not_profit_from_naming_a_trusted_service(site: Site) -> None:
    site.pages["/"] = page(b"the tracker")
    client = client_for(site, site_ports=frozenset({80, 443, site.port}))
    assert ask(client, f"{site.url}/").body == b"the tracker"
    with pytest.raises(UnsafeAddress):
        ask(client, f"{site.url}/", destination=Destination.SITE)
    assert len(site.requests) == 1


# --- failures below HTTP


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (socket.EAI_NONAME, TargetGone, "dns_nxdomain"),
        (socket.EAI_AGAIN, FetchFailed, "dns_temporary"),
        (socket.EAI_FAIL, FetchFailed, "dns_failed"),
    ],
)
def test_a_name_that_does_not_exist_is_told_from_a_name_server_that_cannot_say(
    site: Site, code: int, kind: type[ConvergeError], reason: str
) -> None:
    def resolve(host: str, port: int) -> Sequence[Candidate]:
        raise socket.gaierror(code, "words of the resolver")

    client = client_for(site, resolve=resolve)
    with pytest.raises(kind) as caught:
        ask(client, "https://gone.example.com/", destination=Destination.SITE)
    assert getattr(caught.value, "reason", None) == reason


def test_a_service_whose_name_does_not_resolve_says_nothing_about_its_targets(site: Site) -> None:
    def resolve(host: str, port: int) -> Sequence[Candidate]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    client = client_for(site, resolve=resolve)
    assert failure(client, "https://api.github.com/users/a").reason == "dns_failed"


def test_a_refused_connection_is_named_and_the_next_address_is_tried(site: Site) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed_port = unused.getsockname()[1]
        client = client_for(site, github_base_url=f"http://127.0.0.1:{closed_port}")
        assert failure(client, f"http://127.0.0.1:{closed_port}/").reason == "connection_failed"

    def resolve(host: str, port: int) -> Sequence[Candidate]:
        return [(socket.AF_INET, ("127.0.0.1", closed_port)), (socket.AF_INET, ("127.0.0.1", port))]

    site.pages["/"] = page(b"second")
    assert ask(client_for(site, resolve=resolve), f"{site.url}/").body == b"second"


def test_a_server_without_tls_is_a_tls_failure(site: Site) -> None:
    client = client_for(site, github_base_url=f"https://127.0.0.1:{site.port}")
    assert failure(client, f"https://127.0.0.1:{site.port}/").reason == "tls_failed"


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("query", [{"access_token": "abcdef"}, {"q": "tracker-key"}])
def test_a_failure_carries_no_key_in_its_words_or_its_causes(
    site: Site, scheme: str, query: dict[str, str]
) -> None:
    site.pages["/drop"] = stream(b"", lambda _: iter(()))
    origin = f"{scheme}://127.0.0.1:{site.port}"
    error = failure(client_for(site, github_base_url=origin), f"{origin}/drop", query=query)
    told = "".join(traceback.format_exception(error))
    assert "/drop?" in str(error)
    assert "abcdef" not in told
    assert "tracker-key" not in told


# --- the relay of a sandbox


def test_with_a_relay_every_other_origin_is_asked_through_it(site: Site) -> None:
    client = client_for(
        site, http_site_relay_url=f"{site.url}/relay", resolve=resolve_local_only, connect=connect_by_system
    )
    hops = iter([redirect("../b?x=1"), page(b"relayed")])

    def relay(site: Site, path: str, send: Send) -> None:
        next(hops)(site, path, send)

    site.pages["/relay"] = relay
    response = ask(
        client, "https://example.com/a/c?q=1&r=2", destination=Destination.SITE, redirects=Redirects.ANYWHERE
    )
    assert (response.body, response.url) == (b"relayed", "https://example.com/b?x=1")
    assert [path for path, _ in site.requests] == [
        "/relay?url=https%3A%2F%2Fexample.com%2Fa%2Fc%3Fq%3D1%26r%3D2",
        "/relay?url=https%3A%2F%2Fexample.com%2Fb%3Fx%3D1",
    ]


def resolve_local_only(host: str, port: int) -> Sequence[Candidate]:
    assert host == "127.0.0.1", "with a relay no other name is looked up"
    return [(socket.AF_INET, (host, port))]


@pytest.mark.parametrize("url", ["http://10.0.0.5/", "http://localhost/", "http://[::1]/", "http://0x7f.1/"])
def test_with_a_relay_inside_hosts_are_refused_before_it(site: Site, url: str) -> None:
    client = client_for(site, http_site_relay_url=f"{site.url}/relay")
    with pytest.raises(UnsafeAddress):
        ask(client, url, destination=Destination.SITE)
    assert site.connections == 0


def test_with_a_relay_a_trusted_service_is_still_asked_itself(site: Site) -> None:
    site.pages["/a"] = page(b"itself")
    client = client_for(site, http_site_relay_url=f"{site.url}/relay")
    assert ask(client, f"{site.url}/a").body == b"itself"
