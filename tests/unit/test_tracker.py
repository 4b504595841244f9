"""What the tracker's answers mean."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
import responses

from tests.conftest import FakeClock, make_settings
from workers.clock import Budget
from workers.errors import BudgetExceeded, UpstreamFailed
from workers.http.client import OutboundClient
from workers.social_recording.tracker import TokenInfo, TrackedToken, TrackerClient

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 2, tzinfo=UTC)
URL = "https://tracker.example.com/api/v1/tokens"
ROW: dict[str, Any] = {
    "tokenAddress": "So1",
    "tokenSymbol": "MOON",
    "tokenName": "Moon Harbor",
    "decimals": 9,
    "totalSupply": 123456789012345678901234567890,
    "creatorAddress": "Cr1",
    "firstTransferAt": "2026-01-01T09:00:00+09:00",
    "lastTransferAt": "2026-01-01T23:59:59.999Z",
    "investorCount": 3,
    "totalUsedInDollar": 1234.5,
    "alphaScore": 0.5,
    "athMarketCap": 100000,
    "rugScore": None,
    "imageUrl": None,
    "website": "https://moonharbor-example.com",
    "twitter": "@moonharbor",
    "telegram": "  ",
    "tiktok": None,
}


def client_of(clock: FakeClock) -> TrackerClient:
    settings = make_settings(tracker_base_url="https://tracker.example.com")
    return TrackerClient(OutboundClient(settings, clock), settings)


def listed(clock: FakeClock) -> list[TrackedToken]:
    return client_of(clock).tokens_in_range(START, END, Budget.of(clock, 60))


def looked_up(clock: FakeClock, address: str = "So1") -> TokenInfo | None:
    return client_of(clock).token_by_address(address, Budget.of(clock, 60))


@responses.activate
def test_the_list_gives_five_facts_of_each_token_and_drops_the_rest(clock: FakeClock) -> None:
    responses.get(URL, json={"data": [ROW], "meta": {"total": 1}})
    assert listed(clock) == [
        TrackedToken(
            address="So1",
            symbol="MOON",
            investor_count=3,
            first_transfer_at=datetime(2026, 1, 1, tzinfo=UTC),
            last_transfer_at=datetime(2026, 1, 1, 23, 59, 59, 999_000, tzinfo=UTC),
        )
    ]
    assert {field.name for field in fields(TrackedToken)} == {
        "address",
        "symbol",
        "investor_count",
        "first_transfer_at",
        "last_transfer_at",
    }


@pytest.mark.parametrize("body", [[ROW], {"data": [ROW]}, {"data": [ROW], "meta": {}}])
@responses.activate
def test_a_list_without_a_total_is_accepted(body: object, clock: FakeClock) -> None:
    responses.get(URL, json=body)
    assert [token.address for token in listed(clock)] == ["So1"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><title>Maintenance</title></html>", "usably: unexpected_html"),
        (b"", "usably: unexpected_shape"),
        (b"null", "another shape"),
        (b'"ok"', "another shape"),
        (b"{}", "another shape: data"),
        (b'{"data": null}', "another shape: data"),
        (b'{"data": {}}', "another shape: data"),
        (b'{"data": [], "meta": {"total": 3}}', "0 rows and says there are 3"),
        (b'{"data": [{"tokenAddress": "So1"}], "meta": {"total": 1}}', "investorCount"),
        (b'{"data": [{"tokenAddress": null, "investorCount": 3}]}', "tokenAddress"),
        (b'{"data": [{"tokenAddress": "", "investorCount": 3}]}', "tokenAddress"),
        (b"[[]]", "another shape"),
        (b'[{"tokenAddress": "a", "investorCount": 3, "lastTransferAt": "2026-01-01T00:00:00"}]', "timezone"),
    ],
)
@responses.activate
def test_an_answer_that_is_not_wholly_understood_is_a_failure_and_never_no_tokens(
    body: bytes, words: str, clock: FakeClock
) -> None:
    responses.get(URL, body=body)
    with pytest.raises(UpstreamFailed, match=words):
        listed(clock)
    assert len(responses.calls) == 1


@responses.activate
def test_more_rows_than_the_total_says_are_no_failure(clock: FakeClock) -> None:
    responses.get(URL, json={"data": [ROW, {**ROW, "tokenAddress": "So2"}], "meta": {"total": 1}})
    assert len(listed(clock)) == 2


@responses.activate
def test_a_token_has_all_eighteen_facts(clock: FakeClock) -> None:
    responses.post(f"{URL}/by-addresses", json={"data": [ROW]})
    info = looked_up(clock)
    assert info is not None
    assert len(fields(TokenInfo)) == len(ROW) == 18
    assert (info.name, info.decimals, info.creator_address) == ("Moon Harbor", 9, "Cr1")
    assert (info.total_used_in_dollar, info.alpha_score, info.ath_market_cap) == (1234.5, 0.5, 100_000)
    assert info.url_slots() == {"website": "https://moonharbor-example.com", "twitter": "@moonharbor"}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ('"123456789012345678901234567890"', "123456789012345678901234567890"),
        ("999999999.123456789123456789", "999999999.123456789123456789"),
        ("1e27", "1000000000000000000000000000"),
        ("null", None),
    ],
)
@responses.activate
def test_a_supply_beyond_53_bits_keeps_all_its_digits(
    written: str, read: int | str | None, clock: FakeClock
) -> None:
    row = json.dumps({**ROW, "totalSupply": "HERE"}).replace('"HERE"', written)
    responses.post(f"{URL}/by-addresses", body=f"[{row}]")
    info = looked_up(clock)
    assert info is not None
    assert info.total_supply == read


@responses.activate
def test_everything_but_the_address_may_be_null(clock: FakeClock) -> None:
    responses.post(f"{URL}/by-addresses", json=[{**dict.fromkeys(ROW), "tokenAddress": "So1"}])
    info = looked_up(clock)
    assert info is not None
    assert {getattr(info, field.name) for field in fields(TokenInfo)} == {"So1", None}
    assert info.url_slots() == {}


@pytest.mark.parametrize("rows", [[], [{"tokenAddress": "so1"}], [{"tokenAddress": "Other"}]])
@responses.activate
def test_an_answer_without_exactly_this_address_means_unresolved(rows: object, clock: FakeClock) -> None:
    responses.post(f"{URL}/by-addresses", json={"data": rows})
    assert looked_up(clock) is None


@responses.activate
def test_the_right_row_is_found_among_others_and_the_first_of_two_counts(clock: FakeClock) -> None:
    rows = [{"tokenAddress": "so1"}, ROW, {**ROW, "tokenSymbol": "LATER"}]
    responses.post(f"{URL}/by-addresses", json={"data": rows})
    info = looked_up(clock)
    assert info is not None
    assert info.symbol == "MOON"


@responses.activate
def test_a_failed_lookup_never_gives_an_empty_token(clock: FakeClock) -> None:
    responses.post(f"{URL}/by-addresses", status=500)
    with pytest.raises(UpstreamFailed):
        looked_up(clock)
    assert len(responses.calls) == 3


@responses.activate
def test_without_time_the_tracker_is_not_asked(clock: FakeClock) -> None:
    with pytest.raises(BudgetExceeded):
        client_of(clock).tokens_in_range(START, END, Budget.of(clock, 0))
    assert len(responses.calls) == 0


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(requests.ConnectionError("refused"), "connection_failed"), (requests.ReadTimeout("slow"), "timeout")],
)
@responses.activate
def test_a_failed_call_is_told_by_its_reason_and_its_address_goes_to_the_log_alone(
    failure: Exception, reason: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    responses.get(URL, body=failure)
    with pytest.raises(UpstreamFailed) as caught:
        listed(clock)
    assert str(caught.value) == f"the tracker did not answer usably: {reason}"
    fields_of = vars(caplog.records[-1])
    assert (fields_of["url"], fields_of["reason"]) == (URL, reason)
    assert "tracker.example.com" not in caplog.records[-1].getMessage()
