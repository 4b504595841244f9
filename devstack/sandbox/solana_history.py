"""The made-up histories of addresses on the sandbox's Solana, and how an odd node shows them page by page.

Owns which signatures an address has: its size, slots and order depend on the address alone, so that every
process tells the same. A signature holds its address, its position and a seal, so any process that is shown
one knows its transaction, and tells it from one that never was.

Words in a reserved address (see `solana_names`) shape its history:

==========  ===========================================================================================
word        what it does
==========  ===========================================================================================
`none`      no transactions; `few` 8, `big` 2,600, `huge` 21,000; without such a word 40 to 339
`short`     pages end early although more is there
`twice`     a page begins with the last three entries of the one before
`extra`     a full page has one entry more than was asked for
`quiet`     an old node: an unknown `before` gives nothing, an unknown `until` is ignored
`uneven`    2,597 entries in pages of 1,000, 1,000 (of which three were there), 400, 200 and 0
`tardy`     every seventh transaction is null when it is asked for the first time
==========  ===========================================================================================
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from devstack.sandbox.samples import derive
from devstack.sandbox.solana_names import read_reserved, unbase58
from devstack.sandbox.solana_transactions import GENESIS_SLOT, KINDS, Plan, block_time
from devstack.sandbox.tokens import base58

SIZES = {"none": 0, "few": 8, "big": 2600, "huge": 21_000, "uneven": 2597}
PAGE_MAX = 1000
REPEATED = 3
SHORT_MAX = 6
UNEVEN_ENDS = {0: 1000, 1000: 1997, 1997: 2397, 2397: 2597}
TARDY_EVERY = 7
ERRORS: dict[int, Any] = {
    0: {"InsufficientFundsForRent": {"account_index": 1}},
    1: {"InstructionError": [0, "InvalidArgument"]},
    2: {"InstructionError": [0, "BorshIoError"]},
    3: "InvalidRentPayingAccount",
    4: {"InstructionError": [0, {"NotSeenBefore": {"detail": 7}}]},
    5: {"InstructionError": [0, {"Custom": 6001}]},
}
_SEAL_BYTES = 28

# Where in the chain a transaction is: slot and position in the block.
Place = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Which transaction of which history a signature names; position 0 is the oldest."""

    address: str
    position: int


