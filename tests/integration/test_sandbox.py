"""The sandbox over its socket: routes, counts, faults."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
import requests

from devstack.ports import LOOPBACK
from devstack.processes import poll
from devstack.sandbox.client import SandboxClient, SandboxError
from devstack.sandbox.process import SandboxServer
from devstack.sandbox.tokens import FIELDS, default_tokens, make_token

JANUARY = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-02-01T00:00:00Z", "groupIds": "1,2"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "data") as server:
        yield server


@pytest.fixture
def sandbox(server: SandboxServer) -> SandboxClient:
    server.client.reset()
    return server.client


@pytest.fixture
def http(server: SandboxServer) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers["X-API-Key"] = server.tracker_key
        yield session


def list_tokens(http: requests.Session, sandbox: SandboxClient, **parameters: str) -> list[dict[str, object]]:
    answer = http.get(f"{sandbox.url}/tracker/api/v1/tokens", params={**JANUARY, **parameters}, timeout=5)
    payload = answer.json()
    assert answer.status_code == 200
    assert payload["meta"] == {"total": len(payload["data"])}
    return list(payload["data"])


def ask_addresses(http: requests.Session, sandbox: SandboxClient, *addresses: str) -> requests.Response:
    url = f"{sandbox.url}/tracker/api/v1/tokens/by-addresses"
    return http.post(url, json={"addresses": list(addresses)}, timeout=5)


def relay(sandbox: SandboxClient, url: str) -> requests.Response:
    target = f"{sandbox.url}/relay?url={quote(url, safe='')}"
    return requests.get(target, timeout=5, allow_redirects=False)


# --- tracker ----------------------------------------------------------------


def test_the_list_shows_the_range_without_what_the_tracker_hides(
    http: requests.Session, sandbox: SandboxClient
) -> None:
    listed = list_tokens(http, sandbox)

    assert len(listed) == 260
    assert all(token["investorCount"] > 1 and token["totalUsedInDollar"] > 1000 for token in listed)  # type: ignore[operator]
    assert [token["lastTransferAt"] for token in listed] == sorted(str(t["lastTransferAt"]) for t in listed)


def test_the_range_holds_its_start_and_not_its_end(http: requests.Session, sandbox: SandboxClient) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    sandbox.set_tokens([make_token(n, last_transfer_at=start + timedelta(hours=n)) for n in range(3)])

    listed = list_tokens(http, sandbox, startDate="2026-03-01T00:00:00Z", endDate="2026-03-01T03:00:00+01:00")

    assert [token["lastTransferAt"] for token in listed] == [
        "2026-03-01T00:00:00.000Z",
        "2026-03-01T01:00:00.000Z",
    ]


@pytest.mark.parametrize(
    "wrong", [{"startDate": "soon"}, {"endDate": "2026-02-01T00:00:00"}, {"groupIds": ""}]
)
def test_a_list_without_a_proper_range_or_group_is_refused(
    http: requests.Session, sandbox: SandboxClient, wrong: dict[str, str]
) -> None:
    url = f"{sandbox.url}/tracker/api/v1/tokens"
    assert http.get(url, params={**JANUARY, **wrong}, timeout=5).status_code == 400


def test_tokens_by_address_have_exactly_18_fields(http: requests.Session, sandbox: SandboxClient) -> None:
    known = [token["tokenAddress"] for token in default_tokens().tokens[:3]]

    payload = ask_addresses(http, sandbox, *known, "unknown", known[0]).json()

    assert [token["tokenAddress"] for token in payload["data"]] == known
    assert payload["meta"] == {"total": 3}
    assert all(tuple(token) == FIELDS for token in payload["data"])
    assert len(FIELDS) == 18


def test_some_tokens_are_listed_but_not_known_by_address(
    http: requests.Session, sandbox: SandboxClient
) -> None:
    missing = default_tokens().missing
    listed = {token["tokenAddress"] for token in list_tokens(http, sandbox)}

    assert len(missing) == 6
    assert missing <= listed
    assert ask_addresses(http, sandbox, *missing).json() == {"data": [], "meta": {"total": 0}}


@pytest.mark.parametrize("key", [None, "wrong"])
def test_the_tracker_wants_its_key(sandbox: SandboxClient, key: str | None) -> None:
    headers = {"X-API-Key": key} if key else {}
    base = f"{sandbox.url}/tracker/api/v1/tokens"
    assert requests.get(base, params=JANUARY, headers=headers, timeout=5).status_code == 401
    posted = requests.post(f"{base}/by-addresses", json={"addresses": []}, headers=headers, timeout=5)
    assert posted.status_code == 401


@pytest.mark.parametrize("body", ["", "[]", '{"addresses": "one"}', '{"addresses": [1]}'])
def test_a_malformed_question_for_addresses_is_refused(
    http: requests.Session, sandbox: SandboxClient, body: str
) -> None:
    url = f"{sandbox.url}/tracker/api/v1/tokens/by-addresses"
    assert http.post(url, data=body, timeout=5).status_code == 400


def test_replaced_tokens_are_shown_until_a_reset(sandbox: SandboxClient) -> None:
    token = make_token(
        1, last_transfer_at=datetime(2026, 3, 1, tzinfo=UTC), links={"website": "https://a.com"}
    )
    sandbox.set_tokens([token], missing=[token["tokenAddress"]])
    assert sandbox.tokens().tokens == [token]
    assert sandbox.tokens().missing == {token["tokenAddress"]}

    sandbox.reset()
    assert len(sandbox.tokens().tokens) == 280


def test_a_token_with_another_set_of_fields_is_refused(sandbox: SandboxClient) -> None:
    token = dict(make_token(1, last_transfer_at=datetime(2026, 3, 1, tzinfo=UTC)))
    del token["tiktok"]
    with pytest.raises(SandboxError, match="tiktok"):
        sandbox.set_tokens([token])  # type: ignore[list-item]


# --- platforms --------------------------------------------------------------


def test_a_repository_its_owner_and_the_routes_by_id_agree(sandbox: SandboxClient) -> None:
    base = f"{sandbox.url}/github"
    repo = requests.get(f"{base}/repos/night-owl/lantern-fork", timeout=5).json()
    user = requests.get(f"{base}/users/Night-Owl", timeout=5).json()

    assert repo["full_name"] == "night-owl/lantern-fork"
    assert repo["fork"]
    assert repo["parent"]["full_name"] == "upstream-night-owl/lantern-fork"
    assert repo["owner"]["id"] == user["id"]
    assert requests.get(f"{base}/repositories/{repo['id']}", timeout=5).json() == repo
    assert requests.get(f"{base}/user/{user['id']}", timeout=5).json() == user
    parent = requests.get(f"{base}/repos/upstream-night-owl/lantern-fork", timeout=5).json()
    assert parent["id"] == repo["parent"]["id"]
    assert not parent["fork"]


def test_a_renamed_repository_leads_to_its_new_name(sandbox: SandboxClient) -> None:
    answer = requests.get(f"{sandbox.url}/github/repos/night-owl/repo-renamed", timeout=5)

    assert [hop.status_code for hop in answer.history] == [301]
    assert answer.json()["full_name"] == "night-owl/renamed"


def test_the_mistakes_of_a_site_come_through_the_relay(sandbox: SandboxClient) -> None:
    page = relay(sandbox, "https://www.quiet-lantern.com/a?b=c#d")
    assert page.status_code == 200
    assert "quiet-lantern.com" in page.text.partition("</title>")[0]
    assert relay(sandbox, "https://site-gone-lantern.com/").status_code == 404
    assert relay(sandbox, "https://site-down-lantern.com/").status_code == 503
    challenge = relay(sandbox, "https://site-challenge-lantern.com/")
    assert (challenge.status_code, challenge.headers["cf-mitigated"]) == (403, "challenge")
    moved = relay(sandbox, "http://site-redirect-chain-lantern.com/a?b=c")
    assert (moved.status_code, moved.headers["location"]) == (301, "http://www.lantern.com/a?b=c")


def test_unknown_routes_and_methods_are_refused(sandbox: SandboxClient) -> None:
    assert requests.get(f"{sandbox.url}/elsewhere", timeout=5).status_code == 404
    assert requests.get(f"{sandbox.url}/_sandbox/elsewhere", timeout=5).status_code == 404
    assert requests.delete(f"{sandbox.url}/github/users/a", timeout=5).status_code == 405
    assert requests.get(f"{sandbox.url}/relay", timeout=5).status_code == 400


# --- counts -----------------------------------------------------------------


def test_calls_are_counted_by_method_and_url_and_relayed_ones_by_the_url_of_the_site(
    http: requests.Session, sandbox: SandboxClient
) -> None:
    http.get(f"{sandbox.url}/github/users/a", timeout=5)
    http.get(f"{sandbox.url}/x/tweet-result?id=20&token=t&lang=en", timeout=5)
    relay(sandbox, "https://lantern.com/a?b=c d")
    relay(sandbox, "https://lantern.com/a?b=c d")
    ask_addresses(http, sandbox, "one", "two")
    ask_addresses(http, sandbox, "two")

    calls = sandbox.calls()

    assert calls.by_call == {
        "GET /github/users/a": 1,
        "GET /x/tweet-result?id=20&token=t&lang=en": 1,
        "GET https://lantern.com/a?b=c d": 2,
        "POST /tracker/api/v1/tokens/by-addresses": 2,
    }
    assert calls.by_address == {"one": 1, "two": 2}
    assert calls.total == 6
    assert calls.matching(r"^GET https://lantern\.com/") == 2


def test_a_reset_forgets_calls_and_faults(http: requests.Session, sandbox: SandboxClient) -> None:
    sandbox.set_faults({"route": ".", "status": 500})
    assert http.get(f"{sandbox.url}/github/users/a", timeout=5).status_code == 500

    sandbox.reset()

    assert sandbox.calls().total == 0
    assert http.get(f"{sandbox.url}/github/users/a", timeout=5).status_code == 200


# --- faults -----------------------------------------------------------------


def test_a_fault_answers_in_place_of_the_route_as_often_as_it_says(
    http: requests.Session, sandbox: SandboxClient
) -> None:
    sandbox.set_faults(
        {
            "route": "GET /github/",
            "status": 429,
            "headers": {"Retry-After": "3"},
            "body": {"a": 1},
            "times": 2,
        },
        {"route": "/users/", "body": "<html>"},
    )
    url = f"{sandbox.url}/github/users/a"
    first, second, third = (http.get(url, timeout=5) for _ in range(3))

    assert (first.status_code, first.headers["retry-after"], first.json()) == (429, "3", {"a": 1})
    assert second.status_code == 429
    assert (third.status_code, third.text) == (200, "<html>")
    assert sandbox.calls().total == 3

    sandbox.clear_faults()
    assert http.get(url, timeout=5).json()["login"] == "a"


def test_a_fault_can_delay_the_usual_answer(http: requests.Session, sandbox: SandboxClient) -> None:
    sandbox.set_faults({"route": "/users/slow", "latency_ms": 300})
    started = time.monotonic()
    assert http.get(f"{sandbox.url}/github/users/slow", timeout=5).json()["login"] == "slow"
    assert time.monotonic() - started >= 0.3


def test_a_fault_can_close_the_connection_without_an_answer(
    http: requests.Session, sandbox: SandboxClient
) -> None:
    sandbox.set_faults({"route": "/users/", "drop": True, "times": 1})
    with pytest.raises(requests.ConnectionError):
        http.get(f"{sandbox.url}/github/users/a", timeout=5)
    assert http.get(f"{sandbox.url}/github/users/a", timeout=5).ok


def test_a_fault_can_hang_while_others_are_served(http: requests.Session, sandbox: SandboxClient) -> None:
    sandbox.set_faults({"route": "/users/hung", "hang": True})
    with pytest.raises(requests.ReadTimeout):
        http.get(f"{sandbox.url}/github/users/hung", timeout=0.3)
    assert http.get(f"{sandbox.url}/github/users/a", timeout=5).ok


def test_a_fault_meets_a_relayed_call_by_the_url_of_the_site(sandbox: SandboxClient) -> None:
    sandbox.set_faults({"route": r"GET https://lantern\.com/", "status": 522, "body": "error code: 522"})
    assert relay(sandbox, "https://lantern.com/").status_code == 522
    assert relay(sandbox, "https://other.com/").status_code == 200


@pytest.mark.parametrize(
    "rule", [{"route": "("}, {"route": ".", "colour": 1}, {"route": ".", "times": 0}, {}]
)
def test_a_rule_that_cannot_be_is_refused(sandbox: SandboxClient, rule: dict[str, object]) -> None:
    with pytest.raises(SandboxError):
        sandbox.set_faults(rule)


# --- the server -------------------------------------------------------------


def test_64_slow_calls_at_once_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with SandboxServer(tmp_path / "sandbox", latency_ms=200) as server, ThreadPoolExecutor(64) as pool:
        together = threading.Barrier(64)

        def call(number: int) -> float:
            with socket.create_connection((LOOPBACK, server.port), timeout=10) as connection:
                together.wait()
                started = time.monotonic()
                connection.sendall(b"GET /github/users/u%d HTTP/1.1\r\nuser-agent: t\r\n\r\n" % number)
                connection.recv(100)
                return time.monotonic() - started

        waits = list(pool.map(call, range(64)))

    assert min(waits) >= 0.2
    # One after the other they would take 12.8 s.
    assert max(waits) < 2.0


def test_one_connection_serves_many_requests_even_when_sent_at_once(server: SandboxServer) -> None:
    request = b"GET /github/users/a HTTP/1.1\r\nuser-agent: t\r\n\r\n"
    last = b"GET /_sandbox/ready HTTP/1.1\r\nconnection: close\r\n\r\n"
    with socket.create_connection((LOOPBACK, server.port), timeout=10) as connection:
        connection.sendall(request + request + last)
        received = b""
        while data := connection.recv(65_536):
            received += data
    assert received.count(b"HTTP/1.1 200 OK") == 3
    assert json.loads(received.rpartition(b"\r\n\r\n")[2]) == {"pid": server.pid}


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000,
    ],
)
def test_what_is_not_http_is_refused_and_the_connection_closed(
    server: SandboxServer, request_bytes: bytes
) -> None:
    with socket.create_connection((LOOPBACK, server.port), timeout=10) as connection:
        connection.sendall(request_bytes)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400 ")


def test_the_sandbox_ends_while_calls_hang(tmp_path: Path) -> None:
    with SandboxServer(tmp_path / "sandbox") as server:
        server.client.set_faults({"route": ".", "hang": True})
        with socket.create_connection((LOOPBACK, server.port), timeout=10) as connection:
            connection.sendall(b"GET /github/users/a HTTP/1.1\r\n\r\n")
            assert poll(lambda: server.client.calls().total == 1, 5.0)
            started = time.monotonic()
            server.stop()
            assert time.monotonic() - started < 5.0
    assert "Traceback" not in server.log_file.read_text()
