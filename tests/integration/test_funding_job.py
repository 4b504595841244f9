"""The reconciliation job with real stores: what it selects, asks, hands out and counts."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from sqlalchemy import Engine, event

from tests.conftest import make_settings
from tests.integration.funding_place import (
    Channel,
    FundingPlace,
    channel,
    engine,
    place,
)
from tests.waiting import wait_until
from workers.clock import Clock
from workers.errors import JobFailed, RetryableError
from workers.funding.counters import FundingCounters
from workers.funding.evaluate import Counters
from workers.funding.fundings import Fundings
from workers.funding.job_kinds import FUNDING_RECONCILE, FundingReconcileRequest
from workers.funding.reconcile import RECONCILE_PROPERTY_TASK, FundingReconcile, count_outcomes
from workers.funding.reconciliation import Outcome, property_lease
from workers.funding.vocabulary import BlockReason, PurchaseStatus
from workers.jobs.fan_out import Assignment, FanOutLimits, FanOutResult, MemberDesk
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.record import JobStore
from workers.jobs.run import JobRunner
from workers.leases import LeaseStore

__all__ = ["channel", "engine", "place"]

_numbers = itertools.count(70_000)


class ThreadMessenger:
    """Takes members to threads of this process instead of to a queue; some workers die on the way."""

    def __init__(self, bench: JobBench) -> None:
        self._bench = bench
        self.pool = ThreadPoolExecutor(16)
        self.dying: set[str] = set()
        self.published: list[str] = []

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def publish_member(self, *, task: str, arguments: Mapping[str, Any], queue: str) -> None:
        assert (task, queue) == (RECONCILE_PROPERTY_TASK, "records")
        member = Assignment.from_json(arguments["assignment"])
        self.published.append(member.target)
        self.pool.submit(self._work, member)

    def _work(self, member: Assignment) -> None:
        bench = self._bench
        if member.target in self.dying:
            dead = MemberDesk(bench.place.redis, bench.place.leases, process_ttl_ms=1000)
            assert dead.start(member)
            dead.leave()
            return
        bench.desk.run(member, lambda: bench.reconcile_property(member.target, member.job_id))


class JobBench:
    """A place for jobs over fundings."""

    def __init__(self, place: FundingPlace) -> None:
        self.place = place
        # The frame of a job waits in earnest; only the reads of a property are made quick.
        self.clock = Jumping()
        self.messenger = ThreadMessenger(self)
        self.store = JobStore(place.redis, retention_s=600)
        self.desk = MemberDesk(place.redis, place.leases, process_ttl_ms=5000)
        self.shutdown = threading.Event()
        self.job_id = ""
        self.counters, self.fundings = place.counters, place.fundings
        place.rebuild(delay_s=0.01)

    def reconcile_property(self, property_id: str, job_id: str) -> dict[str, object]:
        """As `FundingWork` does."""

        def is_cancelled() -> bool:
            record = self.store.get(job_id)
            return record is not None and record.cancel_requested_at is not None

        return self.place.reconciler.reconcile(property_id, is_cancelled).to_json()

    def run(self, *, window: int = 16, **body: Any) -> dict[str, Any]:
        """Run a job and return its result."""
        request = FundingReconcileRequest.model_validate(body).with_defaults(make_settings())
        use_case = FundingReconcile(
            redis=self.place.redis,
            fundings=self.fundings,
            counters=self.counters,
            alerts=self.place.alerts,
            messenger=cast(CeleryMessenger, self.messenger),
            clock=self.clock,
            limits=FanOutLimits(window=window, budget_s=20, grace_s=2),
            ratio=0.999,
        )
        runner = JobRunner(
            self.store,
            LeaseStore(self.place.redis, self.clock),
            self.clock,
            heartbeat_ttl_ms=5000,
            lease_ttls_ms={FUNDING_RECONCILE.name: 5000},
            shutdown=self.shutdown,
        )
        self.job_id = f"job-{next(_numbers)}"
        data = request.model_dump(mode="json", by_alias=True)
        self.store.create(self.job_id, FUNDING_RECONCILE.name, data, expires_s=60, claim=None)
        found: dict[str, Any] = runner.run(FUNDING_RECONCILE, self.job_id, data, use_case.run)
        return found

    def meta(self, **body: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.run(**body)["meta"]
        return found

    def outcomes(self, **body: Any) -> dict[str, str]:
        return {row["propertyId"]: row["outcome"] for row in self.run(**body)["data"]}


class Jumping(Clock):
    """A clock that a test sets forward."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


