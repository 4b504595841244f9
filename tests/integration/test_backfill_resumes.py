"""Campaigns that are stopped anywhere and gone on with: the counts add up, and nothing is skipped."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devstack.sandbox.process import SandboxServer
from devstack.sandbox.solana_history import history_of
from devstack.sandbox.solana_names import reserved_address
from tests.conftest import make_settings
from tests.integration.recording_place import sandbox
from tests.integration.solana_place import SharedFakeClock, SolanaPlace, place
from tests.solana_node import FETCHED, Node, signature, signatures
from tests.waiting import wait_until
from workers.clock import Clock
from workers.http.client import OutboundClient
from workers.jobs.run import RunningJob, StoppedBy
from workers.solana_backfill.job_kinds import BACKFILL, BackfillRequest
from workers.solana_endpoints import read_endpoints

__all__ = ["place", "sandbox"]

COUNT = 24
ANCHOR = signature("anchor")
_numbers = itertools.count(1)


class Stop:
    """Holds up the calls for some signatures, and stops the job.

    It does so at a call, when all threads are held up, or when some are and no other call is due.
    """

    def __init__(
        self, job: RunningJob, held: Sequence[str], *, at_call: int, threads: int, calls_due: int
    ) -> None:
        self._job = job
        self._held = set(held)
        self._at_call = at_call
        self._threads = threads
        self._calls_due = calls_due
        self._guard = threading.Lock()
        self._calls = self._waiting = 0
        self._ended = threading.Event()

    def __call__(self, call: Mapping[str, Any]) -> None:
        if call["method"] != FETCHED or call["params"][0] == ANCHOR:
            return
        with self._guard:
            self._calls += 1
            is_held = call["params"][0] in self._held or self._calls >= self._at_call
            self._waiting += is_held
            is_stuck = self._waiting == self._threads or (self._waiting and self._calls == self._calls_due)
            if self._calls == self._at_call or is_stuck:
                self._job.is_cancelled = True
                self._job.stopping.set()
        if is_held:
            self._ended.wait(30)

    def let_go(self) -> None:
        """Let all calls end, now that the job has."""
        self._ended.set()


def run_until_stopped(
    place: SolanaPlace,
    body: Mapping[str, Any],
    held: Sequence[str],
    *,
    at_call: int,
    threads: int,
    calls_due: int,
) -> Mapping[str, Any]:
    """One session; return its `meta`."""
    request = BackfillRequest.model_validate({"mode": "program", "address": "1" * 32, **body}).with_defaults(
        place.settings
    )
    job_id = f"session-{next(_numbers)}"
    place.store.create(job_id, BACKFILL.name, {}, expires_s=60, claim=None)
    record = place.store.get(job_id)
    assert record is not None
    with place.leases.hold(f"lease-{job_id}", ttl_ms=60_000) as lease:
        job = RunningJob(
            record=record,
            lease=lease,
            clock=Clock(),
            store=place.store,
            shutdown=threading.Event(),
            started_at_s=0.0,
        )
        stop = Stop(job, held, at_call=at_call, threads=threads, calls_due=calls_due)
        place.http.before_answer = stop
        try:
            meta = place.backfill.run(job, request).meta
        finally:
            stop.let_go()
    wait_until(lambda: place.http.open == 0, "calls that were left behind have ended")
    return meta


sessions = st.lists(
    st.tuples(st.sets(st.integers(1, COUNT), max_size=6), st.integers(1, COUNT + 1)), max_size=5
)


@settings(
    max_examples=8,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(stops=sessions, threads=st.integers(1, 5), direction=st.sampled_from(["before", "after"]))
def test_whatever_is_stopped_whenever_the_counts_add_up_and_going_on_skips_nothing(
    place: SolanaPlace, stops: Sequence[tuple[set[int], int]], threads: int, direction: str
) -> None:
    for collection in ("raw_transactions", "transaction_observations"):
        place.database[collection].delete_many({})
    every = signatures(COUNT)
    place.node = Node(every if direction == "before" else [*every, ANCHOR])
    place.build(clock=SharedFakeClock(), max_concurrent_requests=threads)
    in_order = every if direction == "before" else every[::-1]
    anchor = None if direction == "before" else ANCHOR
    # The last session is not stopped.
    for held, at_call in [*stops, (set(), 10_000)]:
        position = in_order.index(anchor) + 1 if anchor in in_order else 0
        body = {"direction": direction, "limit": COUNT - position or 1, "anchor": anchor}
        meta = run_until_stopped(
            place,
            body,
            [signature(number) for number in held],
            at_call=at_call,
            threads=threads,
            calls_due=len(set(in_order[position:]) - place.stored()),
        )
        assert meta["selected"] == meta["started"] + meta["notStarted"]
        assert meta["started"] == meta["completed"] + meta["cancelled"]
        assert meta["completed"] == meta["persisted"] + meta["alreadyPresent"]
        resumed = meta["resumeBeforeSignature" if direction == "before" else "resumeAfterSignature"]
        stored = place.stored()
        done = in_order[: in_order.index(resumed) + 1] if resumed in in_order else []
        assert set(done) <= stored, "all before the resume point is stored"
        assert anchor is None or resumed is not None, "an anchor is never lost"
        anchor = resumed
    assert meta["stoppedBy"] != StoppedBy.CANCELLED
    assert place.stored() == set(every)
    assert place.database["raw_transactions"].count_documents({}) == COUNT
    persisted = Counter(row["signature"] for row in place.rows() if row["status"] == "persisted")
    assert max(persisted.values()) == 1


@pytest.fixture
def far(place: SolanaPlace, sandbox: SandboxServer) -> SolanaPlace:
    """The place with the sandbox's node, over real HTTP and in real time."""
    sandbox.client.reset()
    [endpoint] = read_endpoints(sandbox.settings()["SOLANA_ENDPOINTS"])
    settings = make_settings(solana_endpoints=(endpoint,))
    place.build(
        clock=Clock(),
        http=OutboundClient(settings, Clock()),
        url=endpoint.url,
        requests_per_second=5000,
        max_concurrent_requests=8,
    )
    return place


