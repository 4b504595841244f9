"""What a caller may ask a backfill for: each bad field is named, the defaults are those of the settings."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tests.conftest import make_settings
from tests.solana_node import ADDRESS, ENDPOINT, signature
from workers.solana_backfill.campaign_words import Direction, Mode, filter_code_of
from workers.solana_backfill.job_kinds import (
    BackfillNotConfigured,
    BackfillRequest,
    CompleteBackfillRequest,
    EndpointNotFound,
)

A, B = signature("a"), signature("b")
PROGRAM = {"mode": "program", "address": ADDRESS}
SETTINGS = make_settings(solana_endpoints=(ENDPOINT,), solana_backfill_limit=7, solana_backfill_max_pages=3)


def refused(**body: Any) -> list[str]:
    with pytest.raises(ValidationError) as refusal:
        BackfillRequest.model_validate(body)
    return [".".join(map(str, each["loc"])) for each in refusal.value.errors()]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["mode"]),
        ({"mode": "wallet", "address": ADDRESS}, ["mode"]),
        ({"mode": "program"}, ["address"]),
        ({"mode": "token", "address": "0OIl"}, ["address"]),
        ({"mode": "pool", "address": A}, ["address"]),
        ({**PROGRAM, "direction": "after"}, ["anchor"]),
        ({**PROGRAM, "direction": "sideways"}, ["direction"]),
        ({**PROGRAM, "anchor": ADDRESS}, ["anchor"]),
        ({**PROGRAM, "anchor": f"{A}1"}, ["anchor"]),
        ({**PROGRAM, "signatures": [A]}, ["signatures"]),
        ({**PROGRAM, "limit": 0}, ["limit"]),
        ({**PROGRAM, "limit": 100_001}, ["limit"]),
        ({**PROGRAM, "limit": "5"}, ["limit"]),
        ({**PROGRAM, "maxPages": 0}, ["maxPages"]),
        ({**PROGRAM, "maxPages": 101}, ["maxPages"]),
        ({**PROGRAM, "commitment": "processed"}, ["commitment"]),
        ({**PROGRAM, "role": "No Role"}, ["role"]),
        ({**PROGRAM, "colour": 1}, ["colour"]),
        ({"mode": "signatures"}, ["signatures"]),
        ({"mode": "signatures", "signatures": []}, ["signatures"]),
        ({"mode": "signatures", "signatures": [A, "x"]}, ["signatures.1"]),
        ({"mode": "signatures", "signatures": [A], "address": ADDRESS}, ["address"]),
        ({"mode": "signatures", "signatures": [A], "direction": "before"}, ["direction"]),
        ({"mode": "signatures", "signatures": [A], "anchor": B}, ["anchor"]),
        ({"mode": "signatures", "signatures": [A], "limit": 5}, ["limit"]),
        ({"mode": "signatures", "signatures": [A], "maxPages": 5}, ["maxPages"]),
        ({"mode": "signatures", "signatures": [A], "includeFailed": False}, ["includeFailed"]),
    ],
)
def test_a_bad_request_names_the_field(body: dict[str, Any], fields: list[str]) -> None:
    assert refused(**body) == fields


def complete(**body: Any) -> CompleteBackfillRequest:
    return BackfillRequest.model_validate(body).with_defaults(SETTINGS)


def test_what_a_search_leaves_out_comes_from_the_settings() -> None:
    found = complete(**PROGRAM)
    assert (found.direction, found.limit, found.max_pages) == (Direction.BEFORE, 7, 3)
    assert (found.role, found.commitment.value) == ("history_backfill", "finalized")
    assert found.include_failed


def test_a_list_of_signatures_keeps_the_first_of_equal_ones_in_order() -> None:
    found = complete(mode="signatures", signatures=[B, A, B])
    assert found.signatures == [B, A]
    assert (found.direction, found.limit, found.max_pages) == (None, None, None)


def test_a_complete_request_survives_its_way_to_the_worker() -> None:
    for body in (PROGRAM, {"mode": "signatures", "signatures": [A]}):
        found = complete(**body)
        assert CompleteBackfillRequest.model_validate(found.model_dump(mode="json", by_alias=True)) == found


def test_without_endpoints_or_with_an_unknown_role_nothing_is_asked_for() -> None:
    with pytest.raises(BackfillNotConfigured):
        BackfillRequest.model_validate(PROGRAM).with_defaults(make_settings())
    with pytest.raises(EndpointNotFound) as refusal:
        complete(**PROGRAM, role="archive")
    assert refusal.value.field == "role"


@pytest.mark.parametrize("mode", [Mode.PROGRAM, Mode.TOKEN, Mode.POOL])
def test_observations_tell_how_a_signature_was_found(mode: Mode) -> None:
    assert filter_code_of(mode, Direction.BEFORE, A) == f"{mode.value}_before"
    assert filter_code_of(mode, Direction.AFTER, A) == f"{mode.value}_after"
    assert filter_code_of(mode, Direction.BEFORE, None) == f"{mode.value}_latest"


def test_an_explicit_list_is_told_as_such() -> None:
    assert filter_code_of(Mode.SIGNATURES, None, None) == "signatures"
