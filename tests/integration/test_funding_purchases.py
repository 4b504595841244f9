"""Buying, reserving and what ends a purchase: both writes, the block, and every refusal."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from tests.integration.funding_place import (
    PRICE_CENTS,
    FundingPlace,
    channel,
    engine,
    place,
)
from workers.errors import RetryableError
from workers.funding.counters import CounterUnusable, FundingCounters, Move, purchased_key
from workers.funding.errors import PropertyNotFound, PurchaseNotFound, PurchaseRefused, Refusal
from workers.funding.purchases import Order
from workers.funding.tables import PURCHASES, WALLET_TRANSACTIONS
from workers.funding.vocabulary import BlockReason, DeclineReason, PurchaseStatus

__all__ = ["channel", "engine", "place"]

HOUR = timedelta(hours=1)
BLOCKS = list(BlockReason)


def refusal_of(error: pytest.ExceptionInfo[PurchaseRefused]) -> str:
    return error.value.code.value


def rows(place: FundingPlace) -> tuple[int, int]:
    """How many purchases and movements of money there are."""
    with place.engine.connect() as connection:
        purchases = connection.scalar(select(func.count()).select_from(PURCHASES))
        movements = connection.scalar(select(func.count()).select_from(WALLET_TRANSACTIONS))
    return int(purchases or 0), int(movements or 0)


def test_a_purchase_is_paid_waits_for_its_bricks_and_is_counted(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    investor_id = place.add_investor(5 * PRICE_CENTS)
    purchase_id = place.purchases.buy(place.order(property_id, 3, investor_id=investor_id))
    assert place.purchase(purchase_id).status == PurchaseStatus.WAITING_FOR_ASSIGNATION.value
    assert place.counted(property_id) == (3, 0)
    assert place.balance_of(investor_id) == 2 * PRICE_CENTS
    assert rows(place) == (1, 1)


def test_auto_invest_counts_in_both_counters(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    place.purchases.buy(place.order(property_id, 2))
    place.purchases.buy(place.order(property_id, 3, is_auto_invest=True))
    assert place.counted(property_id) == (5, 3)
    assert place.truth(property_id).to_json() == {"purchased": 5, "autoInvest": 3}


def test_a_reservation_is_counted_and_not_paid(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    investor_id = place.add_investor(0)
    purchase_id = place.purchases.reserve(
        place.order(property_id, 4, investor_id=investor_id), valid_for=HOUR
    )
    purchase = place.purchase(purchase_id)
    assert purchase.status == PurchaseStatus.RESERVED.value
    assert purchase.expires_at == place.clock.now() + HOUR
    assert place.counted(property_id) == (4, 0)
    assert rows(place) == (1, 0)


def test_the_last_brick_is_sold_and_not_one_more(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=8)
    before = rows(place)
    investor_id = place.add_investor()
    wealth = place.balance_of(investor_id)
    with pytest.raises(PurchaseRefused) as error:
        place.purchases.buy(place.order(property_id, 3, investor_id=investor_id))
    assert refusal_of(error) == "primary-purchase.not-enough-bricks-left"
    assert place.counted(property_id) == (8, 0)
    assert rows(place) == before
    assert place.balance_of(investor_id) == wealth
    place.purchases.buy(place.order(property_id, 2))
    assert place.counted(property_id) == (10, 0)


def test_who_has_not_as_much_pays_nothing_and_buys_nothing(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    poor = place.add_investor(PRICE_CENTS - 1)
    for investor_id in (poor, "nobody"):
        with pytest.raises(PurchaseRefused) as error:
            place.purchases.buy(place.order(property_id, investor_id=investor_id))
        assert refusal_of(error) == "primary-purchase.not-enough-balance"
    assert place.counted(property_id) == (0, 0)
    assert rows(place) == (0, 0)


@pytest.mark.parametrize("reason", BLOCKS)
def test_while_blocked_buying_and_reserving_are_answered_with_no_bricks_left(
    place: FundingPlace, reason: BlockReason
) -> None:
    property_id = place.add_property(10, sold=1)
    place.set_block(property_id, reason)
    order = place.order(property_id)
    with pytest.raises(PurchaseRefused) as bought:
        place.purchases.buy(order)
    with pytest.raises(PurchaseRefused) as reserved:
        place.purchases.reserve(order, valid_for=HOUR)
    assert {refusal_of(bought), refusal_of(reserved)} == {"primary-purchase.not-enough-bricks-left"}
    assert place.counted(property_id) == (1, 0)


@pytest.mark.parametrize("reason", BLOCKS)
def test_while_blocked_refund_cancel_and_confirm_are_refused(
    place: FundingPlace, reason: BlockReason
) -> None:
    property_id = place.add_property(10)
    bought = place.purchases.buy(place.order(property_id))
    reserved = place.purchases.reserve(place.order(property_id), valid_for=HOUR)
    place.set_block(property_id, reason)
    before = place.ledger_hash()
    for change in (
        lambda: place.purchases.refund(bought),
        lambda: place.purchases.cancel(reserved),
        lambda: place.purchases.confirm(reserved),
    ):
        with pytest.raises(PurchaseRefused) as error:
            change()
        assert refusal_of(error) == "primary-purchase.funding-blocked"
    assert place.ledger_hash() == before
    assert place.counted(property_id) == (2, 0)


@pytest.mark.parametrize("columns", [{"publish_status": "draft"}, {"started_at": None}, {"is_over": True}])
def test_what_is_not_on_sale_is_not_sold(place: FundingPlace, columns: dict[str, object]) -> None:
    is_over = columns.pop("is_over", False)
    property_id = place.add_property(10, **columns, **({"ended_at": place.clock.now()} if is_over else {}))
    with pytest.raises(PurchaseRefused) as error:
        place.purchases.buy(place.order(property_id))
    assert refusal_of(error) == "primary-purchase.funding-not-open"
    assert place.counted(property_id) == (0, 0)


def test_a_refund_gives_back_the_money_and_frees_the_bricks(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=8)
    investor_id = place.add_investor(2 * PRICE_CENTS)
    order = place.order(property_id, 2, investor_id=investor_id, is_auto_invest=True)
    purchase_id = place.purchases.buy(order)
    assert place.counted(property_id) == (10, 2)
    assert place.purchases.refund(purchase_id) is True
    assert place.counted(property_id) == (8, 0)
    assert place.balance_of(investor_id) == 2 * PRICE_CENTS
    assert place.purchase(purchase_id).status == PurchaseStatus.REFUNDED.value


def test_a_refund_that_is_processed_twice_counts_once(place: FundingPlace) -> None:
    """Case C-12 (a): 8 bricks are counted, 2 of them are refunded twice."""
    property_id = place.add_property(10, sold=6)
    investor_id = place.add_investor(2 * PRICE_CENTS)
    purchase_id = place.purchases.buy(place.order(property_id, 2, investor_id=investor_id))
    assert place.counted(property_id) == (8, 0)
    assert [place.purchases.refund(purchase_id) for _ in range(2)] == [True, False]
    assert place.counted(property_id) == (6, 0), "not 4"
    assert place.balance_of(investor_id) == 2 * PRICE_CENTS, "paid back once"


def test_refunds_of_one_purchase_at_the_same_time_count_once(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=6)
    purchase_id = place.purchases.buy(place.order(property_id, 2))
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda _: place.purchases.refund(purchase_id), range(8)))
    assert sorted(done) == [False] * 7 + [True]
    assert place.counted(property_id) == (6, 0)


@pytest.mark.parametrize(
    "status",
    [PurchaseStatus.RESERVED, PurchaseStatus.WAITING_FOR_CONFIRMATION, PurchaseStatus.DECLINED],
)
def test_what_was_never_paid_is_not_refunded(place: FundingPlace, status: PurchaseStatus) -> None:
    property_id = place.add_property(10, counters=(1, 0))
    purchase_id = place.add_purchase(property_id, 1, status)
    with pytest.raises(PurchaseRefused) as error:
        place.purchases.refund(purchase_id)
    assert refusal_of(error) == "primary-purchase.wrong-status"
    assert place.counted(property_id) == (1, 0)


def test_only_a_reservation_is_cancelled_or_confirmed(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    purchase_id = place.purchases.buy(place.order(property_id))
    for change in (place.purchases.cancel, place.purchases.confirm):
        with pytest.raises(PurchaseRefused) as error:
            change(purchase_id)
        assert error.value.code is Refusal.WRONG_STATUS


def test_a_cancelled_reservation_ends_with_the_next_expiry(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    purchase_id = place.purchases.reserve(place.order(property_id, 3), valid_for=HOUR)
    place.purchases.cancel(purchase_id)
    assert place.counted(property_id) == (3, 0), "until the pass"
    assert place.passes.expire() == 1
    assert place.counted(property_id) == (0, 0)
    purchase = place.purchase(purchase_id)
    assert (purchase.status, purchase.decline_reason) == ("declined", DeclineReason.EXPIRED.value)


def test_a_reservation_that_has_expired_is_not_confirmed(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    purchase_id = place.purchases.reserve(place.order(property_id), valid_for=HOUR)
    place.waiting_clock.advance(3600)
    with pytest.raises(PurchaseRefused, match="has expired"):
        place.purchases.confirm(purchase_id)


def test_unknown_properties_and_purchases_are_not_found(place: FundingPlace) -> None:
    with pytest.raises(PropertyNotFound):
        place.purchases.buy(Order(property_id="nowhere", investor_id="nobody", bricks=1))
    for change in (place.purchases.refund, place.purchases.cancel, place.purchases.confirm):
        with pytest.raises(PurchaseNotFound):
            change(uuid.uuid4())


# The two writes.


def test_a_rollback_takes_back_what_was_counted(place: FundingPlace) -> None:
    """Forced: the answer of Redis is lost after it has counted."""

    class LosingTheAnswer(FundingCounters):
        def add(self, move: Move) -> int:
            super().add(move)
            raise RetryableError("the answer got lost")

    property_id = place.add_property(10, sold=5)
    before = rows(place)
    place.rebuild(counters=LosingTheAnswer(place.redis))
    with pytest.raises(RetryableError):
        place.purchases.buy(place.order(property_id, 2, is_auto_invest=True))
    assert place.counted(property_id) == (5, 0)
    assert rows(place) == before


def test_a_command_that_is_repeated_because_its_answer_got_lost_counts_once(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=5, auto_invest=5)
    move = Move(property_id=property_id, operation="p:sold", bricks=2, is_auto_invest=True)
    assert [place.counters.add(move) for _ in range(3)] == [7, 7, 7]
    assert place.counted(property_id) == (7, 7)
    for _ in range(3):
        place.counters.take_back(move)
    assert place.counted(property_id) == (5, 5)
    ended = Move(property_id=property_id, operation="p:ended", bricks=2, is_auto_invest=True)
    for _ in range(3):
        place.counters.take_off(ended)
    assert place.counted(property_id) == (3, 3)


def test_a_twin_that_counts_without_marks_takes_off_twice(place: FundingPlace) -> None:
    """What the marks are for: the same repeated command, as a plain DECRBY."""
    property_id = place.add_property(10, sold=5)
    for _ in range(2):
        place.redis.decrby(purchased_key(property_id), 2)
    assert place.counted(property_id) == (1, 0), "an under-count: two bricks could be sold twice"


def test_an_addition_that_arrives_after_it_was_taken_back_is_not_counted(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=5)
    move = Move(property_id=property_id, operation="late:sold", bricks=2, is_auto_invest=False)
    place.counters.take_back(move)
    with pytest.raises(RetryableError):
        place.counters.add(move)
    assert place.counted(property_id) == (5, 0)


def test_an_ended_purchase_stays_counted_when_redis_does_not_answer(place: FundingPlace) -> None:
    class Away(FundingCounters):
        def take_off(self, move: Move) -> None:
            raise RetryableError("away")

    property_id = place.add_property(10, sold=5)
    purchase_id = place.purchases.buy(place.order(property_id))
    place.rebuild(counters=Away(place.redis))
    assert place.purchases.refund(purchase_id) is True
    assert place.counted(property_id) == (6, 0), "an over-count, which the reconciliation repairs"


def test_a_counter_below_zero_is_an_alarm_and_stays_as_it_is(
    place: FundingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    property_id = place.add_property(10)
    purchase_id = place.purchases.buy(place.order(property_id, 2))
    place.set_counters(property_id, 1)
    place.purchases.refund(purchase_id)
    assert place.counted(property_id) == (-1, 0)
    assert [record.levelname for record in caplog.records if "below zero" in record.message] == ["ERROR"]


def test_hundred_buyers_of_ten_bricks_at_once_get_ten(place: FundingPlace) -> None:
    property_id = place.add_property(10)
    orders = [place.order(property_id) for _ in range(100)]

    def buy(order: Order) -> str:
        try:
            place.purchases.buy(order)
        except PurchaseRefused as exc:
            return exc.code.value
        return "sold"

    with ThreadPoolExecutor(25) as pool:
        done = list(pool.map(buy, orders))
    assert done.count("sold") == 10
    assert set(done) == {"sold", "primary-purchase.not-enough-bricks-left"}
    assert place.counted(property_id) == (10, 0)
    assert place.truth(property_id).purchased == 10
    assert rows(place) == (10, 10)


# Counters that Redis has lost.


@pytest.mark.parametrize("lost", [(None, 2), (5, None), (None, None)])
def test_a_counter_that_redis_has_lost_is_made_from_the_truth_before_the_next_sale(
    place: FundingPlace, lost: tuple[int | None, int | None]
) -> None:
    property_id = place.add_property(10, sold=5, auto_invest=2, counters=lost)
    place.purchases.buy(place.order(property_id, 2))
    assert place.counted(property_id) == (7, 2)


def test_after_a_loss_buyers_get_what_is_left_and_no_more(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=8, counters=(None, None))
    orders = [place.order(property_id) for _ in range(20)]

    def buy(order: Order) -> bool:
        try:
            place.purchases.buy(order)
        except PurchaseRefused:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(buy, orders)) == 2
    assert place.counted(property_id) == (10, 0)


def test_a_twin_that_counts_on_from_nothing_sells_everything_again(place: FundingPlace) -> None:
    class FromZero(FundingCounters):
        def add(self, move: Move) -> int:
            return int(self._redis.incrby(purchased_key(move.property_id), move.bricks))

        def open(self, property_id: str, truth: object) -> None:
            """Make nothing."""

    property_id = place.add_property(10, sold=8, counters=(None, 0))
    place.rebuild(counters=FromZero(place.redis))
    for _ in range(5):
        place.purchases.buy(place.order(property_id))
    assert place.truth(property_id).purchased == 13


def test_a_blocked_funding_does_not_have_its_counters_made(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=5, counters=(None, None))
    place.set_block(property_id, BlockReason.COUNTER_RECONCILIATION)
    with pytest.raises(PurchaseRefused):
        place.purchases.buy(place.order(property_id))
    assert place.counted(property_id) == (None, None)


def test_a_counter_that_is_no_number_is_not_counted_on_from(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=5, counters=(5, 0))
    for purchased, auto_invest in (("many", 0), (5, "many")):
        place.set_counters(property_id, purchased, auto_invest)
        with pytest.raises(CounterUnusable):
            place.purchases.buy(place.order(property_id))
        assert place.counted(property_id) == (purchased, auto_invest)
    assert place.truth(property_id).purchased == 5