@pytest.fixture
def bench(engine: Engine, redis: Redis, channel: Channel) -> Iterator[JobBench]:
    bench = JobBench(FundingPlace(engine, redis, channel, clock=Hasty()))
    yield bench
    bench.messenger.pool.shutdown(wait=True)


class Hasty(Clock):
    """Many threads wait by this one at once."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(min(timeout_s, 0.01))


# Selection.


def test_of_two_fundings_only_the_one_at_999_in_1000_or_more_is_taken(bench: JobBench) -> None:
    near = bench.place.add_property(1000, sold=998, counters=(999, 0))
    bench.place.add_property(1000, sold=998, counters=(997, 0))
    assert bench.outcomes() == {near: "fixed"}
    assert bench.place.counted(near) == (998, 0)


def test_a_closed_funding_is_ignored_though_its_counters_are_off(bench: JobBench) -> None:
    closed = bench.place.add_property(10, sold=9, counters=(10, 0), ended_at=bench.place.clock.now())
    assert bench.outcomes() == {}
    assert bench.place.counted(closed) == (10, 0)


def test_a_truth_at_the_limit_is_enough_however_low_the_counter(bench: JobBench) -> None:
    """Case C-12 (b)."""
    property_id = bench.place.add_property(6, sold=6, counters=(4, 0))
    assert bench.outcomes() == {property_id: "fixed"}
    assert bench.place.counted(property_id) == (6, 0)


@pytest.mark.parametrize("reason", list(BlockReason))
def test_a_blocked_funding_is_taken_whatever_is_sold_of_it(bench: JobBench, reason: BlockReason) -> None:
    property_id = bench.place.add_property(1000, sold=3, counters=(5, 0))
    bench.place.set_block(property_id, reason)
    assert bench.outcomes() == {property_id: "fixed"}
    assert bench.place.block_of(property_id) is None


def test_drafts_and_fundings_that_have_not_started_are_ignored(bench: JobBench) -> None:
    bench.place.add_property(10, sold=10, counters=(9, 0), publish_status="draft")
    bench.place.add_property(10, sold=10, counters=(9, 0), started_at=None)
    meta = bench.meta()
    assert (meta["scanned"], meta["targeted"]) == (0, 0)


@pytest.mark.parametrize("counters", [(-1, 0), (5, -1), ("many", 0), (5, "")])
def test_an_impossible_counter_is_repaired_at_any_time(bench: JobBench, counters: tuple[Any, Any]) -> None:
    property_id = bench.place.add_property(1000, sold=5, counters=counters)
    result = bench.run()
    assert [row["outcome"] for row in result["data"]] == ["fixed"]
    assert result["meta"]["faultyCounter"] == 1
    assert bench.place.counted(property_id) == (5, 0)


def test_a_missing_counter_far_from_the_end_is_left_to_the_next_buyer(bench: JobBench) -> None:
    property_id = bench.place.add_property(1000, sold=5, counters=(None, None))
    assert bench.outcomes() == {}
    bench.place.purchases.buy(bench.place.order(property_id))
    assert bench.place.counted(property_id) == (6, 0)


def test_named_properties_are_taken_alone_and_whatever_is_sold_of_them(bench: JobBench) -> None:
    named = bench.place.add_property(1000, sold=5, counters=(7, 0))
    near = bench.place.add_property(10, sold=9, counters=(10, 0))
    closed = bench.place.add_property(10, sold=9, counters=(10, 0), ended_at=bench.place.clock.now())
    result = bench.run(propertyIds=[named, closed])
    assert {row["propertyId"]: row["outcome"] for row in result["data"]} == {
        named: "fixed",
        closed: "ignored",
    }
    meta = result["meta"]
    assert (meta["named"], meta["notOnSale"], meta["targeted"], meta["nearCompletion"]) == (1, 1, 1, 0)
    assert bench.place.counted(near) == (10, 0)


def test_one_query_and_one_round_trip_show_all_fundings(bench: JobBench, redis: Redis) -> None:
    for _ in range(30):
        bench.place.add_property(1000, sold=10)
    statements: list[str] = []
    note = lambda _c, _cursor, statement, *_: statements.append(statement)  # noqa: E731
    event.listen(bench.place.engine, "before_cursor_execute", note)
    trips = RoundTrips(redis)
    bench.counters = FundingCounters(cast(Redis, trips))
    meta = bench.meta(dryRun=True)
    event.remove(bench.place.engine, "before_cursor_execute", note)
    assert (meta["scanned"], meta["targeted"]) == (30, 0)
    assert [each.split(maxsplit=1)[0] for each in statements] == ["SELECT"]
    assert trips.count == 1


class RoundTrips:
    """A client that counts the round trips of its pipelines, and has no single commands."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.count = 0

    def register_script(self, script: str) -> Any:
        return self._redis.register_script(script)

    def pipeline(self, **options: Any) -> Any:
        self.count += 1
        return self._redis.pipeline(**options)


