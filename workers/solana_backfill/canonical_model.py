"""The canonical transaction: what a transaction is, whichever node told it. Pure.

The content hash leaves out what depends on the node that stored the row rather than on the transaction, so it
is equal across providers and node versions; see docs/adr/0009-canonical-transactions.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from workers.solana_backfill.canonical_parts import (
    Account,
    AddressTableLookup,
    InnerInstruction,
    Instruction,
    JSONObject,
    NativeBalanceChange,
    ReturnData,
    TokenBalanceChange,
    TransactionConfig,
    TransactionError,
)

SCHEMA_VERSION = 1

Version: TypeAlias = Literal["legacy"] | int

# Canonical JSON: sorted names, no spaces. What is encoded is made by `to_json` and holds no cycles.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


@dataclass(frozen=True, kw_only=True, slots=True)
class CanonicalTransaction:
    """One transaction.

    `fee` is the total lamports, `block_time` in Unix seconds, `transaction_index` the position in the block.
    `logs` is None where the node kept none, which says less than an empty list. Where one of the two
    `..._recorded` is False, nothing can be said about the transfers or the calls.
    """

    signature: str
    signatures: tuple[str, ...]
    slot: int
    block_time: int | None
    version: Version
    transaction_index: int | None
    recent_blockhash: str
    fee: int
    compute_units_consumed: int | None
    transaction_config: TransactionConfig | None
    error: TransactionError | None
    accounts: tuple[Account, ...]
    address_table_lookups: tuple[AddressTableLookup, ...]
    instructions: tuple[Instruction, ...]
    inner_instructions: tuple[InnerInstruction, ...]
    inner_instructions_recorded: bool
    native_balance_changes: tuple[NativeBalanceChange, ...]
    token_balance_changes: tuple[TokenBalanceChange, ...]
    token_balances_recorded: bool
    logs: tuple[str, ...] | None
    logs_truncated: bool
    return_data: ReturnData | None
    schema_version: int = SCHEMA_VERSION

    @property
    def succeeded(self) -> bool:
        """Whether it took effect. A failed one still paid its fee."""
        return self.error is None

    @property
    def fee_payer(self) -> str:
        """The first account."""
        return self.accounts[0].pubkey

    @property
    def is_balanced(self) -> bool:
        """Whether what left the accounts is the fee. True of all real transactions seen; a warning if not."""
        return sum(change.delta for change in self.native_balance_changes) == -self.fee

    def content_hash(self) -> str:
        """SHA-256, in hexadecimal, of what every node tells alike. Computed anew with each call."""
        return hashlib.sha256(_encode(self.to_content()).encode("ascii")).hexdigest()

    def to_json(self) -> JSONObject:
        """The JSON form, every field; it is also the stored form."""
        return {
            **self._to_content(),
            "transaction_index": self.transaction_index,
            "block_time": self.block_time,
            "compute_units_consumed": self.compute_units_consumed,
            "inner_instructions": [each.to_json() for each in self.inner_instructions],
            "inner_instructions_recorded": self.inner_instructions_recorded,
            "token_balance_changes": [each.to_json() for each in self.token_balance_changes],
            "token_balances_recorded": self.token_balances_recorded,
            "logs": None if self.logs is None else list(self.logs),
            "logs_truncated": self.logs_truncated,
            "return_data": _optional_json(self.return_data),
        }

    def to_content(self) -> JSONObject:
        """The part that no node tells differently: what is hashed."""
        return {
            **self._to_content(),
            "inner_instructions": [each.to_content() for each in self.inner_instructions],
            "token_balance_changes": [each.to_content() for each in self.token_balance_changes],
        }

    def _to_content(self) -> JSONObject:
        return {
            "schema_version": self.schema_version,
            "signature": self.signature,
            "signatures": list(self.signatures),
            "slot": self.slot,
            "version": self.version,
            "recent_blockhash": self.recent_blockhash,
            "fee_payer": self.fee_payer,
            "fee": str(self.fee),
            "transaction_config": _optional_json(self.transaction_config),
            "succeeded": self.succeeded,
            "error": _optional_json(self.error),
            "accounts": [each.to_json() for each in self.accounts],
            "address_table_lookups": [each.to_json() for each in self.address_table_lookups],
            "instructions": [each.to_json() for each in self.instructions],
            "native_balance_changes": [each.to_json() for each in self.native_balance_changes],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> CanonicalTransaction:
        """Read the JSON form; fields of a newer version are left out.

        Raises `KeyError`, `TypeError` or `ValueError` for what `to_json` did not write.
        """
        config, error, returned = found["transaction_config"], found["error"], found["return_data"]
        return cls(
            schema_version=found["schema_version"],
            signature=found["signature"],
            signatures=tuple(found["signatures"]),
            slot=found["slot"],
            block_time=found["block_time"],
            version=found["version"],
            transaction_index=found["transaction_index"],
            recent_blockhash=found["recent_blockhash"],
            fee=int(found["fee"]),
            compute_units_consumed=found["compute_units_consumed"],
            transaction_config=None if config is None else TransactionConfig.from_json(config),
            error=None if error is None else TransactionError.from_json(error),
            accounts=tuple(map(Account.from_json, found["accounts"])),
            address_table_lookups=tuple(map(AddressTableLookup.from_json, found["address_table_lookups"])),
            instructions=tuple(map(Instruction.from_json, found["instructions"])),
            inner_instructions=tuple(map(InnerInstruction.from_json, found["inner_instructions"])),
            inner_instructions_recorded=found["inner_instructions_recorded"],
            native_balance_changes=tuple(map(NativeBalanceChange.from_json, found["native_balance_changes"])),
            token_balance_changes=tuple(map(TokenBalanceChange.from_json, found["token_balance_changes"])),
            token_balances_recorded=found["token_balances_recorded"],
            logs=None if found["logs"] is None else tuple(found["logs"]),
            logs_truncated=found["logs_truncated"],
            return_data=None if returned is None else ReturnData.from_json(returned),
        )


def _optional_json(part: TransactionConfig | TransactionError | ReturnData | None) -> JSONObject | None:
    return None if part is None else part.to_json()