class History:
    """The transactions of one address; position 0 is the oldest."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.words = read_reserved(address).words
        self.places = self._places()

    def signature(self, position: int) -> str:
        """The signature of a transaction."""
        return _signature(self.address, position)

    def error(self, position: int) -> Any:
        """Why a transaction failed; None for one that took effect. About every fifth has failed."""
        return ERRORS.get(derive("error", self.signature(position), below=10 * len(ERRORS) // 2))

    def plan(self, position: int) -> Plan:
        """What `getTransaction` tells about a transaction."""
        slot, index = self.places[position]
        return Plan(
            signature=self.signature(position),
            slot=slot,
            index=index,
            kind=KINDS[position % len(KINDS)],
            about=self.address,
            err=self.error(position),
        )

    def entry(self, position: int) -> dict[str, Any]:
        """What a list of signatures says about a transaction."""
        slot, index = self.places[position]
        entry = {
            "blockTime": block_time(slot),
            "confirmationStatus": "finalized",
            "err": self.error(position),
            "memo": f"[5] memo{position % 10}" if position % 11 == 0 else None,
            "signature": self.signature(position),
            "slot": slot,
        }
        return entry if "quiet" in self.words else {**entry, "transactionIndex": index}

    def is_tardy(self, position: int) -> bool:
        """Whether the transaction is not there when it is asked for the first time."""
        return "tardy" in self.words and position % TARDY_EVERY == 3

    def page(self, *, before: Place | None, until: Place | None, limit: int) -> list[int]:
        """The positions that a page shows, newest first; both bounds are exclusive."""
        size = len(self.places)
        newest = size if before is None else bisect_left(self.places, before)
        oldest = 0 if until is None else bisect_right(self.places, until)
        count = max(0, min(newest - oldest, self._length(size - newest, limit)))
        found = list(range(newest - 1, newest - 1 - count, -1))
        repeated = min(size - newest, REPEATED if self._is_repeating(size - newest) else 0, limit - 1)
        if found and before is not None and repeated:
            found = [*range(newest + repeated - 1, newest - 1, -1), *found]
        return found if "extra" in self.words else found[:limit]

    def _is_repeating(self, shown: int) -> bool:
        return "twice" in self.words or ("uneven" in self.words and shown == UNEVEN_ENDS[0])

    def _length(self, shown: int, limit: int) -> int:
        """How many entries a page has that starts after `shown` newer ones, if so many are there."""
        if "uneven" in self.words and limit == PAGE_MAX and shown in UNEVEN_ENDS:
            return UNEVEN_ENDS[shown] - shown
        if "short" in self.words:
            return 1 + derive("short", self.address, str(shown), below=max(1, min(limit, SHORT_MAX) - 1))
        return limit + 1 if "extra" in self.words else limit

    def _places(self) -> list[Place]:
        """Slots rise with the positions; about every third transaction shares the slot of the one before."""
        sizes = [SIZES[word] for word in self.words if word in SIZES]
        size = sizes[0] if sizes else 40 + derive("size", self.address, below=300)
        slot = GENESIS_SLOT + derive("first slot", self.address, below=10**8)
        index, places = 0, []
        for position in range(size):
            step = derive("step", self.address, str(position), below=30)
            slot, index = (slot, index + 1 + step) if step < 10 else (slot + step, step)
            places.append((slot, index))
        return places


class RecordedHistory(History):
    """The history of the address whose page was recorded; what is in its entries is as it was."""

    def __init__(self, address: str, entries: Sequence[dict[str, Any]]) -> None:
        self._entries: list[dict[str, Any]] = list(reversed(entries))
        self.positions = {entry["signature"]: position for position, entry in enumerate(self._entries)}
        super().__init__(address)

    def signature(self, position: int) -> str:
        """The signature of a transaction."""
        return str(self._entries[position]["signature"])

    def error(self, position: int) -> Any:
        """Why a transaction failed; None for one that took effect."""
        return self._entries[position]["err"]

    def entry(self, position: int) -> dict[str, Any]:
        """What a list of signatures says about a transaction."""
        return self._entries[position]

    def _places(self) -> list[Place]:
        return [(entry["slot"], position) for position, entry in enumerate(self._entries)]


@lru_cache(maxsize=64)
def history_of(address: str) -> History:
    """The history of an address."""
    return History(address)


@lru_cache(maxsize=100_000)
def _signature(address: str, position: int) -> str:
    inside = _inside(address, position)
    seal = _seal(inside)
    return base58(_masked(inside, seal) + seal)


def origin_of(signature: str) -> Origin | None:
    """The transaction that a signature names; None when it is none of ours."""
    data = unbase58(signature, 64)
    if data is None:
        return None
    masked, seal = data[:-_SEAL_BYTES], data[-_SEAL_BYTES:]
    inside = _masked(masked, seal)
    if _seal(inside) != seal:
        return None
    return Origin(address=base58(inside[:32]), position=int.from_bytes(inside[32:], "big"))


def _inside(address: str, position: int) -> bytes:
    key = unbase58(address, 32)
    if key is None:
        raise ValueError("not an address")
    return key + position.to_bytes(4, "big")


def _seal(inside: bytes) -> bytes:
    return blake2b(inside, digest_size=_SEAL_BYTES, person=b"sandbox seal").digest()


def _masked(data: bytes, seal: bytes) -> bytes:
    """Signatures of one address shall not look alike."""
    mask = blake2b(seal, digest_size=len(data), person=b"sandbox mask").digest()
    return bytes(left ^ right for left, right in zip(data, mask, strict=True))
