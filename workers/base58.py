"""Base58 as Solana writes it: public keys of 32 bytes and signatures of 64. Pure.

Nothing is decoded here: the alphabet is in ASCII order, so among texts without leading `1` (each of which is
a zero byte) the longer is the larger number, and of two of one length the later in the dictionary. A text has
`n` bytes exactly when it lies between the smallest and the largest number of that many bytes.
"""

from __future__ import annotations

import re

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64

_WORD = re.compile(rf"[{ALPHABET}]*")
# All letters give 0.73 bytes and a leading `1` a whole one, so most other texts fall out by their length.
_PUBLIC_KEY = re.compile(rf"[{ALPHABET}]{{32,44}}")
_SIGNATURE = re.compile(rf"[{ALPHABET}]{{64,88}}")


def encode(data: bytes) -> str:
    """The bytes in base58."""
    number, letters = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, len(ALPHABET))
        letters = ALPHABET[digit] + letters
    return ALPHABET[0] * (len(data) - len(data.lstrip(b"\0"))) + letters


def is_base58(text: str) -> bool:
    """Whether the text is bytes in base58, however many; none are written as an empty text."""
    return _WORD.fullmatch(text) is not None


def is_public_key(text: str) -> bool:
    """Whether the text is a public key: 32 bytes. Whether it lies on the curve is not asked."""
    return _PUBLIC_KEY.fullmatch(text) is not None and _has_bytes(text, PUBLIC_KEY_BYTES)


def is_signature(text: str) -> bool:
    """Whether the text is a signature: 64 bytes. Whose it is is not asked."""
    return _SIGNATURE.fullmatch(text) is not None and _has_bytes(text, SIGNATURE_BYTES)


# By number of bytes: the smallest number that needs them all, the largest, and the length of each in letters.
_RANGES = [
    (len(smallest), smallest, len(largest), largest)
    for smallest, largest in (
        (encode(b"\1" + bytes(count - 1)) if count else "", encode(b"\xff" * count))
        for count in range(SIGNATURE_BYTES + 1)
    )
]


def _has_bytes(text: str, count: int) -> bool:
    digits = text.lstrip("1")
    letters = len(digits)
    rest = count - len(text) + letters
    if rest < 0:
        return False
    shortest, smallest, longest, largest = _RANGES[rest]
    return (letters > shortest or (letters == shortest and digits >= smallest)) and (
        letters < longest or (letters == longest and digits <= largest)
    )
