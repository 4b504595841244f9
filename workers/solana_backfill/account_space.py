"""The index space of a transaction's accounts, and the instructions resolved in it. Pure.

Instructions and balances name accounts by index: the static keys of the message first, then all writable keys
that were looked up in address tables, then all read-only ones, each in the order of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.solana_backfill.canonical_parts import (
    Account,
    AccountSource,
    AddressTableLookup,
    InnerInstruction,
    Instruction,
)
from workers.solana_backfill.foreign_values import (
    U8_MAX,
    U32_MAX,
    Foreign,
    read_base58,
    read_integer,
    read_integers,
    read_list,
    read_object,
    read_optional_integer,
    read_optional_list,
    read_public_key,
)
from workers.solana_backfill.rejection import PayloadRejected, RejectReason, malformed

MESSAGE = "transaction.message"
ACCOUNTS_MAX = U8_MAX + 1
# Before Python 3.12 a member of an enumeration is dear to look up, and there is one for each account.
_STATIC, _LOOKUP_WRITABLE, _LOOKUP_READONLY = AccountSource


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountSpace:
    """The accounts by index, and where those that are not static come from."""

    accounts: tuple[Account, ...]
    lookups: tuple[AddressTableLookup, ...]
    signatures_required: int
    pubkeys: dict[int, str]

    @classmethod
    def read(cls, message: dict[str, Foreign], meta: dict[str, Foreign]) -> AccountSpace:
        """Read the keys, the header and the lookups.

        Raises `PayloadRejected` when they contradict each other, and for keys that are objects, which is how
        another encoding writes them.
        """
        static = _static_keys(message)
        lookups = _lookups(message)
        loaded = _loaded(meta.get("loadedAddresses"))
        writable = _loaded_keys(loaded, "writable", sum(len(each.writable_indexes) for each in lookups))
        readonly = _loaded_keys(loaded, "readonly", sum(len(each.readonly_indexes) for each in lookups))
        pubkeys = [*static, *writable, *readonly]
        if len(pubkeys) > ACCOUNTS_MAX:
            raise malformed(f"has more than {ACCOUNTS_MAX} accounts", field=MESSAGE)
        required, readonly_signed, readonly_unsigned = _header(message, len(static))
        signers_end, others_end = required - readonly_signed, len(static) - readonly_unsigned
        accounts = [
            Account(
                index=index,
                pubkey=pubkey,
                signer=index < required,
                writable=index < signers_end or required <= index < others_end,
                source=_STATIC,
            )
            for index, pubkey in enumerate(static)
        ]
        for index, pubkey in enumerate(pubkeys[len(static) :], start=len(static)):
            is_writable = index < len(static) + len(writable)
            source = _LOOKUP_WRITABLE if is_writable else _LOOKUP_READONLY
            accounts.append(
                Account(index=index, pubkey=pubkey, signer=False, writable=is_writable, source=source)
            )
        return cls(
            accounts=tuple(accounts),
            lookups=lookups,
            signatures_required=required,
            pubkeys=dict(enumerate(pubkeys)),
        )

    def instructions(self, message: dict[str, Foreign]) -> tuple[Instruction, ...]:
        """The instructions of the message."""
        field = f"{MESSAGE}.instructions"
        found = []
        for index, value in enumerate(read_list(message.get("instructions"), field)):
            program_id, accounts, data = self._resolved(value, field)
            found.append(Instruction(index=index, program_id=program_id, accounts=accounts, data=data))
        return tuple(found)

    def inner_instructions(self, groups: Foreign, instruction_count: int) -> tuple[InnerInstruction, ...]:
        """What the instructions called, flat, in execution order; `groups` is null where nobody kept it."""
        field = "meta.innerInstructions"
        found: list[InnerInstruction] = []
        counts: dict[int, int] = {}
        for group in read_optional_list(groups, field):
            members = read_object(group, field)
            outer = read_integer(members.get("index"), field, highest=instruction_count - 1)
            for value in read_list(members.get("instructions"), field):
                program_id, accounts, data = self._resolved(value, field)
                inner = counts.get(outer, 0)
                counts[outer] = inner + 1
                found.append(
                    InnerInstruction(
                        outer_index=outer,
                        inner_index=inner,
                        stack_height=read_optional_integer(value.get("stackHeight"), field, highest=U32_MAX),
                        program_id=program_id,
                        accounts=accounts,
                        data=data,
                    )
                )
        # Instructions run one after the other, so this is the order of execution.
        return tuple(sorted(found, key=lambda each: each.outer_index))

    def _resolved(self, value: Foreign, field: str) -> tuple[str, tuple[str, ...], str]:
        """Program, accounts and data of one instruction."""
        instruction = read_object(value, field)
        if "programIdIndex" not in instruction and "programId" in instruction:
            raise PayloadRejected(RejectReason.UNEXPECTED_ENCODING, "names its program", field=field)
        indexes = [instruction.get("programIdIndex"), *read_list(instruction.get("accounts"), field)]
        # The kind is asked as well: true and 1.0 would find the account of 1.
        if set(map(type, indexes)) != {int}:
            raise malformed("names an account by what is no integer", field=field)
        try:
            program_id, *accounts = map(self.pubkeys.__getitem__, indexes)
        except KeyError as exc:
            raise malformed("names no account", field=field) from exc
        return program_id, tuple(accounts), read_base58(instruction.get("data"), field)


def _static_keys(message: dict[str, Foreign]) -> list[str]:
    field = f"{MESSAGE}.accountKeys"
    keys = read_list(message.get("accountKeys"), field)
    if any(isinstance(key, dict) for key in keys):
        raise PayloadRejected(RejectReason.UNEXPECTED_ENCODING, "holds objects", field=field)
    return [read_public_key(key, field) for key in keys]


def _header(message: dict[str, Foreign], static_count: int) -> tuple[int, int, int]:
    """How many signatures there are, and how many signers and others are read-only."""
    field = f"{MESSAGE}.header"
    header = read_object(message.get("header"), field)
    required, readonly_signed, readonly_unsigned = (
        read_integer(header.get(name), f"{field}.{name}", highest=U8_MAX)
        for name in ("numRequiredSignatures", "numReadonlySignedAccounts", "numReadonlyUnsignedAccounts")
    )
    # The first signer pays the fee, so it is never read-only.
    if not readonly_signed < required <= static_count - readonly_unsigned:
        raise malformed(f"does not fit {static_count} static accounts", field=field)
    return required, readonly_signed, readonly_unsigned


def _lookups(message: dict[str, Foreign]) -> tuple[AddressTableLookup, ...]:
    field = f"{MESSAGE}.addressTableLookups"
    found = []
    for value in read_optional_list(message.get("addressTableLookups"), field):
        lookup = read_object(value, field)
        writable, readonly = (
            tuple(read_integers(lookup.get(name), f"{field}.{name}", highest=U8_MAX))
            for name in ("writableIndexes", "readonlyIndexes")
        )
        table = read_public_key(lookup.get("accountKey"), f"{field}.accountKey")
        found.append(AddressTableLookup(table=table, writable_indexes=writable, readonly_indexes=readonly))
    return tuple(found)


def _loaded(value: Foreign) -> dict[str, Foreign]:
    """Absent from nodes that know no lookups and from answers without a highest version."""
    return {} if value is None else read_object(value, "meta.loadedAddresses")


def _loaded_keys(loaded: dict[str, Foreign], kind: str, looked_up: int) -> list[str]:
    field = f"meta.loadedAddresses.{kind}"
    keys = [read_public_key(key, field) for key in read_optional_list(loaded.get(kind), field)]
    if len(keys) != looked_up:
        raise malformed(f"has {len(keys)} keys for {looked_up} lookups", field=field)
    return keys
