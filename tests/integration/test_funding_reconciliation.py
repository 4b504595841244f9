"""One property's reconciliation on real stores: the scenarios, every alert, and what is never written."""

from __future__ import annotations

import itertools
import logging
from datetime import datetime

import pytest
from redis import Redis
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from tests.integration.funding_place import (
    FundingPlace,
    alerts_in,
    channel,
    engine,
    place,
)
from workers.clock import Clock
from workers.errors import LeaseLost, RetryableError
from workers.funding.alerts import Alert
from workers.funding.counters import FundingCounters, auto_invest_key, purchased_key
from workers.funding.fundings import Fundings, FundingState
from workers.funding.reconciliation import Outcome, property_lease
from workers.funding.vocabulary import AlertReason, BlockReason, PurchaseStatus
from workers.leases import LeaseStore

__all__ = ["channel", "engine", "place"]

WAITING = PurchaseStatus.WAITING_FOR_ASSIGNATION


def failed_text(property_id: str, reason: str) -> str:
    return f"funding-counter-reconciliation-failed: property {property_id}: {reason}"


# The scenarios of the specification. The one with two properties and the closed one are about the selection
# too, and stand in test_funding_job.py.


def test_redis_that_counts_one_too_many_on_9_of_10_is_set_to_9_unblocked_and_alerted(
    place: FundingPlace,
) -> None:
    """Also case C-11 (a)."""
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FIXED, AlertReason.FIXED)
    assert outcome.delta == {"purchased": -1, "autoInvest": 0}
    assert place.counted(property_id) == (9, 0)
    assert place.block_of(property_id) is None
    assert place.channel.texts == [f"funding-counter-reconciliation-fixed: property {property_id}: fixed"]
    fields = place.channel.fields_of()
    assert (fields["delta"], fields["reads"]) == ("purchased -1, autoInvest 0", "2")
    assert fields["truth"] == "purchased 9, direct 9, autoInvest 0"


def test_a_funding_blocked_for_oversell_with_redis_at_12_and_the_truth_at_7_is_corrected_downwards(
    place: FundingPlace,
) -> None:
    property_id = place.add_property(10, sold=7, counters=(12, 0))
    place.set_block(property_id, BlockReason.BRICKS_OVERSELL)
    assert place.reconcile(property_id).outcome is Outcome.FIXED
    assert place.counted(property_id) == (7, 0)
    assert place.block_of(property_id) is None


def test_when_only_the_auto_invest_counter_is_off_only_that_one_is_written(
    place: FundingPlace, redis: Redis
) -> None:
    property_id = place.add_property(10, sold=10, auto_invest=4, counters=(10, 6))
    written: list[str] = []
    with redis.monitor() as monitor:
        outcome = place.reconcile(property_id)
        redis.ping()
        for command in monitor.listen():
            if command["client_type"] == "lua" and command["command"].startswith("SET property_"):
                written.append(command["command"])
            if command["command"] == "PING":
                break
    assert outcome.delta == {"purchased": 0, "autoInvest": -2}
    assert place.counted(property_id) == (10, 4)
    assert written == [f"SET {auto_invest_key(property_id)} 4"], "one overwrite, no adding and no taking off"


def test_a_closed_funding_is_left_alone_though_its_counters_are_off(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0), ended_at=place.clock.now())
    assert place.reconcile(property_id).outcome is Outcome.IGNORED
    assert place.counted(property_id) == (10, 0)
    assert place.block_of(property_id) is None
    assert place.channel.heard == []


def test_a_reading_that_still_moves_after_the_block_leaves_it_blocked_and_alerts_unstable(
    place: FundingPlace,
) -> None:
    property_id = place.add_property(10, sold=9, counters=(8, 0))
    move = lambda: place.redis.decr(purchased_key(property_id))  # noqa: E731
    place.waiting_clock.while_waiting = [move, move]
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.COUNTER_UNSTABLE)
    assert [each.counters.to_json()["purchased"] for each in outcome.readings] == [8, 7, 6]
    assert place.counted(property_id) == (6, 0)
    assert place.reason_of(property_id) is BlockReason.COUNTER_RECONCILIATION
    assert place.channel.texts == [failed_text(property_id, "counter-unstable")]


