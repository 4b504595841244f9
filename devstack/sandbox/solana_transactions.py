"""Made-up transactions as `getTransaction` answers them in the encoding `json`.

Owns their shape: valid ones that add up, every part of which depends on the plan alone. Four kinds are made:

- `legacy`: one wallet sends lamports to another.
- `token`: a legacy transfer of an SPL token, with balances of both token accounts.
- `v0`: a swap whose pool and programs are looked up in a table, with two calls inside.
- `v1`: a transfer of lamports with limits of its own.

The address that a transaction is found by is one of its accounts: the recipient, the mint, or the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from devstack.sandbox.samples import derive
from devstack.sandbox.tokens import address_of, base58

SYSTEM_PROGRAM = "1" * 32
TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
SWAP_PROGRAM = address_of("solana", "swap program")
WRAPPED_SOL = "So11111111111111111111111111111111111111112"
FEE_PER_SIGNATURE = 5000
GENESIS_SLOT, GENESIS_TIME, SLOT_MS = 250_000_000, 1_708_000_000, 400

KINDS = ("legacy", "token", "v0", "legacy", "v1")
VERSIONS: dict[str, str | int] = {"legacy": "legacy", "token": "legacy", "v0": 0, "v1": 1}


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is to be made. `err` is that of a failed transaction, None for one that took effect."""

    signature: str
    slot: int
    index: int
    kind: str
    about: str
    err: Any = None


@dataclass(kw_only=True, slots=True)
class _Draft:
    """The parts that differ between the kinds; balances are those of all accounts, in their order."""

    static: list[str]
    readonly_unsigned: int
    instructions: list[dict[str, Any]]
    pre: list[int]
    changes: list[int]
    looked_up: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    inner: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[tuple[int, str, str, int, int]] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    message: dict[str, Any] = field(default_factory=dict)
    priority_fee: int = 0


def result_of(plan: Plan) -> dict[str, Any]:
    """The result of `getTransaction` for a client that takes every version."""
    draft = _KINDS[plan.kind](plan)
    fee = FEE_PER_SIGNATURE + draft.priority_fee
    has_failed = plan.err is not None
    changes = [0] * len(draft.pre) if has_failed else list(draft.changes)
    changes[0] -= fee
    units = 150 + derive("units", plan.signature, below=90_000)
    return {
        "blockTime": block_time(plan.slot),
        "meta": {
            "computeUnitsConsumed": units,
            "costUnits": units + 1300,
            "err": plan.err,
            "fee": fee,
            "innerInstructions": draft.inner,
            "loadedAddresses": {"readonly": draft.looked_up[1], "writable": draft.looked_up[0]},
            "logMessages": _logs(draft, has_failed=has_failed),
            "postBalances": [balance + change for balance, change in zip(draft.pre, changes, strict=True)],
            "postTokenBalances": [_token_balance(row, 0 if has_failed else row[4]) for row in draft.tokens],
            "preBalances": draft.pre,
            "preTokenBalances": [_token_balance(row, 0) for row in draft.tokens],
            "rewards": [],
            "status": {"Err": plan.err} if has_failed else {"Ok": None},
        },
        "slot": plan.slot,
        "transaction": {
            "message": {
                "accountKeys": draft.static,
                "header": {
                    "numReadonlySignedAccounts": 0,
                    "numReadonlyUnsignedAccounts": draft.readonly_unsigned,
                    "numRequiredSignatures": 1,
                },
                "instructions": draft.instructions,
                "recentBlockhash": address_of("blockhash", str(plan.slot)),
                **draft.message,
            },
            "signatures": [plan.signature],
        },
        "transactionIndex": plan.index,
        "version": VERSIONS[plan.kind],
    }


def block_time(slot: int) -> int:
    """Unix seconds."""
    return GENESIS_TIME + (slot - GENESIS_SLOT) * SLOT_MS // 1000


def _legacy(plan: Plan) -> _Draft:
    lamports = 1 + derive("lamports", plan.signature, below=10**9)
    return _Draft(
        static=[_wallet(plan), plan.about, SYSTEM_PROGRAM],
        readonly_unsigned=1,
        instructions=[_instruction(2, [0, 1], "transfer", plan)],
        pre=[
            2 * 10**9 + derive("rich", plan.signature, below=10**12),
            derive("poor", plan.about, below=10**9),
            1,
        ],
        changes=[-lamports, lamports, 0],
        logs=[f"Program {SYSTEM_PROGRAM} invoke [1]", f"Program {SYSTEM_PROGRAM} success"],
    )


def _version_1(plan: Plan) -> _Draft:
    draft = _legacy(plan)
    draft.priority_fee = derive("priority", plan.signature, below=5000)
    draft.message = {
        "transactionConfig": {
            "computeUnitLimit": 200_000,
            "heapSize": None,
            "loadedAccountsDataSizeLimit": 64_000,
            "priorityFee": draft.priority_fee,
        }
    }
    return draft


