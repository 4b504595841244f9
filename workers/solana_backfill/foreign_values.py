"""Strict reading of what a node sent: exact kinds and ranges, or a rejection that names the place. Pure.

A JSON `true` is no number, a float is no integer, and nothing is rounded, cut or guessed. Mappings and lists
are those that a JSON parser makes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from workers.base58 import is_base58, is_public_key
from workers.solana_backfill.rejection import malformed

# A value as the parser made it; every reader below checks its kind.
Foreign: TypeAlias = Any

U8_MAX = 2**8 - 1
U32_MAX = 2**32 - 1
U64_MAX = 2**64 - 1
I64_MAX = 2**63 - 1


def read_object(value: Foreign, field: str) -> dict[str, Foreign]:
    """An object. Raises `PayloadRejected`, as every reader here does."""
    if not isinstance(value, dict):
        raise malformed("is no object", field=field)
    return value


def read_list(value: Foreign, field: str) -> list[Foreign]:
    """A list."""
    if not isinstance(value, list):
        raise malformed("is no list", field=field)
    return value


def read_optional_list(value: Foreign, field: str) -> list[Foreign]:
    """A list, or an empty one for null and for what is absent."""
    return [] if value is None else read_list(value, field)


def read_text(value: Foreign, field: str) -> str:
    """Text."""
    if not isinstance(value, str):
        raise malformed("is no text", field=field)
    return value


def read_integer(value: Foreign, field: str, *, highest: int, lowest: int = 0) -> int:
    """An integer in `[lowest, highest]`."""
    if type(value) is not int or not lowest <= value <= highest:
        raise malformed(f"is no integer from {lowest} to {highest}", field=field)
    return value


def read_optional_integer(value: Foreign, field: str, *, highest: int, lowest: int = 0) -> int | None:
    """An integer in `[lowest, highest]`; None for null and for what is absent."""
    return None if value is None else read_integer(value, field, highest=highest, lowest=lowest)


def read_integers(value: Foreign, field: str, *, highest: int) -> list[int]:
    """A list of integers in `[0, highest]`."""
    numbers = read_list(value, field)
    if numbers and not (set(map(type, numbers)) == {int} and min(numbers) >= 0 and max(numbers) <= highest):
        raise malformed(f"has what is no integer from 0 to {highest}", field=field)
    return numbers


def read_amount(value: Foreign, field: str) -> int:
    """An unsigned 64-bit number that is written as text, because JSON's readers would round it."""
    if not (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20):
        raise malformed("is no amount", field=field)
    return read_integer(int(value), field, highest=U64_MAX)


def read_public_key(value: Foreign, field: str) -> str:
    """A public key in base58."""
    if not (isinstance(value, str) and is_public_key(value)):
        raise malformed("is no public key", field=field)
    return value


def read_base58(value: Foreign, field: str) -> str:
    """Bytes in base58, possibly none."""
    if not (isinstance(value, str) and is_base58(value)):
        raise malformed("is not base58", field=field)
    return value
