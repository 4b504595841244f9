"""Finds what people meant as links in the text of a field, and repairs how they wrote them. Pure.

It judges writing only: white space, brackets, punctuation, broken or doubled schemes, several links glued
together, a handle in place of a link. Whether the result is an acceptable URL is decided elsewhere.

Invariant: a text that `parts.is_plain()` is its own only link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from workers.social_graph.vocabulary import Platform
from workers.social_recording.routing.parts import LINK_MAX
from workers.social_recording.routing.rejection import Rejection

LINKS_MAX = 100

# Zero-width and direction marks, and controls that are no white space.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ud800-\udfff]"
)
# Marks that end a link in writing. Browsers would percent-encode all of them inside one.
_SEPARATOR = re.compile(
    r"""[\s<>"`\u3001\u3002\uff0c\uff1a\uff1b\uff01\uff1f\uff08\uff09\u3008-\u3011\u2018-\u201f\u2026]+"""
)
_LEADING = re.compile(
    r"[(\[{'*=:;,.~|#!/\\\-\u00b7\u2010-\u2027\u2190-\u21ff\u2600-\u27bf\u200c\u200d\ufe0f\U0001f000-\U0001faff]+"
)
_TRAILING = frozenset(".,;:!?'*|\\\u00b7\u2022\u200c\u200d\ufe0f") | frozenset(
    chr(code) for code in (*range(0x2190, 0x2200), *range(0x2600, 0x27C0), *range(0x1F000, 0x1FB00))
)
_BRACKETS: Mapping[str, str] = {")": "(", "]": "[", "}": "{"}
_OPENING = frozenset(_BRACKETS.values())
_BRACKET = re.compile(r"[()\[\]{}]")

# `https://` and what fingers make of it: hhttps://, ttps://, hxxp://, https:/, https//, https:https://.
_SCHEME = re.compile(r"(?:[hgtx]{1,5}p{1,2}s{0,2}(?:[:;]+[/\\]*|/{2,}))+", re.IGNORECASE)
_INNER_SCHEME = re.compile(r"(?:https?:/{1,3})+", re.IGNORECASE)
_OTHER_SCHEME = re.compile(
    r"[a-z][a-z0-9+.-]*://"
    r"|(?:about|blob|chrome|data|file|ftp|intent|ipfs|ipns|javascript|magnet|mailto|sms|skype|tel|tg|tonsite"
    r"|vbscript|view-source|wss?|bitcoin|ethereum|solana|ton):",
    re.IGNORECASE,
)
_GIT_OVER_SSH = re.compile(r"(?:ssh://)?git@github\.com[:/]", re.IGNORECASE)
_LABEL = re.compile(r"[^\W\d_]{1,20}:")
_BARE_HOST = re.compile(
    r"(?P<host>[\w-]{1,63}(?:\.[\w-]{1,63}){0,9}\.(?:[^\W\d_]{2,63}|xn--[a-z0-9-]{1,59}))\.?(?::\d{1,5})?"
    r"(?P<rest>[/?#\\].*)?",
    re.IGNORECASE | re.DOTALL,
)
_HANDLE = re.compile(r"@([A-Za-z0-9_.]{2,30})/?")
_EMAIL = re.compile(r"[^@/\s]+@[^@/\s]+\.[^@/\s]+")
_HANDLE_URLS: Mapping[Platform, str] = {
    Platform.X: "https://x.com/{}",
    Platform.TELEGRAM: "https://t.me/{}",
    Platform.TIKTOK: "https://tiktok.com/@{}",
    Platform.INSTAGRAM: "https://instagram.com/{}",
    Platform.YOUTUBE: "https://youtube.com/@{}",
}


def links_meant(text: str, handles_of: Platform | None) -> Iterator[tuple[str, str | Rejection]]:
    """Yield each link as it was written, with the repaired URL or the reason why it is none.

    `handles_of` is the platform that `@name` belongs to, where the field says so. At most `LINKS_MAX`.
    A bare name such as `example.com` in running text counts only with a path, with `www.` in front, or when
    the text is nothing but such names: `Node.js` is a word.
    """
    if not (text.isascii() and text.isprintable()):
        text = _INVISIBLE.sub("", text)
    words = [word for word in _SEPARATOR.split(text) if word]
    pieces = [piece for word in words[:LINKS_MAX] for piece in _unglued(word)]
    if len(pieces) == 1:
        yield pieces[0], _repair(pieces[0], handles_of)
        return
    repaired = [(piece, _repair(piece, handles_of)) for piece in pieces[:LINKS_MAX]]
    is_list = not any(isinstance(outcome, Rejection) for _, outcome in repaired)
    for piece, outcome in repaired:
        if is_list or _is_meant_as_link(piece, outcome):
            yield piece, outcome


