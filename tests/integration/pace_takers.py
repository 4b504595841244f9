"""Processes of threads that start requests to one endpoint as fast as its schedule lets them.

A start lies somewhere between the two moments at which its taker looked at the clock. What is counted is only
what is certain (see `permit_takers`).
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import threading
import time
from dataclasses import dataclass, replace

from redis import Redis

from tests.forks import FORKS
from tests.integration.permit_takers import CHILD_TIMEOUT_S, Permit
from tests.solana_node import ENDPOINT
from workers.clock import Clock
from workers.solana_backfill.pacer import Pacer
from workers.solana_backfill.schedule import EndpointSchedule


@dataclass(frozen=True, kw_only=True)
class Pacing:
    """How each process asks. `is_shared` false is the twin: each has an endpoint of its own."""

    redis_url: str
    requests_per_second: float
    threads: int
    for_s: float
    is_shared: bool = True


def take_in_processes(pacing: Pacing, processes: int) -> list[Permit]:
    """Let so many processes begin at the same moment; return the starts of all of them."""
    barrier = FORKS.Barrier(processes)
    pipes = [FORKS.Pipe(duplex=False) for _ in range(processes)]
    children = [
        FORKS.Process(target=_child, args=(pacing, number, barrier, sender))
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


def _child(
    pacing: Pacing,
    number: int,
    barrier: threading.Barrier,
    sender: multiprocessing.connection.Connection,
) -> None:
    redis = Redis.from_url(pacing.redis_url)
    own = "" if pacing.is_shared else str(number)
    endpoint = replace(
        ENDPOINT,
        url=ENDPOINT.url + own,
        requests_per_second=pacing.requests_per_second,
        max_concurrent_requests=64,
    )
    pacer = Pacer(EndpointSchedule(redis, endpoint, open_s=5), Clock(), pause_s=1, random=lambda: 0.0)
    found: list[Permit] = []
    barrier.wait(CHILD_TIMEOUT_S)
    ends_at = time.monotonic() + pacing.for_s

    def work() -> None:
        never = threading.Event()
        while time.monotonic() < ends_at:
            asked_at = time.monotonic()
            with pacer.permit(never):
                taken_at = time.monotonic()
            found.append(Permit(asked_at=asked_at, taken_at=taken_at, given_back_at=time.monotonic()))

    threads = [threading.Thread(target=work) for _ in range(pacing.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(CHILD_TIMEOUT_S)
    sender.send(found)
    redis.close()
