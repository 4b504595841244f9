"""What an answer is: data, a page in place of data, or neither."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from requests.structures import CaseInsensitiveDict

from workers.errors import FetchFailed
from workers.http.messages import Response


def answer(body: bytes, content_type: str = "application/json", status: int = 200) -> Response:
    return Response(
        source="tracker",
        status=status,
        headers=CaseInsensitiveDict({"Content-Type": content_type}),
        body=body,
        url="https://a.example/",
        chain=("https://a.example/",),
        received_at=datetime(2026, 1, 15, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"<!DOCTYPE html><title>Maintenance</title>", "application/json", "unexpected_html"),
        (b"\xef\xbb\xbf \n<HTML><body>", "text/plain", "unexpected_html"),
        (b"<!-- cached --><html>", "text/plain", "unexpected_html"),
        (b"Service is down", "text/html", "unexpected_html"),
        (b"", "text/html", "unexpected_html"),
        (b"Service is down", "text/plain", "unexpected_shape"),
        (b"", "application/json", "unexpected_shape"),
        (b'{"a": 1', "application/json", "unexpected_shape"),
        (b'{"a": NaN}', "application/json", "unexpected_shape"),
        (b"[" * 100_000, "application/json", "unexpected_shape"),
        (b"1" * 5000, "application/json", "unexpected_shape"),
        (b"\xff\xfe\x00\xd8", "application/json", "unexpected_shape"),
    ],
)
def test_a_body_that_is_no_data_is_a_failure_with_a_name(body: bytes, content_type: str, reason: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        answer(body, content_type).json()
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("body", "is_html"),
    [
        (b"<!-- a --> <!-- b -->\n<html>", True),
        (b"<!-- a --> text <html>", False),
        (b"<!-- <html> --> {}", False),
        (b"<!-- never ends <html>", False),
    ],
)
def test_comments_before_a_page_are_skipped(body: bytes, is_html: bool) -> None:
    assert answer(body, "text/plain").is_html is is_html


def test_a_body_of_many_comments_is_judged_at_once() -> None:
    # With comments that may end in more than one place this takes twice as long for each further one.
    started = time.monotonic()
    assert not answer(b"<!---->" * 24 + b"x", "text/plain").is_html
    assert not answer(b"<!---->" * 1000, "text/plain").is_html
    assert time.monotonic() - started < 1


def test_data_declared_as_a_page_is_data() -> None:
    assert answer(b' {"a": 1}', "text/html").json() == {"a": 1}
    assert not answer(b' {"a": 1}', "text/html").is_html


def test_numbers_keep_all_their_digits_when_asked_to() -> None:
    body = b'{"whole": 123456789012345678901234567890, "part": 0.1234567890123456789}'
    assert answer(body).json(exact_numbers=True) == {
        "whole": 123456789012345678901234567890,
        "part": Decimal("0.1234567890123456789"),
    }


def test_headers_are_found_in_any_case() -> None:
    assert answer(b"").headers["content-TYPE"] == "application/json"
