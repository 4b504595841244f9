"""Ten thousand jobs that nobody took up in time: they cost little, and a fresh job runs after them."""

from __future__ import annotations

import time
import uuid

from redis import Redis

from tests.faults.convergence import assert_converged
from tests.faults.crew import Crew
from tests.operator import Operator, sites
from tests.waiting import wait_until
from workers.jobs.record import INDEX_KEY, KEY_PREFIX

JOBS = 10_000
QUEUE = "converge:jobs"
AN_HOUR_MS = 3_600_000


def multiply(operator: Operator, broker: Redis, job_id: str) -> list[str]:
    """Queue copies of a job that waits, each with an id, a record and a message of its own, an hour old."""
    record, [message] = operator.redis.hgetall(KEY_PREFIX + job_id), broker.lrange(QUEUE, 0, -1)
    for name in (b"created_ms", b"expires_ms"):
        record[name] = int(record[name]) - AN_HOUR_MS
    copies = [str(uuid.uuid4()) for _ in range(JOBS)]
    with operator.redis.pipeline(transaction=False) as records, broker.pipeline(transaction=False) as queue:
        for number, copy in enumerate(copies):
            records.hset(KEY_PREFIX + copy, mapping=record)
            records.zadd(INDEX_KEY, {copy: number + 1})
            queue.lpush(QUEUE, message.replace(job_id.encode(), copy.encode()))
        records.execute()
        queue.execute()
    return copies


def test_ten_thousand_jobs_that_waited_too_long_are_dropped_and_a_fresh_one_runs_after_them(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens(sites(2))
    broker = Redis.from_url(operator.stack.environ["BROKER_URL"])
    copied = operator.start("reconcile")
    copies = multiply(operator, broker, copied)
    assert broker.llen(QUEUE) == JOBS + 1
    started = time.monotonic()
    page = operator.session.get(f"{operator.stack.api_url}/api/v1/jobs", params={"limit": 200}, timeout=10)
    assert len(page.json()["data"]) == 200
    assert time.monotonic() - started < 2
    calls = operator.calls().total
    for _ in range(2):
        crew.hire(threads=8)
    wait_until(lambda: broker.llen(QUEUE) == 0, "the queue is empty", timeout_s=240)
    # The one that was copied came first and may still be at work, and of one kind one job runs at a time.
    operator.ended(copied)
    assert operator.job(copies[0])["state"] == operator.job(copies[-1])["state"] == "expired"
    assert operator.run("reconcile")["result"]["meta"]["remaining"] == 0
    assert_converged(operator, tokens)
    # One list, two tokens, two sites: nothing was asked for the ten thousand.
    assert operator.calls().by_address == dict.fromkeys((token["tokenAddress"] for token in tokens), 1)
    assert operator.calls().total > calls
    broker.close()
