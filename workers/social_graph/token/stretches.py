"""The way through all tokens in stretches of addresses, each small enough that a store is soon free again.

Looking at every token with one command keeps the embedded server from answering anybody else for that long; a
real one bears it, and is not slower this way. The stretches follow the time that the last one took: the store
goes by its index of addresses, so a stretch costs what lies in it, and beside that what any question costs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator

from workers.base58 import ALPHABET
from workers.clock import Clock
from workers.mongo import Document

# What the tokens of a stretch should take, from the question to the last answer.
STRETCH_S = 0.025
# A stretch is at most so many times as wide as the one before, or so many times narrower.
WIDEN_MAX = 2
NARROW_MAX = 4
# However slow a store is, a walk ends.
STRETCHES_MAX = 5000

# Addresses are told apart by so many of their first letters, which are sorted as their alphabet is.
_DIGITS = 4
_CELLS = len(ALPHABET) ** _DIGITS
# One address of 256 begins with the first letter; what is learnt among these says nothing about the others.
_SPARSE = len(ALPHABET) ** (_DIGITS - 1)
_FIRST_WIDTH = len(ALPHABET) ** 2
_NARROWEST = _CELLS // STRETCHES_MAX


def stretches(clock: Clock, start: str = "") -> Iterator[Document]:
    """Conditions on `address`, in order, that together hold for every address from `start` on, each once.

    How long the caller takes with one decides how wide the next one is. Texts that are no addresses are in
    one of them, too.
    """
    lower, cell, width = start, _cell_of(start), _FIRST_WIDTH
    if cell < _SPARSE:
        yield {"address": {"$gte": lower, "$lt": ALPHABET[1]}}
        lower, cell = ALPHABET[1], _SPARSE
    quickest_s = math.inf
    while (cell := cell + width) < _CELLS:
        upper = _first_of(cell)
        if upper <= lower:
            continue
        began_s = clock.monotonic()
        yield {"address": {"$gte": lower, "$lt": upper}}
        took_s = clock.monotonic() - began_s
        lower = upper
        # A narrower stretch does not save what every question costs, such as the way to a distant store.
        quickest_s = min(quickest_s, took_s)
        tokens_s = took_s - quickest_s
        fitting = WIDEN_MAX if tokens_s <= 0 else STRETCH_S / tokens_s
        width = max(int(width * min(max(fitting, 1 / NARROW_MAX), WIDEN_MAX)), _NARROWEST)
    yield {"address": {"$gte": lower}}


def _cell_of(text: str) -> int:
    """A cell near the text: the one that it is in, if it is an address."""
    cell = 0
    for position in range(_DIGITS):
        digit = bisect_right(ALPHABET, text[position]) - 1 if position < len(text) else 0
        cell = cell * len(ALPHABET) + max(digit, 0)
    return cell


def _first_of(cell: int) -> str:
    """The first text of a cell."""
    digits = []
    for _ in range(_DIGITS):
        cell, digit = divmod(cell, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
