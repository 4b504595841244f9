"""The time of one retry job against its floor: its calls alone, with `threads` of them open all the time.

In turns with it, a script with as many threads looks as many links up with the same client code and stores
nothing; and at the end the same retrier takes a part of them one after the other in one thread.

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

from bench.fan_out_work import Script, services
from bench.retry_desk import LONG_AGO, RetryDesk, links
from devstack.processes import ManagedProcess
from workers.social_graph.token import RetryableURL
from workers.social_graph.vocabulary import FetchStatus

ONE_BY_ONE_URLS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One job: its calls, its times, and the processor time of the worker and the store."""

    calls: int
    wall_s: float
    script_s: float
    ideal_s: float
    used_s: list[float]
    load: float


def measure_wall(
    desk: RetryDesk, worker: ManagedProcess, *, urls: int, latency_ms: int, threads: int, rounds: int
) -> dict[str, Any]:
    """Retry `urls` URLs, half of them of sites and half of posts, `rounds` times."""
    script = Script(desk.settings)
    # Imports and first connections are not measured.
    desk.run_retry(worker, desk.store_links(2 * threads))
    script.run_urls(links(2 * threads), threads)
    pids = (worker.pid, desk.stack.mongo.process.pid)
    measured = []
    for _ in range(rounds):
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
        measured.append(
            Round(
                calls=calls,
                wall_s=wall_s,
                script_s=_script_s(desk, script, urls, threads, calls),
                ideal_s=ideal_s,
                used_s=used_s,
                load=os.getloadavg()[0],
            )
        )
    ratios = [each.wall_s / each.ideal_s for each in measured]
    median_s = statistics.median(each.wall_s for each in measured)
    worker_s, store_s = (
        statistics.median(used) for used in zip(*(each.used_s for each in measured), strict=True)
    )
    few = min(urls, ONE_BY_ONE_URLS)
    one_by_one_s = _one_by_one_s(desk, few) * urls / few
    return {
        "urls": urls,
        "threads": threads,
        "latency_ms": latency_ms,
        "calls": [each.calls for each in measured],
        "wall_s": [round(each.wall_s, 3) for each in measured],
        "wall_s_median": round(median_s, 3),
        "script_s": [round(each.script_s, 3) for each in measured],
        "ideal_s": round(measured[0].ideal_s, 3),
        "wall_to_ideal_median": round(statistics.median(ratios), 3),
        "wall_to_ideal_best": round(min(ratios), 3),
        "wall_to_script_median": round(
            statistics.median(each.wall_s / each.script_s for each in measured), 3
        ),
        "one_by_one_urls": few,
        "one_by_one_s": round(one_by_one_s, 1),
        "one_by_one_to_wall": round(one_by_one_s / median_s, 2),
        "worker_processor_ms_per_url": round(worker_s * 1000 / urls, 1),
        "store_processor_ms_per_url": round(store_s * 1000 / urls, 1),
        "load_average": [round(each.load, 2) for each in measured],
    }


def _script_s(desk: RetryDesk, script: Script, urls: int, threads: int, calls: int) -> float:
    """The seconds of the script for as many links. Raises `RuntimeError` when it makes other calls."""
    found, before = links(urls), desk.sandbox.calls().total
    started = time.monotonic()
    script.run_urls(found, threads)
    took_s = time.monotonic() - started
    made = desk.sandbox.calls().total - before
    if made != calls:
        raise RuntimeError(f"the script made {made} calls, the job {calls}")
    return took_s


def _one_by_one_s(desk: RetryDesk, count: int) -> float:
    """The seconds of `count` URLs one after the other. The first one pays for first connections."""
    started = 0.0
    for number, address in enumerate(desk.store_links(count + 1)):
        if number == 1:
            started = time.monotonic()
        token = desk.tokens.find_by_address(address)
        assert token is not None
        [element] = token.social_urls
        candidate = RetryableURL(
            address=address,
            symbol=None,
            first_transfer_at=None,
            url=element.url,
            status=FetchStatus.ERROR,
            attempts=element.attempts,
            attempted_at=LONG_AGO,
        )
        outcome = services().retrier.retry(candidate)
        if outcome["status"] != "ok":
            raise RuntimeError(f"{element.url} was not collected: {outcome}")
    return time.monotonic() - started


def _processor_s(pid: int) -> float:
    """The processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
