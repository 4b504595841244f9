"""Answers that contradict themselves or the method's description are rejected with a reason and a place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.solana_samples import SIGNATURE, key, result_of, small_result, token_balance
from workers.solana_backfill.canonical import canonical_transaction
from workers.solana_backfill.canonical_errors import UNKNOWN_KIND, canonical_error
from workers.solana_backfill.canonical_model import CanonicalTransaction
from workers.solana_backfill.canonical_parts import AccountSource, TransactionError
from workers.solana_backfill.foreign_values import U64_MAX
from workers.solana_backfill.rejection import PayloadRejected, RejectReason

OTHER_SIGNATURE = "1" * 64


def rejection_of(body: Any, signature: str | None = None) -> tuple[RejectReason, str]:
    with pytest.raises(PayloadRejected) as caught:
        canonical_transaction(body, signature)
    assert str(caught.value).startswith(caught.value.reason.value)
    return caught.value.reason, caught.value.field


def canonical(**changes: Any) -> CanonicalTransaction:
    return canonical_transaction(small_result(**changes), SIGNATURE)


def test_the_small_transaction_is_read_whole() -> None:
    found = canonical()
    assert [(each.pubkey, each.signer, each.writable, each.source) for each in found.accounts] == [
        (key(1), True, True, AccountSource.STATIC),
        (key(2), False, False, AccountSource.STATIC),
        (key(3), False, True, AccountSource.LOOKUP_WRITABLE),
        (key(4), False, False, AccountSource.LOOKUP_READONLY),
    ]
    assert found.instructions[0].accounts == (key(1), key(3), key(4))
    assert found.inner_instructions[0].program_id == key(4)
    assert (found.native_balance_changes[0].delta, found.native_balance_changes[1].delta) == (-5100, 100)
    assert found.is_balanced
    assert found.token_balance_changes[0].delta == -10


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", RejectReason.MALFORMED_PAYLOAD),
        (b"<html>", RejectReason.MALFORMED_PAYLOAD),
        (json.dumps(small_result()).encode()[:-9], RejectReason.MALFORMED_PAYLOAD),
        (json.dumps(small_result()).encode("utf-16"), RejectReason.MALFORMED_PAYLOAD),
        (json.dumps(small_result()).replace("5000", "NaN").encode(), RejectReason.MALFORMED_PAYLOAD),
        (json.dumps(small_result()).replace("5000", "9" * 5000).encode(), RejectReason.MALFORMED_PAYLOAD),
        (b'{"transaction":' * 5000, RejectReason.MALFORMED_PAYLOAD),
        (b"[" * 200_000 + b"]" * 200_000, RejectReason.MALFORMED_PAYLOAD),
        (b"[]", RejectReason.MALFORMED_PAYLOAD),
        (b'"text"', RejectReason.MALFORMED_PAYLOAD),
        (b"5", RejectReason.MALFORMED_PAYLOAD),
        (b"{}", RejectReason.MALFORMED_PAYLOAD),
        (b"null", RejectReason.NOT_FOUND),
        (b'{"result": null, "id": 1}', RejectReason.NOT_FOUND),
        (b'{"result": null, "error": null}', RejectReason.NOT_FOUND),
        (b'{"result": []}', RejectReason.MALFORMED_PAYLOAD),
        (b'{"error": {"code": -32015, "message": "x"}}', RejectReason.UNSUPPORTED_VERSION),
        (b'{"error": {"code": -32019}, "result": null}', RejectReason.RPC_ERROR),
        (b'{"error": "away"}', RejectReason.RPC_ERROR),
        (b'{"error": {"code": "-32015"}}', RejectReason.RPC_ERROR),
        ({"slot": 1, "meta": {}}, RejectReason.MALFORMED_PAYLOAD),
        ({"slot": 1, "meta": None, "transaction": None}, RejectReason.META_UNAVAILABLE),
        ({"slot": 1, "meta": {}, "transaction": None}, RejectReason.MALFORMED_PAYLOAD),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_transaction_is_told_apart(body: Any, reason: RejectReason) -> None:
    assert rejection_of(body)[0] is reason


def test_another_transaction_than_the_requested_one_is_not_taken() -> None:
    assert rejection_of(small_result(), OTHER_SIGNATURE) == (
        RejectReason.SIGNATURE_MISMATCH,
        "transaction.signatures",
    )
    # One that a co-signer's signature names is another one as well: the first signature is the name.
    two = result_of("tx_v0_transaction_index")
    assert rejection_of(two, two["transaction"]["signatures"][1])[0] is RejectReason.SIGNATURE_MISMATCH


@pytest.mark.parametrize(
    "transaction",
    [
        ["AQ==", "base64"],
        ["3Bxs", "base58"],
        "3Bxs",
        [],
        {"accountKeys": [], "signatures": [SIGNATURE]},
    ],
    ids=str,
)
def test_another_encoding_is_refused_also_of_a_row_without_meta(transaction: Any) -> None:
    result = {**small_result(), "transaction": transaction}
    assert rejection_of(result)[0] is RejectReason.UNEXPECTED_ENCODING
    assert rejection_of({**result, "meta": None})[0] is RejectReason.UNEXPECTED_ENCODING


def test_the_parsed_form_is_known_by_its_keys_or_by_its_instructions() -> None:
    keys = [{"pubkey": key(1), "signer": True, "writable": True}, {"pubkey": key(2)}]
    assert rejection_of(small_result(accountKeys=keys)) == (
        RejectReason.UNEXPECTED_ENCODING,
        "transaction.message.accountKeys",
    )
    parsed = [{"programId": key(2), "parsed": {"type": "transfer"}, "program": "system"}]
    assert rejection_of(small_result(instructions=parsed))[0] is RejectReason.UNEXPECTED_ENCODING


@pytest.mark.parametrize("version", ["v0", "0", "Legacy", -1, 256, 1.0, True, [], {"v": 1}])
def test_a_version_that_is_none_is_unsupported(version: Any) -> None:
    assert rejection_of(small_result(version=version)) == (RejectReason.UNSUPPORTED_VERSION, "version")


@pytest.mark.parametrize("version", ["legacy", 0, 1, 2, 127])
def test_a_version_is_kept_as_given_also_a_later_one(version: Any) -> None:
    assert canonical(version=version).version == version


def test_a_missing_version_is_told_by_what_the_message_has() -> None:
    plain = {"addressTableLookups": None, "loadedAddresses": None, "version": None}
    shape: dict[str, Any] = {
        **plain,
        "preBalances": [9, 1],
        "postBalances": [9, 1],
        "instructions": [],
        "innerInstructions": [],
        "preTokenBalances": [],
        "postTokenBalances": [],
    }
    config = {"priorityFee": U64_MAX, "computeUnitLimit": None}
    legacy, version_1 = small_result(**shape), small_result(**shape)
    version_1["transaction"]["message"]["transactionConfig"] = config
    assert canonical_transaction(legacy, None).version == "legacy"
    assert canonical(version=None).version == 0
    found = canonical_transaction(version_1, None)
    assert found.version == 1
    assert found.transaction_config is not None
    assert found.transaction_config.priority_fee == U64_MAX
    assert found.to_json()["transaction_config"]["priority_fee"] == str(U64_MAX)


HEADER = {"numRequiredSignatures": 1, "numReadonlySignedAccounts": 0, "numReadonlyUnsignedAccounts": 1}
INSTRUCTION = {"programIdIndex": 1, "accounts": [0, 2, 3], "data": "3Bxs"}
LOOKUP = {"accountKey": key(5), "writableIndexes": [4], "readonlyIndexes": [6]}
BALANCE = token_balance(2, "40", owner=key(1))
MALFORMED: list[tuple[str, Any, str]] = [
    ("slot", None, "slot"),
    ("slot", -1, "slot"),
    ("slot", 2**63, "slot"),
    ("slot", 5.0, "slot"),
    ("slot", True, "slot"),
    ("slot", "5", "slot"),
    ("blockTime", "yesterday", "blockTime"),
    ("signatures", [], "transaction.signatures"),
    ("signatures", None, "transaction.signatures"),
    ("signatures", [key(1)], "transaction.signatures"),
    ("signatures", [5], "transaction.signatures"),
    ("signatures", [SIGNATURE, SIGNATURE], "transaction.signatures"),
    ("message", None, "transaction.message"),
    ("message", [], "transaction.message"),
    ("header", None, "transaction.message.header"),
    ("header", {**HEADER, "numRequiredSignatures": 0}, "transaction.message.header"),
    ("header", {**HEADER, "numRequiredSignatures": 3}, "transaction.message.header"),
    ("header", {**HEADER, "numReadonlySignedAccounts": 1}, "transaction.message.header"),
    ("header", {**HEADER, "numReadonlyUnsignedAccounts": 2}, "transaction.message.header"),
    (
        "header",
        {**HEADER, "numReadonlyUnsignedAccounts": None},
        "transaction.message.header.numReadonlyUnsignedAccounts",
    ),
    ("accountKeys", None, "transaction.message.accountKeys"),
    ("accountKeys", [], "transaction.message.header"),
    ("accountKeys", [key(1), "0"], "transaction.message.accountKeys"),
    ("accountKeys", [key(1), None], "transaction.message.accountKeys"),
    ("accountKeys", [key(1), SIGNATURE], "transaction.message.accountKeys"),
    ("accountKeys", [key(1)] * 300, "transaction.message"),
    ("recentBlockhash", None, "transaction.message.recentBlockhash"),
    ("recentBlockhash", "", "transaction.message.recentBlockhash"),
    ("instructions", None, "transaction.message.instructions"),
    ("instructions", [None], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "programIdIndex": 4}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "programIdIndex": -1}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "programIdIndex": True}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "programIdIndex": None}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "accounts": [4]}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "accounts": [-1]}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "accounts": [True]}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "accounts": [1.0]}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "accounts": [[]]}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "accounts": None}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "data": "0OIl"}], "transaction.message.instructions"),
    ("instructions", [{**INSTRUCTION, "data": ["", "base64"]}], "transaction.message.instructions"),
    ("addressTableLookups", [], "meta.loadedAddresses.writable"),
    ("addressTableLookups", [LOOKUP, LOOKUP], "meta.loadedAddresses.writable"),
    ("addressTableLookups", [{**LOOKUP, "readonlyIndexes": []}], "meta.loadedAddresses.readonly"),
    (
        "addressTableLookups",
        [{**LOOKUP, "readonlyIndexes": [256]}],
        "transaction.message.addressTableLookups.readonlyIndexes",
    ),
    (
        "addressTableLookups",
        [{**LOOKUP, "writableIndexes": None}],
        "transaction.message.addressTableLookups.writableIndexes",
    ),
    (
        "addressTableLookups",
        [{**LOOKUP, "accountKey": "5"}],
        "transaction.message.addressTableLookups.accountKey",
    ),
    ("addressTableLookups", {}, "transaction.message.addressTableLookups"),
    ("loadedAddresses", None, "meta.loadedAddresses.writable"),
    ("loadedAddresses", [], "meta.loadedAddresses"),
    ("loadedAddresses", {"writable": [key(3)]}, "meta.loadedAddresses.readonly"),
    ("loadedAddresses", {"writable": [5], "readonly": [key(4)]}, "meta.loadedAddresses.writable"),
    ("meta", [], "meta"),
    ("meta", "gone", "meta"),
    ("fee", None, "meta.fee"),
    ("fee", -1, "meta.fee"),
    ("fee", U64_MAX + 1, "meta.fee"),
    ("fee", "5000", "meta.fee"),
    ("preBalances", None, "meta.preBalances"),
    ("preBalances", [1, 2, 3], "meta.preBalances"),
    ("preBalances", [1, 2, 3, -4], "meta.preBalances"),
    ("preBalances", [1, 2, 3, U64_MAX + 1], "meta.preBalances"),
    ("preBalances", [1, 2, 3, None], "meta.preBalances"),
    ("preBalances", [1, 2, 3, True], "meta.preBalances"),
    ("postBalances", [1, 2, 3, 4, 5], "meta.postBalances"),
    ("postBalances", [1, 2, 3, 4.0], "meta.postBalances"),
    ("preTokenBalances", {}, "meta.preTokenBalances"),
    ("preTokenBalances", [None], "meta.preTokenBalances"),
    ("preTokenBalances", [BALANCE, BALANCE], "meta.preTokenBalances"),
    ("preTokenBalances", [{**BALANCE, "accountIndex": 4}], "meta.preTokenBalances"),
    ("preTokenBalances", [{**BALANCE, "mint": None}], "meta.preTokenBalances.mint"),
    ("preTokenBalances", [{**BALANCE, "owner": "somebody"}], "meta.preTokenBalances.owner"),
    ("preTokenBalances", [{**BALANCE, "programId": 5}], "meta.preTokenBalances.programId"),
    ("preTokenBalances", [{**BALANCE, "uiTokenAmount": None}], "meta.preTokenBalances.uiTokenAmount"),
    ("postTokenBalances", [token_balance(2, "-1")], "meta.postTokenBalances.amount"),
    ("postTokenBalances", [token_balance(2, "1.5")], "meta.postTokenBalances.amount"),
    ("postTokenBalances", [token_balance(2, "")], "meta.postTokenBalances.amount"),
    ("postTokenBalances", [token_balance(2, "٣")], "meta.postTokenBalances.amount"),
    ("postTokenBalances", [token_balance(2, "²")], "meta.postTokenBalances.amount"),
    ("postTokenBalances", [token_balance(2, str(U64_MAX + 1))], "meta.postTokenBalances.amount"),
    ("postTokenBalances", [token_balance(2, "9" * 9999)], "meta.postTokenBalances.amount"),
    ("innerInstructions", {}, "meta.innerInstructions"),
    ("innerInstructions", [{"index": 1, "instructions": []}], "meta.innerInstructions"),
    ("innerInstructions", [{"index": None, "instructions": []}], "meta.innerInstructions"),
    ("innerInstructions", [{"index": 0, "instructions": None}], "meta.innerInstructions"),
    (
        "innerInstructions",
        [{"index": 0, "instructions": [{**INSTRUCTION, "stackHeight": "2"}]}],
        "meta.innerInstructions",
    ),
    ("logMessages", "Program log", "meta.logMessages"),
    ("logMessages", ["a", None], "meta.logMessages"),
    ("computeUnitsConsumed", -5, "meta.computeUnitsConsumed"),
    ("computeUnitsConsumed", 2**63, "meta.computeUnitsConsumed"),
    ("returnData", [], "meta.returnData"),
    ("returnData", {"programId": key(1), "data": "AA=="}, "meta.returnData"),
    ("returnData", {"programId": key(1), "data": ["AA==", "base58"]}, "meta.returnData"),
    ("returnData", {"programId": key(1), "data": ["\n", "base64"]}, "meta.returnData"),
    ("returnData", {"programId": None, "data": ["", "base64"]}, "meta.returnData"),
]


@pytest.mark.parametrize(("name", "value", "field"), MALFORMED, ids=lambda value: str(value)[:50])
def test_a_member_that_is_wrong_is_named(name: str, value: Any, field: str) -> None:
    assert rejection_of(small_result(**{name: value})) == (RejectReason.MALFORMED_PAYLOAD, field)


def test_limits_of_version_1_and_the_position_in_the_block_are_read_strictly() -> None:
    configs: list[Any] = [[], {"priorityFee": "3"}, {"heapSize": 2**32}, {"computeUnitLimit": -1}]
    for config in configs:
        result = small_result()
        result["transaction"]["message"]["transactionConfig"] = config
        assert rejection_of(result)[0] is RejectReason.MALFORMED_PAYLOAD
    assert rejection_of({**small_result(), "transactionIndex": "5"})[1] == "transactionIndex"


def test_whether_it_failed_must_be_said() -> None:
    result = small_result()
    del result["meta"]["err"]
    assert rejection_of(result) == (RejectReason.MALFORMED_PAYLOAD, "meta.err")


def test_unsigned_64_bit_numbers_stay_exact() -> None:
    found = canonical(
        fee=U64_MAX,
        preBalances=[U64_MAX, 0, 0, 2**53 + 1],
        postBalances=[0, U64_MAX, 0, 2**53 + 2],
        preTokenBalances=[token_balance(2, str(U64_MAX), owner=key(1))],
        postTokenBalances=[],
    )
    shown = json.loads(json.dumps(found.to_json()))
    assert [(each["pre"], each["post"], each["delta"]) for each in shown["native_balance_changes"]] == [
        (str(U64_MAX), "0", str(-U64_MAX)),
        ("0", str(U64_MAX), str(U64_MAX)),
        (str(2**53 + 1), str(2**53 + 2), "1"),
    ]
    assert (shown["fee"], shown["token_balance_changes"][0]["pre"]) == (str(U64_MAX), str(U64_MAX))
    assert shown["token_balance_changes"][0]["post"] is None
    assert CanonicalTransaction.from_json(shown) == found
    assert not found.is_balanced


def test_a_balance_that_does_not_add_up_is_shown_and_kept() -> None:
    assert not canonical(fee=4999).is_balanced


def test_an_account_that_was_closed_and_opened_for_another_mint_has_an_entry_for_each() -> None:
    found = canonical(
        preTokenBalances=[token_balance(2, "40", owner=key(1), mint=key(60))],
        postTokenBalances=[token_balance(2, "7", owner=key(8), mint=key(50))],
    ).token_balance_changes
    entries = {
        each.mint: (each.owner_pre, each.owner_post, each.pre, each.post, each.delta) for each in found
    }
    assert entries == {key(60): (key(1), None, 40, None, -40), key(50): (None, key(8), None, 7, 7)}


def test_nothing_recorded_is_told_from_nothing_there() -> None:
    nothing = canonical(
        preTokenBalances=None, postTokenBalances=None, innerInstructions=None, logMessages=None
    )
    assert (nothing.token_balances_recorded, nothing.inner_instructions_recorded, nothing.logs) == (
        False,
        False,
        None,
    )
    empty = canonical(preTokenBalances=[], postTokenBalances=[], innerInstructions=[], logMessages=[])
    assert (empty.token_balances_recorded, empty.inner_instructions_recorded, empty.logs) == (True, True, ())
    assert nothing.content_hash() == empty.content_hash()


def test_owner_and_program_of_old_rows_may_be_absent_or_empty() -> None:
    for owner in (None, ""):
        balance = {**token_balance(2, "1"), "owner": owner, "programId": owner}
        found = canonical(preTokenBalances=[balance], postTokenBalances=[]).token_balance_changes[0]
        assert (found.owner_pre, found.program_id) == (None, None)


def test_calls_are_in_the_order_of_their_instructions_whatever_that_of_the_groups() -> None:
    def group(index: int, *data: str) -> dict[str, Any]:
        return {
            "index": index,
            "instructions": [{"programIdIndex": 1, "accounts": [], "data": each} for each in data],
        }

    two = [INSTRUCTION, INSTRUCTION]
    found = canonical(instructions=two, innerInstructions=[group(1, "x"), group(0, "a", "b"), group(1, "y")])
    assert [(each.outer_index, each.inner_index, each.data) for each in found.inner_instructions] == [
        (0, 0, "a"),
        (0, 1, "b"),
        (1, 0, "x"),
        (1, 1, "y"),
    ]
    assert {each.stack_height for each in found.inner_instructions} == {None}


def test_a_log_that_was_cut_is_known_also_when_lines_follow_the_mark() -> None:
    assert canonical(logMessages=["a", "Log truncated", "b"]).logs_truncated
    assert not canonical(logMessages=["Program log: Log truncated"]).logs_truncated
    assert not canonical(logMessages=None).logs_truncated


def test_a_log_line_that_no_store_can_hold_is_mended() -> None:
    body = json.dumps(small_result(logMessages=["é \ud800 x", "plain"])).encode()
    found = canonical_transaction(body, None).logs
    assert found == ("é \ufffd x", "plain")


def test_no_data_and_no_instructions_are_fine() -> None:
    assert canonical(instructions=[], innerInstructions=[]).instructions == ()
    assert canonical(instructions=[{**INSTRUCTION, "data": ""}]).instructions[0].data == ""


def test_a_mapping_of_another_kind_is_taken_as_well() -> None:
    from types import MappingProxyType

    assert canonical_transaction(MappingProxyType(small_result()), SIGNATURE) == canonical()


def test_the_payload_is_left_as_it_was() -> None:
    result = small_result(err={"InstructionError": [0, {"BorshIoError": "Unknown"}]})
    before = copy.deepcopy(result)
    canonical_transaction(result, None)
    assert result == before


def error(kind: str, **parts: Any) -> Callable[[str], TransactionError]:
    blank = {"instruction_index": None, "name": None, "code": None}
    return lambda raw: TransactionError(kind=kind, **{**blank, **parts}, raw=raw)


@pytest.mark.parametrize(
    ("err", "expected"),
    [
        ("AccountInUse", error("AccountInUse")),
        ({"InsufficientFundsForRent": {"account_index": 4}}, error("InsufficientFundsForRent")),
        (
            {"ProgramExecutionTemporarilyRestricted": {"account_index": 4}},
            error("ProgramExecutionTemporarilyRestricted"),
        ),
        ({"DuplicateInstruction": 3}, error("DuplicateInstruction", instruction_index=3)),
        (
            {"InstructionError": [2, {"Custom": 2**32 - 1}]},
            error("InstructionError", instruction_index=2, name="Custom", code=2**32 - 1),
        ),
        (
            {"InstructionError": [0, "IncorrectProgramId"]},
            error("InstructionError", instruction_index=0, name="IncorrectProgramId"),
        ),
        (
            {"InstructionError": [1, {"NewKind": {"a": 1}}]},
            error("InstructionError", instruction_index=1, name="NewKind"),
        ),
        (
            {"InstructionError": [0, {"Custom": -1}]},
            error("InstructionError", instruction_index=0, name="Custom"),
        ),
        ({"InstructionError": []}, error("InstructionError")),
        ({"InstructionError": [True, None]}, error("InstructionError")),
        ({"NeverSeen": [1, {"deep": ["x"]}]}, error("NeverSeen")),
        ({"a": 1, "b": 2}, error(UNKNOWN_KIND)),
        ({}, error(UNKNOWN_KIND)),
        ([], error(UNKNOWN_KIND)),
        (5, error(UNKNOWN_KIND)),
        (False, error(UNKNOWN_KIND)),
        ("", error(UNKNOWN_KIND)),
        ("not a word", error(UNKNOWN_KIND)),
        ("A" * 5000, error(UNKNOWN_KIND)),
        ("\ud800", error(UNKNOWN_KIND)),
        ({"\ud800": 1}, error(UNKNOWN_KIND)),
        ({"Big": 10**400}, error("Big")),
    ],
    ids=lambda value: str(value)[:40] if not callable(value) else "",
)
def test_an_error_keeps_its_parts_and_its_value(
    err: Any, expected: Callable[[str], TransactionError]
) -> None:
    found = canonical(err=err)
    raw = json.dumps(err, sort_keys=True, separators=(",", ":"))
    assert found.error == expected(raw)
    assert not found.succeeded
    json.dumps(found.to_json()).encode()


def test_the_two_forms_of_the_borsh_error_are_one() -> None:
    old, new = (
        canonical(err={"InstructionError": [2, name]})
        for name in ({"BorshIoError": "Unknown"}, "BorshIoError")
    )
    assert old == new
    assert old.content_hash() == new.content_hash()
    assert old.error is not None
    assert (old.error.name, old.error.raw) == ("BorshIoError", '{"InstructionError":[2,"BorshIoError"]}')


def test_no_error_is_none() -> None:
    assert canonical_error(None) is None


def test_an_error_with_a_number_that_json_does_not_have_is_rejected() -> None:
    assert rejection_of(json.dumps(small_result(err=[0])).replace("[0]", "[1e999]").encode())[1] == "meta.err"


def test_an_error_nested_too_deeply_is_rejected() -> None:
    deep: Any = []
    for _ in range(200_000):
        deep = [deep]
    assert rejection_of({**small_result(), "meta": {**small_result()["meta"], "err": deep}})[0] is (
        RejectReason.MALFORMED_PAYLOAD
    )
    while deep:
        deep = deep.pop()
