"""The sandbox's Solana over its socket: counted by method, disturbed by rules, led to by the settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from devstack.processes import poll
from devstack.sandbox.client import SandboxClient
from devstack.sandbox.process import SOLANA_KEY, SandboxServer
from devstack.sandbox.solana_names import reserved_address, reserved_signature
from tests.conftest import make_settings
from workers.solana_backfill.canonical import canonical_transaction

OPTIONS = {"encoding": "json", "maxSupportedTransactionVersion": 1}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "data") as server:
        yield server


@pytest.fixture
def sandbox(server: SandboxServer) -> SandboxClient:
    server.client.reset()
    return server.client


def post(sandbox: SandboxClient, method: str, *params: Any, timeout_s: float = 5) -> requests.Response:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    return requests.post(f"{sandbox.url}/solana?api-key={SOLANA_KEY}", json=call, timeout=timeout_s)


def test_a_history_is_listed_and_hydrated_and_each_method_is_counted(sandbox: SandboxClient) -> None:
    listed = post(sandbox, "getSignaturesForAddress", reserved_address("few")).json()["result"]
    for entry in listed:
        body = post(sandbox, "getTransaction", entry["signature"], OPTIONS).content
        assert canonical_transaction(body, entry["signature"]).slot == entry["slot"]
    calls = sandbox.calls()
    assert calls.by_call == {"POST /solana getSignaturesForAddress": 1, "POST /solana getTransaction": 8}
    assert SOLANA_KEY not in str(calls)


def test_a_reset_forgets_how_often_a_name_was_asked_for(sandbox: SandboxClient) -> None:
    signature = reserved_signature("missing", times=1)

    def is_null() -> bool:
        return post(sandbox, "getTransaction", signature, OPTIONS).json()["result"] is None

    assert [is_null(), is_null()] == [True, False]
    sandbox.reset()
    assert is_null()


def test_a_rule_may_name_the_method_or_the_signature(sandbox: SandboxClient) -> None:
    refused, fine = (reserved_signature("token", seed=seed) for seed in "ab")
    sandbox.set_faults(
        {"route": refused, "status": 429, "headers": {"Retry-After": "3"}, "body": "slow down", "times": 1},
        {
            "route": "^POST /solana getSignaturesForAddress",
            "body": {"jsonrpc": "2.0", "result": [], "id": None},
        },
    )
    answer = post(sandbox, "getTransaction", refused, OPTIONS)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert post(sandbox, "getTransaction", fine, OPTIONS).json()["result"]
    assert post(sandbox, "getTransaction", refused, OPTIONS).json()["result"]
    assert post(sandbox, "getSignaturesForAddress", reserved_address("few")).json()["result"] == []


def test_a_call_that_hangs_keeps_nobody_waiting(sandbox: SandboxClient) -> None:
    def hang() -> None:
        with pytest.raises(requests.Timeout):
            post(sandbox, "getTransaction", reserved_signature("hang"), timeout_s=3)

    hanging = threading.Thread(target=hang)
    hanging.start()
    assert poll(lambda: sandbox.calls().total == 1, 5.0)
    assert post(sandbox, "getHealth").json()["result"] == "ok"
    assert hanging.is_alive()
    hanging.join(10)
    with pytest.raises(requests.ConnectionError):
        post(sandbox, "getTransaction", reserved_signature("drop"))


def test_the_settings_lead_to_it(server: SandboxServer) -> None:
    names = {name.lower(): value for name, value in server.settings().items()}
    [endpoint] = make_settings(**names).solana_endpoints or ()
    assert (endpoint.url, endpoint.provider) == (f"{server.url}/solana?api-key={SOLANA_KEY}", "sandbox")
    assert (endpoint.address, endpoint.secrets) == (server.url, (SOLANA_KEY,))
