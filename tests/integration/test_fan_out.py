"""Handing out and collecting: every target has one outcome, and every run ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel
from redis import Redis

from tests.waiting import wait_until
from workers.clock import Clock
from workers.errors import BrokerUnavailable, Busy
from workers.jobs.fan_out import (
    _START,
    Assignment,
    FanOut,
    FanOutLimits,
    FanOutResult,
    LeaseWish,
    MemberDesk,
    Target,
)
from workers.jobs.kinds import JobKind
from workers.jobs.record import JobRecord, JobStore, alive_lease
from workers.jobs.run import RunningJob, StoppedBy
from workers.leases import KEY_PREFIX, LeaseStore

KIND = JobKind(name="test.kind", task="t", queue="jobs", lease="test", request_model=BaseModel)
LIMITS = FanOutLimits(window=4, budget_s=30, grace_s=1)


@dataclass(frozen=True)
class Plain:
    """A target of its own group unless told otherwise."""

    key: str
    group: str = ""


def targets(count: int) -> list[Plain]:
    return [Plain(key=f"t{n:03}", group=f"t{n:03}") for n in range(count)]


class Workplace:
    """A job with its lease and heartbeat, and threads that act as its workers."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.clock = Clock()
        self.leases = LeaseStore(redis, self.clock)
        self.store = JobStore(redis, retention_s=60)
        self.pool = ThreadPoolExecutor(8)
        self.desk = MemberDesk(redis, self.leases, process_ttl_ms=1000)
        self.shutdown = threading.Event()
        self.store.create("job-1", KIND.name, {}, expires_s=60, claim=None)
        assert self.store.begin("job-1", "test")
        self.heartbeat = self.leases.acquire(alive_lease("job-1"), ttl_ms=60_000)
        self.job = RunningJob(
            record=self.read(),
            lease=self.leases.acquire("test", ttl_ms=60_000),
            clock=self.clock,
            store=self.store,
            shutdown=self.shutdown,
            started_at_s=self.clock.monotonic(),
            deadline_s=20,
        )

    def read(self) -> JobRecord:
        record = self.store.get("job-1")
        assert record is not None
        return record

    def run(
        self, found: list[Plain], send: Callable[[Target, Assignment], None], limits: FanOutLimits = LIMITS
    ) -> FanOutResult:
        with self.job.watched():
            return FanOut(self.redis, self.job, send=send, limits=limits, clock=self.clock).run(found)

    def work(self, member: Callable[[Assignment], dict[str, object]]) -> Callable[[Target, Assignment], None]:
        """Send to the threads; each does `member` for its target."""

        def send(_: Target, assignment: Assignment) -> None:
            self.pool.submit(self.desk.run, assignment, lambda: member(assignment))

        return send


@pytest.fixture
def place(redis: Redis) -> Iterator[Workplace]:
    found = Workplace(redis)
    yield found
    found.pool.shutdown(wait=True)
    found.leases.write_behind.flush(5.0)


def done(_: Assignment) -> dict[str, object]:
    return {"outcome": "recorded"}


def test_every_target_has_its_outcome(place: Workplace) -> None:
    result = place.run(targets(50), place.work(done))
    assert sorted(result.outcomes) == [target.key for target in targets(50)]
    assert (result.lost, result.not_started, result.stopped_by) == ([], [], None)
    record = place.read()
    assert (record.done, record.total) == (50, 50)


def test_no_more_than_the_window_is_in_work(place: Workplace) -> None:
    at_work, peak, guard = 0, 0, threading.Lock()

    def member(_: Assignment) -> dict[str, object]:
        nonlocal at_work, peak
        with guard:
            at_work += 1
            peak = max(peak, at_work)
        threading.Event().wait(0.01)
        with guard:
            at_work -= 1
        return {"outcome": "recorded"}

    place.run(targets(30), place.work(member))
    assert 2 <= peak <= LIMITS.window


