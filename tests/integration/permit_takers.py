"""Processes of threads that take permits as fast as they get them, and what can be told from their times.

A permit lies somewhere between the two moments at which its taker looked at the clock, before and after. What
is counted here is only what is certain: two permits are in one window when all four moments are.
"""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from redis import Redis

from tests.forks import FORKS
from workers.clock import Budget, Clock
from workers.http.limiter import SourceLimiter
from workers.social_recording.routing import registrable_domain
from workers.source_limits import SourceLimit

SOURCE = "github"
URL = "https://api.github.com/users/a"
CHILD_TIMEOUT_S = 30


@dataclass(frozen=True, kw_only=True)
class Permit:
    """One permit, in seconds on the clock that all processes of a machine share."""

    asked_at: float
    taken_at: float
    given_back_at: float


@dataclass(frozen=True, kw_only=True)
class Taking:
    """How one process takes permits: with so many threads, for so long, holding each for a while.

    `is_shared` false is the twin: every thread counts for itself.
    """

    redis_url: str
    limit: SourceLimit
    threads: int = 4
    for_s: float = 1.0
    hold_s: float = 0.0
    is_shared: bool = True


def take_in_processes(taking: Taking, processes: int) -> list[Permit]:
    """Let so many processes begin at the same moment; return the permits of all of them."""
    barrier = FORKS.Barrier(processes)
    pipes = [FORKS.Pipe(duplex=False) for _ in range(processes)]
    children = [
        FORKS.Process(target=_child, args=(taking, number, barrier, sender))
        for number, (_, sender) in enumerate(pipes)
    ]
    for child in children:
        child.start()
    found: list[Permit] = []
    for receiver, _ in pipes:
        assert receiver.poll(CHILD_TIMEOUT_S), "a child did not answer"
        found += receiver.recv()
    for child in children:
        child.join(CHILD_TIMEOUT_S)
        assert child.exitcode == 0
    return found


def die_with_a_permit(taking: Taking) -> None:
    """Let a process take a permit and be gone before it gives it back."""
    child = FORKS.Process(target=_die_holding, args=(taking,))
    child.start()
    child.join(CHILD_TIMEOUT_S)
    assert child.exitcode == 9


def _child(
    taking: Taking,
    number: int,
    barrier: threading.Barrier,
    sender: multiprocessing.connection.Connection,
) -> None:
    barrier.wait(CHILD_TIMEOUT_S)
    sender.send(take_in_threads(taking, number))


def take_in_threads(taking: Taking, process: int = 0) -> list[Permit]:
    """Take permits with the threads of this process."""
    found: list[Permit] = []
    redis = Redis.from_url(taking.redis_url)
    ends_at = time.monotonic() + taking.for_s

    def work(thread: int) -> None:
        who = "" if taking.is_shared else f"{process}-{thread}"
        limiter = limiter_of(redis, {SOURCE: taking.limit}, account=who)
        while time.monotonic() < ends_at:
            asked_at = time.monotonic()
            with limiter.permit(SOURCE, URL, Budget.of(Clock(), 10), open_s=5):
                taken_at = time.monotonic()
                if taking.hold_s:
                    threading.Event().wait(taking.hold_s)
                given_back_at = time.monotonic()
            found.append(Permit(asked_at=asked_at, taken_at=taken_at, given_back_at=given_back_at))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(taking.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(CHILD_TIMEOUT_S)
    redis.close()
    return found


def limiter_of(redis: Redis, limits: Mapping[str, SourceLimit], *, account: str = "") -> SourceLimiter:
    """A limiter for which a place among the open calls lasts exactly as long as the call may take."""
    return SourceLimiter(redis, limits, domain_of=registrable_domain, accounts={SOURCE: account}, grace_s=0.0)


def _die_holding(taking: Taking) -> None:
    limiter = limiter_of(Redis.from_url(taking.redis_url), {SOURCE: taking.limit})
    with limiter.permit(SOURCE, URL, Budget.of(Clock(), 10), open_s=taking.for_s):
        os._exit(9)


def most_in_a_window(permits: Iterable[Permit], window_s: float) -> int:
    """The largest number of permits that certainly lie within less than one window."""
    found = list(permits)
    return max(
        sum(first.asked_at <= each.asked_at and each.taken_at < first.asked_at + window_s for each in found)
        for first in found
    )


def most_at_once(permits: Iterable[Permit]) -> int:
    """The largest number of permits that were certainly held at the same moment."""
    steps = [step for each in permits for step in ((each.taken_at, 1), (each.given_back_at, -1))]
    return max(itertools.accumulate(change for _, change in sorted(steps)))
