"""The time of one retry job against its floor: what its calls alone take when all threads make them.

The one worker's threads are for the URLs and for the job that hands them out, so one of them makes no calls.
On a machine with other work the time says little; the processor time that a URL costs the worker and the
store is stated beside it, because it does not depend on who else is there.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.retry_desk import RetryDesk
from devstack.processes import ManagedProcess

ROUNDS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One job: its calls, its times, and the processor time of the worker and the store."""

    calls: int
    wall_s: float
    ideal_s: float
    used_s: list[float]
    load: float


def measure_wall(
    desk: RetryDesk, worker: ManagedProcess, urls: int, latency_ms: int, threads: int
) -> dict[str, Any]:
    """Retry `urls` URLs, half of them of sites and half of posts, three times."""
    # Imports and first connections are not measured.
    desk.run_retry(worker, desk.store_links(2 * threads))
    pids = (worker.pid, desk.stack.mongo.process.pid)
    rounds = []
    for _ in range(ROUNDS):
        addresses = desk.store_links(urls)
        before = desk.sandbox.calls().total
        used_before_s = [_processor_s(pid) for pid in pids]
        started = time.monotonic()
        job_id = desk.run_retry(worker, addresses)
        wall_s = time.monotonic() - started
        used_s = [_processor_s(pid) - used for pid, used in zip(pids, used_before_s, strict=True)]
        calls = desk.sandbox.calls().total - before
        if desk.meta(job_id)["byStatus"] != {"ok": urls}:
            raise RuntimeError(f"not all URLs converged: {desk.meta(job_id)}")
        ideal_s = calls * latency_ms / 1000 / threads
        rounds.append(
            Round(calls=calls, wall_s=wall_s, ideal_s=ideal_s, used_s=used_s, load=os.getloadavg()[0])
        )
    ratios = [each.wall_s / each.ideal_s for each in rounds]
    worker_s, store_s = (
        statistics.median(used) for used in zip(*(each.used_s for each in rounds), strict=True)
    )
    return {
        "urls": urls,
        "threads": threads,
        "latency_ms": latency_ms,
        "calls": [each.calls for each in rounds],
        "wall_s": [round(each.wall_s, 3) for each in rounds],
        "ideal_s": round(rounds[0].ideal_s, 3),
        "wall_to_ideal_median": round(statistics.median(ratios), 3),
        "wall_to_ideal_best": round(min(ratios), 3),
        "worker_processor_ms_per_url": round(worker_s * 1000 / urls, 1),
        "store_processor_ms_per_url": round(store_s * 1000 / urls, 1),
        "load_average": [round(each.load, 2) for each in rounds],
    }


def _processor_s(pid: int) -> float:
    """The processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
