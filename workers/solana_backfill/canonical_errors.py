"""The error of a failed transaction in its canonical form. Pure.

Nodes write errors as a word or as an object with one member, and new words appear with new versions. A value
of a shape that is not known is kept as it is; it never makes a transaction unreadable.
"""

from __future__ import annotations

import json
import re

from workers.solana_backfill.canonical_parts import TransactionError
from workers.solana_backfill.foreign_values import U32_MAX, Foreign
from workers.solana_backfill.rejection import malformed

UNKNOWN_KIND = "Unknown"
INSTRUCTION_ERROR = "InstructionError"
BORSH_IO_ERROR = "BorshIoError"
# The one other error whose number is the index of an instruction.
DUPLICATE_INSTRUCTION = "DuplicateInstruction"

_WORD = re.compile(r"[A-Za-z][0-9A-Za-z_]{0,99}")


def canonical_error(err: Foreign) -> TransactionError | None:
    """The error, or None for a transaction that took effect.

    Raises `PayloadRejected` only for numbers that JSON does not have.
    """
    if err is None:
        return None
    kind, details = _word_and_rest(err)
    index = name = code = None
    if kind == INSTRUCTION_ERROR and isinstance(details, list) and len(details) == 2:
        index, (name, rest) = _number(details[0]), _word_and_rest(details[1])
        if name == BORSH_IO_ERROR and isinstance(rest, str):
            # Old nodes add a text, always the same, that new ones have dropped.
            err = {INSTRUCTION_ERROR: [details[0], BORSH_IO_ERROR]}
        code = _number(rest) if name == "Custom" else None
    elif kind == DUPLICATE_INSTRUCTION:
        index = _number(details)
    return TransactionError(
        kind=kind or UNKNOWN_KIND, instruction_index=index, name=name, code=code, raw=_raw(err)
    )


def _word_and_rest(value: Foreign) -> tuple[str | None, Foreign]:
    """The word of `"Word"` and of `{"Word": rest}`; None for anything else."""
    word, rest = value, None
    if isinstance(value, dict) and len(value) == 1:
        [(word, rest)] = value.items()
    return (word, rest) if isinstance(word, str) and _WORD.fullmatch(word) else (None, None)


def _number(value: Foreign) -> int | None:
    return value if type(value) is int and 0 <= value <= U32_MAX else None


def _raw(err: Foreign) -> str:
    try:
        return json.dumps(err, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except ValueError as exc:
        raise malformed("holds a number that JSON does not have", field="meta.err") from exc
