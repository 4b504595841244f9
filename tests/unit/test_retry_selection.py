"""What a retry picks out of the candidates, and what a job's clock tells it. Pure."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from tests.conftest import FakeClock
from workers.jobs.record import JobRecord, JobStore
from workers.jobs.run import RunningJob, StoppedBy
from workers.leases import Lease
from workers.social_graph.token import RetryableURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.due import RetryInterval
from workers.social_recording.retry import STOP_ASKED_EVERY, Selection, URLTarget, select

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
INTERVAL = RetryInterval(shortest=HOUR)


def candidate(number: int, *, ago: timedelta | None = 2 * HOUR, name: str = "site") -> RetryableURL:
    return RetryableURL(
        address=f"token-{number}",
        symbol=None,
        first_transfer_at=None,
        url=f"https://{name}-{number}.example/",
        status=FetchStatus.ERROR,
        attempts=1,
        attempted_at=None if ago is None else NOW - ago,
    )


def pick(candidates: list[RetryableURL], *, limit: int = 50) -> Selection:
    return select(
        candidates,
        is_processable=lambda url: "closed" not in url,
        is_due=lambda each: INTERVAL.is_due(each, NOW),
        limit=limit,
    )


def urls(selection: Selection) -> list[str]:
    return [target.candidate.url for target in selection.targets]


def test_the_first_that_are_due_are_taken_and_all_others_are_counted() -> None:
    due = [candidate(number) for number in range(4)]
    resting = [candidate(number, ago=HOUR / 2) for number in range(10, 13)]
    closed = [candidate(number, name="closed") for number in range(20, 25)]
    selection = pick([closed[0], due[0], resting[0], *closed[1:], *due[1:], *resting[1:]], limit=3)
    assert urls(selection) == [each.url for each in due[:3]]
    assert (selection.candidates, selection.skipped_by_interval, selection.not_processable) == (12, 3, 5)
    assert not selection.is_cut_short


def test_what_cannot_be_processed_counts_as_that_even_while_it_rests() -> None:
    selection = pick([candidate(1, ago=timedelta(0), name="closed"), candidate(2, ago=None, name="closed")])
    assert (selection.not_processable, selection.skipped_by_interval) == (2, 0)


def test_a_url_that_was_never_tried_passes_the_interval() -> None:
    assert len(pick([candidate(1, ago=None)]).targets) == 1


def test_no_candidates_make_an_empty_selection() -> None:
    assert pick([]) == Selection()


def test_only_as_many_targets_are_kept_as_the_limit_allows_however_many_come() -> None:
    def many() -> Iterator[RetryableURL]:
        yield from (candidate(number) for number in range(10_000))

    selection = select(many(), is_processable=lambda _: True, is_due=lambda _: True, limit=50)
    assert (len(selection.targets), selection.candidates) == (50, 10_000)


@pytest.mark.parametrize("looked_at", [0, STOP_ASKED_EVERY, 3 * STOP_ASKED_EVERY])
def test_a_job_that_must_stop_looks_no_further_and_counts_what_it_saw(looked_at: int) -> None:
    """It is asked now and then only, because the answer may cost something."""
    asked: list[int] = []

    def must_stop() -> bool:
        asked.append(1)
        return (len(asked) - 1) * STOP_ASKED_EVERY >= looked_at

    selection = select(
        [candidate(number) for number in range(5 * STOP_ASKED_EVERY)],
        is_processable=lambda _: True,
        is_due=lambda _: True,
        limit=5,
        must_stop=must_stop,
    )
    assert (selection.candidates, selection.is_cut_short) == (looked_at, True)
    assert len(asked) == looked_at // STOP_ASKED_EVERY + 1
    assert len(selection.targets) == min(5, looked_at)


def test_urls_of_one_token_are_one_group_and_the_same_url_of_two_tokens_has_two_keys() -> None:
    one, other = URLTarget(candidate=candidate(1)), URLTarget(candidate=candidate(2, name="site"))
    assert one.group == "token-1"
    assert one.key != other.key
    assert one.key.split() == ["token-1", one.candidate.url]


@pytest.fixture
def job(clock: FakeClock) -> RunningJob:
    at = clock.now()
    record = JobRecord(id="job-1", kind="k", request={}, created_at=at, expires_at=at + HOUR, read_at=at)
    lease = Lease(name="l", owner="o", ttl_ms=60_000, valid_until=clock.monotonic() + 60, clock=clock)
    return RunningJob(
        record=record,
        lease=lease,
        clock=clock,
        store=cast(JobStore, None),
        shutdown=threading.Event(),
        started_at_s=clock.monotonic(),
    )


def test_the_deadline_is_reached_at_its_instant_and_counts_from_the_start_of_the_task(
    job: RunningJob, clock: FakeClock
) -> None:
    job.deadline_s = 45
    clock.advance(44.999)
    assert job.stop_reason() is None
    clock.advance(0.001)
    assert job.remaining_s == pytest.approx(0)
    assert job.stop_reason() is StoppedBy.DEADLINE
    assert job.elapsed_ms == 45_000


def test_without_a_deadline_a_job_stops_for_other_reasons_only(job: RunningJob, clock: FakeClock) -> None:
    job.lease.valid_until = float("inf")
    clock.advance(10**9)
    assert job.remaining_s == float("inf")
    assert job.stop_reason() is None


def test_a_persons_wish_comes_before_a_lost_lease_a_shutdown_and_the_deadline(
    job: RunningJob, clock: FakeClock
) -> None:
    job.deadline_s = 1
    clock.advance(1)
    assert job.stop_reason() is StoppedBy.DEADLINE
    job.shutdown.set()
    assert job.stop_reason() is StoppedBy.SHUTDOWN
    job.lease.lost.set()
    assert job.stop_reason() is StoppedBy.LEASE_LOST
    job.is_cancelled = True
    assert job.stop_reason() is StoppedBy.CANCELLED
