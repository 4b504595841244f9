"""Which text is stored: what is taken out of it and where it is cut. Pure.

Text from platforms is kept as it came, with emoji, all scripts and direction marks. Only what no store can
hold is removed (NUL, lone surrogates), and a cut never falls inside what a reader sees as one character.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import TypeVar

from workers.errors import InvalidInput

# A long post of X has 25,000 characters and a video description 5,000: real texts are never cut.
TEXT_MAX = 50_000
NAME_MAX = 1_000
LIST_MAX = 1_000

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ZWJ = "\u200d"
_EMOJI_MODIFIERS = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
_HANGUL_VOWELS_AND_FINALS = range(0x1160, 0x1200)
# No script stacks more than this on one letter; text that does is cut where the limit falls.
_CLUSTER_MAX = 64


def clean_text(text: str) -> str:
    """Take out what cannot be stored."""
    return _UNSTORABLE.sub("", text)


def cut_text(text: str, limit: int) -> str:
    """Cut to at most `limit` code points, before the visible character that would be split."""
    if len(text) <= limit:
        return text
    end = limit
    while end > 0 and _is_inside_character(text, end):
        end -= 1
        if limit - end > _CLUSTER_MAX:
            return text[:limit]
    return text[: end or limit]


def stored_text(text: str | None, limit: int = TEXT_MAX) -> str | None:
    """The text as it is stored; None when nothing is left."""
    if text is None:
        return None
    return cut_text(clean_text(text), limit) or None


def stored_list(values: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """Texts as they are stored in a list: each once, in order, without blank ones."""
    cleaned = (stored_text(value.strip(), TEXT_MAX) for value in values)
    return tuple(dict.fromkeys(value for value in cleaned if value))[:LIST_MAX]


def stored_key(value: object) -> str | None:
    """An external key as it is stored: text that is not blank, or None, which is never written.

    Raises `InvalidInput` for a key that is no text: a number has lost its leading zeros or its last digits.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"an external key is text, not {type(value).__name__}", field="platform_key")
    return clean_text(value).strip() or None


def required_text(value: object, field: str) -> str:
    """Text that must be there. Raises `InvalidInput` naming `field` when it is blank."""
    text = clean_text(value).strip() if isinstance(value, str) else ""
    if not text:
        raise InvalidInput(f"{field} is empty", field=field)
    return text


WordT = TypeVar("WordT", bound=StrEnum)


def known_word(words: type[WordT], value: str, field: str) -> WordT:
    """A word of a closed set. Raises `InvalidInput` naming `field` for any other."""
    try:
        return words(value)
    except ValueError as exc:
        raise InvalidInput(f"{field} knows no {value!r}", field=field) from exc


def _is_inside_character(text: str, end: int) -> bool:
    """Whether a cut before `text[end]` would split what is shown as one character."""
    before, after = text[end - 1], text[end]
    if _ZWJ in (before, after) or (before, after) == ("\r", "\n"):
        return True
    if unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return True
    code = ord(after)
    if code in _EMOJI_MODIFIERS or code in _TAGS or code in _HANGUL_VOWELS_AND_FINALS:
        return True
    return code in _FLAG_LETTERS and _flag_letters_before(text, end) % 2 == 1


def _flag_letters_before(text: str, end: int) -> int:
    """A flag is two letters of a special alphabet, so an odd number of them before means half a flag."""
    count = 0
    while count < end and ord(text[end - 1 - count]) in _FLAG_LETTERS:
        count += 1
    return count
