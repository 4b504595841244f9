"""Whether a worker keeps memory: its resident set over many tokens.

Each token has one link, to a channel that nobody can be asked about without a key, and the tracker answers at
once, so that there are many of them in a short time. They are members of one job and take the way of every
token: message, start, lease, tracker, document, outcome. Prints one JSON object.

    python -m bench.memory [--tokens 10000] [--threads 16]
"""

from __future__ import annotations

import argparse
import json
import os
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redis import Redis

from devstack.processes import poll
from devstack.sandbox.client import SandboxClient
from devstack.sandbox.tokens import Token, make_token
from devstack.stack import Stack
from workers.celery_app import create_celery
from workers.clock import Clock
from workers.jobs.fan_out import Assignment
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.record import alive_lease
from workers.leases import LeaseStore
from workers.mongo import MongoDatabase, connect
from workers.services import connect_redis
from workers.settings import read_settings
from workers.social_recording.reconcile import RECORD_TOKEN_TASK

PARTS = ("valkey", "mongo", "sandbox", "migrate", "worker")
LOOK_EVERY = 1000
LOOK_INTERVAL_S = 0.2
BATCH_TIMEOUT_S = 120.0
JOB_TTL_MS = 600_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    if options.tokens < 2 * LOOK_EVERY:
        parser.error(f"at least {2 * LOOK_EVERY} tokens are needed")
    print(json.dumps(measure(options.tokens, options.threads)))


def measure(tokens: int, threads: int) -> dict[str, Any]:
    """Record `tokens` tokens with one worker and look at it every thousand; return the figures."""
    with Stack(parts=PARTS, worker_threads=threads) as stack:
        os.environ.update(stack.environ)
        settings = read_settings()
        redis, database = connect_redis(settings, retries=1), connect(settings)
        messenger = CeleryMessenger(create_celery(lambda: settings))
        sandbox = SandboxClient(stack.sandbox_url)
        worker = stack.processes["worker-1"]
        job_id = str(uuid.uuid4())
        looks_mib = [resident_mib(worker.pid)]
        started = time.monotonic()
        with LeaseStore(redis, Clock()).hold(alive_lease(job_id), ttl_ms=JOB_TTL_MS):
            for first in range(0, tokens, LOOK_EVERY):
                batch = make_tokens(first)
                sandbox.set_tokens(batch)
                hand_out(batch, job_id, messenger, start_before_ms=_now_ms(redis) + JOB_TTL_MS)
                await_documents(database, first + LOOK_EVERY)
                looks_mib.append(resident_mib(worker.pid))
        took_s = time.monotonic() - started
        redis.close()
        database.client.close()
    return {
        "tokens": tokens,
        "threads": threads,
        "look_every": LOOK_EVERY,
        "mib": looks_mib,
        "growth_percent": round((looks_mib[-1] / looks_mib[1] - 1) * 100, 1),
        "tokens_per_s": round(tokens / took_s, 1),
    }


def make_tokens(first: int) -> list[Token]:
    """The next tokens, each with a link that nobody can be asked about."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        make_token(number, last_transfer_at=at, links={"website": f"https://youtube.com/@harbor{number}"})
        for number in range(first, first + LOOK_EVERY)
    ]


def hand_out(
    tokens: Sequence[Token], job_id: str, messenger: CeleryMessenger, *, start_before_ms: int
) -> None:
    """Give the tokens to the workers, as a job does."""
    for token in tokens:
        member = Assignment(job_id=job_id, target=token["tokenAddress"], start_before_ms=start_before_ms)
        messenger.publish_member(
            task=RECORD_TOKEN_TASK, arguments={"assignment": member.to_json()}, queue="records"
        )


def await_documents(database: MongoDatabase, count: int) -> None:
    """Wait until so many tokens are recorded. Raises `RuntimeError` when that takes too long."""

    def is_done() -> bool:
        return database["tokens"].estimated_document_count() >= count

    if not poll(is_done, BATCH_TIMEOUT_S, interval_s=LOOK_INTERVAL_S):
        raise RuntimeError(f"{count} tokens were not recorded within {BATCH_TIMEOUT_S:g} s")


def resident_mib(pid: int) -> float:
    """The memory that a process has now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def _now_ms(redis: Redis) -> int:
    seconds, micros = redis.time()
    return int(seconds * 1000 + micros // 1000)


if __name__ == "__main__":
    main()
