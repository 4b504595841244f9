"""Secrets do not reach people or stores."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from workers.http.redaction import Redactor


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://a.example/x?key=AIza12&q=1", "https://a.example/x?key=***&q=1"),
        ("https://a.example/x?q=1&access_token=abc.def", "https://a.example/x?q=1&access_token=***"),
        ("https://a.example/?API_KEY=abc", "https://a.example/?API_KEY=***"),
        ("https://a.example/?my-api-key=abc#top", "https://a.example/?my-api-key=***#top"),
        ("https://user:pass@a.example/", "https://***@a.example/"),
        ("https://api.example/bot12345:AAE-x_y/getChat", "https://api.example/bot***/getChat"),
        ("https://a.example/?monkey=1&keyboard=2", "https://a.example/?monkey=1&keyboard=2"),
    ],
)
def test_what_looks_like_a_key_is_hidden_and_the_rest_stays(text: str, shown: str) -> None:
    assert Redactor().redact(text) == shown


def test_a_configured_secret_is_hidden_wherever_it_stands_and_however_it_is_quoted() -> None:
    redactor = Redactor(["s3cr+t/", "", "s3cr+t/longer"])
    assert redactor.redact("a s3cr+t/ b s3cr%2Bt%2F c s3cr+t/longer d") == "a *** b *** c *** d"
    assert redactor.is_clean("nothing here")
    assert not redactor.is_clean("path/s3cr+t/")


@pytest.mark.parametrize("secret", ["k3y-1\n", "schl\u00fcssel", "it's", "back\\slash", "\u20acuro"])
@pytest.mark.parametrize(
    "quoted",
    [repr, ascii, json.dumps, lambda secret: repr(secret.encode())],
    ids=["repr", "ascii", "json", "bytes"],
)
def test_a_secret_that_a_library_quotes_in_its_message_is_hidden(
    secret: str, quoted: Callable[[str], str]
) -> None:
    shown = Redactor([secret]).redact(f"bad header value: {quoted(secret)}")
    assert shown.partition(": ")[2].removeprefix("b").strip("'\"") == "***"
