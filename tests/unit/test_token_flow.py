"""What a message of the live stream may look like, and what is wrong with one that may not."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devstack.sandbox.tokens import address_of
from workers.social_recording.token_flow import (
    BODY_MAX_BYTES,
    INVESTORS_MAX,
    MalformedMessage,
    TokenFlow,
    read_token_flow,
)

ADDRESS = address_of("a token")


def body(**changes: object) -> bytes:
    values = {"tokenAddress": ADDRESS, "totalInvestedAlphaFinders": 3, **changes}
    return json.dumps({name: value for name, value in values.items() if value != "left out"}).encode()


@pytest.mark.parametrize("investors", [0, 3, INVESTORS_MAX])
def test_a_message_says_which_token_moved_and_how_many_have_invested(investors: int) -> None:
    assert read_token_flow(body(totalInvestedAlphaFinders=investors)) == TokenFlow(
        address=ADDRESS, investors=investors
    )


def test_whatever_else_a_message_holds_is_not_looked_at() -> None:
    flow = read_token_flow(body(tokenSymbol=None, events=[{"deep": ["er"]}], amount=1e300))
    assert flow == TokenFlow(address=ADDRESS, investors=3)


def test_a_byte_order_mark_is_no_reason_to_lose_a_token() -> None:
    assert read_token_flow(b"\xef\xbb\xbf" + body()).address == ADDRESS


@pytest.mark.parametrize(
    ("raw", "field", "reason"),
    [
        (b"", "body", "not_json"),
        (b"no json", "body", "not_json"),
        (b"\xff\xfe\x00", "body", "not_json"),
        (b"[" * 50_000, "body", "not_json"),
        (b'{"tokenAddress": ' + b"9" * 5000 + b"}", "body", "not_json"),
        (b"[]", "body", "no_object"),
        (b"null", "body", "no_object"),
        (b'"text"', "body", "no_object"),
        (b" " * (BODY_MAX_BYTES + 1), "body", "too_large"),
        (body(tokenAddress="left out"), "tokenAddress", "missing"),
        (body(tokenAddress=None), "tokenAddress", "wrong_type"),
        (body(tokenAddress={"$ne": 1}), "tokenAddress", "wrong_type"),
        (body(tokenAddress=""), "tokenAddress", "no_public_key"),
        (body(tokenAddress="0x" + "a" * 40), "tokenAddress", "no_public_key"),
        (body(tokenAddress=ADDRESS + " "), "tokenAddress", "no_public_key"),
        (body(tokenAddress=ADDRESS + "\n"), "tokenAddress", "no_public_key"),
        (body(tokenAddress=ADDRESS[:-3]), "tokenAddress", "no_public_key"),
        (body(totalInvestedAlphaFinders="left out"), "totalInvestedAlphaFinders", "missing"),
        (body(totalInvestedAlphaFinders=None), "totalInvestedAlphaFinders", "wrong_type"),
        (body(totalInvestedAlphaFinders="3"), "totalInvestedAlphaFinders", "wrong_type"),
        (body(totalInvestedAlphaFinders=3.5), "totalInvestedAlphaFinders", "wrong_type"),
        (body(totalInvestedAlphaFinders=True), "totalInvestedAlphaFinders", "wrong_type"),
        (body(totalInvestedAlphaFinders=float("nan")), "totalInvestedAlphaFinders", "wrong_type"),
        (body(totalInvestedAlphaFinders=-1), "totalInvestedAlphaFinders", "out_of_range"),
        (body(totalInvestedAlphaFinders=INVESTORS_MAX + 1), "totalInvestedAlphaFinders", "out_of_range"),
    ],
)
def test_what_cannot_be_used_is_told_by_a_code_and_the_field(raw: bytes, field: str, reason: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        read_token_flow(raw)
    assert (caught.value.field, caught.value.reason) == (field, reason)


def test_the_error_never_quotes_the_message() -> None:
    for raw in (b"the secret", body(tokenAddress="the secret"), body(totalInvestedAlphaFinders="the secret")):
        with pytest.raises(MalformedMessage) as caught:
            read_token_flow(raw)
        assert "secret" not in repr(caught.value)
        assert caught.value.__cause__ is None


@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=50),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["tokenAddress", "totalInvestedAlphaFinders", "other"]), inner, max_size=3
                )
            ),
            max_leaves=5,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_bytes_raise_anything_else(raw: bytes) -> None:
    with suppress(MalformedMessage):
        assert read_token_flow(raw).investors >= 0
