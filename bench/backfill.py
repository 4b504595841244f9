"""Backfills against a node that takes its time: is the allowed rate reached, and is it never passed?

The stores are real; the node is the sandbox's, in a process of its own that notes when each request arrives.
Prints one JSON object:

- `rate`: a campaign over the real engine. `achieved` is in requests a second; `most_in_a_second` is the
  largest number of requests in any second, as they were started here and as they arrived there,
- `script`: the same requests by a pool of threads with the same client and a timetable of its own; it stores
  nothing, looks at no answer and heeds no other worker. `one_by_one` is a single thread without a timetable,
- `after`: what a search after an anchor remembers, and the memory of it, when it walks all the pages it may.

    python -m bench.backfill [--rate 50] [--threads 16] [--latency-ms 50] [--seconds 20]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import multiprocessing.connection
import threading
import time
import tracemalloc
import uuid
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from devstack.ports import LOOPBACK
from devstack.sandbox.http_server import Request as SandboxRequest
from devstack.sandbox.http_server import listen
from devstack.sandbox.samples import Answer
from devstack.sandbox.solana import Solana, call_of
from devstack.sandbox.solana_history import history_of
from devstack.sandbox.solana_names import reserved_address
from devstack.stack import Stack
from workers.clock import Budget, Clock
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.jobs.record import JobStore
from workers.jobs.run import RunningJob
from workers.leases import LeaseStore
from workers.mongo import connect
from workers.mongo_indexes import migrate
from workers.services import connect_redis
from workers.settings import Settings
from workers.solana_backfill.assembly import build_backfill, build_client
from workers.solana_backfill.campaign_words import Direction
from workers.solana_backfill.discovery import Discovery, Search, TooManyPages
from workers.solana_backfill.indexes import INDEXES
from workers.solana_backfill.job_kinds import BACKFILL, BackfillRequest
from workers.solana_backfill.transactions import TransactionRepository
from workers.solana_backfill.vocabulary import Commitment
from workers.solana_endpoints import GET_TRANSACTION, NEEDED_METHODS, read_endpoints

PARTS = ("valkey", "mongo")
PAGES_MAX = 20
READY_TIMEOUT_S = 30
ONE_BY_ONE_REQUESTS = 60
BUDGET_S = 30.0
BODY_MAX_BYTES = 8_388_608
_context = multiprocessing.get_context("spawn")


class NotingClient(OutboundClient):
    """Notes when each request for a transaction is started."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        super().__init__(settings, clock)
        self.started_at: list[float] = []

    def fetch(self, request: Request, budget: Budget, on_call: Callable[[], None] | None = None) -> Response:
        """Ask as ever."""

        def note() -> None:
            if isinstance(request.json_body, dict) and request.json_body["method"] == GET_TRANSACTION:
                self.started_at.append(time.monotonic())
            if on_call is not None:
                on_call()

        return super().fetch(request, budget, note)


def serve(latency_s: float, pipe: multiprocessing.connection.Connection) -> None:
    """Be the node: tell the port, answer until something comes over the pipe, tell when requests arrived."""
    arrived_at: list[float] = []
    node = Solana()

    async def answer(request: SandboxRequest) -> Answer:
        call = call_of(request.body)
        if call is not None and call["method"] == GET_TRANSACTION:
            arrived_at.append(time.monotonic())
        found = node.answer(request, "/")
        await asyncio.sleep(latency_s)
        return found

    async def run() -> None:
        server = await listen(answer, host=LOOPBACK, port=0)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.recv)
        server.close()

    asyncio.run(run())
    pipe.send(arrived_at)


def settings_of(stack: Stack, port: int, rate: float, threads: int) -> Settings:
    """Settings with the node as the only endpoint."""
    endpoint = {
        "role": "history_backfill",
        "url": f"http://{LOOPBACK}:{port}/?api-key=bench-key",
        "methods": NEEDED_METHODS,
        "requestsPerSecond": rate,
        "maxConcurrentRequests": threads,
    }
    values: dict[str, Any] = {
        "app_secret_key": "bench",
        "tracker_base_url": "http://127.0.0.1:9",
        "tracker_api_key": "bench",
        "social_record_af_group_ids": ("1",),
        "redis_url": stack.environ["REDIS_URL"],
        "mongo_url": stack.environ["MONGO_URL"],
        "mongo_database": f"bench_{uuid.uuid4().hex[:12]}",
        "solana_endpoints": read_endpoints(json.dumps([endpoint])),
    }
    return Settings(**values)


def measure_rate(settings: Settings, http: NotingClient, count: int) -> dict[str, Any]:
    """Run a campaign over `count` signatures; return its summary's counts and the starts' times."""
    clock = Clock()
    redis = connect_redis(settings, retries=1)
    database = connect(settings)
    migrate(database, INDEXES)
    backfill = build_backfill(settings, redis=redis, database=database, clock=clock, http=http)
    request = BackfillRequest(mode="program", address=reserved_address("huge"), limit=count).with_defaults(
        settings
    )
    store, job_id = JobStore(redis, retention_s=600), str(uuid.uuid4())
    store.create(job_id, BACKFILL.name, {}, expires_s=60, claim=None)
    record = store.get(job_id)
    assert record is not None
    with LeaseStore(redis, clock).hold(BACKFILL.lease, ttl_ms=60_000) as lease:
        job = RunningJob(
            record=record,
            lease=lease,
            clock=clock,
            store=store,
            shutdown=threading.Event(),
            started_at_s=clock.monotonic(),
        )
        with job.watched():
            meta = backfill.run(job, request).meta
    assert meta["persisted"] == meta["selected"] == count
    assert database["raw_transactions"].count_documents({}) == count
    database.client.drop_database(database.name)
    return {name: meta[name] for name in ("selected", "persisted", "calls", "elapsedMs")}


