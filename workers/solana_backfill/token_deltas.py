"""A view of a transaction: what each owner gained or lost of each token. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workers.solana_backfill.canonical_parts import TokenBalanceChange


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenDelta:
    """What one owner gained or lost of one mint in a transaction, over all its token accounts.

    `owner` is None for accounts whose owner no node kept; they may belong to several.
    """

    owner: str | None
    mint: str
    decimals: int
    delta: int


def token_deltas(changes: Iterable[TokenBalanceChange]) -> tuple[TokenDelta, ...]:
    """The changes by owner and mint, in order of first appearance, without those that come to nothing.

    What was there before is taken from the old owner and what is there now given to the new one, so an
    account that changes hands moves its whole balance.
    """
    sums: dict[tuple[str | None, str], int] = {}
    decimals: dict[str, int] = {}
    for change in changes:
        decimals.setdefault(change.mint, change.decimals)
        for owner, amount in ((change.owner_pre, -(change.pre or 0)), (change.owner_post, change.post or 0)):
            if amount:
                sums[owner, change.mint] = sums.get((owner, change.mint), 0) + amount
    return tuple(
        TokenDelta(owner=owner, mint=mint, decimals=decimals[mint], delta=delta)
        for (owner, mint), delta in sums.items()
        if delta
    )
