"""From a node's answer to `getTransaction` to the one form in which a transaction is stored. Pure.

Only the encoding `json` is read: it is the one that keeps everything and does not change between versions of
the node. Nothing odd is repaired: what contradicts itself is rejected with a reason, never half read.

The answer is described at https://solana.com/docs/rpc/http/gettransaction; what is kept of it, and why, in
docs/adr/0009-canonical-transactions.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NoReturn

from workers.base58 import is_signature
from workers.solana_backfill.account_space import MESSAGE, AccountSpace
from workers.solana_backfill.canonical_balances import (
    are_token_balances_recorded,
    native_balance_changes,
    token_balance_changes,
)
from workers.solana_backfill.canonical_errors import canonical_error
from workers.solana_backfill.canonical_model import CanonicalTransaction, Version
from workers.solana_backfill.canonical_parts import ReturnData, TransactionConfig
from workers.solana_backfill.foreign_values import (
    I64_MAX,
    U8_MAX,
    U32_MAX,
    U64_MAX,
    Foreign,
    read_integer,
    read_list,
    read_object,
    read_optional_integer,
    read_public_key,
    read_text,
)
from workers.solana_backfill.rejection import PayloadRejected, RejectReason, malformed

UNSUPPORTED_VERSION_CODE = -32015
LOG_TRUNCATED = "Log truncated"

_BASE64 = re.compile(r"[0-9A-Za-z+/]*={0,2}")


def canonical_transaction(
    body: bytes | Mapping[str, object], requested_signature: str | None
) -> CanonicalTransaction:
    """The transaction that the answer tells.

    `body` is the answer as received, or what a JSON parser made of it; a whole JSON-RPC answer or its result.
    `requested_signature` is what was asked for; None takes whichever transaction comes. Raises
    `PayloadRejected` for everything that is no such transaction, and nothing else.
    """
    try:
        return _transaction(_result(_parsed(body) if isinstance(body, bytes) else body), requested_signature)
    except RecursionError as exc:
        raise malformed("is nested too deeply", field="body") from exc


def _parsed(body: bytes) -> Foreign:
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except ValueError as exc:
        raise malformed("is not JSON", field="body") from exc


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def _result(payload: Foreign) -> dict[str, Foreign]:
    """The result of a JSON-RPC answer, or the payload itself when it is one."""
    if payload is None:
        raise PayloadRejected(RejectReason.NOT_FOUND, "the result is null")
    if not isinstance(payload, Mapping):
        raise malformed("is no object", field="body")
    answer = dict(payload)
    if "transaction" in answer:
        return answer
    error = answer.get("error")
    if error is not None:
        code = error.get("code") if isinstance(error, dict) else None
        is_version = code == UNSUPPORTED_VERSION_CODE
        reason = RejectReason.UNSUPPORTED_VERSION if is_version else RejectReason.RPC_ERROR
        raise PayloadRejected(reason, f"the node answers with error {code if type(code) is int else '?'}")
    if "result" not in answer:
        raise malformed("is neither a transaction nor an answer", field="body")
    if answer["result"] is None:
        raise PayloadRejected(RejectReason.NOT_FOUND, "the result is null")
    return read_object(answer["result"], "result")


def _transaction(result: dict[str, Foreign], requested_signature: str | None) -> CanonicalTransaction:
    message, signatures, meta = _opened(result)
    if requested_signature is not None and signatures[0] != requested_signature:
        raise PayloadRejected(
            RejectReason.SIGNATURE_MISMATCH, "is not the requested one", field="transaction.signatures"
        )
    space = AccountSpace.read(message, meta)
    if len(signatures) != space.signatures_required:
        detail = f"has {len(signatures)} where {space.signatures_required} are required"
        raise malformed(detail, field="transaction.signatures")
    instructions = space.instructions(message)
    inner_groups = meta.get("innerInstructions")
    logs = _logs(meta.get("logMessages"))
    if "err" not in meta:
        raise malformed("is missing", field="meta.err")
    return CanonicalTransaction(
        signature=signatures[0],
        signatures=signatures,
        slot=read_integer(result.get("slot"), "slot", highest=I64_MAX),
        block_time=read_optional_integer(
            result.get("blockTime"), "blockTime", lowest=-I64_MAX, highest=I64_MAX
        ),
        version=_version(result.get("version"), message),
        transaction_index=read_optional_integer(
            result.get("transactionIndex"), "transactionIndex", highest=U32_MAX
        ),
        recent_blockhash=read_public_key(message.get("recentBlockhash"), f"{MESSAGE}.recentBlockhash"),
        fee=read_integer(meta.get("fee"), "meta.fee", highest=U64_MAX),
        compute_units_consumed=read_optional_integer(
            meta.get("computeUnitsConsumed"), "meta.computeUnitsConsumed", highest=I64_MAX
        ),
        transaction_config=_config(message.get("transactionConfig")),
        error=canonical_error(meta["err"]),
        accounts=space.accounts,
        address_table_lookups=space.lookups,
        instructions=instructions,
        inner_instructions=space.inner_instructions(inner_groups, len(instructions)),
        inner_instructions_recorded=inner_groups is not None,
        native_balance_changes=native_balance_changes(meta, space),
        token_balance_changes=token_balance_changes(meta, space),
        token_balances_recorded=are_token_balances_recorded(meta),
        logs=logs,
        logs_truncated=logs is not None and LOG_TRUNCATED in logs,
        return_data=_return_data(meta.get("returnData")),
    )


def _opened(
    result: dict[str, Foreign],
) -> tuple[dict[str, Foreign], tuple[str, ...], dict[str, Foreign]]:
    """The message, the signatures and the meta data."""
    transaction = result.get("transaction")
    if isinstance(transaction, list | str) or (
        isinstance(transaction, dict) and "message" not in transaction and "accountKeys" in transaction
    ):
        raise PayloadRejected(RejectReason.UNEXPECTED_ENCODING, "is not in `json`", field="transaction")
    if result.get("meta") is None:
        raise PayloadRejected(RejectReason.META_UNAVAILABLE, "is null", field="meta")
    meta = read_object(result["meta"], "meta")
    members = read_object(transaction, "transaction")
    message = read_object(members.get("message"), MESSAGE)
    signatures = read_list(members.get("signatures"), "transaction.signatures")
    if not signatures or not all(isinstance(each, str) and is_signature(each) for each in signatures):
        raise malformed("are no signatures", field="transaction.signatures")
    return message, tuple(signatures), meta


def _version(version: Foreign, message: dict[str, Foreign]) -> Version:
    """The version; a node that was not told a highest one, or is old, leaves it out."""
    if version is None:
        if message.get("transactionConfig") is not None:
            return 1
        return 0 if message.get("addressTableLookups") is not None else "legacy"
    if version == "legacy" or (type(version) is int and 0 <= version <= U8_MAX):
        known: Version = version
        return known
    raise PayloadRejected(RejectReason.UNSUPPORTED_VERSION, "is no version that is known", field="version")


def _config(value: Foreign) -> TransactionConfig | None:
    if value is None:
        return None
    field = f"{MESSAGE}.transactionConfig"
    config = read_object(value, field)
    limits = [
        read_optional_integer(config.get(name), f"{field}.{name}", highest=U32_MAX)
        for name in ("computeUnitLimit", "loadedAccountsDataSizeLimit", "heapSize")
    ]
    return TransactionConfig(
        priority_fee=read_optional_integer(
            config.get("priorityFee"), f"{field}.priorityFee", highest=U64_MAX
        ),
        compute_unit_limit=limits[0],
        loaded_accounts_data_size_limit=limits[1],
        heap_size=limits[2],
    )


def _logs(value: Foreign) -> tuple[str, ...] | None:
    """The lines; None where the node kept none. What no text can hold becomes a replacement mark."""
    if value is None:
        return None
    lines = read_list(value, "meta.logMessages")
    try:
        whole = "".join(lines)
    except TypeError as exc:
        raise malformed("has what is no text", field="meta.logMessages") from exc
    if not whole.isascii():
        lines = [line.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for line in lines]
    return tuple(lines)


def _return_data(value: Foreign) -> ReturnData | None:
    if value is None:
        return None
    field = "meta.returnData"
    returned = read_object(value, field)
    match returned.get("data"):
        case [str() as data, "base64"] if _BASE64.fullmatch(data):
            program_id = read_public_key(read_text(returned.get("programId"), field), field)
            return ReturnData(program_id=program_id, data_base64=data)
    raise malformed("is not in base64", field=field)
