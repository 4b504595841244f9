"""Every recorded transaction and its canonical form in figures, and what makes two answers the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.samples import sample_json
from tests.solana_samples import (
    ENCODINGS,
    VERSION_1,
    body_of,
    decode_legacy,
    readable_results,
    result_of,
)
from workers.solana_backfill.canonical import canonical_transaction
from workers.solana_backfill.canonical_model import CanonicalTransaction
from workers.solana_backfill.canonical_parts import (
    AccountSource,
    AddressTableLookup,
    ReturnData,
    TransactionConfig,
    TransactionError,
)
from workers.solana_backfill.rejection import PayloadRejected, RejectReason
from workers.solana_backfill.token_deltas import token_deltas

RESULTS = readable_results()
SYSTEM_PROGRAM = "1" * 32
CLOCK = "SysvarC1ock11111111111111111111111111111111"
WRAPPED_SOL = "So11111111111111111111111111111111111111112"


def canonical(name: str) -> CanonicalTransaction:
    return canonical_transaction(RESULTS[name], None)


# version, succeeded, slot, fee, compute units, accounts, signers, writable, instructions, inner ones, changes
# of lamports, of tokens, and the content hash: whoever changes it needs a new schema version.
FIGURES: dict[str, tuple[Any, ...]] = {
    "tx_failed_custom_error_no_version": (
        ("legacy", False, 131_683_246, 5000, None, 12, 1, 9, 1, 1, 1, 0),
        "3d9a60760d42cb9afcac1d4e4c774b9db341811c37210d1bf3b21d06748062fa",
    ),
    "tx_failed_string_error": (
        ("legacy", False, 132_196_637, 10_000, None, 11, 2, 6, 3, 2, 1, 0),
        "274daac87b12253fae81d9bf57474d2b62781dd8ef561dfe47b030623cad74e1",
    ),
    "tx_legacy_logs_truncated": (
        ("legacy", True, 290_633_184, 32_298, 218_680, 24, 1, 10, 18, 32, 9, 9),
        "042644479ab575346702508c51400a80b8e02e051191180fe02bf688a78276b8",
    ),
    "tx_legacy_sol_transfer": (
        ("legacy", True, 370_768_078, 5000, 450, 4, 1, 2, 3, 0, 2, 0),
        "e4000d6f7a5c517983a2bc84641d8ca066427e98bd1630a89c7f79b9a1804b3a",
    ),
    "tx_legacy_spl_transfer": (
        ("legacy", True, 311_668_936, 15_000, 6581, 6, 1, 3, 3, 0, 1, 2),
        "ddfea5ed9ec42a7b8638c8f0a3429d14536eb9ae71deb7d33852e304a1aa752c",
    ),
    "tx_legacy_token2022_transfer": (
        ("legacy", True, 371_573_609, 79_986, 3317, 6, 1, 3, 3, 0, 1, 2),
        "4d5551ff719b1a690df0b1215c4f3fe4a85f62211c7b3aa9f01e24ccfde910c1",
    ),
    "tx_same_in_three_encodings": (
        ("legacy", True, 147_558_327, 5000, None, 5, 1, 2, 1, 0, 1, 0),
        "4896cb9d537155d6296b40a23631ffb91293a1aa87c889908e8ebed3bb353754",
    ),
    "tx_v0_lookup_tables_swap": (
        (0, True, 377_937_213, 5003, 177_937, 32, 1, 20, 5, 10, 3, 9),
        "a5ae5022462516f45fec9c4e8b8746eaa38b0c8066a9099f5e6ae1760e9c0ba9",
    ),
    "tx_v0_transaction_index": (
        (0, True, 434_983_261, 810_000, 28_667, 8, 2, 4, 7, 0, 2, 0),
        "9cccf38af8671e756f7b37308fd6a07aa8945e146868005de4308a68e2b2d4ec",
    ),
    "tx_v1_failed_mainnet": (
        (1, False, 449_391_489, 5003, 13, 3, 1, 2, 1, 0, 1, 0),
        "591d9b028dd08949c12113efb1d846e9dbcd58e581a6d2a6bc57ffdc0148cb27",
    ),
}


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_a_recorded_transaction_has_this_canonical_form(name: str) -> None:
    found = canonical(name)
    figures, content_hash = FIGURES[name]
    assert (
        found.version,
        found.succeeded,
        found.slot,
        found.fee,
        found.compute_units_consumed,
        len(found.accounts),
        sum(account.signer for account in found.accounts),
        sum(account.writable for account in found.accounts),
        len(found.instructions),
        len(found.inner_instructions),
        len(found.native_balance_changes),
        len(found.token_balance_changes),
    ) == figures
    assert found.content_hash() == content_hash


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_what_left_the_accounts_of_a_recorded_transaction_is_its_fee(name: str) -> None:
    meta, found = RESULTS[name]["meta"], canonical(name)
    assert sum(meta["preBalances"]) - sum(meta["postBalances"]) == found.fee
    assert found.is_balanced


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_the_json_form_of_a_recorded_transaction_reads_back_the_same(name: str) -> None:
    found = canonical(name)
    again = CanonicalTransaction.from_json(json.loads(json.dumps(found.to_json())))
    assert again == found
    assert again.content_hash() == found.content_hash()


@pytest.mark.parametrize("name", sorted(RESULTS))
def test_the_bare_result_the_whole_answer_and_its_bytes_give_the_same(name: str) -> None:
    answer = {"jsonrpc": "2.0", "result": RESULTS[name], "error": None, "id": 1}
    body = json.dumps(answer).encode()
    signature = RESULTS[name]["transaction"]["signatures"][0]
    forms = (RESULTS[name], answer, body, b"\xef\xbb\xbf" + body, json.dumps(RESULTS[name]).encode())
    assert {canonical_transaction(form, signature).content_hash() for form in forms} == {
        canonical(name).content_hash()
    }


@pytest.mark.parametrize(
    ("name", "part", "reason"),
    [
        ("tx_null_result", None, RejectReason.NOT_FOUND),
        ("tx_failed_base64_encoding", None, RejectReason.UNEXPECTED_ENCODING),
        ("tx_v1_base64_local_validator", None, RejectReason.UNEXPECTED_ENCODING),
        (ENCODINGS, "base64", RejectReason.UNEXPECTED_ENCODING),
        (ENCODINGS, "jsonParsed", RejectReason.UNEXPECTED_ENCODING),
    ],
)
def test_a_recorded_answer_in_another_form_is_refused(
    name: str, part: str | None, reason: RejectReason
) -> None:
    with pytest.raises(PayloadRejected) as caught:
        canonical_transaction(body_of(name, part), None)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    "case", sample_json("solana/rpc_errors.json")["cases"], ids=lambda case: case["name"]
)
def test_a_recorded_error_of_a_node_is_no_transaction(case: dict[str, Any]) -> None:
    with pytest.raises(PayloadRejected) as caught:
        canonical_transaction(json.dumps(case["body"]).encode(), None)
    expected = RejectReason.RPC_ERROR
    if case["name"].startswith("unsupported_version"):
        expected = RejectReason.UNSUPPORTED_VERSION
    if case["name"] == "success_with_null_error":
        expected = RejectReason.META_UNAVAILABLE
    assert caught.value.reason is expected


@pytest.mark.parametrize(
    "name",
    ["gsfa_before_and_until", "gsfa_before_tail", "gsfa_error_variants", "gsfa_full_history_page"],
)
def test_a_list_of_signatures_is_no_transaction(name: str) -> None:
    with pytest.raises(PayloadRejected) as caught:
        canonical_transaction(body_of(name), None)
    assert (caught.value.reason, caught.value.field) == (RejectReason.MALFORMED_PAYLOAD, "result")


def test_a_page_and_a_batch_are_no_transactions() -> None:
    rpc_errors = sample_json("solana/rpc_errors.json")
    for body in (
        rpc_errors["non_json"][0]["body"].encode(),
        json.dumps(rpc_errors["batch_mixed"]["body"]).encode(),
    ):
        with pytest.raises(PayloadRejected) as caught:
            canonical_transaction(body, None)
        assert caught.value.reason is RejectReason.MALFORMED_PAYLOAD


def test_one_transaction_in_the_wire_form_and_in_json_is_the_same() -> None:
    rebuilt = result_of(ENCODINGS, "base64")
    rebuilt["transaction"] = decode_legacy(rebuilt["transaction"])
    assert canonical_transaction(rebuilt, None) == canonical(ENCODINGS)


def test_flags_are_those_that_the_parsed_form_shows() -> None:
    parsed = result_of(ENCODINGS, "jsonParsed")["transaction"]["message"]["accountKeys"]
    assert [
        {"pubkey": account.pubkey, "signer": account.signer, "writable": account.writable}
        for account in canonical(ENCODINGS).accounts
    ] == parsed


def test_a_failed_transaction_whose_wire_form_was_recorded_has_the_error_of_its_program() -> None:
    result = result_of("tx_failed_base64_encoding")
    result["transaction"] = decode_legacy(result["transaction"])
    found = canonical_transaction(result, None)
    assert found.error == TransactionError(
        kind="InstructionError",
        instruction_index=0,
        name="IncorrectProgramId",
        code=None,
        raw='{"InstructionError":[0,"IncorrectProgramId"]}',
    )
    assert [(each.stack_height, each.data) for each in found.inner_instructions] == [(2, "84eT")]


def test_the_row_of_a_block_with_its_slot_is_the_transaction() -> None:
    block = sample_json(f"solana/{VERSION_1}.json")["get_block_row_verbatim"]
    row = {**block["transactions"][0], "slot": 449_391_489, "blockTime": block["blockTime"]}
    assert canonical_transaction(row, None) == canonical(VERSION_1)


def test_version_1_brings_its_own_limits_and_no_lookups() -> None:
    found = canonical(VERSION_1)
    assert found.transaction_config == TransactionConfig(
        priority_fee=3, compute_unit_limit=19, loaded_accounts_data_size_limit=32_000, heap_size=None
    )
    assert found.address_table_lookups == ()
    assert found.error is not None
    assert (found.error.name, found.error.code) == ("Custom", 2)
    assert {each.source for each in found.accounts} == {AccountSource.STATIC}


def test_looked_up_accounts_come_after_the_static_ones_all_writable_ones_first() -> None:
    found = canonical("tx_v0_lookup_tables_swap")
    sources = [account.source for account in found.accounts]
    assert sources == (
        [AccountSource.STATIC] * 17
        + [AccountSource.LOOKUP_WRITABLE] * 9
        + [AccountSource.LOOKUP_READONLY] * 6
    )
    assert [account.index for account in found.accounts] == list(range(32))
    assert not any(account.signer for account in found.accounts[1:])
    assert all(account.writable for account in found.accounts[17:26])
    assert not any(account.writable for account in found.accounts[26:])
    assert found.address_table_lookups == (
        AddressTableLookup(
            table="hu8qeuBCU2DsJaeNtA7qxvSkm9WffErY2r77DBPLaYR",
            writable_indexes=(77, 80, 68, 81),
            readonly_indexes=(69, 9, 6, 78, 71, 79),
        ),
        AddressTableLookup(
            table="EQSRBGX7RSU2vipiw6QVK4Fwq6NPeoqaaFuaV3VrFSmq",
            writable_indexes=(1, 6, 3, 42, 39),
            readonly_indexes=(),
        ),
    )


def test_calls_inside_a_swap_are_flat_in_their_order_and_may_be_of_looked_up_programs() -> None:
    found = canonical("tx_v0_lookup_tables_swap")
    assert [each.inner_index for each in found.inner_instructions] == list(range(10))
    assert {each.outer_index for each in found.inner_instructions} == {4}
    assert [each.stack_height for each in found.inner_instructions][:4] == [2, 2, 3, 3]
    assert found.inner_instructions[0].program_id == found.accounts[28].pubkey
    assert found.return_data == ReturnData(
        program_id="JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4", data_base64="o8loBAAAAAA="
    )


def test_a_swap_moves_tokens_between_owners_and_loses_none() -> None:
    deltas = {
        (each.owner, each.mint): each.delta
        for each in token_deltas(canonical("tx_v0_lookup_tables_swap").token_balance_changes)
    }
    assert deltas["5LjYomcd7sYgZG4QZqMTBNSQhm1rky4gPPhc5Gx1rYG4", WRAPPED_SOL] == 117_958_294
    assert deltas["7HK4mhjjr3S6BpkWyzGgtjV3X5sgavRewg422GTrF3vw", WRAPPED_SOL] == -117_958_294
    assert len(deltas) == 6
    by_mint: dict[str, int] = {}
    for (_, mint), delta in deltas.items():
        by_mint[mint] = by_mint.get(mint, 0) + delta
    assert set(by_mint.values()) == {0}


def test_accounts_that_were_created_have_nothing_before() -> None:
    found = canonical("tx_legacy_logs_truncated")
    created = [each for each in found.token_balance_changes if each.pre is None]
    assert len(created) == 8
    assert {(each.owner_pre, each.delta) for each in created} == {(None, 222_000_000_000)}
    assert found.logs_truncated
    assert found.logs is not None
    assert found.logs[-1] == "Log truncated"


def test_a_fee_of_the_tokens_own_program_is_seen_in_the_amounts() -> None:
    found = canonical("tx_legacy_token2022_transfer")
    assert sorted(each.delta for each in found.token_balance_changes) == [-384_000_000, 368_640_000]
    assert {each.program_id for each in found.token_balance_changes} == {
        "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
    }


def test_the_fee_payer_pays_and_is_the_first_account() -> None:
    found = canonical("tx_legacy_sol_transfer")
    assert found.fee_payer == "4DrfzUpTdNtfr7D1RBVw2WhPshasifw97mH3aj27Skp9"
    assert [(each.pubkey, each.pre, each.post, each.delta) for each in found.native_balance_changes] == [
        (found.fee_payer, 718_764_267, 0, -718_764_267),
        ("3AmPaYAe6xWFxci4iCe8m2TkrQFZJPaj5AeBPTDoeFkR", 0, 718_759_267, 718_759_267),
    ]
    assert found.instructions[2].program_id == SYSTEM_PROGRAM
    assert found.token_balances_recorded, "an empty list says that there were none"


def test_writable_is_what_the_message_asks_for_also_of_a_sysvar() -> None:
    found = canonical("tx_v0_transaction_index")
    assert [each.writable for each in found.accounts if each.pubkey == CLOCK] == [True]
    assert (found.transaction_index, len(found.signatures)) == (893, 2)


def test_an_error_that_is_a_word_has_no_instruction() -> None:
    assert canonical("tx_failed_string_error").error == TransactionError(
        kind="InvalidRentPayingAccount",
        instruction_index=None,
        name=None,
        code=None,
        raw='"InvalidRentPayingAccount"',
    )
    error = canonical("tx_failed_custom_error_no_version").error
    assert error is not None
    assert (error.instruction_index, error.name, error.code) == (0, "Custom", 41)


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    """Leaves out members wherever they stand."""

    def leave_out(value: Any) -> None:
        if isinstance(value, dict):
            for name in names:
                value.pop(name, None)
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            leave_out(part)

    return leave_out


def without_token_programs(result: dict[str, Any]) -> None:
    for name in ("preTokenBalances", "postTokenBalances"):
        for balance in result["meta"][name]:
            balance.pop("programId", None)


def empty_is_null(result: dict[str, Any]) -> None:
    for name in ("innerInstructions", "preTokenBalances", "postTokenBalances", "rewards"):
        if result["meta"].get(name) == []:
            result["meta"][name] = None


def as_of_a_newer_node(result: dict[str, Any]) -> None:
    result.update(transactionIndex=5, somethingNew={"a": 1})
    result["meta"].update(costUnits=99, rewards=[], another=None)
    for instruction in result["transaction"]["message"]["instructions"]:
        instruction["stackHeight"] = 1


@pytest.mark.parametrize("name", sorted(RESULTS))
@pytest.mark.parametrize(
    "change",
    [
        without("stackHeight"),
        without("transactionIndex", "costUnits", "rewards", "status"),
        without("blockTime"),
        without("logMessages"),
        without("computeUnitsConsumed"),
        without("returnData"),
        without_token_programs,
        without("uiAmount", "uiAmountString"),
        without("version"),
        empty_is_null,
        as_of_a_newer_node,
    ],
    ids=lambda change: change.__name__,
)
def test_what_depends_on_the_node_does_not_change_the_hash(
    name: str, change: Callable[[dict[str, Any]], None]
) -> None:
    told_differently = json.loads(json.dumps(RESULTS[name]))
    change(told_differently)
    assert canonical_transaction(told_differently, None).content_hash() == canonical(name).content_hash()


def amounts_up(result: dict[str, Any]) -> None:
    result["meta"]["preBalances"][0] += 1


def other_payer(result: dict[str, Any]) -> None:
    result["transaction"]["message"]["accountKeys"][0] = SYSTEM_PROGRAM


def failed(result: dict[str, Any]) -> None:
    result["meta"]["err"] = "AccountInUse"


def later(result: dict[str, Any]) -> None:
    result["slot"] += 1


@pytest.mark.parametrize("name", sorted(RESULTS))
@pytest.mark.parametrize("change", [amounts_up, other_payer, failed, later])
def test_what_the_transaction_did_changes_the_hash(
    name: str, change: Callable[[dict[str, Any]], None]
) -> None:
    other = json.loads(json.dumps(RESULTS[name]))
    change(other)
    assert canonical_transaction(other, None).content_hash() != canonical(name).content_hash()
