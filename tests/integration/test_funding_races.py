"""Races between the reconciliation and the selling side; each has a twin without protection, which loses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import event, text

from tests.integration.funding_place import FundingPlace, channel, engine, place
from tests.waiting import wait_until
from workers.errors import RetryableError
from workers.funding.counters import FundingCounters, Move, Written, auto_invest_key, purchased_key
from workers.funding.errors import OutcomeUnknown, PurchaseRefused
from workers.funding.evaluate import BrickCounts, Counters
from workers.funding.fundings import Fundings, FundingState
from workers.funding.ledger import Ledger
from workers.funding.purchases import Purchases, take_off
from workers.funding.reconciliation import Outcome, PropertyReconciler, _Work
from workers.funding.vocabulary import AlertReason, PurchaseStatus
from workers.leases import Lease

__all__ = ["channel", "engine", "place"]


class StandingStill(FundingCounters):
    """Counters whose next buyer stands still between its two writes until it may go on."""

    def __init__(self, counters: FundingCounters) -> None:
        super().__init__(counters._redis)
        self.is_between = threading.Event()
        self.may_go_on = threading.Event()

    def add(self, move: Move) -> int:
        counted = super().add(move)
        if not self.is_between.is_set():
            self.is_between.set()
            assert self.may_go_on.wait(10)
        return counted

    def take_off(self, move: Move) -> None:
        """A purchase that has been ended, and whose bricks are still counted."""
        self.is_between.set()
        assert self.may_go_on.wait(10)
        super().take_off(move)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def reserve(place: FundingPlace, counters: FundingCounters, property_id: str) -> object:
    """Take one brick, with counters of the test's own."""
    purchases = Purchases(place.engine, counters, place.clock)
    return purchases.reserve(place.order(property_id), valid_for=timedelta(hours=1))


def somebody_waits_at_the_gate(place: FundingPlace) -> bool:
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with place.engine.connect() as connection:
        return bool(connection.scalar(text(query)))


class WithoutBlock(Fundings):
    """The twin: it neither blocks nor waits for anybody."""

    def block(self, property_id: str, **_: object) -> tuple[int, None]:
        return self.state_of(property_id).capacity, None

    def unblock(self, property_id: str, **_: object) -> None:
        """There is nothing to lift."""


class ReconcilerWithoutBlock(PropertyReconciler):
    def _state(self, work: _Work) -> FundingState:
        return self._fundings.state_of(work.property_id)


def reconcile_without_block(place: FundingPlace, property_id: str) -> Outcome:
    place.rebuild(fundings=WithoutBlock(place.engine))
    place.reconciler.__class__ = ReconcilerWithoutBlock
    return place.reconcile(property_id).outcome


