"""How candidates become stored transactions: once each, every attempt observed, troubles told apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import make_settings
from tests.integration.solana_place import SolanaPlace, place
from tests.samples import sample_json
from tests.solana_node import (
    ADDRESS,
    ENDPOINT,
    FETCHED,
    KEY,
    RATE_LIMITED,
    Node,
    Reply,
    error,
    signature,
    signatures,
)
from tests.solana_samples import result_of, small_result
from workers.errors import FetchFailed, JobFailed, RetryableError
from workers.solana_backfill.hydration import CONTENT_DIFFERS, NO_HISTORY_MAX, OUTAGES_MAX
from workers.solana_backfill.patience import NULL_TRIES, TRIES
from workers.solana_backfill.transactions import TransactionRepository

__all__ = ["place"]

HTTP_503 = Reply(status=503, body=b"<html><body><h1>503 Service Unavailable</h1></body></html>")
OBSERVED = {
    "signature",
    "session_id",
    "attempt",
    "filter_code",
    "commitment",
    "provider",
    "endpoint",
    "protocol",
    "method",
    "origin",
    "started_at",
    "ended_at",
    "status",
    "error_code",
    "content_hash",
    "body_bytes",
    "body_sha256",
}


class Blind(TransactionRepository):
    """Knows nothing, as when two campaigns have looked at the same time."""

    def find_known(self, signatures: Any) -> frozenset[str]:
        return frozenset()


def with_history(place: SolanaPlace, history: list[str], **endpoint: Any) -> None:
    place.node = Node(history)
    place.build(**endpoint)


def outcomes(result: dict[str, Any]) -> dict[str, tuple[str, str | None]]:
    return {row["signature"]: (row["outcome"], row.get("reason")) for row in result["data"]}


def statuses(place: SolanaPlace, each: str) -> list[tuple[str, str | None]]:
    return [(row["status"], row["error_code"]) for row in place.rows(each)]


def failure(place: SolanaPlace, **body: Any) -> JobFailed:
    with pytest.raises(JobFailed) as refusal:
        place.run(**body)
    return refusal.value


def test_each_selected_signature_is_stored_once_with_one_observation_of_every_field(
    place: SolanaPlace,
) -> None:
    with_history(place, signatures(6))
    result = place.run(limit=6)
    assert place.stored() == set(signatures(6))
    assert outcomes(result) == dict.fromkeys(signatures(6), ("persisted", None))
    rows = place.rows()
    assert sorted(row["signature"] for row in rows) == sorted(signatures(6))
    for row in rows:
        assert row.keys() == OBSERVED
        assert (row["provider"], row["endpoint"]) == ("example", "https://node.example")
        assert (row["protocol"], row["method"], row["origin"]) == (
            "solana_http_json_rpc",
            "getTransaction",
            "backfill",
        )
        assert (row["filter_code"], row["commitment"], row["status"]) == (
            "program_latest",
            "finalized",
            "persisted",
        )
        assert row["session_id"].startswith("backfill-")
        assert row["body_bytes"] > 500
        assert len(row["body_sha256"]) == len(row["content_hash"]) == 64


def test_observations_never_hold_the_answer(place: SolanaPlace) -> None:
    with_history(place, signatures(1))
    large = small_result(signatures=[signature(1)], logMessages=["x" * 9000])
    place.node.bodies[signature(1)] = large
    place.run()
    [row] = place.rows()
    assert row["body_bytes"] > 9000
    assert len(json.dumps(row, default=str)) < 1500


def test_a_request_asks_for_the_one_encoding_and_the_version_as_a_number(place: SolanaPlace) -> None:
    with_history(place, signatures(1))
    place.run()
    [asked] = place.http.of(FETCHED)
    assert asked.options == {
        "encoding": "json",
        "commitment": "finalized",
        "maxSupportedTransactionVersion": 1,
    }


def test_what_is_stored_is_not_asked_for_again(place: SolanaPlace) -> None:
    with_history(place, signatures(8))
    place.run(limit=5)
    place.build()
    meta = place.run(limit=8)["meta"]
    assert sorted(place.http.fetched()) == sorted(signatures(3, first=6))
    assert (meta["persisted"], meta["alreadyPresent"], meta["completed"]) == (3, 5, 8)
    assert meta["resumeBeforeSignature"] == signature(8)


def test_two_providers_leave_one_transaction_and_an_observation_each(place: SolanaPlace) -> None:
    with_history(place, signatures(1))
    place.run()
    body = small_result(signatures=[signature(1)], slot=1_000_000)
    place.node.bodies[signature(1)] = {**body, "transactionIndex": 17}
    place.build(provider="other", transactions=Blind(place.database, place.clock))
    meta = place.run()["meta"]
    assert (meta["persisted"], meta["failed"]) == (1, 0)
    first, second = place.rows(signature(1))
    assert (first["provider"], second["provider"]) == ("example", "other")
    assert first["content_hash"] == second["content_hash"]
    assert first["body_sha256"] != second["body_sha256"]
    assert len(list(place.database["raw_transactions"].find())) == 1


def test_another_content_for_a_stored_signature_is_reported_and_changes_nothing(place: SolanaPlace) -> None:
    with_history(place, signatures(1))
    place.run()
    before = place.database["raw_transactions"].find_one({"signature": signature(1)})
    place.node.bodies[signature(1)] = small_result(signatures=[signature(1)], slot=4)
    place.build(transactions=Blind(place.database, place.clock))
    result = place.run()
    assert outcomes(result) == {signature(1): ("failed", CONTENT_DIFFERS)}
    assert place.database["raw_transactions"].find_one({"signature": signature(1)}) == before
    assert statuses(place, signature(1)) == [("persisted", None), ("failed", CONTENT_DIFFERS)]


def test_three_attempts_leave_three_observations(place: SolanaPlace) -> None:
    with_history(place, signatures(1))
    place.node.say_of(signature(1), HTTP_503, error(-32005, "Node is behind by 42 slots"))
    meta = place.run()["meta"]
    assert meta["persisted"] == 1
    assert statuses(place, signature(1)) == [
        ("failed", "http_503"),
        ("failed", "node_behind"),
        ("persisted", None),
    ]
    assert [row["attempt"] for row in place.rows()] == [1, 2, 3]


def test_an_unsupported_version_fails_alone_and_is_stored_with_a_higher_ceiling(place: SolanaPlace) -> None:
    with_history(place, signatures(3), version_max=0)
    place.node.say_of(signature(2), error(-32015, "Transaction version (1) is not supported"))
    result = place.run()
    assert outcomes(result)[signature(2)] == ("failed", "unsupported_version")
    assert place.stored() == {signature(1), signature(3)}
    assert place.http.fetched().count(signature(2)) == 1, "it is not asked for again"
    assert place.http.of(FETCHED)[0].options["maxSupportedTransactionVersion"] == 0
    assert result["meta"]["failed"] == 1
    version_1 = result_of("tx_v1_failed_mainnet", "get_transaction_derived")
    version_1["transaction"]["signatures"][0] = signature(2)
    place.node.bodies[signature(2)] = version_1
    place.build(version_max=1)
    assert place.run()["meta"]["persisted"] == 1
    row = place.database["raw_transactions"].find_one({"signature": signature(2)})
    assert row is not None
    assert row["version"] == 1
    assert row["transaction_config"]


def test_a_listed_signature_without_a_body_is_missing_after_a_few_tries_and_found_later(
    place: SolanaPlace,
) -> None:
    with_history(place, signatures(3))
    place.node.bodies[signature(2)] = None
    meta = place.run()["meta"]
    assert (meta["missing"], meta["persisted"], meta["completed"]) == (1, 2, 3)
    assert meta["resumeBeforeSignature"] == signature(3), "a missing one does not hold up the rest"
    assert statuses(place, signature(2)) == [("missing", None)] * NULL_TRIES
    del place.node.bodies[signature(2)]
    assert place.run()["meta"]["persisted"] == 1
    assert statuses(place, signature(2))[-1] == ("persisted", None)
    assert len({row["session_id"] for row in place.rows(signature(2))}) == 2
    assert len(list(place.database["raw_transactions"].find({"signature": signature(2)}))) == 1


def test_a_null_for_a_signature_that_a_person_named_is_not_asked_for_again(place: SolanaPlace) -> None:
    result = place.run(signatures=[signature(1)])
    assert outcomes(result) == {signature(1): ("missing", None)}
    assert len(place.http.of(FETCHED)) == 1
    assert {row["filter_code"] for row in place.rows()} == {"signatures"}


def test_an_explicit_list_is_worked_off_once_each_without_any_search(place: SolanaPlace) -> None:
    with_history(place, signatures(4))
    wanted = [signature(3), signature(1), signature(3)]
    meta = place.run(signatures=wanted)["meta"]
    assert (meta["selected"], meta["pages"], meta["stoppedBy"]) == (2, 0, "drained")
    assert place.stored() == {signature(1), signature(3)}
    assert {each.method for each in place.http.asked} == {FETCHED}
    assert (meta["resumeBeforeSignature"], meta["resumeAfterSignature"]) == (None, None)


def test_a_failed_transaction_with_an_odd_error_is_stored_with_the_error_kept(place: SolanaPlace) -> None:
    place.node.add(signature(1), 5, {"InstructionError": [2, "BorshIoError"]})
    place.node.add(signature(2), 4, {"SomethingNew": [1, {"odd": None}]})
    place.build()
    assert place.run()["meta"]["persisted"] == 2
    rows = {row["signature"]: row for row in place.database["raw_transactions"].find()}
    assert [rows[signature(number)]["succeeded"] for number in (1, 2)] == [False, False]
    assert "BorshIoError" in rows[signature(1)]["error"]["raw"]
    assert "SomethingNew" in rows[signature(2)]["error"]["raw"]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (small_result(signatures=[signature("other")]), "signature_mismatch"),
        ({**small_result(signatures=[signature(1)]), "meta": None}, "meta_unavailable"),
        (
            {**small_result(signatures=[signature(1)]), "transaction": ["AA==", "base64"]},
            "unexpected_encoding",
        ),
        (small_result(signatures=[signature(1)], preBalances=[1]), "malformed_payload"),
        ([1, 2], "malformed_payload"),
        ("text", "malformed_payload"),
    ],
)
def test_an_answer_that_is_no_transaction_fails_with_a_reason_and_is_not_asked_for_again(
    place: SolanaPlace, result: Any, reason: str
) -> None:
    with_history(place, signatures(2))
    place.node.bodies[signature(1)] = result
    found = place.run()
    assert outcomes(found) == {signature(1): ("failed", reason), signature(2): ("persisted", None)}
    [row] = place.rows(signature(1))
    assert (row["status"], row["error_code"]) == ("failed", reason)
    assert row["body_sha256"] is not None
    assert place.http.fetched().count(signature(1)) == 1


RECORDED = {case["name"]: case for case in sample_json("solana/rpc_errors.json")["cases"]}
FINAL = {
    "slot_skipped": "slot_skipped",
    "slot_skipped_long_term": "slot_skipped",
    "history_not_available": "history_not_available",
    "unsupported_version_0": "unsupported_version",
    "invalid_limit": "invalid_params",
}
LATER = (
    "block_not_available",
    "node_behind",
    "node_unhealthy_null",
    "node_unhealthy_empty_data",
    "block_status_not_available_yet",
    "min_context_slot_not_reached",
    "long_term_storage_unreachable",
    "gateway_timeout_json",
    "rate_limit_as_32005",
    "rate_limit_as_32007",
    "too_many_requests_body",
    "too_many_requests_body_http200",
    "plan_rps_exceeded",
    "rate_limited_32429",
)


def recorded(name: str) -> Reply:
    case = RECORDED[name]
    return Reply(status=case["http_status"], body=json.dumps(case["body"]).encode())


@pytest.mark.parametrize(("name", "reason"), FINAL.items())
def test_a_refusal_that_stays_fails_its_signature_at_once_and_no_other(
    place: SolanaPlace, name: str, reason: str
) -> None:
    with_history(place, signatures(3))
    place.node.say_of(signature(2), recorded(name))
    result = place.run()
    assert outcomes(result)[signature(2)] == ("failed", reason)
    assert statuses(place, signature(2)) == [("failed", reason)]
    assert place.stored() == {signature(1), signature(3)}


@pytest.mark.parametrize("name", LATER)
def test_a_refusal_that_passes_is_asked_again_and_stored(place: SolanaPlace, name: str) -> None:
    with_history(place, signatures(3))
    place.node.say_of(signature(2), recorded(name))
    assert place.run()["meta"]["persisted"] == 3
    assert [status for status, _ in statuses(place, signature(2))] == ["failed", "persisted"]


@pytest.mark.parametrize(
    "reply",
    [
        HTTP_503,
        Reply(status=200, body=b""),
        Reply(status=200, body=b'{"jsonrpc":"2.0","id":1,"resu'),
        Reply(status=200, body=b"<!doctype html><html>captive portal</html>"),
        Reply(status=200, body=[{"jsonrpc": "2.0", "id": 1, "result": None}]),
        Reply(status=200, body={"jsonrpc": "2.0", "id": 999_999, "result": None}),
        Reply(status=200, body={"jsonrpc": "2.0"}),
        Reply(status=200, body={"error": "upstream is away"}),
        Reply(status=500, body={"error": {"code": -32603, "message": "Internal error"}}),
    ],
    ids=["503", "empty", "cut", "page", "batch", "other id", "nothing", "text error", "500"],
)
def test_what_is_no_answer_of_the_node_is_an_outage_and_never_a_missing_transaction(
    place: SolanaPlace, reply: Reply
) -> None:
    with_history(place, signatures(1))
    place.node.say_of(signature(1), reply)
    meta = place.run()["meta"]
    assert (meta["persisted"], meta["missing"]) == (1, 0)
    assert len(place.rows(signature(1))) == 2


@pytest.mark.parametrize("reason", ["timeout", "connection_failed", "dns_temporary"])
def test_a_call_without_an_answer_is_repeated_and_observed_without_a_body(
    place: SolanaPlace, reason: str
) -> None:
    with_history(place, signatures(1))
    place.http.failures.append(FetchFailed("x", reason=reason))
    place.run(signatures=[signature(1)])
    assert statuses(place, signature(1)) == [("failed", reason), ("persisted", None)]
    assert place.rows()[0]["body_bytes"] is None


def test_an_outage_of_one_signature_ends_with_its_tries_and_the_others_go_on(place: SolanaPlace) -> None:
    with_history(place, signatures(5))
    place.node.say_of(signature(3), *[HTTP_503] * 20)
    result = place.run()
    assert outcomes(result)[signature(3)] == ("failed", "http_503")
    assert len(place.rows(signature(3))) == TRIES
    assert place.stored() == set(signatures(5)) - {signature(3)}
    assert result["meta"]["resumeBeforeSignature"] == signature(5)


def test_outages_in_a_row_end_the_session_and_are_resumed_from(place: SolanaPlace) -> None:
    with_history(place, signatures(60), max_concurrent_requests=1)
    for number in range(3, 61):
        place.node.say_of(signature(number), *[HTTP_503] * TRIES)
    refusal = failure(place, limit=60)
    assert refusal.code == "UPSTREAM_FAILED"
    assert "http_503" in refusal.detail
    assert f"2 of 60 signatures were completed, resumeBeforeSignature {signature(2)}" in refusal.detail
    assert len(place.http.of(FETCHED)) == 2 + OUTAGES_MAX * TRIES
    for waiting in place.node.replies_of.values():
        waiting.clear()
    assert place.run(limit=60, anchor=signature(2))["meta"]["persisted"] == 58


def test_an_answer_between_outages_starts_a_new_row(place: SolanaPlace) -> None:
    count = 2 * OUTAGES_MAX - 1
    with_history(place, signatures(count), max_concurrent_requests=1)
    for number in range(1, count + 1):
        if number != OUTAGES_MAX:
            place.node.say_of(signature(number), *[HTTP_503] * TRIES)
    meta = place.run(limit=count)["meta"]
    assert (meta["persisted"], meta["failed"]) == (1, count - 1)


def test_a_node_without_any_history_ends_the_session_after_three_in_a_row(place: SolanaPlace) -> None:
    with_history(place, signatures(10), max_concurrent_requests=1)
    place.node.say(FETCHED, *[recorded("history_not_available")] * 10)
    refusal = failure(place)
    assert refusal.code == "UPSTREAM_FAILED"
    assert "history_not_available" in refusal.detail
    assert len(place.http.of(FETCHED)) == NO_HISTORY_MAX


def test_a_cache_that_lacks_single_transactions_does_not_end_the_session(place: SolanaPlace) -> None:
    with_history(place, signatures(6), max_concurrent_requests=1)
    for number in (1, 2, 4, 5):
        place.node.say_of(signature(number), recorded("history_not_available"))
    meta = place.run()["meta"]
    assert (meta["failed"], meta["persisted"]) == (4, 2)


def test_a_node_without_history_ends_the_search_at_once(place: SolanaPlace) -> None:
    with_history(place, signatures(3))
    place.node.say("getSignaturesForAddress", recorded("history_not_available"))
    assert failure(place).code == "UPSTREAM_FAILED"
    assert len(place.http.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=401, body=b"no key"),
        Reply(status=403, body=b"plan"),
        Reply(status=404, body=b""),
        Reply(status=410, body=b""),
        Reply(status=413, body=b""),
        Reply(status=402, body=b""),
        error(-32601, "Method not found"),
        recorded("plan_exhausted_32429"),
        error(-32429, "max usage reached"),
    ],
    ids=["401", "403", "404", "410", "413", "402", "method", "plan 429", "plan 200"],
)
def test_what_waiting_does_not_help_ends_the_session_and_a_later_one_goes_on(
    place: SolanaPlace, reply: Reply
) -> None:
    with_history(place, signatures(8), max_concurrent_requests=1)
    place.node.say_of(signature(4), reply)
    refusal = failure(place)
    assert refusal.code == "UPSTREAM_FAILED"
    assert f"resumeBeforeSignature {signature(3)}" in refusal.detail
    assert place.stored() == set(signatures(3))
    assert len(place.http.of(FETCHED)) == 4
    assert place.run()["meta"]["persisted"] == 5


def test_an_endpoint_that_refuses_for_ever_ends_the_session_and_fails_no_signature(
    place: SolanaPlace,
) -> None:
    with_history(place, signatures(3), max_concurrent_requests=1)
    place.node.say(FETCHED, *[RATE_LIMITED] * 100)
    refusal = failure(place)
    assert (refusal.code, place.stored()) == ("UPSTREAM_FAILED", set())
    assert "0 of 3 signatures were completed" in refusal.detail
    assert len(place.http.of(FETCHED)) == 11


def test_a_store_that_is_away_fails_the_job_and_not_the_signatures(place: SolanaPlace) -> None:
    class Away(TransactionRepository):
        """Does not take anything."""

        def store(self, transaction: Any) -> Any:
            raise RetryableError("the store failed on raw_transactions")

    with_history(place, signatures(3))
    place.build(transactions=Away(place.database, place.clock))
    assert failure(place).code == "STORE_UNAVAILABLE"
    assert place.rows() == []


def test_no_key_of_the_endpoint_is_shown_logged_or_stored(
    place: SolanaPlace, caplog: pytest.LogCaptureFixture
) -> None:
    with_history(place, signatures(4), max_concurrent_requests=1)
    assert KEY in ENDPOINT.url
    place.node.say_of(signature(1), error(-32000, f"bad key {KEY}"), Reply(status=500, body=KEY.encode()))
    place.node.say_of(signature(2), error(429, f"{KEY} is over its limit"))
    place.http.failures.append(FetchFailed(f"no answer ({ENDPOINT.url})", reason="timeout"))
    place.node.say_of(signature(4), Reply(status=401, body=f"{KEY} is no key".encode()))
    refusal = failure(place)
    shown = [str(refusal), repr(refusal), repr(place.endpoint), repr(place.client.endpoint)]
    each: BaseException | None = refusal
    while each is not None:
        shown += [str(each), repr(each), repr(vars(each))]
        each = each.__cause__ or each.__context__
    shown += [str(vars(record)) for record in caplog.records]
    shown += [str(row) for row in place.rows()]
    shown += [str(row) for row in place.database["raw_transactions"].find()]
    for key in place.redis.keys("*"):
        shown.append(str(key))
        shown.append(str(place.redis.hgetall(key) if place.redis.type(key) == b"hash" else ""))
    assert len(place.rows()) >= 5
    assert [text for text in shown if KEY in text] == []
    assert place.http.urls == {ENDPOINT.url}, "it is asked with its key all the same"


def test_a_job_of_an_unconfigured_worker_says_so(place: SolanaPlace) -> None:
    place.build(role="archive")
    place.settings = make_settings(solana_endpoints=(ENDPOINT,))
    refusal = failure(place, address=ADDRESS)
    assert refusal.code == "BACKFILL_NOT_CONFIGURED"


SUMMARY = {
    "mode": str,
    "filterCode": str,
    "commitment": str,
    "role": str,
    "provider": str,
    "endpoint": str,
    "pages": int,
    "inspected": int,
    "repeated": int,
    "leftOut": int,
    "historyEnd": str,
    "note": (str, type(None)),
    "selected": int,
    "started": int,
    "completed": int,
    "cancelled": int,
    "notStarted": int,
    "persisted": int,
    "alreadyPresent": int,
    "missing": int,
    "failed": int,
    "calls": dict,
    "rateLimited": int,
    "resumeBeforeSignature": (str, type(None)),
    "resumeAfterSignature": (str, type(None)),
    "stoppedBy": str,
    "queuedMs": int,
    "elapsedMs": int,
    "rowsLeftOut": int,
}
DRY = {"dryRun": bool, "planned": int}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"anchor": signature(2)},
        {"direction": "after", "anchor": signature(5)},
        {"signatures": [signature(1), signature(9)]},
        {"dryRun": True},
    ],
    ids=["latest", "before", "after", "list", "dry run"],
)
def test_every_campaign_is_summed_up_in_the_same_plain_words(
    place: SolanaPlace, body: dict[str, Any]
) -> None:
    with_history(place, signatures(5))
    meta = place.run(**body)["meta"]
    expected = SUMMARY | DRY if "dryRun" in body else SUMMARY
    assert meta.keys() == expected.keys()
    assert {name for name, kind in expected.items() if not isinstance(meta[name], kind)} == set()
    assert json.loads(json.dumps(meta)) == meta


def test_a_campaign_writes_to_its_two_collections_and_to_no_other(place: SolanaPlace) -> None:
    with_history(place, signatures(3))
    place.run()
    written = {
        name
        for name in place.database.list_collection_names()
        if place.database[name].find_one({}) is not None
    }
    assert written == {"raw_transactions", "transaction_observations"}


def test_a_large_campaign_shows_what_has_to_be_looked_at_and_says_how_much_it_leaves_out(
    place: SolanaPlace,
) -> None:
    with_history(place, signatures(1005))
    place.node.bodies[signature(7)] = None
    place.node.say_of(signature(9), error(-32015, "Transaction version (2) is not supported"))
    result = place.run(limit=1005)
    assert outcomes(result) == {
        signature(7): ("missing", None),
        signature(9): ("failed", "unsupported_version"),
    }
    assert result["meta"]["rowsLeftOut"] == 1003
