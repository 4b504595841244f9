"""Hand out one task per target and collect what came of each.

The job side keeps a bounded window of targets in work and reads events from one Redis list. The target
side announces its start and its outcome there. No task waits for another one by Celery's means, so a lost
member is noticed, a deadline or a cancel stops the handing out at once, and a slow one delays nobody.

Invariants: `selected = started + not_started`, `started = completed + lost`. Each target has one outcome,
whatever is delivered twice. A member delivered late, twice, or after its job has ended or was stopped does
not start.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, cast

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Clock
from workers.errors import BrokerUnavailable, Busy, LockUnavailable
from workers.jobs.probe import ALIVE_TTL_S, seen_key
from workers.jobs.record import KEY_PREFIX, alive_lease
from workers.jobs.run import RunningJob, StoppedBy
from workers.leases import KEY_PREFIX as LEASE_PREFIX
from workers.leases import TAKE_IN_LUA, Lease, LeaseBid, LeaseStore

log = logging.getLogger(__name__)

POLL_S = 1
# With so many targets in work a job lets events gather for a moment.
GATHER_FROM = 8
GATHER_S = 0.05
EVENTS_TTL_S = 3600
LEAVE_MAX_S = 5.0

# KEYS: the target's mark, the events, the job's heartbeat, the mark that the job lets nobody start any more
# and, if the work is done under a lease, that. ARGV: last moment to start (unix ms of the server's clock, so
# that clocks of hosts do not matter), the event, seconds to keep, a name that no other call uses (the client
# repeats a command whose answer got lost), and who takes the lease for how many ms.
# Returns 1 started, 2 started but somebody else holds the lease, 0 delivered before, -1 too late, -2 the job
# has ended, -3 the job has been stopped.
_START = (
    TAKE_IN_LUA
    + """
local starter = redis.call('GET', KEYS[1])
if starter and starter ~= ARGV[4] then return 0 end
if not starter then
  local time = redis.call('TIME')
  if time[1] * 1000 + math.floor(time[2] / 1000) > tonumber(ARGV[1]) then return -1 end
  if redis.call('EXISTS', KEYS[3]) == 0 then return -2 end
  if redis.call('EXISTS', KEYS[4]) == 1 then return -3 end
  redis.call('SET', KEYS[1], ARGV[4], 'EX', ARGV[3])
  redis.call('RPUSH', KEYS[2], ARGV[2])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
if not KEYS[5] or take(KEYS[5], ARGV[5], ARGV[6]) then return 1 end
return 2
"""
)
_STARTED = frozenset({1, 2})


def _events_key(job_id: str) -> str:
    return f"{KEY_PREFIX}{job_id}:events"


def _closed_key(job_id: str) -> str:
    return f"{KEY_PREFIX}{job_id}:closed"


def process_lease(process: str) -> str:
    """Name of the lease that says that a worker process is alive."""
    return f"process:{process}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """What a member is told by its job: where it belongs and until when it may start."""

    job_id: str
    target: str
    start_before_ms: int

    def to_json(self) -> dict[str, object]:
        """The form that travels in the message."""
        return {"job_id": self.job_id, "target": self.target, "start_before_ms": self.start_before_ms}

    @classmethod
    def from_json(cls, values: Mapping[str, str | int]) -> Assignment:
        """Read what `to_json` wrote."""
        return cls(
            job_id=str(values["job_id"]),
            target=str(values["target"]),
            start_before_ms=int(values["start_before_ms"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseWish:
    """The lease under which a member's work is done."""

    name: str
    ttl_ms: int