def last_brick_between_its_writes(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> tuple[str, StandingStill, Future[object]]:
    """Nine of ten are sold, and the buyer of the tenth has counted it and not committed."""
    property_id = place.add_property(10, sold=9)
    counters = StandingStill(place.counters)
    buyer = pool.submit(reserve, place, counters, property_id)
    assert counters.is_between.wait(10)
    assert place.counted(property_id) == (10, 0)
    assert place.truth(property_id).purchased == 9
    return property_id, counters, buyer


def test_the_block_waits_for_a_buyer_between_its_two_writes(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> None:
    property_id, counters, buyer = last_brick_between_its_writes(place, pool)
    run = pool.submit(place.reconcile, property_id)
    wait_until(lambda: somebody_waits_at_the_gate(place), "the block waits")
    assert place.block_of(property_id) is None
    counters.may_go_on.set()
    assert buyer.result(10)
    outcome = run.result(10)
    assert (outcome.outcome, len(outcome.readings)) == (Outcome.SYNCED, 1), "what was in between is over"
    assert place.counted(property_id) == (10, 0)
    with pytest.raises(PurchaseRefused):
        place.purchases.buy(place.order(property_id))
    assert place.truth(property_id).purchased == 10


def test_a_twin_without_block_takes_the_buyer_for_a_drift_and_sells_a_brick_twice(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> None:
    property_id, counters, buyer = last_brick_between_its_writes(place, pool)
    assert reconcile_without_block(place, property_id) is Outcome.FIXED
    counters.may_go_on.set()
    assert buyer.result(10)
    place.purchases.buy(place.order(property_id))
    assert place.truth(property_id).purchased == 11


def test_who_comes_while_the_block_waits_stands_behind_it(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> None:
    """A stream of buyers cannot keep the gate open: those that come later wait, and then are refused."""
    property_id = place.add_property(100, sold=50)
    counters = StandingStill(place.counters)
    first = pool.submit(reserve, place, counters, property_id)
    assert counters.is_between.wait(10)
    run = pool.submit(place.reconcile, property_id)
    wait_until(lambda: somebody_waits_at_the_gate(place), "the block waits")
    late = pool.submit(reserve, place, place.counters, property_id)
    counters.may_go_on.set()
    assert first.result(10)
    assert run.result(10).outcome is Outcome.SYNCED
    error = late.exception(10)
    assert error is None or isinstance(error, PurchaseRefused)
    assert place.counted(property_id) == (51 if error else 52, 0)


def refund_between_its_writes(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> tuple[str, StandingStill, Future[bool]]:
    """Ten of ten are sold, and two of them are refunded in the database and still counted."""
    property_id = place.add_property(10, sold=8)
    purchase_id = place.purchases.buy(place.order(property_id, 2))
    place.passes.assign()
    counters = StandingStill(place.counters)
    refund = pool.submit(Purchases(place.engine, counters, place.clock).refund, purchase_id)
    assert counters.is_between.wait(10)
    assert place.counted(property_id) == (10, 0)
    assert place.truth(property_id).purchased == 8
    return property_id, counters, refund


def test_the_block_waits_for_a_refund_that_has_not_taken_off_its_bricks(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> None:
    property_id, counters, refund = refund_between_its_writes(place, pool)
    run = pool.submit(place.reconcile, property_id)
    wait_until(lambda: somebody_waits_at_the_gate(place), "the block waits")
    counters.may_go_on.set()
    assert refund.result(10)
    assert run.result(10).outcome is Outcome.SYNCED
    assert place.counted(property_id) == (8, 0)


def test_a_twin_without_block_lets_a_late_refund_take_its_bricks_off_twice(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> None:
    property_id, counters, refund = refund_between_its_writes(place, pool)
    assert reconcile_without_block(place, property_id) is Outcome.FIXED
    counters.may_go_on.set()
    assert refund.result(10)
    assert place.counted(property_id) == (6, 0), "two bricks less than are sold"
    assert place.truth(property_id).purchased == 8


def test_a_twin_that_takes_off_before_the_commit_and_dies_counts_too_few(place: FundingPlace) -> None:
    """The other order of the two writes of a refund: the database rolls back what Redis has kept."""
    property_id = place.add_property(10, sold=8)
    purchase_id = place.purchases.buy(place.order(property_id, 2))
    with place.engine.connect() as connection:
        connection.begin()
        ledger = Ledger(connection, place.clock.now())
        purchase = ledger.purchase(purchase_id)
        ledger.change(purchase, [PurchaseStatus.WAITING_FOR_ASSIGNATION], status="refunded")
        take_off(place.counters, purchase)
        connection.rollback()  # its process is gone
    assert place.counted(property_id) == (8, 0)
    assert place.truth(property_id).purchased == 10, "two bricks would be sold twice"


class MovedRightBeforeTheWrite(FundingCounters):
    """Somebody who never heard of the block moves a counter between the last read and the write."""

    def __init__(self, counters: FundingCounters, move: Callable[[], object]) -> None:
        super().__init__(counters._redis)
        self.move = move

    def compare_and_set(self, property_id: str, **how: object) -> Written:
        self.move()
        return super().compare_and_set(property_id, **how)  # type: ignore[arg-type]


class Blind(MovedRightBeforeTheWrite):
    """The twin: it writes without looking."""

    def compare_and_set(
        self, property_id: str, *, expected: Counters, targets: BrickCounts, lease: Lease
    ) -> Written:
        self.move()
        self._redis.set(purchased_key(property_id), targets.purchased)
        self._redis.set(auto_invest_key(property_id), targets.auto_invest)
        return Written.DONE


def a_sale_that_ignores_the_block(place: FundingPlace, property_id: str) -> Callable[[], object]:
    def sell() -> None:
        place.add_purchase(property_id)
        place.redis.incr(purchased_key(property_id))

    return sell


def test_a_counter_that_moves_right_before_the_write_is_not_overwritten(place: FundingPlace) -> None:
    property_id = place.add_property(20, sold=9, counters=(10, 0))
    sell = a_sale_that_ignores_the_block(place, property_id)
    place.rebuild(counters=MovedRightBeforeTheWrite(place.counters, sell))
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.COUNTER_UNSTABLE)
    assert place.counted(property_id) == (11, 0)
    assert place.block_of(property_id) is not None
    place.rebuild()
    assert place.reconcile(property_id).outcome is Outcome.FIXED, "the next run repairs it"
    assert place.counted(property_id) == (10, 0)


def test_a_counter_that_needs_no_fix_must_not_have_moved_either(place: FundingPlace) -> None:
    property_id = place.add_property(20, sold=9, auto_invest=2, counters=(9, 3))
    move = lambda: place.redis.incr(purchased_key(property_id))  # noqa: E731
    place.rebuild(counters=MovedRightBeforeTheWrite(place.counters, move))
    assert place.reconcile(property_id).reason is AlertReason.COUNTER_UNSTABLE
    assert place.counted(property_id) == (10, 3)


def test_a_twin_without_compare_and_set_overwrites_the_sale(place: FundingPlace) -> None:
    property_id = place.add_property(20, sold=9, counters=(10, 0))
    sell = a_sale_that_ignores_the_block(place, property_id)
    place.rebuild(counters=Blind(place.counters, sell))
    assert place.reconcile(property_id).outcome is Outcome.FIXED
    assert place.counted(property_id) == (9, 0)
    assert place.truth(property_id).purchased == 10, "the counter says one too few"


def test_a_write_that_is_repeated_because_its_answer_got_lost_is_no_move(place: FundingPlace) -> None:
    class Repeating(FundingCounters):
        def compare_and_set(self, property_id: str, **how: object) -> Written:
            super().compare_and_set(property_id, **how)  # type: ignore[arg-type]
            return super().compare_and_set(property_id, **how)  # type: ignore[arg-type]

    property_id = place.add_property(10, sold=9, counters=(10, 0))
    place.rebuild(counters=Repeating(place.redis))
    assert place.reconcile(property_id).outcome is Outcome.FIXED


class AwayAtTheWrite(FundingCounters):
    """Its process stands still right before the write, for longer than its lease lasts."""

    def __init__(
        self, counters: FundingCounters, meanwhile: Callable[[], object], *, is_fenced: bool
    ) -> None:
        super().__init__(counters._redis)
        self.meanwhile = meanwhile
        self.is_fenced = is_fenced

    def compare_and_set(
        self, property_id: str, *, expected: Counters, targets: BrickCounts, lease: Lease
    ) -> Written:
        self.meanwhile()
        if not self.is_fenced:
            holder = self._redis.get(f"converge:lease:{lease.name}")
            lease.owner = holder.decode() if isinstance(holder, bytes) else lease.owner
            self._redis.set(f"converge:lease:{lease.name}", lease.owner)
        return super().compare_and_set(property_id, expected=expected, targets=targets, lease=lease)


def meanwhile_repaired_and_sold(place: FundingPlace, property_id: str) -> Callable[[], object]:
    """Another run repairs 10 to 9, and a buyer brings it to 10 again: the value is as it was read."""

    def act() -> None:
        place.redis.delete(f"converge:lease:funding:{property_id}")
        others = FundingPlace(place.engine, place.redis, place.channel)
        assert others.reconcile(property_id).outcome is Outcome.FIXED
        others.purchases.buy(others.order(property_id))

    return act


def test_a_write_of_a_run_whose_lease_is_gone_is_refused_even_if_the_value_came_back(
    place: FundingPlace,
) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    act = meanwhile_repaired_and_sold(place, property_id)
    place.rebuild(counters=AwayAtTheWrite(place.counters, act, is_fenced=True))
    assert place.reconcile(property_id).outcome is Outcome.FAILED
    assert place.counted(property_id) == (10, 0)
    assert place.truth(property_id).purchased == 10


def test_a_twin_that_only_compares_values_overwrites_the_sale(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    act = meanwhile_repaired_and_sold(place, property_id)
    place.rebuild(counters=AwayAtTheWrite(place.counters, act, is_fenced=False))
    place.reconcile(property_id)
    assert place.counted(property_id) == (9, 0)
    assert place.truth(property_id).purchased == 10


def test_runs_of_one_property_at_the_same_time_are_one_run(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> None:
    property_id = place.add_property(10, sold=9, counters=(10, 0))
    places = [FundingPlace(place.engine, place.redis, place.channel) for _ in range(6)]
    outcomes = [each.outcome for each in pool.map(lambda each: each.reconcile(property_id), places)]
    assert outcomes.count(Outcome.FIXED) == 1
    assert set(outcomes) <= {Outcome.FIXED, Outcome.SYNCED, Outcome.LOCKED_OUT}
    assert place.counted(property_id) == (9, 0)
    assert place.block_of(property_id) is None


# A commit of which nobody knows.


def test_a_commit_that_the_server_never_made_leaves_an_over_count(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=5)

    order = place.order(property_id)
    is_cut = threading.Event()

    def cut(connection: object) -> None:
        if is_cut.is_set():
            return
        is_cut.set()
        raw = connection.connection.dbapi_connection  # type: ignore[attr-defined]
        with place.engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": raw.info.backend_pid})

    class CutAtTheCommit(FundingCounters):
        def add(self, move: Move) -> int:
            counted = super().add(move)
            event.listen(place.engine, "commit", cut)
            return counted

    with pytest.raises(OutcomeUnknown):
        Purchases(place.engine, CutAtTheCommit(place.redis), place.clock).buy(order)
    assert place.counted(property_id) == (6, 0)
    assert place.truth(property_id).purchased == 5
    assert place.reconcile(property_id).outcome is Outcome.FIXED
    assert place.counted(property_id) == (5, 0)


def test_a_commit_whose_answer_got_lost_stays_counted(place: FundingPlace) -> None:
    property_id = place.add_property(10, sold=9)
    commit = place.engine.dialect.do_commit

    def losing(dbapi_connection: object) -> None:
        place.engine.dialect.do_commit = commit  # type: ignore[method-assign]
        commit(dbapi_connection)  # type: ignore[arg-type]
        raise psycopg.OperationalError("the connection broke")

    class LosingTheCommit(FundingCounters):
        def add(self, move: Move) -> int:
            counted = super().add(move)
            place.engine.dialect.do_commit = losing  # type: ignore[method-assign,assignment]
            return counted

    with pytest.raises(OutcomeUnknown):
        Purchases(place.engine, LosingTheCommit(place.redis), place.clock).buy(place.order(property_id))
    assert place.counted(property_id) == (10, 0)
    assert place.truth(property_id).purchased == 10
    with pytest.raises(PurchaseRefused):
        place.purchases.buy(place.order(property_id))


def test_a_buyer_whose_process_hangs_in_its_transaction_does_not_hold_the_gate_for_ever(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> None:
    """The server ends such a session; until then a run fails, tells, and has blocked nothing."""
    property_id, counters, buyer = last_brick_between_its_writes(place, pool)
    outcome = place.reconcile(property_id)
    assert (outcome.outcome, outcome.reason) == (Outcome.FAILED, AlertReason.UNEXPECTED)
    assert "LockNotAvailable" in outcome.detail
    assert place.block_of(property_id) is None, "untouched"
    counters.may_go_on.set()
    assert buyer.result(10)
    assert place.reconcile(property_id).outcome is Outcome.SYNCED


def test_a_change_that_cannot_pass_the_gate_in_time_may_be_tried_again(
    place: FundingPlace, pool: ThreadPoolExecutor
) -> None:
    property_id = place.add_property(10)
    name = {"name": f"converge:funding:gate:{property_id}"}
    with place.engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"), name)
        with pytest.raises(RetryableError, match="LockNotAvailable"):
            place.purchases.reserve(place.order(property_id), valid_for=timedelta(hours=1))
        connection.rollback()
    assert place.counted(property_id) == (0, 0)
    place.purchases.reserve(place.order(property_id), valid_for=timedelta(hours=1))
