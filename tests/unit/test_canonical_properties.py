"""Whatever a node sends is a transaction that can be stored exactly, or rejected; never anything else."""

from __future__ import annotations

import copy
import json
from typing import Any

import bson
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.solana_samples import key, readable_results, small_result, token_balance
from workers.solana_backfill.canonical import canonical_transaction
from workers.solana_backfill.canonical_model import CanonicalTransaction
from workers.solana_backfill.canonical_parts import TokenBalanceChange
from workers.solana_backfill.foreign_values import U64_MAX
from workers.solana_backfill.rejection import PayloadRejected
from workers.solana_backfill.token_deltas import token_deltas

SAMPLES = [*readable_results().values(), small_result()]
amounts = st.integers(0, U64_MAX) | st.sampled_from([0, 1, 2**53 + 1, 2**63 - 1, 2**63, U64_MAX])
odd_numbers = st.sampled_from([-1, 0, 1, 2, 255, 256, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, 0.5, 1.0, -0.0])
odd_values = st.recursive(
    st.none()
    | st.booleans()
    | odd_numbers
    | st.text(max_size=5)
    | st.sampled_from(
        ["", "1", "legacy", "base64", "\x00", "\ud800", key(1), "$a", "a.b", "InstructionError", "Custom"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["", "$a", "a.b", "InstructionError", "index"]), inner, max_size=2)
    ),
    max_leaves=6,
)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Every place that can be changed: its container and its name or index."""
    members = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    found = [(value, name) for name, _ in members]
    for _, part in members:
        if isinstance(part, dict | list):
            found += places_in(part)
    return found


@st.composite
def changed_results(draw: st.DrawFn) -> dict[str, Any]:
    """A recorded answer in which up to three places hold something odd, something else of it, or nothing."""
    result: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(SAMPLES)))
    for _ in range(draw(st.integers(0, 3))):
        places = places_in(result)
        if not places:
            break
        container, name = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["odd", "odd", "moved", "gone"])):
            case "odd":
                container[name] = draw(odd_values)
            case "moved":
                other, place = places[draw(st.integers(0, len(places) - 1))]
                container[name] = copy.deepcopy(other[place])
            case "gone":
                del container[name]
    return result


def check(body: Any) -> CanonicalTransaction | None:
    try:
        found = canonical_transaction(body, None)
    except PayloadRejected as exc:
        said, reason = str(exc), exc.reason.value
    else:
        said, reason = "", ""
    if said:
        assert said.startswith(reason)
        assert len(said) < 300, "what a node wrote is not repeated"
        return None
    shown = found.to_json()
    assert CanonicalTransaction.from_json(json.loads(json.dumps(shown, allow_nan=False))) == found
    assert bson.decode(bson.encode(shown)) == shown, "the store holds it exactly"
    assert len(found.content_hash()) == 64
    assert len(found.accounts) == found.accounts[-1].index + 1
    return found


@settings(max_examples=400, deadline=None)
@given(changed_results())
def test_a_changed_answer_is_stored_exactly_or_rejected(result: dict[str, Any]) -> None:
    found = check(result)
    # As bytes it is read the same way, unless it holds what JSON cannot say.
    assert check(json.dumps(result).encode()) == found


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_damaged_bytes_are_stored_exactly_or_rejected(result: dict[str, Any], data: st.DataObject) -> None:
    body = bytearray(json.dumps(result).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    check(bytes(body))


@settings(deadline=None)
@given(st.binary(max_size=60) | odd_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_rejected(body: bytes) -> None:
    assert check(body) is None


@settings(deadline=None)
@given(odd_values)
def test_any_error_value_is_kept(err: Any) -> None:
    found = check(small_result(err=err))
    assert found is not None
    if err is None:
        assert found.error is None
    else:
        assert found.error is not None
        assert json.loads(found.error.raw) is not None or err == []


@settings(deadline=None)
@given(st.lists(amounts, min_size=4, max_size=4), st.lists(amounts, min_size=4, max_size=4), amounts)
def test_lamports_are_exact_and_add_up_exactly_when_they_do(
    pre: list[int], post: list[int], fee: int
) -> None:
    found = check(small_result(preBalances=pre, postBalances=post, fee=fee))
    assert found is not None
    assert found.is_balanced == (sum(pre) - sum(post) == fee)
    shown = {each["account_index"]: each for each in found.to_json()["native_balance_changes"]}
    assert shown.keys() == {index for index in range(4) if pre[index] != post[index]}
    assert all(
        int(each["pre"]) == pre[index] and int(each["post"]) == post[index] for index, each in shown.items()
    )


@settings(deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.integers(0, 3), st.sampled_from([key(50), key(51)])),
        st.tuples(st.none() | amounts, st.none() | amounts, *[st.sampled_from([None, key(60), key(61)])] * 2),
        max_size=6,
    )
)
def test_token_changes_by_owner_lose_and_make_nothing(
    held: dict[tuple[int, str], tuple[int | None, int | None, str | None, str | None]],
) -> None:
    sides: tuple[list[Any], list[Any]] = ([], [])
    for (index, mint), (pre, post, *owners) in held.items():
        for side, amount, owner in zip(sides, (pre, post), owners, strict=True):
            if amount is not None:
                side.append(token_balance(index, str(amount), owner=owner, mint=mint))
    found = check(small_result(preTokenBalances=sides[0], postTokenBalances=sides[1]))
    assert found is not None
    changes = found.token_balance_changes
    assert len(changes) == sum(pre is not None or post is not None for pre, post, *_ in held.values())
    deltas = token_deltas(changes)
    assert all(each.delta for each in deltas)
    assert len({(each.owner, each.mint) for each in deltas}) == len(deltas)
    for mint in {change.mint for change in changes}:
        total = sum(change.delta for change in changes if change.mint == mint)
        assert total == sum(each.delta for each in deltas if each.mint == mint)


def test_an_account_that_changes_hands_moves_its_whole_balance() -> None:
    change = TokenBalanceChange(
        account_index=0,
        token_account=key(1),
        mint=key(2),
        program_id=None,
        decimals=0,
        owner_pre=key(3),
        owner_post=key(4),
        pre=70,
        post=80,
    )
    assert [(each.owner, each.delta) for each in token_deltas([change])] == [(key(3), -70), (key(4), 80)]
    assert change.delta == 10
