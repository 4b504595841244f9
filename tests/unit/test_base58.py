"""Which texts are public keys and signatures, against plain decoding."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.base58 import ALPHABET, encode, is_base58, is_public_key, is_signature

WALLET = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"
SIGNATURE = "2RrXcP3MMgjjt46SJ34wT4pXKhCV94psPJnZgVyVRkPZpk5JSmCMgFyd1rwKuz3LMTAi3hhay11N41YPtodav81z"


def decode(text: str) -> bytes:
    number = 0
    for letter in text:
        number = number * 58 + ALPHABET.index(letter)
    leading_zeros = len(text) - len(text.lstrip("1"))
    return bytes(leading_zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


@given(st.binary(max_size=100))
@example(b"")
@example(bytes(40))
def test_what_is_encoded_decodes_to_the_same_bytes(data: bytes) -> None:
    assert decode(encode(data)) == data
    assert is_base58(encode(data))


@given(
    st.binary(min_size=28, max_size=68)
    | st.builds(lambda zeros, rest: bytes(zeros) + rest, st.integers(0, 64), st.binary(max_size=64))
)
@example(b"\xff" * 32)
@example(b"\x01" + bytes(31))
@example(b"\xff" * 31)
@example(b"\x01" + bytes(32))
@example(b"\xff" * 64)
@example(b"\x01" + bytes(63))
@example(b"\xff" * 63)
@example(b"\x01" + bytes(64))
@example(bytes(32))
@example(bytes(64))
def test_a_key_has_32_bytes_and_a_signature_64(data: bytes) -> None:
    text = encode(data)
    assert (is_public_key(text), is_signature(text)) == (len(data) == 32, len(data) == 64)


@given(st.text(ALPHABET, min_size=30, max_size=90) | st.text(max_size=50))
def test_any_text_is_judged_as_plain_decoding_would(text: str) -> None:
    size = len(decode(text)) if set(text) <= set(ALPHABET) else None
    assert (is_public_key(text), is_signature(text)) == (size == 32, size == 64)


def test_keys_and_signatures_of_the_real_chain_are_recognised() -> None:
    assert is_public_key(WALLET)
    assert is_public_key("1" * 32), "the system program"
    assert is_public_key("SysvarC1ock11111111111111111111111111111111")
    assert is_signature(SIGNATURE)
    assert not is_public_key(SIGNATURE)


@pytest.mark.parametrize(
    "text",
    ["", "1" * 44, "z" * 44, WALLET[:-1] + "0", f"{WALLET}\n", f" {WALLET}", "0x" + "a1" * 20, WALLET * 2],
)
def test_what_is_nearly_a_key_is_none(text: str) -> None:
    assert not is_public_key(text)
    assert not is_signature(text)
