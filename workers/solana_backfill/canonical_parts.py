"""The parts of a canonical transaction. Pure.

Integers are exact. In JSON, which is also the stored form, amounts of lamports and tokens are text, because
neither JSON's readers nor MongoDB have an unsigned 64-bit number; all other numbers fit into a signed one.
Where `to_content` differs from `to_json`, it leaves out what depends on the node that told the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

JSONObject: TypeAlias = dict[str, Any]


class AccountSource(StrEnum):
    """Where a transaction has an account from."""

    STATIC = "static"
    LOOKUP_WRITABLE = "lookup_writable"
    LOOKUP_READONLY = "lookup_readonly"


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """One account of the index space.

    `writable` is what the message asks for; the runtime may still lock the account as read-only.
    """

    index: int
    pubkey: str
    signer: bool
    writable: bool
    source: AccountSource

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {
            "index": self.index,
            "pubkey": self.pubkey,
            "signer": self.signer,
            "writable": self.writable,
            "source": self.source.value,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Account:
        """Read the JSON form."""
        return cls(
            index=found["index"],
            pubkey=found["pubkey"],
            signer=found["signer"],
            writable=found["writable"],
            source=AccountSource(found["source"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AddressTableLookup:
    """Which entries of an address table the message names, in its order."""

    table: str
    writable_indexes: tuple[int, ...]
    readonly_indexes: tuple[int, ...]

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {
            "table": self.table,
            "writable_indexes": list(self.writable_indexes),
            "readonly_indexes": list(self.readonly_indexes),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> AddressTableLookup:
        """Read the JSON form."""
        return cls(
            table=found["table"],
            writable_indexes=tuple(found["writable_indexes"]),
            readonly_indexes=tuple(found["readonly_indexes"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """One instruction of the message; accounts are resolved, the data is base58."""

    index: int
    program_id: str
    accounts: tuple[str, ...]
    data: str

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {
            "index": self.index,
            "program_id": self.program_id,
            "accounts": list(self.accounts),
            "data": self.data,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Instruction:
        """Read the JSON form."""
        return cls(
            index=found["index"],
            program_id=found["program_id"],
            accounts=tuple(found["accounts"]),
            data=found["data"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class InnerInstruction:
    """An instruction that a program called.

    `inner_index` counts the calls under one instruction of the message, in execution order. `stack_height` is
    2 for a call by that instruction itself, 3 for a call by such a one; None where the node has not kept it.
    """

    outer_index: int
    inner_index: int
    stack_height: int | None
    program_id: str
    accounts: tuple[str, ...]
    data: str

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {"stack_height": self.stack_height, **self.to_content()}

    def to_content(self) -> JSONObject:
        """The part that no node tells differently."""
        return {
            "outer_index": self.outer_index,
            "inner_index": self.inner_index,
            "program_id": self.program_id,
            "accounts": list(self.accounts),
            "data": self.data,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> InnerInstruction:
        """Read the JSON form."""
        return cls(
            outer_index=found["outer_index"],
            inner_index=found["inner_index"],
            stack_height=found["stack_height"],
            program_id=found["program_id"],
            accounts=tuple(found["accounts"]),
            data=found["data"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NativeBalanceChange:
    """An account whose lamports changed. The fee payer's change includes the fee."""

    account_index: int
    pubkey: str
    pre: int
    post: int

    @property
    def delta(self) -> int:
        """Lamports, negative for a loss."""
        return self.post - self.pre

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {
            "account_index": self.account_index,
            "pubkey": self.pubkey,
            "pre": str(self.pre),
            "post": str(self.post),
            "delta": str(self.delta),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> NativeBalanceChange:
        """Read the JSON form."""
        return cls(
            account_index=found["account_index"],
            pubkey=found["pubkey"],
            pre=int(found["pre"]),
            post=int(found["post"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenBalanceChange:
    """What one token account held of one mint before and after, in the mint's smallest unit.

    Every recorded account has one, also without a change. `pre` is None where the account was created, `post`
    where it was closed. `program_id` and the owners are None where the node has not kept them.
    """

    account_index: int
    token_account: str
    mint: str
    program_id: str | None
    decimals: int
    owner_pre: str | None
    owner_post: str | None
    pre: int | None
    post: int | None

    @property
    def delta(self) -> int:
        """The change; a side without the account counts as 0."""
        return (self.post or 0) - (self.pre or 0)

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {"program_id": self.program_id, **self.to_content()}

    def to_content(self) -> JSONObject:
        """The part that no node tells differently."""
        return {
            "account_index": self.account_index,
            "token_account": self.token_account,
            "mint": self.mint,
            "decimals": self.decimals,
            "owner_pre": self.owner_pre,
            "owner_post": self.owner_post,
            "pre": None if self.pre is None else str(self.pre),
            "post": None if self.post is None else str(self.post),
            "delta": str(self.delta),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TokenBalanceChange:
        """Read the JSON form."""
        return cls(
            account_index=found["account_index"],
            token_account=found["token_account"],
            mint=found["mint"],
            program_id=found["program_id"],
            decimals=found["decimals"],
            owner_pre=found["owner_pre"],
            owner_post=found["owner_post"],
            pre=_optional_amount(found["pre"]),
            post=_optional_amount(found["post"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionConfig:
    """What a transaction of version 1 asks for itself; None where it says nothing.

    `priority_fee` is the total in lamports, the limits are compute units and bytes.
    """

    priority_fee: int | None
    compute_unit_limit: int | None
    loaded_accounts_data_size_limit: int | None
    heap_size: int | None

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {
            "priority_fee": None if self.priority_fee is None else str(self.priority_fee),
            "compute_unit_limit": self.compute_unit_limit,
            "loaded_accounts_data_size_limit": self.loaded_accounts_data_size_limit,
            "heap_size": self.heap_size,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TransactionConfig:
        """Read the JSON form."""
        return cls(
            priority_fee=_optional_amount(found["priority_fee"]),
            compute_unit_limit=found["compute_unit_limit"],
            loaded_accounts_data_size_limit=found["loaded_accounts_data_size_limit"],
            heap_size=found["heap_size"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionError:
    """Why a transaction failed.

    `kind` is the runtime's word. `instruction_index` names the instruction at fault, `name` is the error of
    that instruction, `code` the number of a `Custom` one; each is None where the error has no such part.
    `raw` is the whole error as compact JSON text, so that a value of any shape can be kept.
    """

    kind: str
    instruction_index: int | None
    name: str | None
    code: int | None
    raw: str

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {
            "kind": self.kind,
            "instruction_index": self.instruction_index,
            "name": self.name,
            "code": self.code,
            "raw": self.raw,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TransactionError:
        """Read the JSON form."""
        return cls(
            kind=found["kind"],
            instruction_index=found["instruction_index"],
            name=found["name"],
            code=found["code"],
            raw=found["raw"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReturnData:
    """What the last program returned, in base64."""

    program_id: str
    data_base64: str

    def to_json(self) -> JSONObject:
        """The JSON form."""
        return {"program_id": self.program_id, "data_base64": self.data_base64}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> ReturnData:
        """Read the JSON form."""
        return cls(program_id=found["program_id"], data_base64=found["data_base64"])


def _optional_amount(text: str | None) -> int | None:
    return None if text is None else int(text)
