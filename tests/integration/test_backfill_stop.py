"""A stop ends a campaign within a second, wherever it waits; what it says then is true, and whoever goes on
from there skips nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.integration.solana_place import RunningCampaign, SolanaPlace, place
from tests.solana_node import FETCHED, LISTED, Node, error, signature, signatures
from tests.waiting import wait_until
from workers.clock import Clock
from workers.jobs.record import JobState
from workers.leases import KEY_PREFIX
from workers.solana_backfill.hydration import Hydration, ObservedAs
from workers.solana_backfill.job_kinds import BACKFILL
from workers.solana_backfill.ledger import Ledger
from workers.solana_backfill.pacer import Halted
from workers.solana_backfill.signature_page import ListedSignature
from workers.solana_backfill.transactions import TransactionRepository
from workers.solana_backfill.vocabulary import Commitment, FilterCode

__all__ = ["place"]

ANCHOR = signature("anchor")


class Gate:
    """Holds calls up until it is opened; `waiting` are those that it holds."""

    def __init__(self, is_held: Callable[[Mapping[str, Any]], bool] = lambda _: True) -> None:
        self._is_held = is_held
        self._opened = threading.Event()
        self.waiting: list[str] = []

    def __call__(self, call: Mapping[str, Any]) -> None:
        if self._is_held(call):
            self.waiting.append(call["params"][0])
            self._opened.wait(30)

    def open(self) -> None:
        """Let all go on, and hold nobody any more."""
        self._opened.set()


@contextlib.contextmanager
def gate_of(place: SolanaPlace, is_held: Callable[[Mapping[str, Any]], bool]) -> Iterator[Gate]:
    gate = Gate(is_held)
    place.http.before_answer = gate
    try:
        yield gate
    finally:
        gate.open()


def with_history(place: SolanaPlace, history: list[str], **endpoint: Any) -> None:
    """A node with this history, asked in real time."""
    place.node = Node(history)
    place.build(clock=Clock(), **endpoint)


def stopped(place: SolanaPlace, running: RunningCampaign) -> tuple[dict[str, Any], float]:
    """Cancel the job and return its result, and how many seconds that took."""
    began_at = time.monotonic()
    place.store.request_cancel(running.job_id)
    result = running.result()
    return result, time.monotonic() - began_at


def assert_balanced(meta: Mapping[str, Any]) -> None:
    assert meta["selected"] == meta["started"] + meta["notStarted"]
    assert meta["started"] == meta["completed"] + meta["cancelled"]
    outcomes = ("persisted", "alreadyPresent", "missing", "failed")
    assert meta["completed"] == sum(meta[name] for name in outcomes)


def is_fetch(call: Mapping[str, Any]) -> bool:
    return bool(call["method"] == FETCHED)


def test_a_stop_while_a_page_is_on_its_way_ends_the_job(place: SolanaPlace) -> None:
    with_history(place, signatures(5))
    with gate_of(place, lambda _: True) as gate:
        running = place.start(anchor=signature(1))
        wait_until(lambda: gate.waiting, "the page is asked for")
        result, took_s = stopped(place, running)
    assert took_s < 1
    assert_balanced(result["meta"])
    assert (result["meta"]["stoppedBy"], result["meta"]["selected"]) == ("cancelled", 0)
    assert result["meta"]["resumeBeforeSignature"] == signature(1)
    assert place.http.fetched() == []


@pytest.mark.parametrize("direction", ["before", "after"])
def test_a_stop_between_pages_keeps_what_is_certain_and_fetches_nothing(
    place: SolanaPlace, direction: str
) -> None:
    with_history(place, [*signatures(2500), ANCHOR])
    with gate_of(place, lambda call: call["params"][1].get("before") == signature(1000)) as gate:
        search = {"direction": "after", "anchor": ANCHOR} if direction == "after" else {}
        running = place.start(limit=3000, **search)
        wait_until(lambda: gate.waiting, "the second page is asked for")
        result, took_s = stopped(place, running)
    meta = result["meta"]
    assert took_s < 1
    assert_balanced(meta)
    # Which are next to the anchor is not known before the end, so of those after it none is selected.
    assert meta["selected"] == (1000 if direction == "before" else 0)
    assert (meta["started"], meta["pages"], meta["historyEnd"]) == (0, 1, "notReached")
    assert meta["resumeBeforeSignature"] is None
    assert meta["resumeAfterSignature"] == (None if direction == "before" else ANCHOR)
    assert place.http.fetched() == ([] if direction == "before" else [ANCHOR]), "the anchor's slot is needed"
    assert place.stored() == set()


def test_a_stop_during_a_pause_of_a_minute_ends_it_at_once(place: SolanaPlace) -> None:
    with_history(place, signatures(30), max_concurrent_requests=8)
    place.node.say_of(signature(10), error(429, "slow down", status=429, Retry_After="60"))
    running = place.start()
    wait_until(lambda: is_paused(place), "the endpoint is left alone")
    wait_until(lambda: place.http.open == 0, "nothing is under way")
    asked = len(place.http.asked)
    result, took_s = stopped(place, running)
    assert took_s < 1
    assert_balanced(result["meta"])
    assert result["meta"]["cancelled"] > 0
    assert len(place.http.asked) == asked


def is_paused(place: SolanaPlace) -> bool:
    return any(place.redis.hexists(key, "pause") for key in place.redis.keys("converge:rpc:*:state"))


def test_a_stop_ends_the_wait_for_the_next_turn(place: SolanaPlace) -> None:
    with_history(place, signatures(30), requests_per_second=0.05, max_concurrent_requests=8)
    running = place.start(limit=30)
    wait_until(lambda: place.http.asked, "the first request is made, the next one is 20 s away")
    result, took_s = stopped(place, running)
    assert took_s < 1
    assert_balanced(result["meta"])
    assert len(place.http.asked) == 1


def test_a_stop_ends_the_wait_before_another_try(place: SolanaPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.solana_backfill.patience.FIRST_WAIT_S", 8.0)
    with_history(place, signatures(3))
    place.node.say(FETCHED, *[error(-32005, "Node is behind by 9 slots")] * 3)
    running = place.start()
    wait_until(lambda: len(place.rows()) == 3, "all wait for their second try")
    result, took_s = stopped(place, running)
    assert took_s < 1
    assert_balanced(result["meta"])
    assert (result["meta"]["started"], result["meta"]["cancelled"]) == (3, 3)


def test_a_stop_leaves_hanging_calls_behind_and_they_write_nothing_later(place: SolanaPlace) -> None:
    with_history(place, signatures(500), max_concurrent_requests=4)
    finished = {signature(number) for number in (1, 2, 3)}
    with gate_of(place, lambda call: is_fetch(call) and call["params"][0] not in finished) as gate:
        running = place.start(limit=500)
        wait_until(lambda: len(gate.waiting) == 4 and len(place.rows()) == 3, "four hang, three are done")
        result, took_s = stopped(place, running)
        meta = result["meta"]
        assert took_s < 1
        counts = ("selected", "started", "completed", "cancelled", "notStarted")
        assert [meta[name] for name in counts] == [500, 7, 3, 4, 493]
        assert_balanced(meta)
        assert meta["resumeBeforeSignature"] == signature(3)
        gate.open()
        wait_until(lambda: place.http.open == 0, "the calls that were left behind have ended")
        wait_until(lambda: not threads_of_campaigns(), "their threads have ended")
    assert place.stored() == finished
    assert {row["signature"] for row in place.rows()} == finished
    assert len(place.http.fetched()) == 7, "nothing was started after the stop"
    record = place.store.get(running.job_id)
    assert record is not None
    assert record.outcome is JobState.CANCELLED


def threads_of_campaigns() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("backfill-") and each.daemon]


def test_no_candidate_starts_after_a_stop_although_the_calls_go_on(place: SolanaPlace) -> None:
    with_history(place, signatures(40), max_concurrent_requests=2)
    with gate_of(place, is_fetch) as gate:
        running = place.start(limit=40)
        wait_until(lambda: len(gate.waiting) == 2, "two are under way")
        result, _ = stopped(place, running)
        gate.open()
        wait_until(lambda: place.http.open == 0, "the calls have ended")
    assert result["meta"]["started"] == 2
    assert len(place.http.fetched()) == 2


def test_a_campaign_that_was_stopped_goes_on_where_everything_before_is_finished(place: SolanaPlace) -> None:
    """s1 to s10, four at a time, stopped when s1, s2 and s4 are done."""
    with_history(place, signatures(10), max_concurrent_requests=4)
    done = {signature(number) for number in (1, 2, 4)}
    with gate_of(place, lambda call: is_fetch(call) and call["params"][0] not in done) as gate:
        running = place.start(limit=10)
        wait_until(lambda: len(place.rows()) == 3 and len(gate.waiting) == 4, "three are done")
        result, _ = stopped(place, running)
        meta = result["meta"]
        assert_balanced(meta)
        assert meta["resumeBeforeSignature"] == signature(2)
        gate.open()
        wait_until(lambda: place.http.open == 0, "the calls that were left behind have ended")
    with_history(place, signatures(10), max_concurrent_requests=4)
    meta = place.run(limit=10, anchor=meta["resumeBeforeSignature"])["meta"]
    assert signature(3) in place.http.fetched()
    assert signature(4) not in place.http.fetched(), "it is known"
    assert (meta["persisted"], meta["alreadyPresent"]) == (7, 1)
    assert place.stored() == set(signatures(10))
    assert_balanced(meta)


def test_a_search_after_an_anchor_goes_on_from_the_newest_that_is_finished_without_a_gap(
    place: SolanaPlace,
) -> None:
    with_history(place, [*signatures(10), ANCHOR], max_concurrent_requests=3)
    done = {signature(number) for number in (10, 9, 7)}
    with gate_of(place, lambda call: is_fetch(call) and call["params"][0] not in {*done, ANCHOR}) as gate:
        running = place.start(limit=10, direction="after", anchor=ANCHOR)
        wait_until(lambda: len(place.rows()) == 3 and len(gate.waiting) == 3, "three are done")
        result, _ = stopped(place, running)
        assert result["meta"]["resumeAfterSignature"] == signature(9)
        assert result["meta"]["resumeBeforeSignature"] is None
        gate.open()
    with_history(place, [*signatures(10), ANCHOR])
    meta = place.run(limit=10, direction="after", anchor=signature(9))["meta"]
    assert (meta["persisted"], meta["alreadyPresent"]) == (7, 1)
    assert place.stored() == set(signatures(10))


@pytest.mark.parametrize("anchor", [None, signature(1)])
def test_nothing_finished_leaves_the_anchor_and_makes_none_up(place: SolanaPlace, anchor: str | None) -> None:
    with_history(place, signatures(5))
    with gate_of(place, is_fetch) as gate:
        running = place.start(**({"anchor": anchor} if anchor else {}))
        wait_until(lambda: gate.waiting, "some are under way")
        result, _ = stopped(place, running)
    assert result["meta"]["resumeBeforeSignature"] == anchor


def test_a_second_campaign_is_skipped_while_one_runs(place: SolanaPlace) -> None:
    with_history(place, signatures(5))
    with gate_of(place, is_fetch) as gate:
        first = place.start()
        wait_until(lambda: gate.waiting, "the first one runs")
        assert place.run() == {"data": [], "meta": {"skipped": "already running"}}
        gate.open()
        assert first.result()["meta"]["persisted"] == 5
    assert len(place.http.of(LISTED)) == 2, "the page and the empty one, of the first campaign"


def test_a_worker_that_shuts_down_ends_its_campaign(place: SolanaPlace) -> None:
    with_history(place, signatures(20), max_concurrent_requests=2)
    with gate_of(place, is_fetch) as gate:
        running = place.start(limit=20)
        wait_until(lambda: len(gate.waiting) == 2, "two are under way")
        place.shutdown.set()
        meta = running.result(5)["meta"]
    assert meta["stoppedBy"] == "shutdown"
    assert_balanced(meta)


def test_a_campaign_that_lost_its_lease_stops_writing(place: SolanaPlace) -> None:
    with_history(place, signatures(20), max_concurrent_requests=2)
    with gate_of(place, is_fetch) as gate:
        running = place.start(limit=20)
        wait_until(lambda: len(gate.waiting) == 2, "two are under way")
        place.redis.set(f"{KEY_PREFIX}{BACKFILL.lease}", "thief")
        meta = running.result(10)["meta"]
        gate.open()
        wait_until(lambda: place.http.open == 0, "the calls that were left behind have ended")
        wait_until(lambda: not threads_of_campaigns(), "their threads have ended")
    assert meta["stoppedBy"] == "lease_lost"
    assert place.stored() == set()
    assert place.rows() == []


def test_a_store_that_hangs_does_not_hold_up_a_stop(place: SolanaPlace) -> None:
    hung = threading.Event()
    released = threading.Event()

    class Hanging(TransactionRepository):
        """Takes its time."""

        def store(self, transaction: Any) -> Any:
            hung.set()
            released.wait(30)
            return super().store(transaction)

    with_history(place, signatures(5), max_concurrent_requests=1)
    place.build(clock=Clock(), transactions=Hanging(place.database, Clock()), max_concurrent_requests=1)
    running = place.start()
    try:
        assert hung.wait(10)
        result, took_s = stopped(place, running)
    finally:
        released.set()
    assert took_s < 1
    assert (result["meta"]["started"], result["meta"]["cancelled"]) == (1, 1)
    wait_until(
        lambda: place.stored() == {signature(1)}, "what was under way is written, and counts next time"
    )
    with_history(place, signatures(5))
    assert place.run()["meta"]["alreadyPresent"] == 1


def test_progress_is_told_while_the_campaign_runs(place: SolanaPlace) -> None:
    with_history(place, signatures(12), max_concurrent_requests=2)
    done = {signature(number) for number in (1, 2, 3)}
    with gate_of(place, lambda call: is_fetch(call) and call["params"][0] not in done) as gate:
        running = place.start(limit=12)

        def counts() -> Mapping[str, int]:
            record = place.store.get(running.job_id)
            assert record is not None
            return record.counts

        wait_until(lambda: counts().get("completed") == 3, "three are told as completed")
        assert counts() == {"pages": 1, "inspected": 12, "selected": 12, "started": 5, "completed": 3}
        record = place.store.get(running.job_id)
        assert record is not None
        assert (record.done, record.total) == (3, 12)
        gate.open()
        running.result()
    assert counts()["completed"] == 12


@pytest.mark.parametrize("is_closed", [True, False])
def test_what_comes_back_after_the_end_is_written_only_where_there_was_no_end(
    place: SolanaPlace, is_closed: bool
) -> None:
    """The second case is the twin: without the end, the same answer is stored and observed."""
    with_history(place, signatures(1))
    ledger = Ledger([ListedSignature(signature=signature(1))])
    hydration = Hydration(
        session=place.client.open_session(Commitment.FINALIZED, threading.Event()),
        ledger=ledger,
        known=frozenset(),
        transactions=place.transactions,
        observations=place.observations,
        clock=Clock(),
        observed_as=ObservedAs(session_id="s", filter_code=FilterCode.SIGNATURES, is_listed=False),
        random=lambda: 0.0,
    )

    def work() -> None:
        with contextlib.suppress(Halted):
            hydration.work()

    with gate_of(place, is_fetch) as gate:
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: gate.waiting, "the answer is on its way")
        if is_closed:
            ledger.close()
        gate.open()
        thread.join(10)
    assert place.stored() == (set() if is_closed else {signature(1)})
    assert len(place.rows()) == (0 if is_closed else 1)
    assert ledger.counts().completed == (0 if is_closed else 1)
