"""The endpoints of the Solana RPC as the settings name them: what is refused, and that no key is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import make_settings
from workers.settings import SettingsError, read_settings
from workers.solana_endpoints import NEEDED_METHODS, endpoint_of, read_endpoints

KEY = "0123456789abcdef-key"
ENTRY = {
    "role": "history_backfill",
    "url": f"https://rpc.example/v2/{KEY}?api-key={KEY}2",
    "methods": list(NEEDED_METHODS),
    "requestsPerSecond": 50,
}


def text_of(*changes: dict[str, Any]) -> str:
    return json.dumps([{**ENTRY, **each} for each in changes or ({},)])


def test_an_endpoint_is_read_with_its_defaults() -> None:
    [found] = read_endpoints(text_of())
    assert (found.role, found.provider, found.url) == ("history_backfill", "rpc.example", ENTRY["url"])
    assert (found.requests_per_second, found.max_concurrent_requests) == (50, 8)
    assert found.pause_after_rate_limit_ms == 1000


def test_an_endpoint_is_found_by_its_role() -> None:
    found = read_endpoints(text_of({}, {"role": "live", "provider": "Other"}))
    live = endpoint_of(found, "live")
    assert live is not None
    assert live.provider == "Other"
    assert endpoint_of(found, "archive") is None


@pytest.mark.parametrize("method", NEEDED_METHODS)
def test_an_endpoint_without_one_of_the_two_methods_is_refused_and_the_method_named(method: str) -> None:
    others = [each for each in NEEDED_METHODS if each != method]
    with pytest.raises(ValueError, match=rf"entry 1 \(history_backfill\): .*{method}"):
        read_endpoints(text_of({"methods": others}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"role": "History"}, "entry 1: role"),
        ({"url": "ftp://rpc.example"}, "http or https"),
        ({"url": f"https://user:{KEY}@rpc.example"}, "without user"),
        ({"url": f"https://rpc.example/#{KEY}"}, "fragment"),
        ({"url": f"https://rpc.example:99999/{KEY}"}, "http or https"),
        ({"url": 3}, "entry 1: url"),
        ({"requestsPerSecond": 0}, "entry 1: requestsPerSecond"),
        ({"requestsPerSecond": "many"}, "entry 1: requestsPerSecond"),
        ({"maxConcurrentRequests": 0}, "entry 1: maxConcurrentRequests"),
        ({"pauseAfterRateLimitMs": -1}, "entry 1: pauseAfterRateLimitMs"),
        ({"colour": KEY}, "entry 1: colour"),
    ],
)
def test_a_bad_entry_is_named_by_its_place_and_field_and_not_quoted(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        read_endpoints(text_of(change))
    assert KEY not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "[", "{}", "[]", f'["{KEY}"]', "history=https://x"])
def test_what_is_no_list_of_endpoints_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON array|names no endpoint|entry 1") as refusal:
        read_endpoints(text)
    assert KEY not in str(refusal.value)


def test_a_role_names_one_endpoint() -> None:
    with pytest.raises(ValueError, match="history_backfill is there twice"):
        read_endpoints(text_of({}, {}))


def test_people_see_the_host_alone() -> None:
    [found] = read_endpoints(text_of({"url": f"http://[::1]:8899/{KEY}?a={KEY}"}))
    assert found.address == "http://[::1]:8899"
    assert KEY not in repr(found)
    assert KEY not in repr(make_settings(solana_endpoints=(found,)))


def test_the_keys_of_an_endpoint_are_among_the_secrets_and_its_words_are_not() -> None:
    secrets = make_settings(solana_endpoints=read_endpoints(text_of())).secrets
    assert {KEY, f"{KEY}2"} <= set(secrets)
    assert "v2" not in secrets


def test_an_endpoint_may_lie_inside_our_own_network() -> None:
    endpoints = read_endpoints(text_of({"url": "http://10.0.0.5:8899"}))
    assert "http://10.0.0.5:8899" in make_settings(solana_endpoints=endpoints).service_urls


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in {
        "APP_SECRET_KEY": "k",
        "TRACKER_BASE_URL": "https://t.example",
        "TRACKER_API_KEY": "k",
        "SOCIAL_RECORD_AF_GROUP_IDS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_process_reads_its_endpoints_from_the_environment(environ: pytest.MonkeyPatch) -> None:
    assert read_settings().solana_endpoints is None
    environ.setenv("SOLANA_ENDPOINTS", text_of())
    assert read_settings().solana_endpoints == read_endpoints(text_of())


def test_a_process_with_a_bad_endpoint_does_not_start_and_shows_no_key(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("SOLANA_ENDPOINTS", text_of({"methods": ["getTransaction"]}))
    with pytest.raises(SettingsError, match=r"SOLANA_ENDPOINTS: .*getSignaturesForAddress") as refusal:
        read_settings()
    assert KEY not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_process_whose_default_role_has_no_endpoint_does_not_start(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("SOLANA_ENDPOINTS", text_of())
    environ.setenv("SOLANA_BACKFILL_ROLE", "archive")
    with pytest.raises(SettingsError, match=r"SOLANA_BACKFILL_ROLE: no endpoint .* archive"):
        read_settings()
