"""Calls to a paid source per URL: undisturbed, and while workers that pay are killed.

Each worker has one thread, so a kill can cost one call: the one in the air, whose answer nobody takes in. The
calls are counted where they arrive.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from bench.retry_desk import RetryDesk
from devstack.processes import ManagedProcess, poll
from workers.leases import KEY_PREFIX

PAYERS = 3
PAID_CALL = r"^GET /twitterapiio/twitter/user/info"
LATENCY_MS = 400
JOBS_MAX = 15
# A message that a worker had fetched and not begun when it died is waited for until here.
DEADLINE_MS = 10_000
LOOK_EVERY_S = 0.05
ENVIRON = {
    "SOCIAL_RECORD_ENABLE_PAID": "1",
    "TWITTERAPIIO_API_KEY": "a-key-of-the-bench",
    # What a crash blocks is free again after so long; the token's and the job's.
    "SOCIAL_RECORD_TOKEN_LOCK_TTL_MS": "2000",
    "SOCIAL_RECORD_RETRY_LOCK_TTL_MS": "2000",
    "JOB_HEARTBEAT_TTL_MS": "2000",
    "JOB_GRACE_S": "2",
}


def measure_paid(desk: RetryDesk, urls: int, kills: int) -> dict[str, Any]:
    """Retry `urls` paid URLs without and with `kills` kills."""
    desk.sandbox.set_faults({"route": PAID_CALL, "latency_ms": LATENCY_MS})
    with ExitStack() as exits, ThreadPoolExecutor(PAYERS + 1) as pool:
        boss = desk.worker(queues="jobs", threads=2, environ=ENVIRON)
        payers = [_payer(desk) for _ in range(PAYERS)]
        for worker in (boss, *payers):
            exits.callback(worker.stop)
        list(pool.map(ManagedProcess.start, (boss, *payers)))
        quiet = _run(desk, desk.store_accounts(urls), payers, kills=0, exits=exits)
        killed = _run(desk, desk.store_accounts(urls), payers, kills=kills, exits=exits)
    return {"quiet": quiet, "killed": killed}


def _payer(desk: RetryDesk) -> ManagedProcess:
    return desk.worker(queues="records", threads=1, environ=ENVIRON)


def _run(
    desk: RetryDesk, addresses: Sequence[str], payers: list[ManagedProcess], *, kills: int, exits: ExitStack
) -> dict[str, Any]:
    """Ask for one job after the other until nothing is left to retry; kill meanwhile."""
    before = desk.sandbox.calls().matching(PAID_CALL)
    killed = jobs = 0
    for jobs in itertools.count(1):
        job_id = desk.start_retry(addresses, deadline_ms=DEADLINE_MS)
        while not desk.job(job_id).state.is_final:
            if killed < kills and _kill_one(desk, payers):
                killed += 1
                _replace_the_dead(desk, payers, exits)
            time.sleep(LOOK_EVERY_S)
        if killed == kills and desk.statuses(addresses) == {"ok": len(addresses)}:
            break
        if jobs == JOBS_MAX:
            raise RuntimeError(f"not converged after {jobs} jobs: {desk.statuses(addresses)}")
    calls = desk.sandbox.calls().matching(PAID_CALL) - before
    allowed = 1 + kills / len(addresses)
    print(f"{len(addresses)} paid URLs, {kills} kills: {calls} calls in {jobs} jobs", file=sys.stderr)
    return {
        "urls": len(addresses),
        "kills": kills,
        "jobs": jobs,
        "calls": calls,
        "calls_per_url": round(calls / len(addresses), 3),
        "calls_per_url_allowed": round(allowed, 3),
        "is_within": calls / len(addresses) <= allowed,
    }


def _kill_one(desk: RetryDesk, payers: Sequence[ManagedProcess]) -> bool:
    """Kill a worker that is at a token right now, if there is one: its leases name it."""
    for key in desk.redis.scan_iter(f"{KEY_PREFIX}social-url:*"):
        owner = desk.redis.get(key)
        pid = int(owner.split(b":")[0]) if isinstance(owner, bytes) else None
        for payer in payers:
            if payer.running and payer.pid == pid:
                os.kill(payer.pid, signal.SIGKILL)
                return poll(lambda payer=payer: not payer.running, 5.0)  # type: ignore[misc]
    return False


def _replace_the_dead(desk: RetryDesk, payers: list[ManagedProcess], exits: ExitStack) -> None:
    for place, payer in enumerate(payers):
        if not payer.running:
            payers[place] = _payer(desk)
            exits.callback(payers[place].stop)
            payers[place].start()