def test_purchases_that_go_on_waiting_for_bricks_end_in_drain_timeout_with_redis_unchanged(
    place: FundingPlace,
) -> None:
    property_id = place.add_property(10, sold=8, counters=(10, 0))
    place.add_purchase(property_id, 1, WAITING)
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.ASSIGNATION_DRAIN_TIMEOUT)
    assert place.counted(property_id) == (10, 0)
    assert place.reason_of(property_id) is BlockReason.COUNTER_RECONCILIATION
    assert place.channel.texts == [failed_text(property_id, "assignation-drain-timeout")]
    assert sum(place.waiting_clock.waits) == 10, "three looks have two waits"


def test_purchases_that_get_their_bricks_while_it_waits_let_it_fix_and_unblock(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=8, counters=(10, 0))
    purchase_id = place.add_purchase(property_id, 1, WAITING)
    place.waiting_clock.while_waiting = [place.passes.assign]
    outcome = place.reconcile(property_id)
    assert outcome.outcome is Outcome.FIXED
    assert place.purchase(purchase_id).status == PurchaseStatus.ASSIGNED.value
    assert place.counted(property_id) == (9, 0)
    assert place.block_of(property_id) is None


def test_more_sold_than_there_is_after_draining_is_told_and_stays_blocked(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=11, counters=(9, 0))
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.PG_OVERSELL_AFTER_DRAIN)
    assert place.counted(property_id) == (9, 0), "no fix"
    assert place.reason_of(property_id) is BlockReason.COUNTER_RECONCILIATION, "no unblock"
    assert place.channel.texts == [failed_text(property_id, "pg-oversell-after-drain")]
    assert place.channel.fields_of()["truth"] == "purchased 11, direct 11, autoInvest 0"


def test_an_oversold_property_stays_blocked_even_when_both_sides_agree(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=11)
    assert place.reconcile(property_id).reason is AlertReason.PG_OVERSELL_AFTER_DRAIN
    assert place.block_of(property_id) is not None


# What is read and decided.


def test_both_sides_equal_at_the_first_read_write_nothing_and_lift_the_block(
    place: FundingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    property_id = place.add_property(10, sold=10, auto_invest=3)
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, len(outcome.readings)) == (Outcome.SYNCED, 1)
    assert place.waiting_clock.waits == []
    assert place.block_of(property_id) is None
    assert alerts_in(caplog) == []
    assert place.channel.heard == []


def test_a_drift_that_settles_by_itself_is_not_written(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=10, counters=(9, 0))
    place.waiting_clock.while_waiting = [lambda: place.set_counters(property_id, 10)]
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, len(outcome.readings)) == (Outcome.SYNCED, 3)
    assert place.block_of(property_id) is None


def test_three_reads_have_two_waits_of_the_delay(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(7, 0))
    move = lambda: place.redis.decr(purchased_key(property_id))  # noqa: E731
    place.waiting_clock.while_waiting = [move, move]
    place.reconcile(property_id)
    assert sum(place.waiting_clock.waits) == 10
    place.waiting_clock.waits.clear()
    place.rebuild(delay_s=2.5)
    assert place.reconcile(property_id).outcome is Outcome.FIXED
    assert sum(place.waiting_clock.waits) == 2.5


