"""A job that is stopped while members wait on the queue: it waits for the started ones and for no other."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from redis import Redis

from tests.integration.test_fan_out import LIMITS, Workplace, targets
from workers.jobs.fan_out import Assignment, FanOut, Target
from workers.jobs.run import StoppedBy

SOON_S = 2.5


@pytest.fixture
def place(redis: Redis) -> Iterator[Workplace]:
    found = Workplace(redis)
    yield found
    found.pool.shutdown(wait=True)


class WithoutClosing(FanOut):
    """Stops handing out, and lets whoever was handed out before still start."""

    def _close(self) -> None:
        self._is_closed = True


class Queue:
    """Keeps the first member's message for later, takes the second to work, and then stops the job."""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        self.waiting: list[Assignment] = []

    def send(self, target: Target, assignment: Assignment) -> None:
        if target.key == "t000":
            self.waiting.append(assignment)
            return
        assert self.place.desk.start(assignment)
        self.place.shutdown.set()
        self.place.pool.submit(self.place.desk.finish, assignment, {"outcome": "recorded"})


def test_a_stopped_job_does_not_wait_for_members_that_nobody_has_taken(place: Workplace) -> None:
    """The twin below waits for the deadline."""
    queue, started = Queue(place), time.monotonic()
    result = place.run(targets(2), queue.send)
    assert time.monotonic() - started < SOON_S
    assert list(result.outcomes) == ["t001"]
    assert (result.not_started, result.lost) == (["t000"], [])
    assert result.stopped_by is StoppedBy.SHUTDOWN
    assert place.desk.start(queue.waiting[0]) is False, "it comes too late"


def test_without_the_closing_it_would_wait_and_the_member_could_start(place: Workplace) -> None:
    place.job.deadline_s = SOON_S
    queue, started = Queue(place), time.monotonic()
    fan_out = WithoutClosing(place.redis, place.job, send=queue.send, limits=LIMITS, clock=place.clock)
    fan_out.run(targets(2))
    assert time.monotonic() - started > SOON_S
    place.job.deadline_s = None
    late = Assignment(job_id="job-1", target="t000", start_before_ms=2**52)
    assert place.desk.start(late) is True
