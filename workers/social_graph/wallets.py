"""Finds wallet addresses in text that people wrote, such as a bio. Pure.

Found are EVM addresses (`0x` and 40 hex digits) and Solana ones (base58 that decodes to exactly 32 bytes).
A Solana mint has the same form as a wallet and is found as well: the text alone cannot tell them apart.
"""

from __future__ import annotations

import re

from workers.base58 import ALPHABET, is_public_key

# Addresses that nobody owns; people write them to say "burnt".
_NOBODYS = frozenset({f"0x{'0' * 40}", f"0x{'0' * 36}dead"})
# The characters around an address must not prolong it: a transaction hash is a longer run of the same kind.
_EVM = re.compile(r"(?<![0-9A-Za-z_])0[xX][0-9a-fA-F]{40}(?![0-9A-Za-z_])")
_BASE58 = re.compile(rf"(?<![0-9A-Za-z_])[{ALPHABET}]{{32,44}}(?![0-9A-Za-z_])")


def find_wallets(text: str | None) -> tuple[str, ...]:
    """The addresses in `text`, in order, each once. EVM ones come in lower case, in which they are joined."""
    if not text:
        return ()
    found = [(match.start(), stored_wallet(match.group())) for match in _EVM.finditer(text)]
    words = ((match.start(), match.group()) for match in _BASE58.finditer(text))
    found += [(start, word) for start, word in words if _is_solana_address(word)]
    return tuple(dict.fromkeys(wallet for _, wallet in sorted(found) if wallet not in _NOBODYS))


def stored_wallet(address: str) -> str:
    """The form in which an address is stored and looked up: case says something only in base58."""
    return address.lower() if _EVM.fullmatch(address) else address


def _is_solana_address(word: str) -> bool:
    # A random address almost surely has all three kinds; a long word or the system's `1111...` does not.
    kinds = (str.isdigit, str.isupper, str.islower)
    if not all(any(is_kind(letter) for letter in word) for is_kind in kinds):
        return False
    return is_public_key(word)