# One property and the others.


def test_five_properties_of_which_the_second_raises_end_with_four_repaired_and_one_alert(
    bench: JobBench,
) -> None:
    found = [bench.place.add_property(10, sold=9, counters=(10, 0)) for _ in range(5)]

    class Raising(FundingCounters):
        def read(self, property_id: str) -> Counters:
            if property_id == found[1]:
                raise ZeroDivisionError
            return super().read(property_id)

    bench.place.rebuild(counters=Raising(bench.place.redis), delay_s=0.01)
    result = bench.run()
    outcomes = {row["propertyId"]: row["outcome"] for row in result["data"]}
    assert outcomes == {each: "failed" if each == found[1] else "fixed" for each in found}
    meta = result["meta"]
    assert (meta["fixed"], meta["failed"], meta["byReason"]) == (4, 1, {"unexpected": 1})
    texts = [text for text in bench.place.channel.texts if "failed" in text]
    assert texts == [f"funding-counter-reconciliation-failed: property {found[1]}: unexpected"]
    assert bench.place.block_of(found[1]) is not None
    assert [bench.place.counted(each) for each in found] == [
        (10 if each == found[1] else 9, 0) for each in found
    ]
    bench.place.rebuild(delay_s=0.01)
    assert bench.outcomes() == {found[1]: "fixed"}, "the next run repairs it"


def test_a_worker_that_dies_leaves_one_alert_and_the_next_run_repairs(bench: JobBench) -> None:
    lost, other = (bench.place.add_property(10, sold=9, counters=(10, 0)) for _ in range(2))
    bench.messenger.dying = {lost}
    result = bench.run()
    assert {row["propertyId"]: row["outcome"] for row in result["data"]} == {lost: "lost", other: "fixed"}
    assert (result["meta"]["lost"], result["meta"]["remaining"]) == (1, 1)
    failed = f"funding-counter-reconciliation-failed: property {lost}: unexpected"
    assert [text for text in bench.place.channel.texts if "failed" in text] == [failed]
    bench.messenger.dying = set()
    assert bench.outcomes() == {lost: "fixed"}


def test_a_property_in_other_hands_stays_for_the_next_run(bench: JobBench) -> None:
    property_id = bench.place.add_property(10, sold=9, counters=(10, 0))
    with LeaseStore(bench.place.redis, Clock()).hold(property_lease(property_id), ttl_ms=60_000):
        meta = bench.meta()
    assert (meta["lockedOut"], meta["processed"], meta["remaining"]) == (1, 0, 1)
    assert bench.meta()["fixed"] == 1


