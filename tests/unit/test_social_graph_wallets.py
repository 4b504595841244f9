"""Wallet addresses in what people wrote."""

from __future__ import annotations

import pytest

from workers.base58 import encode as base58
from workers.social_graph.wallets import find_wallets

EVM = "0x0Ae024D3C20b8Ff2aD4A5c9cB1f0aB2C3d4E5f60"
SOLANA = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"


def test_both_kinds_are_found_in_the_order_of_the_text() -> None:
    assert find_wallets(f"dev: {SOLANA}, BNB: {EVM}.") == (SOLANA, EVM.lower())


def test_a_wallet_is_found_once() -> None:
    assert find_wallets(f"{EVM} {EVM.lower()} {EVM.upper().replace('0X', '0x')}") == (EVM.lower(),)


@pytest.mark.parametrize("around", ["({})", "CA:{}", "https://example.org/{}?a=1", "“{}”", "{}\n"])
def test_punctuation_around_a_wallet_does_not_hide_it(around: str) -> None:
    assert find_wallets(around.format(SOLANA)) == (SOLANA,)


def test_an_address_with_leading_zero_bytes_is_found() -> None:
    address = base58(bytes(2) + bytes(range(90, 120)))
    assert find_wallets(address) == (address,)


@pytest.mark.parametrize(
    "text",
    [
        "0x" + "a1" * 32,
        "0x" + "a" * 39,
        "g0x" + "a1" * 20,
        "0x" + "0" * 40,
        base58(bytes(range(1, 32))),
        base58(bytes(range(200, 233))),
        SOLANA + "x",
        SOLANA + SOLANA,
        "1" * 32,
        "abcdefghijkmnopqrstuvwxyzabcdefghijkmnopqrst",
        "Donaudampfschifffahrtsgesellschaftskapitaen",
        "d41d8cd98f11b214e9811998ecf8427e",
        "",
    ],
)
def test_what_only_looks_like_a_wallet_is_left_alone(text: str) -> None:
    assert find_wallets(text) == ()


def test_no_text_has_no_wallets() -> None:
    assert find_wallets(None) == ()