def _is_meant_as_link(piece: str, outcome: str | Rejection) -> bool:
    """Whether a word in running text is more than a word."""
    if outcome in (Rejection.NOT_A_URL, Rejection.EMPTY, Rejection.BARE_HANDLE):
        return False
    if isinstance(outcome, Rejection) or "://" in piece or _SCHEME.match(_trimmed(piece)):
        return True
    bare = _BARE_HOST.fullmatch(outcome.partition("://")[2])
    return bare is None or bool(bare["rest"]) or bare["host"].lower().startswith("www.") or "@" in piece


def _unglued(word: str) -> Iterator[str]:
    """Cut a word where a second link begins inside it.

    A link inside another one's query, or below a path, is part of it. One right behind the same host is the
    host written twice.
    """
    if word.find(":/", 6 if word.startswith(("https:/", "http:/")) else 0) < 0:
        yield word
        return
    start = 0
    for found in _INNER_SCHEME.finditer(word):
        at = found.start()
        head = word[start:at]
        if at == start or _SCHEME.fullmatch(_trimmed(head) or "x"):
            continue
        if _OTHER_SCHEME.match(head) and not _SCHEME.match(head):
            break
        if head.endswith("/") and not _is_doubled(head, word[found.end() :]):
            continue
        if head[-1] in "=&?#%+,:|" and ("?" in head or "#" in head):
            continue
        if not head.endswith("/"):
            yield head
        start = at
    yield word[start:]


def _is_doubled(head: str, tail: str) -> bool:
    """Whether `head` is only the host that `tail` begins with."""
    host = _SCHEME.sub("", head, count=1).rstrip("/").lower()
    return bool(host) and "/" not in host and re.split(r"[/?#]", tail, maxsplit=1)[0].lower() == host


def _repair(piece: str, handles_of: Platform | None) -> str | Rejection:
    """Turn one written link into a URL with a sound scheme, or say why it is none."""
    if len(piece) > LINK_MAX:
        return Rejection.TOO_LONG
    text = _trimmed(piece)
    scheme = _SCHEME.match(text)
    if scheme is None and (label := _label_of(text)) is not None:
        text = _trimmed(text[label:])
        scheme = _SCHEME.match(text)
    if scheme is not None:
        is_secure = scheme[0].rstrip(":;/\\").lower().endswith("s")
        return f"{'https' if is_secure else 'http'}://{text[scheme.end() :]}"
    if _BARE_HOST.fullmatch(text):
        return f"https://{text}"
    return _without_host(text, handles_of)


def _label_of(text: str) -> int | None:
    """Where a word like `Website:` in front of a link ends; a host with a port and a scheme are none."""
    label = _LABEL.match(text)
    if label is None or _OTHER_SCHEME.match(text) or _BARE_HOST.fullmatch(text):
        return None
    return label.end()


def _without_host(text: str, handles_of: Platform | None) -> str | Rejection:
    """Judge a word that does not begin with a host."""
    ssh = _GIT_OVER_SSH.match(text)
    if ssh is not None:
        return f"https://github.com/{text[ssh.end() :]}"
    if _OTHER_SCHEME.match(text):
        return Rejection.BAD_SCHEME
    handle = _HANDLE.fullmatch(text)
    if handle is not None:
        template = None if handles_of is None else _HANDLE_URLS.get(handles_of)
        return Rejection.BARE_HANDLE if template is None else template.format(handle[1])
    return Rejection.EMAIL if _EMAIL.fullmatch(text) else Rejection.NOT_A_URL


def _trimmed(piece: str) -> str:
    """Take away the marks around a link, and all from the first bracket that the link does not open."""
    leading = _LEADING.match(piece)
    text = piece if leading is None else piece[leading.end() :]
    if ")" in text or "]" in text or "}" in text:
        text = text[: _closing_at(text)]
    end = len(text)
    while end and text[end - 1] in _TRAILING:
        end -= 1
    return text[:end]


def _closing_at(text: str) -> int:
    """Where the first bracket closes that was not opened; the length when there is none."""
    opened: list[str] = []
    for found in _BRACKET.finditer(text):
        sign = found[0]
        if sign in _OPENING:
            opened.append(sign)
        elif not opened or opened.pop() != _BRACKETS[sign]:
            return found.start()
    return len(text)