def test_a_truth_that_moves_towards_the_counter_in_every_reading_is_unstable(place: FundingPlace) -> None:
    """Case C-11 (c): the database shows 8, 9 and 10 against a counter of 10."""
    property_id = place.add_property(10, sold=8, counters=(10, 0))
    sell = lambda: place.add_purchase(property_id)  # noqa: E731
    place.waiting_clock.while_waiting = [sell, sell]
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.COUNTER_UNSTABLE)
    assert place.counted(property_id) == (10, 0)
    assert place.block_of(property_id) is not None
    readings = place.channel.fields_of()["readings"]
    assert [part.split("truth purchased ")[1].split(",")[0] for part in readings.split("; ")] == [
        "8",
        "9",
        "10",
    ]


def test_a_database_that_fails_in_the_second_reading_leaves_counter_and_block(place: FundingPlace) -> None:
    """Case C-11 (b)."""
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    place.rebuild(fundings=FailingFundings(place, at_read=3))  # the first read is the drain's
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.UNEXPECTED)
    assert place.counted(property_id) == (10, 0)
    assert place.block_of(property_id) is not None
    assert place.channel.texts == [failed_text(property_id, "unexpected")]
    place.rebuild()
    assert place.reconcile(property_id).outcome is Outcome.FIXED, "the next run repairs it"
    assert place.counted(property_id) == (9, 0)


class FailingFundings(Fundings):
    """The real ones, whose connection breaks at one read."""

    def __init__(self, place: FundingPlace, at_read: int) -> None:
        super().__init__(place.engine)
        self._left = at_read
        self._broken = place.engine

    def state_of(self, property_id: str) -> FundingState:
        self._left -= 1
        if self._left:
            return super().state_of(property_id)

        def refuse(*_: object) -> None:
            raise OperationalError("SELECT", {}, Exception("the connection broke"))

        event.listen(self._broken, "before_cursor_execute", refuse)
        try:
            return super().state_of(property_id)
        finally:
            event.remove(self._broken, "before_cursor_execute", refuse)


def test_a_double_decrement_is_found_because_the_truth_is_at_the_limit(place: FundingPlace) -> None:
    """Case C-12 (b)."""
    property_id = place.add_property(6, sold=6, counters=(4, 0))
    assert place.reconcile(property_id).delta == {"purchased": 2, "autoInvest": 0}
    assert place.counted(property_id) == (6, 0)


@pytest.mark.parametrize(
    ("counters", "delta"),
    [((None, 3), (None, 0)), ((10, None), (0, None)), ((None, None), (None, None))],
)
def test_a_missing_counter_is_a_drift_and_made_anew(
    place: FundingPlace, counters: tuple[int | None, int | None], delta: tuple[int | None, int | None]
) -> None:
    property_id = place.add_property(10, sold=10, auto_invest=3, counters=counters)
    outcome = place.reconcile(property_id)
    assert outcome.outcome is Outcome.FIXED
    assert outcome.delta == dict(zip(("purchased", "autoInvest"), delta, strict=True))
    assert place.counted(property_id) == (10, 3)


# Numbers that no sale can lead to.


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (-1, "counter-negative"),
        ("a dozen", "counter-not-a-number"),
        ("", "counter-not-a-number"),
        ("9.5", "counter-not-a-number"),
        (b"\xff\xfe", "counter-not-a-number"),
        (2**63, "counter-not-a-number"),
    ],
)
def test_a_counter_that_cannot_be_is_alerted_and_then_repaired(
    place: FundingPlace, value: object, reason: str
) -> None:
    property_id = place.add_property(10, sold=5)
    place.set_counters(property_id, value)
    assert place.reconcile(property_id).outcome is Outcome.FIXED
    assert place.counted(property_id) == (5, 0)
    assert place.channel.texts == [
        failed_text(property_id, reason),
        f"funding-counter-reconciliation-fixed: property {property_id}: fixed",
    ]


def test_a_counter_key_that_holds_no_text_is_alerted_and_repaired(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=5)
    key = auto_invest_key(property_id)
    place.redis.delete(key)
    place.redis.hset(key, "a", "1")
    assert place.reconcile(property_id).outcome is Outcome.FIXED
    assert place.counted(property_id) == (5, 0)
    assert place.channel.texts[0] == failed_text(property_id, "counter-not-a-number")