def test_two_targets_of_one_group_are_never_in_work_at_once(place: Workplace) -> None:
    busy: set[str] = set()
    clashes: list[str] = []

    def member(assignment: Assignment) -> dict[str, object]:
        group = assignment.target[:1]
        if group in busy:
            clashes.append(assignment.target)
        busy.add(group)
        threading.Event().wait(0.01)
        busy.discard(group)
        return {"outcome": "processed"}

    found = [Plain(key=f"{group}{n}", group=group) for n in range(8) for group in "abc"]
    result = place.run(found, place.work(member))
    assert len(result.outcomes) == 24
    assert clashes == []


def test_a_deadline_stops_starting_and_never_finishing(place: Workplace) -> None:
    place.job.deadline_s = 0.3

    def member(_: Assignment) -> dict[str, object]:
        threading.Event().wait(0.6)
        return {"outcome": "recorded"}

    result = place.run(targets(40), place.work(member))
    assert result.stopped_by is StoppedBy.DEADLINE
    assert len(result.outcomes) == 4
    assert len(result.not_started) == 36


@pytest.mark.parametrize("how", ["cancelled", "shutdown", "lease_lost"])
def test_a_stop_ends_the_handing_out_and_what_is_in_work_is_finished(place: Workplace, how: str) -> None:
    def stop() -> None:
        if how == "cancelled":
            place.store.request_cancel("job-1")
        elif how == "shutdown":
            place.shutdown.set()
        else:
            place.job.lease.lost.set()

    def member(assignment: Assignment) -> dict[str, object]:
        if assignment.target == "t005":
            stop()
        threading.Event().wait(0.05)
        return {"outcome": "recorded"}

    result = place.run(targets(400), place.work(member))
    assert result.stopped_by == how
    assert "t005" in result.outcomes
    assert len(result.outcomes) < 200
    assert len(result.outcomes) + len(result.not_started) == 400
    assert result.lost == []


def test_a_stop_after_everything_was_handed_out_stopped_nothing(place: Workplace) -> None:
    place.job.deadline_s = 0.2

    def member(_: Assignment) -> dict[str, object]:
        threading.Event().wait(0.4)
        return {"outcome": "recorded"}

    result = place.run(targets(3), place.work(member))
    assert (len(result.outcomes), result.not_started, result.stopped_by) == (3, [], None)


def test_a_job_that_was_cancelled_before_starts_nobody(place: Workplace) -> None:
    place.store.request_cancel("job-1")
    result = place.run(targets(3), place.work(done))
    assert (result.stopped_by, result.outcomes, len(result.not_started)) == ("cancelled", {}, 3)


