"""Reserved addresses and signatures of the sandbox's Solana: words inside base58 that say how it answers.

Owns their spelling. A reserved name starts with `Sandbox`; then come words, each closed by an `X`, a digit if
the words hold for the first so many calls only, another `X`, and letters that tell names with the same words
apart: `SandboxmissingX2X...` is null twice and there with the third call. Never made of anything that base58
does not have: `l` is written `1`, `0` is written `z`, and underscores are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from devstack.sandbox.tokens import BASE58, base58

# Numbers of this many letters that begin with `S` have 32 and 64 bytes.
ADDRESS_LETTERS, SIGNATURE_LETTERS = 43, 87
FILLER_LETTERS_MIN = 3
MARK = "Sandbox"
# A word has at least two characters; so a digit alone is a number of calls.
_RESERVED = re.compile(rf"{MARK}((?:[a-km-z1][a-km-z1-9]+X)*)([1-9]?)X")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reserved:
    """What a reserved name asks for: spelled words, and for how many calls; None for all."""

    words: tuple[str, ...]
    times: int | None


def reserved_address(*words: str, times: int | None = None, seed: str = "") -> str:
    """An address whose words are `words`. Raises `ValueError` when they do not fit in."""
    return _name(ADDRESS_LETTERS, words, times, seed)


def reserved_signature(*words: str, times: int | None = None, seed: str = "") -> str:
    """A signature whose words are `words`. Raises `ValueError` when they do not fit in."""
    return _name(SIGNATURE_LETTERS, words, times, seed)


def read_reserved(name: str) -> Reserved:
    """The words of a name; none for one that is not reserved."""
    found = _RESERVED.match(name)
    if found is None:
        return Reserved(words=(), times=None)
    return Reserved(words=tuple(found[1].split("X")[:-1]), times=int(found[2]) if found[2] else None)


def spelled(word: str) -> str:
    """The word in base58's letters."""
    return word.lower().replace("_", "").replace("l", "1").replace("0", "z")


def unbase58(text: str, size: int) -> bytes | None:
    """The `size` bytes that the text stands for; None when it does not stand for so many."""
    number = 0
    for letter in text:
        digit = BASE58.find(letter)
        if digit < 0:
            return None
        number = number * len(BASE58) + digit
    leading_zeros = len(text) - len(text.lstrip(BASE58[0]))
    if leading_zeros + (number.bit_length() + 7) // 8 != size:
        return None
    return number.to_bytes(size, "big")


def _name(letters: int, words: tuple[str, ...], times: int | None, seed: str) -> str:
    shown = MARK + "".join(f"{spelled(word)}X" for word in words) + f"{times or ''}X"
    filler = base58(blake2b("\0".join((seed, *words)).encode(), digest_size=64).digest())
    if read_reserved(shown).words != tuple(map(spelled, words)) or len(shown) > letters - FILLER_LETTERS_MIN:
        raise ValueError(f"{words} cannot be part of a reserved name")
    return shown + filler[-(letters - len(shown)) :]
