"""The ledger of a campaign: its invariants hold at every moment, and its resume point skips nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from workers.solana_backfill.campaign_words import CandidateOutcome
from workers.solana_backfill.ledger import Ledger, Settled
from workers.solana_backfill.signature_page import ListedSignature

PERSISTED = Settled(outcome=CandidateOutcome.PERSISTED)
FINISHED = [
    PERSISTED,
    Settled(outcome=CandidateOutcome.ALREADY_PRESENT),
    Settled(outcome=CandidateOutcome.MISSING),
    Settled(outcome=CandidateOutcome.FAILED, reason="http_503"),
]


def ledger_of(count: int) -> Ledger:
    return Ledger([ListedSignature(signature=f"s{number}") for number in range(1, count + 1)])


def settled(ledger: Ledger, *places: int) -> None:
    """Start so many that all places have started, and settle these (from 1)."""
    while ledger.counts().started < max(places):
        ledger.admit()
    for place in places:
        assert ledger.settle(place - 1, PERSISTED)


def test_nothing_finished_keeps_the_anchor_and_makes_none_up() -> None:
    ledger = ledger_of(3)
    assert ledger.resume_point("anchor") == "anchor"
    assert ledger.resume_point(None) is None
    settled(ledger, 2, 3)
    assert ledger.resume_point("anchor") == "anchor", "the first one is not finished"


def test_the_resume_point_is_the_last_of_the_finished_part_without_a_gap() -> None:
    ledger = ledger_of(10)
    settled(ledger, 1, 2, 4)
    assert ledger.resume_point("anchor") == "s2"
    settled(ledger, 3)
    assert ledger.resume_point("anchor") == "s4"


def test_the_order_of_finishing_does_not_move_it_ahead() -> None:
    ledger = ledger_of(4)
    settled(ledger, 4)
    settled(ledger, 3)
    assert ledger.resume_point("anchor") == "anchor"
    settled(ledger, 1)
    assert ledger.resume_point("anchor") == "s1"
    settled(ledger, 2)
    assert ledger.resume_point("anchor") == "s4"


def test_every_way_to_finish_counts_as_finished() -> None:
    ledger = ledger_of(len(FINISHED))
    for place, each in enumerate(FINISHED):
        ledger.admit()
        ledger.settle(place, each)
    assert ledger.resume_point("anchor") == f"s{len(FINISHED)}"


def test_nothing_starts_and_nothing_is_settled_after_the_end() -> None:
    ledger = ledger_of(5)
    first, second = ledger.admit(), ledger.admit()
    assert first is not None
    assert second is not None
    assert ledger.settle(first.place, PERSISTED)
    ledger.close()
    assert ledger.admit() is None
    assert not ledger.settle(second.place, PERSISTED)
    counts = ledger.counts()
    assert (counts.started, counts.completed, counts.cancelled, counts.not_started) == (2, 1, 1, 3)
    assert [each.outcome.value for _, each in ledger.started()] == ["persisted", "cancelled"]


def test_what_is_taken_back_at_the_end_is_cancelled_and_resumed_from() -> None:
    ledger = ledger_of(5)
    settled(ledger, 1, 2, 3, 4)
    ledger.close(reopened=[2, 3])
    counts = ledger.counts()
    assert (counts.completed, counts.cancelled, counts.by_outcome[CandidateOutcome.PERSISTED]) == (2, 2, 2)
    assert ledger.resume_point(None) == "s2"


@settings(deadline=None)
@given(
    count=st.integers(0, 30),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 29), st.sampled_from(FINISHED)), max_size=80),
)
def test_the_invariants_hold_whatever_starts_finishes_and_stops_in_whatever_order(
    count: int, steps: Sequence[tuple[bool, int, Settled]]
) -> None:
    ledger = ledger_of(count)
    open_places: list[int] = []
    done: set[int] = set()
    for is_start, pick, outcome in steps:
        if is_start:
            is_left = ledger.counts().not_started > 0
            candidate = ledger.admit()
            assert (candidate is not None) == is_left
            if candidate is not None:
                assert candidate.listed.signature == f"s{candidate.place + 1}"
                open_places.append(candidate.place)
        elif open_places:
            place = open_places.pop(pick % len(open_places))
            assert ledger.settle(place, outcome)
            done.add(place)
        counts = ledger.counts()
        assert counts.selected == counts.started + counts.not_started == count
        assert counts.completed == len(done) <= counts.started
    ledger.close()
    counts = ledger.counts()
    assert counts.selected == counts.started + counts.not_started
    assert counts.started == counts.completed + counts.cancelled
    assert counts.completed == sum(counts.by_outcome.values()) == len(done)
    prefix = next(place for place in range(count + 1) if place not in done)
    assert ledger.resume_point(None) == (f"s{prefix}" if prefix else None)


def test_threads_start_each_candidate_once() -> None:
    ledger, guard, seen = ledger_of(500), threading.Lock(), list[int]()

    def work() -> None:
        while (candidate := ledger.admit()) is not None:
            with guard:
                seen.append(candidate.place)
            ledger.settle(candidate.place, PERSISTED)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(seen) == list(range(500))
    assert ledger.resume_point(None) == "s500"