def come_far(place: SolanaPlace, job_id: str, target: int) -> None:
    """Wait until so many candidates are completed."""

    def has_come_far() -> bool:
        record = place.store.get(job_id)
        assert record is not None
        return record.done >= target

    wait_until(has_come_far, f"{target} are completed", timeout_s=60)


def test_five_thousand_signatures_stopped_ten_times_are_each_stored_once(far: SolanaPlace) -> None:
    address = reserved_address("huge")
    history = history_of(address)
    every = [history.signature(position) for position in reversed(range(len(history.places)))][:5000]
    anchor: str | None = None
    ends: list[str] = []
    for session in range(1, 12):
        position = 0 if anchor is None else every.index(anchor) + 1
        running = far.start(address=address, limit=5000 - position, **({"anchor": anchor} if anchor else {}))
        if session <= 10:
            come_far(far, running.job_id, 5000 * session // 11 - position)
            far.store.request_cancel(running.job_id)
        meta = running.result(60)["meta"]
        ends.append(meta["stoppedBy"])
        assert meta["selected"] == meta["started"] + meta["notStarted"]
        assert meta["started"] == meta["completed"] + meta["cancelled"]
        anchor = meta["resumeBeforeSignature"]
    assert ends == ["cancelled"] * 10 + ["limit"]
    assert anchor == every[-1]
    assert far.stored() == set(every)
    assert far.database["raw_transactions"].count_documents({}) == 5000
    persisted = Counter(row["signature"] for row in far.rows() if row["status"] == "persisted")
    assert max(persisted.values()) == 1
    assert set(persisted) <= set(every)