def test_a_start_whose_answer_got_lost_may_be_announced_again(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.jobs.fan_out.secrets.token_hex", lambda _: "one call")
    assignment = Assignment(job_id="job-1", target="t1", start_before_ms=2**52)
    assert place.desk.start(assignment) is True
    assert place.desk.start(assignment) is True


def test_nothing_of_the_events_is_left(place: Workplace) -> None:
    place.run(targets(3), place.work(done))
    assert place.redis.exists("converge:job:job-1:events") == 0
    place.desk.finish(Assignment(job_id="job-1", target="late", start_before_ms=0), {"outcome": "recorded"})
    place.desk.leave()
    assert place.redis.ttl("converge:job:job-1:events") > 0


def test_all_events_that_are_there_are_taken_in_one_round_trip(place: Workplace) -> None:
    """A start and an outcome of each of fifty members that were faster than their job."""

    def send(_: Target, assignment: Assignment) -> None:
        place.desk.run(assignment, lambda: done(assignment))
        place.leases.write_behind.flush(5.0)

    def asked() -> int:
        stats = place.redis.info("commandstats")
        return sum(
            stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("blmpop", "blpop", "lpop")
        )

    before = asked()
    result = place.run(targets(50), send, replace(LIMITS, window=50))
    assert len(result.outcomes) == 50
    assert asked() - before == 1


def test_two_targets_of_one_name_are_a_mistake(place: Workplace) -> None:
    with pytest.raises(ValueError, match="same key"):
        place.run([*targets(2), *targets(1)], place.work(done))


def test_a_member_whose_process_died_is_lost_and_the_others_are_not(place: Workplace) -> None:
    dying = MemberDesk(place.redis, LeaseStore(place.redis, place.clock), process_ttl_ms=60_000)

    def send(target: Target, assignment: Assignment) -> None:
        if target.key == "t001":
            dying.start(assignment)
            dying.leave()
        else:
            place.pool.submit(place.desk.run, assignment, lambda: done(assignment))

    result = place.run(targets(5), send)
    assert result.lost == ["t001"]
    assert len(result.outcomes) == 4


def test_a_member_that_hangs_beyond_its_budget_is_lost(place: Workplace) -> None:
    release = threading.Event()

    def member(assignment: Assignment) -> dict[str, object]:
        if assignment.target == "t001":
            release.wait(20)
        return {"outcome": "recorded"}

    limits = replace(LIMITS, budget_s=0.2, grace_s=0.2)
    result = place.run(targets(3), place.work(member), limits)
    release.set()
    assert result.lost == ["t001"]


def test_a_member_that_was_never_delivered_counts_as_not_started(place: Workplace) -> None:
    place.job.deadline_s = 0.2
    result = place.run(targets(2), lambda *_: None, replace(LIMITS, grace_s=0.2))
    assert sorted(result.not_started) == ["t000", "t001"]
    assert result.lost == []


def test_a_member_delivered_twice_works_once(place: Workplace) -> None:
    starts: list[str] = []

    def member(assignment: Assignment) -> dict[str, object]:
        starts.append(assignment.target)
        return {"outcome": "recorded"}

    def send(_: Target, assignment: Assignment) -> None:
        for _n in range(3):
            place.pool.submit(place.desk.run, assignment, lambda: member(assignment))

    result = place.run(targets(10), send)
    assert sorted(starts) == sorted(result.outcomes) == [target.key for target in targets(10)]


def test_without_its_mark_a_member_delivered_twice_works_twice(place: Workplace) -> None:
    assignment = Assignment(job_id="job-1", target="t1", start_before_ms=2**52)
    assert place.desk.start(assignment) is True
    assert place.desk.start(assignment) is False
    place.redis.delete("converge:job:job-1:target:t1")
    assert place.desk.start(assignment) is True


def test_a_member_delivered_late_or_after_its_job_does_not_start(place: Workplace) -> None:
    seconds, _ = place.redis.time()
    late = Assignment(job_id="job-1", target="late", start_before_ms=seconds * 1000 - 5000)
    assert place.desk.start(late) is False
    place.leases.release(place.heartbeat)
    orphan = Assignment(job_id="job-1", target="orphan", start_before_ms=2**52)
    assert place.desk.start(orphan) is False


def test_a_broker_that_is_away_for_a_moment_delays_and_loses_nothing(place: Workplace) -> None:
    refusals = 3

    def send(target: Target, assignment: Assignment) -> None:
        nonlocal refusals
        if target.key == "t002" and refusals:
            refusals -= 1
            raise BrokerUnavailable("away")
        place.pool.submit(place.desk.run, assignment, lambda: done(assignment))

    result = place.run(targets(6), send)
    assert len(result.outcomes) == 6


def test_a_process_that_lost_its_presence_takes_it_again(place: Workplace) -> None:
    place.run(targets(1), place.work(done))
    for key in place.redis.keys(f"{KEY_PREFIX}process:*"):
        place.redis.delete(key)
    wait_until(lambda: not place.desk._presence.is_held, "the loss is noticed")
    assert place.desk.start(Assignment(job_id="job-1", target="x", start_before_ms=2**52))
    assert len(place.redis.keys(f"{KEY_PREFIX}process:*")) == 1


# --- the lease of a member


WISH = LeaseWish(name="social-record:t000", ttl_ms=60_000)
IN_TIME_MS = 4_000_000_000_000


def member_of(place: Workplace, **changes: Any) -> Assignment:
    return replace(Assignment(job_id="job-1", target="t000", start_before_ms=IN_TIME_MS), **changes)


def scripts_run(place: Workplace) -> int:
    return int(place.redis.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"])


def test_a_member_has_its_lease_with_its_start(place: Workplace) -> None:
    held: list[bytes | None] = []

    def work() -> dict[str, object]:
        before = scripts_run(place)
        with place.leases.hold(WISH.name, ttl_ms=WISH.ttl_ms, is_released_behind=True) as lease:
            held.append(place.redis.get(KEY_PREFIX + WISH.name))
            assert lease.is_held
        assert scripts_run(place) == before
        return {"outcome": "recorded"}

    place.desk.run(member_of(place), work, WISH)
    place.desk.leave()
    assert held[0] is not None
    assert place.redis.exists(KEY_PREFIX + WISH.name) == 0
    assert place.redis.llen("converge:job:job-1:events") == 2


def test_a_member_whose_lease_is_held_starts_and_finds_it_taken(place: Workplace) -> None:
    found: list[str] = []

    def work() -> dict[str, object]:
        with pytest.raises(Busy), place.leases.hold(WISH.name, ttl_ms=WISH.ttl_ms):
            pytest.fail("it is held by somebody else")
        found.append("busy")
        return {"outcome": "lockedOut"}

    with LeaseStore(place.redis, place.clock).hold(WISH.name, ttl_ms=WISH.ttl_ms):
        place.desk.run(member_of(place), work, WISH)
        place.desk.leave()
        assert place.redis.exists(KEY_PREFIX + WISH.name) == 1
    assert found == ["busy"]
    assert place.redis.llen("converge:job:job-1:events") == 2


@pytest.mark.parametrize("changes", [{"start_before_ms": 1}, {"job_id": "no-such-job"}])
def test_a_member_that_may_not_start_takes_no_lease(place: Workplace, changes: dict[str, Any]) -> None:
    place.desk.run(member_of(place, **changes), lambda: pytest.fail("it has started"), WISH)
    assert place.redis.exists(KEY_PREFIX + WISH.name) == 0


def test_a_second_delivery_leaves_the_lease_of_the_first_alone(place: Workplace) -> None:
    def work() -> dict[str, object]:
        with place.leases.hold(WISH.name, ttl_ms=WISH.ttl_ms) as lease:
            place.desk.run(member_of(place), lambda: pytest.fail("it has started twice"), WISH)
            place.leases.write_behind.flush(5.0)
            holder = place.redis.get(KEY_PREFIX + WISH.name)
            assert holder == lease.owner.encode()
        return {"outcome": "recorded"}

    place.desk.run(member_of(place), work, WISH)


def test_a_lease_that_the_work_did_not_take_is_given_back(place: Workplace) -> None:
    place.desk.run(member_of(place), lambda: {"outcome": "recorded"}, WISH)
    place.desk.leave()
    assert place.redis.exists(KEY_PREFIX + WISH.name) == 0


def test_a_lease_is_given_back_when_the_work_fails(place: Workplace) -> None:
    def work() -> dict[str, object]:
        raise RuntimeError("our own mistake")

    with pytest.raises(RuntimeError):
        place.desk.run(member_of(place), work, WISH)
    place.desk.leave()
    assert place.redis.exists(KEY_PREFIX + WISH.name) == 0


def test_a_start_whose_answer_got_lost_has_its_lease(place: Workplace) -> None:
    """The client repeats the command, with the same names."""
    script = place.redis.register_script(_START)
    keys = [
        "converge:job:job-1:target:t000",
        "converge:job:job-1:events",
        KEY_PREFIX + alive_lease("job-1"),
        "converge:job:job-1:closed",
        KEY_PREFIX + WISH.name,
    ]
    args = [IN_TIME_MS, "{}", 60, "a name", "an owner", 60_000]
    assert [script(keys=keys, args=args), script(keys=keys, args=args)] == [1, 1]
    assert place.redis.llen("converge:job:job-1:events") == 1