class MemberDesk:
    """The target side: says whether a member may start, and takes its outcome. One per process."""

    def __init__(
        self, redis: Redis, leases: LeaseStore, *, process_ttl_ms: int, queue: str = "records"
    ) -> None:
        self._redis = redis
        self._queue = queue
        self._leases = leases
        self._write_behind = leases.write_behind
        self._process_ttl_ms = process_ttl_ms
        self._start = redis.register_script(_START)
        self._process = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._guard = threading.Lock()
        self._presence: Lease | None = None

    def run(
        self,
        assignment: Assignment,
        work: Callable[[], Mapping[str, object]],
        lease: LeaseWish | None = None,
    ) -> None:
        """Do one member's work, unless it may not start any more, and send its outcome.

        The `lease` that the work takes first is asked for together with the start.
        """
        if lease is None:
            if self.start(assignment):
                self.finish(assignment, work())
            return
        has_started = False

        def take(bid: LeaseBid) -> bool:
            nonlocal has_started
            verdict = self._ask_to_start(assignment, bid)
            has_started = verdict in _STARTED
            return verdict == 1

        with self._leases.taken_along(lease.name, ttl_ms=lease.ttl_ms, take=take):
            outcome = work() if has_started else None
        if outcome is not None:
            self.finish(assignment, outcome)

    def start(self, assignment: Assignment) -> bool:
        """Announce the start; False when the member is late, came before, or its job is over or stopped.

        Raises `LockUnavailable` when Redis cannot be asked.
        """
        return self._ask_to_start(assignment, None) in _STARTED

    def _ask_to_start(self, assignment: Assignment, bid: LeaseBid | None) -> int:
        self._be_present()
        event = json.dumps({"target": assignment.target, "process": self._process})
        job_id = assignment.job_id
        keys = [
            f"{KEY_PREFIX}{job_id}:target:{assignment.target}",
            _events_key(job_id),
            LEASE_PREFIX + alive_lease(job_id),
            _closed_key(job_id),
        ]
        args: list[str | int] = [assignment.start_before_ms, event, EVENTS_TTL_S, secrets.token_hex(8)]
        if bid is not None:
            keys.append(bid.key)
            args += [bid.owner, bid.ttl_ms]
        try:
            verdict = int(self._start(keys=keys, args=args))
        except RedisError as exc:
            raise LockUnavailable("Redis cannot be asked") from exc
        if verdict not in _STARTED:
            log.info(
                "member not started",
                extra={"job": job_id, "target": assignment.target, "verdict": verdict},
            )
        return verdict

    def finish(self, assignment: Assignment, outcome: Mapping[str, object]) -> None:
        """Send the outcome, behind the release of the leases under which the work was done.

        Who learns of it may thus hand out the next target of the same group. When Redis is away the job
        reports the target as lost; the work is done.
        """
        event = json.dumps({"target": assignment.target, "outcome": outcome})
        events_key = _events_key(assignment.job_id)

        def done(is_carried_out: bool) -> None:
            if not is_carried_out:
                facts = {"job": assignment.job_id, "target": assignment.target}
                log.warning("outcome not delivered", extra=facts)

        self._write_behind.add(
            ("RPUSH", events_key, event),
            ("EXPIRE", events_key, EVENTS_TTL_S),
            # Under load a canary waits in line; the work itself shows as well that tasks run.
            ("SET", seen_key(self._queue), "1", "EX", ALIVE_TTL_S),
            done=done,
        )

    def leave(self) -> None:
        """Send what is waiting, and give the presence back, when the process ends."""
        self._write_behind.flush(LEAVE_MAX_S)
        with self._guard:
            if self._presence is not None:
                self._leases.release(self._presence)
                self._presence = None

    def _be_present(self) -> None:
        with self._guard:
            if self._presence is not None and self._presence.is_held:
                return
            try:
                self._presence = self._leases.acquire(
                    process_lease(self._process), ttl_ms=self._process_ttl_ms, owner=self._process
                )
            except Busy:
                # Our own presence from before an outage of Redis: it is there, which is all that matters.
                log.info("presence is still there", extra={"process": self._process})


class Target(Protocol):
    """What a job hands out. Targets of one `group` are never in work at the same time."""

    @property
    def key(self) -> str:
        """What names the target in the job's outcomes."""

    @property
    def group(self) -> str:
        """What must not be worked on twice at once, e.g. the token that a URL belongs to."""


@dataclass(kw_only=True, slots=True)
class _InWork:
    """A target that was handed out: when it is given up, and where it runs once it has started."""

    group: str
    give_up_at_s: float
    process: str | None = None