def test_in_skip_mode_a_negative_counter_is_told_and_stays_as_it_is(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=5, counters=(-1, 0))
    place.rebuild(is_write_skipped=True)
    place.reconcile(property_id)
    assert place.counted(property_id) == (-1, 0), "never clamped silently"
    assert place.channel.texts[0] == failed_text(property_id, "counter-negative")


# What is written, and what never is.


def test_the_skip_mode_blocks_and_tells_and_lifts_but_never_writes_to_redis(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    seen: list[BlockReason | None] = []
    place.waiting_clock.while_waiting = [lambda: seen.append(place.reason_of(property_id))]
    place.rebuild(is_write_skipped=True)
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.delta) == (Outcome.WOULD_FIX, {"purchased": -1, "autoInvest": 0})
    assert seen == [BlockReason.COUNTER_RECONCILIATION]
    assert place.counted(property_id) == (10, 0)
    assert place.block_of(property_id) is None
    assert place.channel.texts == [
        f"[SKIP REDIS WRITE] funding-counter-reconciliation-fixed: property {property_id}: would-fix"
    ]


def test_of_the_database_only_the_block_is_written(place: FundingPlace) -> None:
    drifted = place.add_property(10, sold=9, counters=(10, 0))
    oversold = place.add_property(10, sold=11)
    before = place.ledger_hash()
    written: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        if not statement.lstrip().upper().startswith("SELECT"):
            written.append(statement.partition("=")[0])

    event.listen(place.engine, "before_cursor_execute", note)
    assert place.reconcile(drifted).outcome is Outcome.FIXED
    assert place.reconcile(oversold).outcome is Outcome.FAILED
    event.remove(place.engine, "before_cursor_execute", note)
    assert set(written) == {"UPDATE funding SET blocked"}
    assert place.ledger_hash() == before


