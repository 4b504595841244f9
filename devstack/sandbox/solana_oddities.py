"""What a node or a proxy may get wrong about a transaction, as changes of the right result.

Owns the words that a reserved signature may have for `getTransaction` beside refusals, and what they change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from devstack.sandbox.samples import derive
from devstack.sandbox.solana_names import spelled
from devstack.sandbox.tokens import address_of, base58

Result: TypeAlias = dict[str, Any]
# Takes a result of its own and returns what the node sends.
Change: TypeAlias = Callable[[Result], Any]

# Words that say which transaction it is.
KIND_WORDS = {"token": "token", "version_0": "v0", "version_1": "v1"}
ERROR_WORDS: dict[str, Any] = {
    "failed": {"InstructionError": [0, {"Custom": 1}]},
    "borsh_old": {"InstructionError": [2, {"BorshIoError": "Unknown"}]},
    "borsh_new": {"InstructionError": [2, "BorshIoError"]},
    "strange_error": {"ProgramWentAway": [1, {"why": ["nobody", "knows"]}]},
}


def kind_of(words: Sequence[str]) -> tuple[str, Any]:
    """The kind of the transaction and its error."""
    kinds = [kind for word, kind in KIND_WORDS.items() if spelled(word) in words]
    errors = [error for word, error in ERROR_WORDS.items() if spelled(word) in words]
    return (kinds[0] if kinds else "legacy"), (errors[0] if errors else None)


def _changed(change: Callable[[Result], object]) -> Change:
    """A change that is made in place."""

    def changed(result: Result) -> Result:
        found = copy.deepcopy(result)
        change(found)
        return found

    return changed


def _parse(result: Result) -> None:
    message = result["transaction"]["message"]
    message["accountKeys"] = [
        {"pubkey": key, "signer": number == 0, "source": "transaction", "writable": number < 2}
        for number, key in enumerate(message["accountKeys"])
    ]
    message["instructions"] = [
        {"parsed": {"type": "transfer", "info": {}}, "program": "system", "programId": "1" * 32}
    ]
    del message["header"]


def _pack(result: Result) -> None:
    result["transaction"] = ["AQ==", "base64"]


def _lose_meta(result: Result) -> None:
    result["meta"] = None


def _name_another(result: Result) -> None:
    signature = base58(b"\x07" * 32 + address_of(result["transaction"]["signatures"][0]).encode()[:32])
    result["transaction"]["signatures"][0] = signature


def _name_no_account(result: Result) -> None:
    result["transaction"]["message"]["instructions"][0]["accounts"].append(99)


def _keep_nothing(result: Result) -> None:
    kept_none = ("innerInstructions", "logMessages", "preTokenBalances", "postTokenBalances", "rewards")
    result["meta"].update(dict.fromkeys(kept_none))
    result["blockTime"] = None


def _age(result: Result) -> None:
    """As a node from before the versions tells a legacy transaction."""
    for name in ("version", "transactionIndex"):
        result.pop(name, None)
    for name in ("computeUnitsConsumed", "costUnits", "loadedAddresses"):
        result["meta"].pop(name, None)
    for instruction in result["transaction"]["message"]["instructions"]:
        del instruction["stackHeight"]


def _tell_otherwise(result: Result) -> None:
    result["meta"]["postBalances"][0] -= 1 + derive("otherwise", str(result["slot"]), below=9)


ODDITIES: dict[str, Change] = {
    "missing": lambda _: None,
    "base64": _changed(_pack),
    "parsed": _changed(_parse),
    "no_meta": _changed(_lose_meta),
    "another": _changed(_name_another),
    "broken": _changed(_name_no_account),
    "kept_none": _changed(_keep_nothing),
    "older_node": _changed(_age),
    "differs": _changed(_tell_otherwise),
}