@dataclass(kw_only=True)
class FanOutResult:
    """What came of a fan-out. `outcomes` holds what the members sent, in the order of their ends."""

    stopped_by: StoppedBy | None = None
    outcomes: dict[str, Mapping[str, object]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    not_started: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class FanOutLimits:
    """How wide the window is, how long a started member may take, and what is granted on top."""

    window: int
    budget_s: float
    grace_s: float


class FanOut:
    """The job side. One instance per run.

    `send` puts one target on its queue; what is sent within `together` may go there at its end.
    """

    def __init__(
        self,
        redis: Redis,
        job: RunningJob,
        *,
        send: Callable[[Target, Assignment], None],
        limits: FanOutLimits,
        clock: Clock,
        together: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._redis = redis
        self._job = job
        self._send = send
        self._together = together
        self._limits = limits
        self._clock = clock
        self._in_work: dict[str, _InWork] = {}
        self._unsure: list[Target] = []
        self._result = FanOutResult()
        self._is_closed = False

    def run(self, targets: Iterable[Target]) -> FanOutResult:
        """Hand out the targets in their order and wait for all that have started.

        `stopped_by` is why targets were left, or that a cancel was asked for; None when nothing was left.
        Raises `LockUnavailable` when Redis cannot be asked for the time.
        """
        waiting = list(targets)
        if len({target.key for target in waiting}) < len(waiting):
            raise ValueError("two targets have the same key")
        self._job.total = len(waiting)
        start_before_ms = self._start_before_ms()
        result = self._result
        reason: StoppedBy | None = None
        while True:
            reason = reason or self._job.stop_reason()
            if reason is None:
                waiting = self._hand_out(waiting, start_before_ms)
            elif not self._is_closed:
                self._close()
            if not self._in_work and (reason is not None or not waiting):
                break
            self._collect()
            self._job.done = len(result.outcomes) + len(result.lost)
        result.not_started += [target.key for target in waiting]
        if result.not_started or reason is StoppedBy.CANCELLED:
            result.stopped_by = reason or StoppedBy.DEADLINE
        self._forget_events()
        return result

    def _forget_events(self) -> None:
        try:
            self._redis.delete(_events_key(self._job.id))
        except RedisError:
            log.warning("events are left to expire", extra={"job": self._job.id})

    def _start_before_ms(self) -> int:
        """The deadline on the clock of the Redis server, which all members share."""
        try:
            seconds, micros = self._redis.time()
        except RedisError as exc:
            raise LockUnavailable("Redis cannot be asked for the time") from exc
        remaining_s = min(self._job.remaining_s, EVENTS_TTL_S)
        return int(seconds * 1000 + micros // 1000 + remaining_s * 1000)

    def _hand_out(self, waiting: list[Target], start_before_ms: int) -> list[Target]:
        """Fill the window; return what is still waiting, in order."""
        chosen, kept = self._choose(waiting)
        going_out = self._unsure + chosen
        if not going_out:
            return kept
        give_up_at_s = self._clock.monotonic() + max(0.0, self._job.remaining_s) + self._limits.grace_s
        for target in chosen:
            self._in_work[target.key] = _InWork(group=target.group, give_up_at_s=give_up_at_s)
        try:
            with self._together():
                for target in going_out:
                    assignment = Assignment(
                        job_id=self._job.id, target=target.key, start_before_ms=start_before_ms
                    )
                    self._send(target, assignment)
            self._unsure = []
        except BrokerUnavailable:
            # The next turn sends all of them again, until the deadline or the loss of the lease ends the job.
            # Those that have arrived come twice then, which changes nothing.
            self._unsure = going_out
            log.warning("members could not be handed out", extra={"job": self._job.id})
        return kept

    def _choose(self, waiting: list[Target]) -> tuple[list[Target], list[Target]]:
        """Which targets go out now, each of a group that is not in work, and which keep waiting, in order."""
        busy_groups = {entry.group for entry in self._in_work.values()}
        free = self._limits.window - len(self._in_work)
        chosen: list[Target] = []
        kept: list[Target] = []
        for index, target in enumerate(waiting):
            if len(chosen) >= free:
                return chosen, kept + waiting[index:]
            if target.group in busy_groups:
                kept.append(target)
            else:
                chosen.append(target)
                busy_groups.add(target.group)
        return chosen, kept

    def _close(self) -> None:
        """Let no more members start, and wait no longer for those that have not started.

        A start and the closing are one step each, so whoever has started has announced it before. The events
        are only looked at: taking one in a second time changes nothing.
        """
        try:
            with self._redis.pipeline() as pipe:
                pipe.set(_closed_key(self._job.id), "1", ex=EVENTS_TTL_S)
                pipe.lrange(_events_key(self._job.id), 0, -1)
                _, events = pipe.execute()
        except RedisError:
            log.warning("the job could not be closed to its members yet", extra={"job": self._job.id})
            return
        self._is_closed = True
        for raw in events:
            self._take_in(json.loads(raw))
        for target, entry in list(self._in_work.items()):
            if entry.process is None:
                del self._in_work[target]
                self._result.not_started.append(target)

    def _collect(self) -> None:
        """Take in the events that are there, or wait a moment for one; one round trip for all of them."""
        if len(self._in_work) >= GATHER_FROM:
            # Others are at work meanwhile, so nothing stands still, and several events share a round trip.
            self._clock.wait(threading.Event(), GATHER_S)
        try:
            popped = self._redis.blmpop(
                POLL_S, 1, _events_key(self._job.id), direction="LEFT", count=self._limits.window * 2
            )
            if popped is None:
                self._give_up_the_lost()
                return
            for raw in cast(list[bytes], popped[1]):
                self._take_in(json.loads(raw))
        except RedisError:
            log.warning("events cannot be read", extra={"job": self._job.id})
            self._clock.wait(threading.Event(), POLL_S)
            self._give_up_the_lost()

    def _take_in(self, event: Mapping[str, object]) -> None:
        target = str(event["target"])
        entry = self._in_work.get(target)
        if entry is None:
            return
        if "process" in event:
            entry.process = str(event["process"])
            entry.give_up_at_s = self._clock.monotonic() + self._limits.budget_s + self._limits.grace_s
            return
        outcome = event["outcome"]
        if isinstance(outcome, Mapping):
            self._result.outcomes[target] = outcome
            del self._in_work[target]

    def _give_up_the_lost(self) -> None:
        """Give up members whose process is gone or whose time is over."""
        dead = self._dead_processes({entry.process for entry in self._in_work.values() if entry.process})
        now = self._clock.monotonic()
        for target, entry in list(self._in_work.items()):
            if entry.process in dead or now > entry.give_up_at_s:
                del self._in_work[target]
                (self._result.lost if entry.process else self._result.not_started).append(target)

    def _dead_processes(self, processes: set[str]) -> set[str]:
        if not processes:
            return set()
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                for process in processes:
                    pipe.exists(LEASE_PREFIX + process_lease(process))
                alive = pipe.execute()
        except RedisError:
            return set()
        return {process for process, is_there in zip(processes, alive, strict=True) if not is_there}