def script_rate(settings: Settings, count: int, *, rate: float, threads: int) -> float:
    """Ask for `count` transactions with a pool of threads, `rate` a second; return the rate reached."""
    ask = _asker(settings)
    started = time.monotonic()

    def ask_in_time(number: int) -> None:
        time.sleep(max(0.0, started + number / rate - time.monotonic()))
        ask(number)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(ask_in_time, range(count)))
    return count / (time.monotonic() - started)


def one_by_one_rate(settings: Settings, count: int) -> float:
    """Ask for `count` transactions as soon as the one before is there; return the rate reached."""
    ask = _asker(settings)
    started = time.monotonic()
    for number in range(count):
        ask(number)
    return count / (time.monotonic() - started)


def _asker(settings: Settings) -> Callable[[int], None]:
    """What asks for one of the transactions of the campaign."""
    clock, history = Clock(), history_of(reserved_address("huge"))
    http = OutboundClient(settings, clock)
    [endpoint] = settings.solana_endpoints or ()

    def ask(number: int) -> None:
        params = [history.signature(number), {"encoding": "json", "maxSupportedTransactionVersion": 0}]
        request = Request(
            source="solana_rpc",
            url=endpoint.url,
            destination=Destination.SERVICE,
            method="POST",
            json_body={"jsonrpc": "2.0", "id": number, "method": GET_TRANSACTION, "params": params},
            body_max_bytes=BODY_MAX_BYTES,
        )
        if http.fetch(request, Budget.of(clock, BUDGET_S)).status != 200:
            raise RuntimeError("the node did not answer")

    return ask


def most_in_a_second(times: Sequence[float]) -> int:
    """The largest number of times in any stretch of one second."""
    found = sorted(times)
    return max(bisect_left(found, at + 1.0) - place for place, at in enumerate(found))


def measure_after(settings: Settings, http: OutboundClient) -> dict[str, Any]:
    """Walk as many pages as a search may, with a limit of 5 and of all; return what it remembered."""
    redis, clock = connect_redis(settings, retries=1), Clock()
    [endpoint] = settings.solana_endpoints or ()
    client = build_client(endpoint, settings, redis=redis, clock=clock, http=http, random=lambda: 0.0)
    transactions = TransactionRepository(connect(settings), clock)
    address = reserved_address("huge")
    session = client.open_session(Commitment.FINALIZED, threading.Event())
    # The oldest of 21,000, which 20 pages do not reach: the most that a search can come to remember.
    anchor = history_of(address).signature(0)
    found: dict[str, Any] = {"pages_max": PAGES_MAX, "remembered_max": PAGES_MAX * 1000}
    for name, limit in (("limit_5", 5), ("limit_all", PAGES_MAX * 1000)):
        search = Search(
            address=address,
            direction=Direction.AFTER,
            anchor=anchor,
            limit=limit,
            pages_max=PAGES_MAX,
            include_failed=True,
        )
        discovery = Discovery(session, transactions, clock, search, random=lambda: 0.0)
        tracemalloc.start()
        try:
            discovery.run()
        except TooManyPages:
            pass
        else:
            raise AssertionError("the anchor was reached")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        remembered = len(discovery.remembered)
        found[name] = {
            "inspected": discovery.found.inspected,
            "remembered": remembered,
            "peak_mib": round(peak / 1_048_576, 1),
            "peak_bytes_per_signature": round(peak / remembered),
        }
        assert remembered <= PAGES_MAX * 1000
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--latency-ms", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    print(json.dumps(measure(options.rate, options.threads, options.latency_ms, options.seconds)))


def measure(allowed: float, threads: int, latency_ms: float, seconds: float) -> dict[str, Any]:
    """Backfill for about `seconds` at the `allowed` rate, then let the script do so; return the figures."""
    ours, theirs = _context.Pipe()
    child = _context.Process(target=serve, args=(latency_ms / 1000, theirs), daemon=True)
    with Stack(parts=PARTS) as stack:
        child.start()
        assert ours.poll(READY_TIMEOUT_S), "the node does not start"
        settings = settings_of(stack, ours.recv(), allowed, threads)
        http = NotingClient(settings, Clock())
        summary = measure_rate(settings, http, round(allowed * seconds))
        times = sorted(http.started_at)
        script = script_rate(settings, len(times), rate=allowed, threads=threads)
        one_by_one = one_by_one_rate(settings, ONE_BY_ONE_REQUESTS)
        after = measure_after(settings, http)
        ours.send("end")
        arrived_at = ours.recv()
        child.join(READY_TIMEOUT_S)
    achieved = (len(times) - 1) / (times[-1] - times[0])
    rate = {
        "allowed": allowed,
        "threads": threads,
        "latency_ms": latency_ms,
        **summary,
        "achieved": round(achieved, 2),
        "of_allowed": round(achieved / allowed, 4),
        "script": round(script, 2),
        "to_script": round(achieved / script, 3),
        "one_by_one": round(one_by_one, 2),
        "to_one_by_one": round(achieved / one_by_one, 2),
        "most_in_a_second": {
            "started": most_in_a_second(times),
            "arrived": most_in_a_second(sorted(arrived_at)[: len(times)]),
        },
    }
    return {"rate": rate, "after": after}


if __name__ == "__main__":
    main()