def _token(plan: Plan) -> _Draft:
    amount = 1 + derive("amount", plan.signature, below=10**12)
    payer = _wallet(plan)
    recipient = address_of("recipient", plan.signature)
    accounts = [address_of("token account", owner, plan.about) for owner in (payer, recipient)]
    held = [amount + derive("held", plan.signature, below=2**63), derive("had", plan.signature, below=2**62)]
    return _Draft(
        static=[payer, *accounts, plan.about, TOKEN_PROGRAM],
        readonly_unsigned=2,
        instructions=[_instruction(4, [1, 3, 2, 0], "transferChecked", plan)],
        pre=[10**9, 2_039_280, 2_039_280, 1_461_600, 934_087_680],
        changes=[0] * 5,
        tokens=[(1, plan.about, payer, held[0], -amount), (2, plan.about, recipient, held[1], amount)],
        logs=[
            f"Program {TOKEN_PROGRAM} invoke [1]",
            "Program log: Instruction: TransferChecked",
            f"Program {TOKEN_PROGRAM} success",
        ],
    )


def _swap(plan: Plan) -> _Draft:
    payer, mint = _wallet(plan), address_of("swapped mint", plan.about)
    users = [address_of("token account", payer, each) for each in (mint, WRAPPED_SOL)]
    vaults = [address_of("vault", plan.about, each) for each in (mint, WRAPPED_SOL)]
    paid, got = (1 + derive(word, plan.signature, below=10**11) for word in ("paid", "got"))
    # Static: 0 payer, 1 and 2 its accounts, 3 program; looked up: 4 and 5 vaults, 6 pool, 7 token program.
    inner = [
        _instruction(7, [1, 4, 0], "paid", plan, height=2),
        _instruction(7, [5, 2, 6], "got", plan, height=2),
    ]
    return _Draft(
        static=[payer, *users, SWAP_PROGRAM],
        readonly_unsigned=1,
        looked_up=(vaults, [plan.about, TOKEN_PROGRAM]),
        instructions=[_instruction(3, [0, 1, 2, 4, 5, 6, 7], "swap", plan)],
        inner=[{"index": 0, "instructions": inner}],
        pre=[10**9, 2_039_280, 2_039_280, 1_141_440, 2_039_280, 2_039_280, 6_124_800, 934_087_680],
        changes=[0] * 8,
        tokens=[
            (1, mint, payer, 10**12, -paid),
            (2, WRAPPED_SOL, payer, 10**10, got),
            (4, mint, plan.about, 10**15, paid),
            (5, WRAPPED_SOL, plan.about, 10**14, -got),
        ],
        logs=[
            f"Program {SWAP_PROGRAM} invoke [1]",
            f"Program {TOKEN_PROGRAM} invoke [2]",
            f"Program {TOKEN_PROGRAM} success",
            f"Program {TOKEN_PROGRAM} invoke [2]",
            f"Program {TOKEN_PROGRAM} success",
            f"Program {SWAP_PROGRAM} success",
        ],
        message={
            "addressTableLookups": [
                {
                    "accountKey": address_of("table", plan.about),
                    "readonlyIndexes": [7, 2],
                    "writableIndexes": [0, 1],
                }
            ]
        },
    )


_KINDS: dict[str, Callable[[Plan], _Draft]] = {
    "legacy": _legacy,
    "token": _token,
    "v0": _swap,
    "v1": _version_1,
}


def _wallet(plan: Plan) -> str:
    """One of 50 wallets, so that wallets meet again."""
    return address_of("wallet", str(derive("wallet", plan.signature, below=50)))


def _instruction(
    program: int, accounts: Sequence[int], word: str, plan: Plan, *, height: int = 1
) -> dict[str, Any]:
    data = blake2b(f"{word}\0{plan.signature}".encode(), digest_size=9).digest()
    return {
        "accounts": list(accounts),
        "data": base58(data),
        "programIdIndex": program,
        "stackHeight": height,
    }


def _token_balance(row: tuple[int, str, str, int, int], change: int) -> dict[str, Any]:
    index, mint, owner, held, _ = row
    amount, decimals = held + change, 9 if mint == WRAPPED_SOL else 6
    return {
        "accountIndex": index,
        "mint": mint,
        "owner": owner,
        "programId": TOKEN_PROGRAM,
        "uiTokenAmount": {
            "amount": str(amount),
            "decimals": decimals,
            "uiAmount": amount / 10**decimals if amount else None,
            "uiAmountString": f"{amount / 10**decimals}",
        },
    }


def _logs(draft: _Draft, *, has_failed: bool) -> list[str]:
    if not has_failed:
        return draft.logs
    program = draft.logs[0].split()[1]
    return [draft.logs[0], f"Program {program} failed: custom program error: 0x1"]
