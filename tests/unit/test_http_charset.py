"""Bytes to text by header, mark, page and fallback."""

from __future__ import annotations

import pytest

from workers.http.charset import decode

RUSSIAN = "Тихая гавань"


def test_a_page_that_names_its_old_charset_only_in_a_meta_tag_is_read_right() -> None:
    page = f'<html><head><meta charset="windows-1251"><title>{RUSSIAN}</title>'.encode("cp1251")
    assert RUSSIAN in decode(page, "text/html")


def test_the_older_form_of_the_meta_tag_counts_too() -> None:
    page = f'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">{RUSSIAN}'.encode("koi8-r")
    assert RUSSIAN in decode(page)


def test_the_header_wins_over_the_page() -> None:
    page = f'<meta charset="windows-1251">{RUSSIAN}'.encode()
    assert RUSSIAN in decode(page, "text/html; charset=UTF-8")


def test_a_mark_wins_over_the_page_and_is_no_part_of_the_text() -> None:
    assert decode(b"\xef\xbb\xbf" + f"<meta charset=windows-1251>{RUSSIAN}".encode()).endswith(RUSSIAN)
    assert decode(RUSSIAN.encode("utf-16")) == RUSSIAN
    assert decode(b"\xef\xbb\xbfabc", "text/html; charset=utf-8") == "abc"


def test_a_charset_that_nobody_knows_falls_back_to_utf_8_with_replacement_marks() -> None:
    page = b'<meta charset="klingon-9">caf\xe9 ' + "größer".encode()
    assert decode(page, 'text/html; charset="x-unknown"').endswith("caf\ufffd größer")


@pytest.mark.parametrize(
    "name",
    ["base64", "rot13", "hex", "idna", "punycode", "undefined", "unicode_escape", "utf-7", "a\0b", "zlib"],
)
def test_a_codec_that_is_no_charset_of_pages_is_not_used(name: str) -> None:
    assert decode(b"plain +AGE- \\u0041 text", f"text/html; charset={name}") == "plain +AGE- \\u0041 text"


def test_latin_1_is_read_as_browsers_read_it() -> None:
    assert decode(b"\x93quoted\x94 \x80", "text/html; charset=ISO-8859-1") == "“quoted” €"


def test_a_meta_tag_behind_the_first_kilobyte_does_not_count() -> None:
    page = b"<!--" + b" " * 1024 + b'--><meta charset="windows-1251">' + RUSSIAN.encode()
    assert RUSSIAN in decode(page)


def test_a_page_that_reads_as_ascii_cannot_be_utf_16() -> None:
    assert RUSSIAN in decode(f'<meta charset="utf-16">{RUSSIAN}'.encode())