def test_a_block_for_oversell_keeps_its_reason_and_its_time(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    place.set_block(property_id, BlockReason.BRICKS_OVERSELL)
    set_at = place.clock.now()
    place.waiting_clock.advance(3600)
    place.add_purchase(property_id, 1, WAITING)
    place.reconcile(property_id)
    block = place.block_of(property_id)
    assert block is not None
    assert (block.reason, block.at) == (BlockReason.BRICKS_OVERSELL, set_at)


def test_a_block_of_the_selling_side_without_time_and_run_is_understood(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, blocked={"reason": "bricks-oversell", "at": "yesterday"})
    assert place.reason_of(property_id) is BlockReason.BRICKS_OVERSELL
    assert place.reconcile(property_id).outcome is Outcome.SYNCED
    assert place.block_of(property_id) is None


def test_only_the_run_that_holds_a_block_may_lift_it(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9)
    place.set_block(property_id, BlockReason.BRICKS_OVERSELL)
    for run in ("", "another run"):
        with pytest.raises(LeaseLost):
            place.fundings.unblock(property_id, run="mine")
        place.set_block(property_id, BlockReason.COUNTER_RECONCILIATION, run=run)
    place.fundings.block(property_id, run="mine", now=place.clock.now())
    place.fundings.unblock(property_id, run="mine")
    assert place.block_of(property_id) is None


def test_a_block_that_is_gone_already_is_lifted_as_well(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9)
    place.fundings.unblock(property_id, run="mine")


def test_a_block_that_somebody_lifts_meanwhile_ends_the_run_without_a_write(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    place.waiting_clock.while_waiting = [lambda: place.set_block(property_id, None)]
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.UNEXPECTED)
    assert outcome.detail == "the block was lifted by somebody else"
    assert place.counted(property_id) == (10, 0)


@pytest.mark.parametrize(
    "columns",
    [
        {"publish_status": "draft"},
        {"started_at": None},
        {"started_at": datetime.fromisoformat("2099-01-01T00:00:00Z")},
        {"ended_at": datetime.fromisoformat("2026-01-01T00:00:00Z")},
    ],
)
def test_a_property_that_is_not_on_sale_is_never_blocked(
    place: FundingPlace, columns: dict[str, object]
) -> None:
    property_id = place.add_property(10, sold=10, counters=(9, 0), **columns)
    assert place.reconcile(property_id).outcome is Outcome.IGNORED
    assert place.block_of(property_id) is None
    assert place.counted(property_id) == (9, 0)


def test_a_funding_that_starts_this_very_moment_is_on_sale(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=10, counters=(9, 0), started_at=place.clock.now())
    assert place.reconcile(property_id).outcome is Outcome.FIXED


@pytest.mark.parametrize("status", list(PurchaseStatus))
def test_the_truth_is_every_purchase_that_is_neither_declined_nor_refunded(
    place: FundingPlace, status: PurchaseStatus
) -> None:
    property_id = place.add_property(10)
    place.add_purchase(property_id, 2, status)
    place.add_purchase(property_id, 3, status, is_auto_invest=True)
    is_dead = status in (PurchaseStatus.DECLINED, PurchaseStatus.REFUNDED)
    truth = place.truth(property_id)
    assert (truth.purchased, truth.auto_invest) == ((0, 0) if is_dead else (5, 3))


# Cancels, leases, alerts.


def test_a_cancel_during_a_wait_ends_it_and_puts_the_property_back_on_sale(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    outcome = place.reconcile(property_id, is_cancelled=lambda: True)
    assert outcome.outcome is Outcome.CANCELLED
    assert place.waiting_clock.waits == []
    assert place.block_of(property_id) is None
    assert place.counted(property_id) == (10, 0)
    assert place.channel.heard == []


def test_a_cancel_leaves_a_block_that_was_there_before(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    place.set_block(property_id, BlockReason.BRICKS_OVERSELL)
    assert place.reconcile(property_id, is_cancelled=lambda: True).outcome is Outcome.CANCELLED
    assert place.reason_of(property_id) is BlockReason.BRICKS_OVERSELL


def test_a_cancel_is_seen_within_half_a_second(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    asked: list[float] = []

    def is_cancelled() -> bool:
        asked.append(place.clock.monotonic())
        return False

    place.reconcile(property_id, is_cancelled=is_cancelled)
    assert max(later - earlier for earlier, later in itertools.pairwise(asked)) <= 0.5


def test_a_property_in_other_hands_is_left_to_them(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    with LeaseStore(place.redis, Clock()).hold(property_lease(property_id), ttl_ms=60_000):
        assert place.reconcile(property_id).outcome is Outcome.LOCKED_OUT
    assert place.counted(property_id) == (10, 0)
    assert place.block_of(property_id) is None
    assert place.channel.heard == []


def test_a_run_that_lost_its_lease_to_another_writes_nothing_any_more(place: FundingPlace) -> None:
    """It was away for longer than its lease lasted, and by its own clock nothing has happened."""
    property_id = place.add_property(10, sold=9, counters=(10, 0))

    def another_run_repairs_it_and_a_buyer_takes_the_last_brick() -> None:
        place.redis.delete(f"converge:lease:{property_lease(property_id)}")
        others = FundingPlace(place.engine, place.redis, place.channel)
        assert others.reconcile(property_id).outcome is Outcome.FIXED
        others.purchases.buy(others.order(property_id))

    place.waiting_clock.while_waiting = [another_run_repairs_it_and_a_buyer_takes_the_last_brick]
    outcome = place.reconcile(property_id)
    assert outcome.outcome is Outcome.FAILED
    assert place.counted(property_id) == (10, 0), "10 again, and this time it is the truth"
    assert place.truth(property_id).purchased == 10


def test_the_same_reason_is_told_once_a_night_and_logged_every_time(
    place: FundingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    property_id = place.add_property(10, sold=11)
    for _ in range(3):
        assert place.reconcile(property_id).outcome is Outcome.FAILED
    assert place.channel.texts == [failed_text(property_id, "pg-oversell-after-drain")]
    assert [facts["reason"] for facts in alerts_in(caplog)] == ["pg-oversell-after-drain"] * 3
    place.waiting_clock.advance(86_400)
    place.reconcile(property_id)
    assert len(place.channel.texts) == 2, "the next night tells it again"


def test_another_property_and_another_reason_are_told_on_their_own(place: FundingPlace) -> None:
    oversold, waiting = place.add_property(10, sold=11), place.add_property(10, sold=9)
    place.add_purchase(waiting, 1, WAITING)
    place.reconcile(oversold)
    place.reconcile(waiting)
    place.add_purchase(oversold, 1, WAITING)
    place.reconcile(oversold)
    assert place.channel.texts == [
        failed_text(oversold, "pg-oversell-after-drain"),
        failed_text(waiting, "assignation-drain-timeout"),
        failed_text(oversold, "assignation-drain-timeout"),
    ]


def test_an_alert_that_the_channel_refused_is_told_by_the_next_try(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=11)
    place.channel.status = 400
    place.reconcile(property_id)
    place.channel.status = 200
    place.reconcile(property_id)
    assert place.channel.texts == [failed_text(property_id, "pg-oversell-after-drain")]


def test_the_address_of_the_channel_is_in_no_log(
    place: FundingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    property_id = place.add_property(10, sold=11)
    place.channel.status = 403
    place.reconcile(property_id)
    unreachable = FundingPlace(place.engine, place.redis, place.channel)
    unreachable.alerts.webhook_url = place.channel.url.replace("127.0.0.1", "localhost.invalid")
    unreachable.alerts.send(Alert(reason=AlertReason.UNEXPECTED))
    shown = "\n".join(str(vars(record)) for record in caplog.records if record.name.startswith("workers"))
    assert "alert" in shown
    assert "secret-path" not in shown


def test_without_a_channel_the_log_has_the_alert_with_all_its_facts(
    place: FundingPlace, caplog: pytest.LogCaptureFixture
) -> None:
    property_id = place.add_property(10, sold=9, auto_invest=2, counters=(10, 2))
    place.channel.url = ""
    place.rebuild()
    place.reconcile(property_id)
    [facts] = alerts_in(caplog)
    assert facts["property"] == property_id
    assert facts["delta"] == {"purchased": -1, "autoInvest": 0}
    assert facts["truth"] == {"purchased": 9, "direct": 7, "autoInvest": 2}
    assert facts["reads"] == 2


@pytest.mark.parametrize("error", [ZeroDivisionError("ours"), RetryableError("the store is away")])
def test_an_error_that_nobody_expected_ends_in_one_alert_and_the_block_stays(
    place: FundingPlace, error: Exception
) -> None:
    class Broken(FundingCounters):
        def read_many(self, property_ids: object) -> list[object]:  # type: ignore[override]
            raise error

    property_id = place.add_property(10, sold=9, counters=(10, 0))
    place.rebuild(counters=Broken(place.redis))
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.UNEXPECTED)
    assert place.block_of(property_id) is not None
    assert place.channel.texts == [failed_text(property_id, "unexpected")]


def test_a_property_takes_its_budget_at_most(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    place.rebuild(budget_s=3.0)
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.UNEXPECTED)
    assert place.clock.monotonic() - 1000 <= 3.0


def test_a_second_run_over_a_repaired_property_changes_nothing(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    outcomes: list[Outcome] = [place.reconcile(property_id).outcome for _ in range(2)]
    assert outcomes == [Outcome.FIXED, Outcome.SYNCED]
    assert len(place.channel.heard) == 1
