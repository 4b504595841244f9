"""A process that dies at any of its steps: nothing is sold twice, and the next run repairs what it left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from redis import Redis
from sqlalchemy import Engine

from devstack.valkey import ValkeyServer
from tests.faults.crashing import When
from tests.faults.funding_crashing import FundingSite, HastyClock, survives
from tests.integration.funding_place import PRICE_CENTS, Channel, FundingPlace, empty, engine
from tests.waiting import wait_until
from workers.funding.reconciliation import Outcome
from workers.funding.vocabulary import BlockReason, PurchaseStatus
from workers.leases import KEY_PREFIX

__all__ = ["engine"]

ENOUGH_STEPS = 60


class Scene:
    """The stores, with one new property for each crash."""

    def __init__(self, engine: Engine, redis: Redis, url: str, redis_url: str) -> None:
        self.place = FundingPlace(engine, redis, Channel(), clock=HastyClock())
        self.url, self.redis_url = url, redis_url

    def site(self, property_id: str, **more: object) -> FundingSite:
        return FundingSite(
            database_url=self.url,
            redis_url=self.redis_url,
            property_id=property_id,
            **more,  # type: ignore[arg-type]
        )

    def each_crash(self, what: str, prepare: Callable[[], FundingSite]) -> Iterator[tuple[str, FundingSite]]:
        """Let a child die before each of its steps in turn and after the last; yield where, and on what.

        Whatever others can see is a step, so after any other one is the same as before the next.
        """
        # One that comes to its end also leaves the scripts in Redis, so that all take the same steps.
        assert survives(self._fresh(prepare), what, ENOUGH_STEPS, When.BEFORE)
        for number in range(1, ENOUGH_STEPS):
            site = self._fresh(prepare)
            if survives(site, what, number, When.BEFORE):
                break
            self.let_the_dead_go()
            yield f"before step {number}", site
        last = number - 1
        assert 3 < last < ENOUGH_STEPS - 1, "it took some steps and came to its end"
        site = self._fresh(prepare)
        assert not survives(site, what, last, When.AFTER)
        self.let_the_dead_go()
        yield f"after step {last}", site

    def _fresh(self, prepare: Callable[[], FundingSite]) -> FundingSite:
        empty(self.place.engine)
        return prepare()

    def let_the_dead_go(self) -> None:
        """Leases run out by themselves, and the server notices that its client is gone."""
        for key in self.place.redis.scan_iter(f"{KEY_PREFIX}*"):
            self.place.redis.delete(key)
        wait_until(self._is_nobody_in_a_transaction, "the server has rolled back")

    def _is_nobody_in_a_transaction(self) -> bool:
        query = (
            "SELECT count(*) FROM pg_stat_activity, pg_locks WHERE pg_locks.pid = pg_stat_activity.pid"
            " AND datname = current_database() AND pg_stat_activity.pid <> pg_backend_pid()"
        )
        with self.place.engine.connect() as connection:
            return not connection.exec_driver_sql(query).scalar()

    def assert_repaired_by_the_next_run(self, property_id: str, place: str) -> None:
        outcome = self.place.reconcile(property_id)
        assert outcome.outcome in (Outcome.FIXED, Outcome.SYNCED), (place, outcome)
        assert self.place.block_of(property_id) is None, place
        truth = self.place.truth(property_id)
        assert self.place.counted(property_id) == (truth.purchased, truth.auto_invest), place


@pytest.fixture
def scene(engine: Engine, redis: Redis, funding_database: str, valkey: ValkeyServer) -> Scene:
    return Scene(engine, redis, funding_database, valkey.url)


@pytest.mark.parametrize("reason", [None, BlockReason.BRICKS_OVERSELL])
def test_a_run_that_dies_at_any_step_leaves_the_property_untouched_or_blocked(
    scene: Scene, reason: BlockReason | None
) -> None:
    place = scene.place

    def drifted() -> FundingSite:
        property_id = place.add_property(10, sold=9, auto_invest=2, counters=(10, 1))
        place.set_block(property_id, reason)
        return scene.site(property_id)

    states = set()
    for where, site in scene.each_crash("reconcile", drifted):
        property_id = site.property_id
        found, counted = place.reason_of(property_id), place.counted(property_id)
        assert counted in ((10, 1), (9, 2)), f"{where}: both counters or none"
        if found is None:
            # Either nothing has been done, or all of it.
            assert counted == ((10, 1) if reason is None and counted == (10, 1) else (9, 2)), where
        else:
            assert found is (reason or BlockReason.COUNTER_RECONCILIATION), where
        assert place.truth(property_id).purchased == 9, where
        states.add((found, counted))
        scene.assert_repaired_by_the_next_run(property_id, where)
    blocked = reason or BlockReason.COUNTER_RECONCILIATION
    assert {(blocked, (10, 1)), (blocked, (9, 2)), (None, (9, 2))} <= states


def prepare_buyer(scene: Scene) -> FundingSite:
    place = scene.place
    property_id = place.add_property(10, sold=9)
    return scene.site(property_id, investor_id=place.add_investor(PRICE_CENTS))


def prepare_refund(scene: Scene) -> FundingSite:
    place = scene.place
    property_id = place.add_property(10, sold=8)
    purchase_id = place.add_purchase(property_id, 2)
    place.set_counters(property_id, 10)
    return scene.site(property_id, purchase_id=purchase_id)


def prepare_expiry(scene: Scene) -> FundingSite:
    place = scene.place
    property_id = place.add_property(10, sold=8)
    long_ago = place.clock.now() - timedelta(days=1)
    place.add_purchase(property_id, 2, PurchaseStatus.RESERVED, expires_at=long_ago)
    place.set_counters(property_id, 10)
    return scene.site(property_id)


def prepare_confirmation(scene: Scene) -> FundingSite:
    """Of somebody who cannot pay."""
    place = scene.place
    property_id = place.add_property(10, sold=8)
    poor = place.add_investor(0)
    place.add_purchase(property_id, 2, PurchaseStatus.WAITING_FOR_CONFIRMATION, investor_id=poor)
    place.set_counters(property_id, 10)
    return scene.site(property_id)


def prepare_assignation(scene: Scene) -> FundingSite:
    """Of one purchase that fits and one that does not."""
    place = scene.place
    property_id = place.add_property(10, sold=8, total_bricks=9)
    for _ in range(2):
        place.add_purchase(property_id, 1, PurchaseStatus.WAITING_FOR_ASSIGNATION)
    place.set_counters(property_id, 10)
    return scene.site(property_id)


WORK = {
    "buy": prepare_buyer,
    "reserve": prepare_buyer,
    "refund": prepare_refund,
    "expire": prepare_expiry,
    "confirm": prepare_confirmation,
    "assign": prepare_assignation,
}


@pytest.mark.parametrize("what", WORK)
def test_a_change_that_dies_at_any_step_never_counts_too_few(scene: Scene, what: str) -> None:
    place = scene.place
    drifts = set()
    for where, site in scene.each_crash(what, lambda: WORK[what](scene)):
        property_id = site.property_id
        counted, truth = place.counted(property_id)[0], place.truth(property_id).purchased
        assert truth <= counted <= 10, where
        drifts.add(counted - truth)
        place.passes.assign()
        scene.assert_repaired_by_the_next_run(property_id, where)
    assert len(drifts) > 1, "one of the crashes left a drift"