def test_properties_are_reconciled_side_by_side(bench: JobBench) -> None:
    """All of them are blocked at the same time."""
    found = [bench.place.add_property(10, sold=9, counters=(10, 0)) for _ in range(8)]
    together = threading.Barrier(len(found), timeout=20)

    class Meeting(FundingCounters):
        def read(self, property_id: str) -> Counters:
            if not together.broken and property_id not in met:
                met.add(property_id)
                together.wait()
            return super().read(property_id)

    met: set[str] = set()
    bench.place.rebuild(counters=Meeting(bench.place.redis), delay_s=0.01)
    assert bench.meta()["fixed"] == 8


def test_blocked_fundings_come_first(bench: JobBench) -> None:
    """Nothing of theirs is sold until then."""
    for _ in range(3):
        bench.place.add_property(10, sold=9, counters=(10, 0))
    blocked = bench.place.add_property(1000, sold=3)
    bench.place.set_block(blocked, BlockReason.BRICKS_OVERSELL)
    bench.run(window=1)
    assert bench.messenger.published[0] == blocked


def test_a_cancel_ends_the_waits_and_puts_everything_back_on_sale(bench: JobBench) -> None:
    found = [bench.place.add_property(10, sold=9, counters=(10, 0)) for _ in range(3)]
    bench.place.clock = Clock()
    bench.place.rebuild(delay_s=3600)
    job = bench.messenger.pool.submit(bench.meta)
    wait_until(lambda: all(bench.place.block_of(each) for each in found), "all are blocked")
    asked_at = time.monotonic()
    bench.store.request_cancel(bench.job_id)
    meta = job.result(20)
    assert (meta["stoppedBy"], meta["cancelled"], meta["remaining"]) == ("cancelled", 3, 3)
    assert [bench.place.block_of(each) for each in found] == [None] * 3
    assert [bench.place.counted(each) for each in found] == [(10, 0)] * 3
    assert time.monotonic() - asked_at < 10, "and not an hour"


# What is not written.


def test_a_dry_run_says_what_the_real_run_then_does_and_writes_nothing(bench: JobBench) -> None:
    place = bench.place
    drifted = place.add_property(10, sold=9, auto_invest=2, counters=(10, 2))
    oversold = place.add_property(10, sold=11)
    blocked = place.add_property(1000, sold=3)
    place.set_block(blocked, BlockReason.BRICKS_OVERSELL)
    negative = place.add_property(1000, sold=3, counters=(-1, 0))
    before = place.ledger_hash(), [place.block_of(each) for each in (drifted, oversold, blocked, negative)]
    keys = {key: place.redis.get(key) for key in place.redis.keys("property_*")}
    dry = bench.run(dryRun=True)
    assert dry["meta"]["dryRun"] is True
    assert (
        place.ledger_hash(),
        [place.block_of(each) for each in (drifted, oversold, blocked, negative)],
    ) == before
    assert {key: place.redis.get(key) for key in place.redis.keys("property_*")} == keys
    assert bench.messenger.published == []
    assert place.channel.heard == []
    rows = {row["propertyId"]: row for row in dry["data"]}
    assert rows[drifted] == {
        "propertyId": drifted,
        "cause": "nearCompletion",
        "capacity": 10,
        "counters": {"purchased": 10, "autoInvest": 2},
        "truth": {"purchased": 9, "autoInvest": 2},
        "waiting": 0,
        "isOversold": False,
        "delta": {"purchased": -1, "autoInvest": 0},
        "outcome": "planned",
    }
    assert rows[oversold]["isOversold"] is True
    assert {each: rows[each]["cause"] for each in (blocked, negative)} == {
        blocked: "blocked",
        negative: "faultyCounter",
    }
    real = bench.run()
    same = ("scanned", "targeted", "nearCompletion", "blocked", "faultyCounter", "named", "notOnSale")
    assert {name: dry["meta"][name] for name in same} == {name: real["meta"][name] for name in same}
    assert dry["meta"]["planned"] == real["meta"]["processed"] == 4


