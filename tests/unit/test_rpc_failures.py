"""What an endpoint's refusals mean: codes collide, so status, code and text are looked at together."""

from __future__ import annotations

import pytest

from tests.samples import sample_json
from workers.solana_backfill.rpc_failures import FailureKind, of_answer, of_odd_body, of_transport

RATE_LIMITED, PLAN_USED_UP = FailureKind.RATE_LIMITED, FailureKind.PLAN_USED_UP
REFUSED, TRANSIENT, FINAL = FailureKind.REFUSED, FailureKind.TRANSIENT, FailureKind.FINAL
# Of the recorded bodies, and of one that is no refusal.
RECORDED = {
    "block_not_available": TRANSIENT,
    "node_behind": TRANSIENT,
    "node_unhealthy_null": TRANSIENT,
    "node_unhealthy_empty_data": TRANSIENT,
    "rate_limit_as_32005": RATE_LIMITED,
    "slot_skipped": FINAL,
    "rate_limit_as_32007": RATE_LIMITED,
    "slot_skipped_long_term": FINAL,
    "history_not_available": FailureKind.NO_HISTORY,
    "block_status_not_available_yet": TRANSIENT,
    "unsupported_version_0_old_text": FINAL,
    "unsupported_version_0": FINAL,
    "unsupported_version_1": FINAL,
    "min_context_slot_not_reached": TRANSIENT,
    "long_term_storage_unreachable": TRANSIENT,
    "bound_not_found": FailureKind.BOUND_NOT_FOUND,
    "invalid_limit": FINAL,
    "processed_commitment": FINAL,
    "too_many_requests_body": RATE_LIMITED,
    "too_many_requests_body_http200": RATE_LIMITED,
    "plan_rps_exceeded": RATE_LIMITED,
    "rate_limited_32429": RATE_LIMITED,
    "plan_exhausted_32429": PLAN_USED_UP,
    "gateway_timeout_json": TRANSIENT,
    "success_with_null_error": None,
}


def test_every_recorded_error_body_has_a_verdict() -> None:
    assert [case["name"] for case in sample_json("solana/rpc_errors.json")["cases"]] == list(RECORDED)


@pytest.mark.parametrize(("name", "kind"), RECORDED.items())
@pytest.mark.parametrize("is_under_http_200", [False, True])
def test_recorded_error_bodies_mean_what_their_providers_say(
    name: str, kind: FailureKind | None, is_under_http_200: bool
) -> None:
    [case] = [each for each in sample_json("solana/rpc_errors.json")["cases"] if each["name"] == name]
    error = case["body"].get("error")
    status = 200 if is_under_http_200 else case["http_status"]
    code, text = (None, "") if error is None else (error["code"], error["message"])
    failure = of_answer(status, code, text)
    assert (failure and failure.kind) == kind


@pytest.mark.parametrize(
    ("status", "code", "text", "kind"),
    [
        (429, None, "", RATE_LIMITED),
        (429, None, "<html>You are being rate limited</html>", RATE_LIMITED),
        (403, None, "Rate limit exceeded", RATE_LIMITED),
        (200, -32429, "rate limited", RATE_LIMITED),
        (200, -32429, "max usage reached", PLAN_USED_UP),
        (402, None, "", PLAN_USED_UP),
        (403, -32000, "You are out of credits", PLAN_USED_UP),
        (429, 429, "daily quota exceeded", PLAN_USED_UP),
        (503, None, "the quota service is down", TRANSIENT),
        (401, None, "", REFUSED),
        (403, None, "", REFUSED),
        (404, None, "", REFUSED),
        (410, None, "", REFUSED),
        (413, None, "", REFUSED),
        (301, None, "", REFUSED),
        (200, -32601, "Method not found", REFUSED),
        (400, -32601, "Method not found", REFUSED),
        (200, 401, "invalid api key", REFUSED),
        (408, None, "", TRANSIENT),
        (500, -32602, "Invalid params", TRANSIENT),
        (502, None, "<html>", TRANSIENT),
        (503, None, "", TRANSIENT),
        (504, None, "", TRANSIENT),
        (200, -32603, "Internal error", TRANSIENT),
        (200, -31999, "something of the provider's own", TRANSIENT),
        (200, -32602, "Unable to get block: slot 3 cleaned up", FailureKind.DOUBTFUL),
        (200, -32602, "Slot 4 cleaned up, does not exist on node", FailureKind.DOUBTFUL),
        (200, -32602, "Invalid param: Invalid", FINAL),
        (200, -32602, "`params` should have at least 1 argument(s)", FINAL),
        (400, -32602, "Invalid limit; max 1000", FINAL),
        (200, -32016, "Minimum context slot has not been reached", TRANSIENT),
        (200, None, "", None),
        (200, None, "a page about credits", None),
    ],
)
def test_status_code_and_text_together_decide(
    status: int, code: int | None, text: str, kind: FailureKind | None
) -> None:
    failure = of_answer(status, code, text)
    assert (failure and failure.kind) == kind


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("timeout", TRANSIENT),
        ("connection_failed", TRANSIENT),
        ("dns_failed", TRANSIENT),
        ("bad_encoding", TRANSIENT),
        ("body_too_large", FINAL),
        ("misconfigured", REFUSED),
        ("tls_failed", REFUSED),
    ],
)
def test_calls_without_an_answer_are_outages_unless_we_are_wrong(reason: str, kind: FailureKind) -> None:
    assert of_transport(reason).kind is kind
    assert of_transport(reason).reason == reason


def test_a_body_that_is_no_answer_is_an_outage() -> None:
    assert of_odd_body("unexpected_html").kind is TRANSIENT


def test_a_reason_never_holds_what_the_endpoint_wrote() -> None:
    secret = "key-123"
    for status in (200, 400, 401, 429, 500):
        for code in (None, 0, -32000, -32602, -32429):
            failure = of_answer(status, code, f"invalid key {secret}")
            assert failure is None or secret not in failure.reason
