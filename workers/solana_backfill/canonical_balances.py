"""What a transaction did to balances, in lamports and in tokens. Pure.

Token amounts are read from their exact text; the floating-point ones beside it are never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.solana_backfill.account_space import AccountSpace
from workers.solana_backfill.canonical_parts import NativeBalanceChange, TokenBalanceChange
from workers.solana_backfill.foreign_values import (
    U8_MAX,
    U64_MAX,
    Foreign,
    read_amount,
    read_integer,
    read_integers,
    read_object,
    read_optional_list,
    read_public_key,
)
from workers.solana_backfill.rejection import malformed


def native_balance_changes(meta: dict[str, Foreign], space: AccountSpace) -> tuple[NativeBalanceChange, ...]:
    """The accounts whose lamports changed. Raises `PayloadRejected` unless each account has both balances."""
    pre, post = (
        read_integers(meta.get(name), f"meta.{name}", highest=U64_MAX)
        for name in ("preBalances", "postBalances")
    )
    for name, balances in (("preBalances", pre), ("postBalances", post)):
        if len(balances) != len(space.accounts):
            detail = f"has {len(balances)} balances for {len(space.accounts)} accounts"
            raise malformed(detail, field=f"meta.{name}")
    return tuple(
        NativeBalanceChange(
            account_index=account.index,
            pubkey=account.pubkey,
            pre=pre[account.index],
            post=post[account.index],
        )
        for account in space.accounts
        if pre[account.index] != post[account.index]
    )


def are_token_balances_recorded(meta: dict[str, Foreign]) -> bool:
    """Whether the node kept token balances at all; without them nothing can be said about transfers."""
    return meta.get("preTokenBalances") is not None and meta.get("postTokenBalances") is not None


def token_balance_changes(meta: dict[str, Foreign], space: AccountSpace) -> tuple[TokenBalanceChange, ...]:
    """What each recorded token account held before and after, by account and mint.

    An account that was closed and opened again for another mint has one entry for each.
    """
    pre = _side(meta, "preTokenBalances", space)
    post = _side(meta, "postTokenBalances", space)
    return tuple(
        _change(place, pre.get(place), post.get(place), last=post.get(place) or pre[place], space=space)
        for place in sorted(pre.keys() | post.keys())
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _TokenBalance:
    owner: str | None
    program_id: str | None
    decimals: int
    amount: int


def _side(meta: dict[str, Foreign], name: str, space: AccountSpace) -> dict[tuple[int, str], _TokenBalance]:
    field = f"meta.{name}"
    mint_field, owner_field, program_field = f"{field}.mint", f"{field}.owner", f"{field}.programId"
    whole_field, amount_field, decimals_field = (
        f"{field}.uiTokenAmount",
        f"{field}.amount",
        f"{field}.decimals",
    )
    last_index = len(space.accounts) - 1
    found: dict[tuple[int, str], _TokenBalance] = {}
    for value in read_optional_list(meta.get(name), field):
        balance = read_object(value, field)
        amount = read_object(balance.get("uiTokenAmount"), whole_field)
        index = read_integer(balance.get("accountIndex"), field, highest=last_index)
        place = index, read_public_key(balance.get("mint"), mint_field)
        if place in found:
            raise malformed("has an account twice", field=field)
        found[place] = _TokenBalance(
            owner=_optional_key(balance.get("owner"), owner_field),
            program_id=_optional_key(balance.get("programId"), program_field),
            decimals=read_integer(amount.get("decimals"), decimals_field, highest=U8_MAX),
            amount=read_amount(amount.get("amount"), amount_field),
        )
    return found


def _change(
    place: tuple[int, str],
    pre: _TokenBalance | None,
    post: _TokenBalance | None,
    *,
    last: _TokenBalance,
    space: AccountSpace,
) -> TokenBalanceChange:
    index, mint = place
    return TokenBalanceChange(
        account_index=index,
        token_account=space.accounts[index].pubkey,
        mint=mint,
        program_id=last.program_id,
        decimals=last.decimals,
        owner_pre=pre.owner if pre else None,
        owner_post=post.owner if post else None,
        pre=pre.amount if pre else None,
        post=post.amount if post else None,
    )


def _optional_key(value: Foreign, field: str) -> str | None:
    """A key; None where it was not kept, which old rows say with null, with nothing, or with empty text."""
    return None if value is None or value == "" else read_public_key(value, field)
