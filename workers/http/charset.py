"""Bytes to text, by what the sender says about them. Pure; it never fails.

Order: the charset of the header, then a byte order mark, then a `meta` tag or XML declaration in the first
1,024 bytes, then UTF-8 with replacement marks. A name that nobody knows counts as not given.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_HEAD_BYTES = 1024
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s;\"',]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta\b[^>]*?charset\s*=\s*[\"']?\s*([^\s;\"'/>]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"^\s*<\?xml\b[^>]*?encoding\s*=\s*[\"']([^\"'>]+)", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Browsers read these three names as windows-1252: https://encoding.spec.whatwg.org/#names-and-labels
_READ_AS = {"ascii": "cp1252", "iso8859-1": "cp1252", "utf-8": "utf-8-sig"}
# Python codecs that are no charset of a page; most of them do not honour the replacement of bad bytes.
_NOT_FOR_PAGES = frozenset(
    {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7", "mbcs", "oem"}
)


def decode(body: bytes, content_type: str = "") -> str:
    """Turn `body` into text; bytes that fit no character become replacement marks."""
    for name in _candidates(body, content_type):
        codec = _codec_of(name)
        if codec is None:
            continue
        try:
            return body.decode(codec, "replace")
        except (LookupError, ValueError):
            continue
    return body.decode("utf-8-sig", "replace")


def _candidates(body: bytes, content_type: str) -> Iterator[str]:
    if named := _HEADER_CHARSET.search(content_type):
        yield named.group(1)
    yield from (codec for mark, codec in _MARKS if body.startswith(mark))
    head = body[:_HEAD_BYTES]
    for pattern in (_META_CHARSET, _XML_ENCODING):
        if found := pattern.search(head):
            name = found.group(1).decode("ascii", "replace")
            # We could read the tag as ASCII, so the page cannot be what this name says.
            yield "utf-8" if name.lower().startswith(("utf-16", "utf-32")) else name


def _codec_of(name: str) -> str | None:
    try:
        codec = codecs.lookup(name.strip().lower())
    except (LookupError, ValueError):
        return None
    # Python keeps transforms such as base64 in the same registry; only this flag tells them apart.
    if not getattr(codec, "_is_text_encoding", False) or codec.name.replace("_", "-") in _NOT_FOR_PAGES:
        return None
    return _READ_AS.get(codec.name, codec.name)