# Stores and callers.


def test_a_selection_that_fails_fails_the_job_with_one_alert_about_the_run(bench: JobBench) -> None:
    class Away(Fundings):
        def active(self, *_: object, **__: object) -> list[Any]:
            raise RetryableError("the database of fundings failed: OperationalError")

    bench.fundings = Away(bench.place.engine)
    for _ in range(2):
        with pytest.raises(JobFailed) as error:
            bench.run()
        assert error.value.code == "STORE_UNAVAILABLE"
    assert bench.place.channel.texts == ["funding-counter-reconciliation-failed: the whole run: unexpected"]


def test_a_dry_run_that_fails_tells_nobody_but_its_caller(bench: JobBench) -> None:
    class Away(Fundings):
        def active(self, *_: object, **__: object) -> list[Any]:
            raise RetryableError("away")

    bench.fundings = Away(bench.place.engine)
    with pytest.raises(JobFailed):
        bench.run(dryRun=True)
    assert bench.place.channel.heard == []


def test_a_second_job_beside_a_running_one_is_skipped(bench: JobBench) -> None:
    bench.place.add_property(10, sold=9, counters=(10, 0))
    with LeaseStore(bench.place.redis, Clock()).hold(FUNDING_RECONCILE.lease, ttl_ms=60_000):
        assert bench.meta() == {"skipped": "already running"}
    assert bench.messenger.published == []


def test_a_deadline_stops_the_handing_out_and_what_is_in_work_is_finished(bench: JobBench) -> None:
    found = [bench.place.add_property(10, sold=9, counters=(10, 0)) for _ in range(4)]

    class PastTheDeadline(FundingCounters):
        def read(self, property_id: str) -> Counters:
            bench.clock.ahead_s = 2.0
            return super().read(property_id)

    bench.place.rebuild(counters=PastTheDeadline(bench.place.redis), delay_s=0.01)
    meta = bench.meta(window=1, deadlineMs=1000)
    assert (meta["fixed"], meta["remaining"], meta["stoppedBy"]) == (1, 3, "deadline")
    assert sum(bench.place.block_of(each) is None for each in found) == 4


def test_what_is_done_is_not_touched_again(bench: JobBench) -> None:
    property_id = bench.place.add_property(10, sold=10, auto_invest=3, counters=(9, 3))
    assert bench.meta()["fixed"] == 1
    assert bench.outcomes() == {property_id: "synced"}
    assert bench.place.counted(property_id) == (10, 3)
    assert len(bench.place.channel.heard) == 1


def test_waiting_purchases_that_nobody_gives_bricks_fail_only_their_own_property(bench: JobBench) -> None:
    stuck, fine = (bench.place.add_property(10, sold=9, counters=(10, 0)) for _ in range(2))
    bench.place.add_purchase(stuck, 1, PurchaseStatus.WAITING_FOR_ASSIGNATION)
    assert bench.outcomes() == {stuck: "failed", fine: "fixed"}


kinds = st.sampled_from([each for each in Outcome if each is not Outcome.LOST])


@given(outcomes=st.lists(kinds), lost=st.integers(0, 5), waiting=st.integers(0, 5))
def test_the_counts_of_a_reconciliation_add_up(outcomes: list[Outcome], lost: int, waiting: int) -> None:
    result = FanOutResult(
        outcomes={
            str(number): {"outcome": each.value, "reason": "unexpected"}
            for number, each in enumerate(outcomes)
        },
        lost=[f"lost-{number}" for number in range(lost)],
    )
    targeted = len(outcomes) + lost + waiting
    meta: dict[str, Any] = count_outcomes(result, targeted=targeted)
    assert targeted == meta["processed"] + meta["remaining"]
    parts = ("synced", "fixed", "wouldFix", "failed", "ignored")
    assert meta["processed"] == sum(meta[part] for part in parts)
    assert meta["remaining"] == meta["lockedOut"] + meta["cancelled"] + meta["lost"] + waiting
    assert sum(meta["byReason"].values()) == meta["failed"]
