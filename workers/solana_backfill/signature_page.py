"""One page of `getSignaturesForAddress`: reading what the node lists. Pure.

Only what is needed is looked at. An `err` of any shape means that the transaction failed; there are new ones
with every version of the node (https://solana.com/docs/rpc/http/getsignaturesforaddress).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedSignature:
    """One entry. `slot` is None for a signature that a person named and no node has listed."""

    signature: str
    slot: int | None = None
    has_failed: bool = False


def read_page(result: object) -> tuple[ListedSignature, ...] | None:
    """The entries in their order, newest first; None when the result is no such page."""
    if not isinstance(result, list):
        return None
    entries = [_read_entry(each) for each in result]
    found = tuple(entry for entry in entries if entry is not None)
    return found if len(found) == len(entries) else None


def _read_entry(entry: object) -> ListedSignature | None:
    if not isinstance(entry, dict):
        return None
    signature, slot = entry.get("signature"), entry.get("slot")
    if not isinstance(signature, str) or type(slot) is not int or slot < 0:
        return None
    return ListedSignature(signature=signature, slot=slot, has_failed=entry.get("err") is not None)
