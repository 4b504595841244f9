"""Expiry, confirmation and assignation: what they do, and what a block keeps them from."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.integration.funding_place import (
    PRICE_CENTS,
    FundingPlace,
    channel,
    engine,
    place,
)
from workers.funding.passes import Assigned, PurchasePasses
from workers.funding.reconciliation import Outcome
from workers.funding.vocabulary import BlockReason, DeclineReason, PurchaseStatus

__all__ = ["channel", "engine", "place"]

HOUR = timedelta(hours=1)
BLOCKS = list(BlockReason)
WAITING = PurchaseStatus.WAITING_FOR_ASSIGNATION


def status_of(place: FundingPlace, purchase_id: object) -> tuple[str, str | None]:
    purchase = place.purchase(purchase_id)  # type: ignore[arg-type]
    return purchase.status, purchase.decline_reason


def test_reservations_whose_time_is_over_are_declined_and_taken_off(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    over = place.purchases.reserve(place.order(property_id, 2, is_auto_invest=True), valid_for=HOUR)
    later = place.purchases.reserve(place.order(property_id, 3), valid_for=2 * HOUR)
    assert place.passes.expire() == 0
    place.waiting_clock.advance(3600)
    assert place.passes.expire() == 1, "one that ends this very moment is over"
    assert status_of(place, over) == ("declined", DeclineReason.EXPIRED.value)
    assert status_of(place, later) == ("reserved", None)
    assert place.counted(property_id) == (3, 0)
    assert place.passes.expire() == 0


def test_a_confirmed_reservation_is_paid_and_then_waits_for_its_bricks(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    investor_id = place.add_investor(3 * PRICE_CENTS)
    order = place.order(property_id, 2, investor_id=investor_id)
    purchase_id = place.purchases.reserve(order, valid_for=HOUR)
    place.purchases.confirm(purchase_id)
    place.waiting_clock.advance(7200)
    assert place.passes.expire() == 0, "a confirmed one does not expire"
    assert place.passes.confirm() == 1
    assert status_of(place, purchase_id) == (WAITING.value, None)
    assert place.balance_of(investor_id) == PRICE_CENTS
    assert place.counted(property_id) == (2, 0)
    assert place.passes.confirm() == 0


def test_a_confirmed_reservation_that_cannot_be_paid_is_declined_and_taken_off(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    order = place.order(property_id, 2, investor_id=place.add_investor(PRICE_CENTS))
    purchase_id = place.purchases.reserve(order, valid_for=HOUR)
    place.purchases.confirm(purchase_id)
    assert place.passes.confirm() == 0
    assert status_of(place, purchase_id) == ("declined", DeclineReason.NOT_ENOUGH_BALANCE.value)
    assert place.counted(property_id) == (0, 0)


def test_bricks_go_to_the_oldest_purchases_first_and_what_does_not_fit_is_paid_back(
    place: FundingPlace,
) -> None:
    property_id = place.add_property(12, sold=5, total_bricks=9)
    investors = [place.add_investor(5 * PRICE_CENTS) for _ in range(3)]
    purchases = []
    for investor_id, bricks in zip(investors, (3, 2, 1), strict=True):
        purchases.append(place.purchases.buy(place.order(property_id, bricks, investor_id=investor_id)))
        place.waiting_clock.advance(1)
    counted = place.counted(property_id)
    assert place.passes.assign() == Assigned(assigned=2, declined=1)
    assert [status_of(place, each) for each in purchases] == [
        ("assigned", None),
        ("declined", DeclineReason.NO_BRICKS_LEFT.value),
        ("assigned", None),
    ]
    assert place.balance_of(investors[1]) == 5 * PRICE_CENTS
    assert place.reason_of(property_id) is BlockReason.BRICKS_OVERSELL
    assert place.counted(property_id) == counted, "a decline for missing bricks is not taken off"


def test_the_drift_that_a_decline_for_missing_bricks_leaves_is_repaired_by_the_next_run(
    place: FundingPlace,
) -> None:
    property_id = place.add_property(10, sold=8, total_bricks=9)
    place.purchases.buy(place.order(property_id, 2))
    assert place.passes.assign() == Assigned(declined=1)
    assert place.counted(property_id) == (10, 0)
    assert place.reconcile(property_id).outcome is Outcome.FIXED
    assert place.counted(property_id) == (8, 0)
    assert place.block_of(property_id) is None


@pytest.mark.parametrize("reason", BLOCKS)
def test_a_block_keeps_expiry_away(place: FundingPlace, reason: BlockReason) -> None:
    property_id = place.add_property(10)
    purchase_id = place.purchases.reserve(place.order(property_id), valid_for=HOUR)
    place.waiting_clock.advance(7200)
    place.set_block(property_id, reason)
    assert place.passes.expire() == 0
    assert status_of(place, purchase_id) == ("reserved", None)
    assert place.counted(property_id) == (1, 0)
    place.set_block(property_id, None)
    assert place.passes.expire() == 1


@pytest.mark.parametrize("reason", BLOCKS)
def test_a_block_keeps_confirmation_away(place: FundingPlace, reason: BlockReason) -> None:
    property_id = place.add_property(10)
    order = place.order(property_id, investor_id=place.add_investor(0))
    purchase_id = place.purchases.reserve(order, valid_for=HOUR)
    place.purchases.confirm(purchase_id)
    place.set_block(property_id, reason)
    place.passes.confirm()
    assert status_of(place, purchase_id) == (PurchaseStatus.WAITING_FOR_CONFIRMATION.value, None)
    assert place.counted(property_id) == (1, 0)


@pytest.mark.parametrize("reason", BLOCKS)
def test_assignation_goes_on_under_a_block_and_keeps_its_reason(
    place: FundingPlace, reason: BlockReason
) -> None:
    property_id = place.add_property(10, total_bricks=1)
    purchases = [place.purchases.buy(place.order(property_id)) for _ in range(2)]
    place.set_block(property_id, reason)
    assert place.passes.assign() == Assigned(assigned=1, declined=1)
    assert {status_of(place, each)[0] for each in purchases} == {"assigned", "declined"}
    assert place.reason_of(property_id) is reason


class BlockedMeanwhile(PurchasePasses):
    """Passes whose fundings are blocked right after the selection."""

    place: FundingPlace

    def _read(self, wanted):  # type: ignore[no-untyped-def]
        found = super()._read(wanted)
        for row in found:
            self.place.set_block(row.property_id, BlockReason.COUNTER_RECONCILIATION)
        return found


def test_a_block_that_comes_between_selection_and_change_is_seen_and_the_purchase_skipped(
    place: FundingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    property_id = place.add_property(10)
    expired = place.purchases.reserve(place.order(property_id), valid_for=HOUR)
    poor = place.order(property_id, investor_id=place.add_investor(0))
    confirmed = place.purchases.reserve(poor, valid_for=2 * HOUR)
    place.purchases.confirm(confirmed)
    place.waiting_clock.advance(3600)
    passes = BlockedMeanwhile(place.engine, place.counters, place.clock)
    passes.place = place
    before = place.ledger_hash()
    assert passes.expire() == 0
    place.set_block(property_id, None)
    assert passes.confirm() == 0
    assert place.ledger_hash() == before
    assert place.counted(property_id) == (2, 0)
    assert [status_of(place, each)[0] for each in (expired, confirmed)] == [
        "reserved",
        "waiting_for_confirmation",
    ]
    warnings = [record for record in caplog.records if "is left alone" in record.message]
    assert [record.levelname for record in warnings] == ["WARNING"] * 2


def test_a_pass_takes_a_batch_and_the_next_one_the_rest(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    for _ in range(5):
        place.purchases.reserve(place.order(property_id), valid_for=HOUR)
    place.waiting_clock.advance(3600)
    assert [place.passes.expire(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert place.counted(property_id) == (0, 0)
