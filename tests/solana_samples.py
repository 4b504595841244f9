"""Recorded answers to `getTransaction`, a small one to change, and the wire form of a legacy transaction."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

from tests.samples import sample_bytes, sample_json
from workers.base58 import encode

# Samples that are one answer in the encoding `json`.
READABLE = (
    "tx_failed_custom_error_no_version",
    "tx_failed_string_error",
    "tx_legacy_logs_truncated",
    "tx_legacy_sol_transfer",
    "tx_legacy_spl_transfer",
    "tx_legacy_token2022_transfer",
    "tx_v0_lookup_tables_swap",
    "tx_v0_transaction_index",
)
# Files that hold several answers.
ENCODINGS = "tx_same_in_three_encodings"
VERSION_1 = "tx_v1_failed_mainnet"


def body_of(name: str, part: str | None = None) -> bytes:
    """The bytes of a recorded answer; `part` names one of several in a file."""
    if part is None:
        return sample_bytes(f"solana/{name}.json")
    return json.dumps(sample_json(f"solana/{name}.json")[part]).encode()


def result_of(name: str, part: str | None = None) -> dict[str, Any]:
    """The result of a recorded answer, to be changed."""
    found: dict[str, Any] = json.loads(body_of(name, part))["result"]
    return found


def readable_results() -> dict[str, dict[str, Any]]:
    """Every recorded result that has a canonical form."""
    found = {name: result_of(name) for name in READABLE}
    found[ENCODINGS] = result_of(ENCODINGS, "json")
    found[VERSION_1] = result_of(VERSION_1, "get_transaction_derived")
    return found


def key(number: int) -> str:
    """A public key that is told by its number."""
    return encode(bytes([number]) * 32)


SIGNATURE = encode(bytes([7]) * 64)
TOKEN_PROGRAM = key(200)
MINT = key(201)


def small_result(**changes: Any) -> dict[str, Any]:
    """A valid result: keys 1 and 2 are static, 3 is looked up writable, 4 read-only; one inner instruction.

    `changes` replace members by name, wherever in the result, message or meta the name stands.
    """
    result: dict[str, Any] = {
        "slot": 5,
        "blockTime": 1_700_000_000,
        "version": 0,
        "transaction": {
            "signatures": [SIGNATURE],
            "message": {
                "header": {
                    "numRequiredSignatures": 1,
                    "numReadonlySignedAccounts": 0,
                    "numReadonlyUnsignedAccounts": 1,
                },
                "accountKeys": [key(1), key(2)],
                "recentBlockhash": key(9),
                "instructions": [
                    {"programIdIndex": 1, "accounts": [0, 2, 3], "data": "3Bxs", "stackHeight": 1}
                ],
                "addressTableLookups": [
                    {"accountKey": key(5), "writableIndexes": [4], "readonlyIndexes": [6]},
                ],
            },
        },
        "meta": {
            "err": None,
            "fee": 5000,
            "preBalances": [10_000, 1, 100, 1],
            "postBalances": [4_900, 1, 200, 1],
            "preTokenBalances": [token_balance(2, "40", owner=key(1))],
            "postTokenBalances": [token_balance(2, "30", owner=key(1))],
            "innerInstructions": [
                {
                    "index": 0,
                    "instructions": [{"programIdIndex": 3, "accounts": [2], "data": "", "stackHeight": 2}],
                }
            ],
            "loadedAddresses": {"writable": [key(3)], "readonly": [key(4)]},
            "logMessages": ["Program log: ok"],
            "computeUnitsConsumed": 450,
        },
    }
    for name, value in changes.items():
        places = (result["transaction"]["message"], result["meta"], result["transaction"], result)
        place = next((each for each in places if name in each), result["meta"])
        place[name] = value
    return copy.deepcopy(result)


def token_balance(index: int, amount: str, *, owner: str | None = None, mint: str = MINT) -> dict[str, Any]:
    """One entry of the token balances; without an owner as old rows have it."""
    entry: dict[str, Any] = {
        "accountIndex": index,
        "mint": mint,
        "programId": TOKEN_PROGRAM,
        "uiTokenAmount": {
            "amount": amount,
            "decimals": 6,
            "uiAmount": 0.1,
            "uiAmountString": "wrong on purpose",
        },
    }
    return entry if owner is None else {**entry, "owner": owner}


def decode_legacy(transaction: list[str]) -> dict[str, Any]:
    """The wire form of a legacy transaction, `[data, "base64"]`, as a node writes it in `json`.

    The form is that of https://solana.com/docs/core/transactions: lists are led by a compact 16-bit length.
    """
    data, encoding = transaction
    assert encoding == "base64"
    reader = _Reader(base64.b64decode(data, validate=True))
    signatures = [encode(reader.take(64)) for _ in range(reader.length())]
    required, readonly_signed, readonly_unsigned = reader.take(3)
    assert required < 128, "a version would be marked by the highest bit"
    keys = [encode(reader.take(32)) for _ in range(reader.length())]
    blockhash = encode(reader.take(32))
    instructions = []
    for _ in range(reader.length()):
        program = reader.take(1)[0]
        accounts = list(reader.take(reader.length()))
        instructions.append(
            {"programIdIndex": program, "accounts": accounts, "data": encode(reader.take(reader.length()))}
        )
    assert not reader.rest
    header = {
        "numRequiredSignatures": required,
        "numReadonlySignedAccounts": readonly_signed,
        "numReadonlyUnsignedAccounts": readonly_unsigned,
    }
    message = {
        "header": header,
        "accountKeys": keys,
        "recentBlockhash": blockhash,
        "instructions": instructions,
    }
    return {"signatures": signatures, "message": message}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.rest = data

    def take(self, count: int) -> bytes:
        found, self.rest = self.rest[:count], self.rest[count:]
        assert len(found) == count
        return found

    def length(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value
