"""How often something is asked for again: waits grow, are capped and end; rate limits have a bound too."""

from __future__ import annotations

import pytest

from workers.solana_backfill.patience import (
    JITTER,
    NULL_TRIES,
    RATE_LIMITS_MAX,
    TRIES,
    WAIT_MAX_S,
    Patience,
)
from workers.solana_backfill.rpc_failures import FailureKind


def waits(kind: FailureKind, *, random: float = 0.0) -> list[float]:
    patience, found = Patience(lambda: random), []
    while (wait_s := patience.after(kind)) is not None:
        found.append(wait_s)
    return found


def test_waits_after_outages_grow_and_end() -> None:
    found = waits(FailureKind.TRANSIENT)
    assert len(found) == TRIES - 1
    assert found == sorted(found)
    assert len(set(found)) > 1
    assert max(found) <= WAIT_MAX_S


def test_waits_are_spread_by_a_quarter_at_most() -> None:
    spread = waits(FailureKind.TRANSIENT, random=1.0)
    assert spread == [wait_s * (1 + JITTER) for wait_s in waits(FailureKind.TRANSIENT)]


@pytest.mark.parametrize("kind", [FailureKind.DOUBTFUL, FailureKind.BOUND_NOT_FOUND])
def test_what_may_be_one_nodes_trouble_is_asked_once_more(kind: FailureKind) -> None:
    assert len(waits(kind)) == 1


@pytest.mark.parametrize(
    "kind",
    [FailureKind.FINAL, FailureKind.REFUSED, FailureKind.PLAN_USED_UP, FailureKind.NO_HISTORY],
)
def test_what_gives_the_same_again_is_not_asked_again(kind: FailureKind) -> None:
    assert waits(kind) == []


def test_rate_limits_are_bounded_and_use_up_no_try() -> None:
    patience = Patience(lambda: 0.0)
    for _ in range(RATE_LIMITS_MAX):
        assert patience.after(FailureKind.RATE_LIMITED) == 0.0
    tries = 0
    while patience.after(FailureKind.TRANSIENT) is not None:
        tries += 1
    assert tries == TRIES - 1
    assert patience.after(FailureKind.RATE_LIMITED) is None


def test_a_null_is_asked_for_a_few_times() -> None:
    patience = Patience(lambda: 0.0)
    found = [patience.after_null() for _ in range(NULL_TRIES)]
    assert found[-1] is None
    assert all(wait_s for wait_s in found[:-1])
