"""The same tokens on Dramatiq: a group of messages, with results in Redis.

`python -m bench.fan_out_dramatiq THREADS` is the worker. It is Dramatiq's own without the process that minds
worker processes, so that nothing of it can outlive whoever started it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from redis import Redis

from bench.fan_out_work import DRAMATIQ_BROKER, RESULT_TIMEOUT_S, record

broker = RedisBroker(url=os.environ[DRAMATIQ_BROKER])
# A result is waited for in one command, so its connection has to wait as long.
_results = Redis.from_url(os.environ[DRAMATIQ_BROKER], socket_timeout=RESULT_TIMEOUT_S)
broker.add_middleware(Results(backend=RedisBackend(client=_results)))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True, max_retries=0)
def record_token(address: str) -> list[str]:
    """Record one token."""
    return record(address)


def run(addresses: Sequence[str]) -> list[str]:
    """Record the tokens and wait for the end; return how their links ended."""
    members = dramatiq.group([record_token.message(address) for address in addresses]).run()
    results = members.get_results(block=True, timeout=int(RESULT_TIMEOUT_S * 1000))
    return [status for each in results for status in each]


def serve(threads: int) -> None:
    """Be the worker until SIGTERM."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    worker = dramatiq.Worker(broker, worker_threads=threads)
    worker.start()
    print("dramatiq is ready", flush=True)
    ended.wait()
    worker.stop()
    broker.close()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
