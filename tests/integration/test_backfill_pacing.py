"""When requests to an endpoint start: evenly, never above its rate, never inside a pause, whoever asks."""

from __future__ import annotations

import heapq
import itertools
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from devstack.valkey import ValkeyServer
from tests.conftest import FakeClock
from tests.integration.pace_takers import Pacing, take_in_processes
from tests.integration.permit_takers import most_in_a_window
from tests.integration.solana_place import SharedFakeClock, SolanaPlace, place
from tests.samples import sample_json
from tests.solana_node import ENDPOINT, FETCHED, RATE_LIMITED, Node, Reply, error, signature, signatures
from workers.errors import JobFailed, LockUnavailable
from workers.solana_backfill.pacer import STORE_PAUSE_S, STORE_TRIES, Pacer
from workers.solana_backfill.schedule import OPEN_GRACE_S, PAUSE_MAX_S, EndpointSchedule, Turn
from workers.solana_endpoints import SolanaEndpoint

__all__ = ["place"]

NEVER = threading.Event()
REFUSALS = (
    "rate_limit_as_32005",
    "rate_limit_as_32007",
    "too_many_requests_body",
    "too_many_requests_body_http200",
    "plan_rps_exceeded",
    "rate_limited_32429",
)


class NotedSchedule(EndpointSchedule):
    """Notes the times at which starts were granted, and those at which pauses began and their lengths."""

    def __init__(
        self, redis: Redis, endpoint: SolanaEndpoint, clock: FakeClock, *, open_s: float = 20
    ) -> None:
        self.granted_s: list[float] = []
        self.pauses: list[tuple[float, float]] = []
        # A look at the clock and the script that is told it are one step, as they are on the server.
        self._step = threading.Lock()
        self._latest_s = 0.0

        def now_us() -> int:
            self._latest_s = clock.monotonic()
            return round(self._latest_s * 1_000_000)

        super().__init__(redis, endpoint, open_s=open_s, now_us=now_us)

    def take(self, owner: str) -> Turn:
        with self._step:
            turn = super().take(owner)
            if turn.is_granted:
                self.granted_s.append(self._latest_s)
        return turn

    def pause(self, seconds: float) -> None:
        with self._step:
            super().pause(seconds)
            self.pauses.append((self._latest_s, min(seconds, PAUSE_MAX_S)))

    def inside_pauses(self) -> list[float]:
        """The starts that were granted inside a pause."""
        return [
            at for at in self.granted_s for since, length in self.pauses if since < at < since + length - 1e-4
        ]


def schedule_of(redis: Redis, clock: FakeClock, **changes: object) -> NotedSchedule:
    return NotedSchedule(redis, replace(ENDPOINT, **changes), clock)  # type: ignore[arg-type]


def pacer_of(
    schedule: EndpointSchedule, clock: FakeClock, *, pause_s: float = 1.0, jitter: float = 0.0
) -> Pacer:
    return Pacer(schedule, clock, pause_s=pause_s, random=lambda: jitter)


def start(pacer: Pacer, count: int, while_open: Callable[[], None] = lambda: None) -> None:
    for _ in range(count):
        with pacer.permit(NEVER):
            while_open()


def most_in_a_second(times: Sequence[float]) -> int:
    return max(sum(first <= each < first + 1 for each in times) for first in times)


@pytest.mark.parametrize("rate", [1, 2.5, 7, 50, 333])
def test_starts_reach_the_allowed_rate_and_never_pass_it(redis: Redis, rate: float) -> None:
    clock = FakeClock()
    schedule = schedule_of(redis, clock, requests_per_second=rate)
    start(pacer_of(schedule, clock), round(rate * 10) + 1)
    took_s = schedule.granted_s[-1] - schedule.granted_s[0]
    assert (len(schedule.granted_s) - 1) / took_s >= 0.97 * rate
    assert most_in_a_second(schedule.granted_s) <= max(rate, 1) + (rate % 1 > 0)


def test_starts_are_spaced_evenly_and_saved_time_buys_no_burst(redis: Redis) -> None:
    clock = FakeClock()
    schedule = schedule_of(redis, clock, requests_per_second=50)
    pacer = pacer_of(schedule, clock)
    start(pacer, 20)
    clock.advance(60)
    start(pacer, 100)
    gaps = [after - before for before, after in pairwise(schedule.granted_s[20:])]
    assert min(gaps) >= 0.02
    assert max(gaps) <= 0.0205


def test_a_late_start_is_made_up_for_within_the_rate(redis: Redis) -> None:
    clock = FakeClock()
    schedule = schedule_of(redis, clock, requests_per_second=50)
    delays = itertools.cycle([0.001, 0.028, 0.001, 0.001])
    start(pacer_of(schedule, clock), 500, while_open=lambda: clock.advance(next(delays)))
    gaps = [after - before for before, after in pairwise(schedule.granted_s)]
    took_s = schedule.granted_s[-1] - schedule.granted_s[0]
    assert max(gaps) >= 0.028
    assert 499 / took_s >= 0.97 * 50
    assert min(gaps) >= 0.01
    assert most_in_a_second(schedule.granted_s) <= 50


@pytest.mark.parametrize("is_told", [True, False])
def test_requests_that_start_late_are_counted_by_when_they_started(redis: Redis, is_told: bool) -> None:
    """The second case is the twin: a schedule that is not told of it lets too many start."""
    clock = FakeClock()
    schedule = schedule_of(redis, clock, requests_per_second=50, max_concurrent_requests=100)
    late = itertools.cycle([0.3, *[0.0] * 17])
    under_way: list[tuple[float, str, Turn, float]] = []
    starts: list[float] = []
    for number in itertools.count():
        while under_way and under_way[0][0] <= clock.monotonic():
            _, owner, turn, late_s = heapq.heappop(under_way)
            schedule.give_back(owner, turn, late_s=late_s if is_told else 0.0)
        turn = schedule.take(str(number))
        if turn.is_granted:
            late_s = next(late)
            starts.append(clock.monotonic() + late_s)
            heapq.heappush(under_way, (starts[-1], str(number), turn, late_s))
        if len(starts) == 400:
            break
        clock.advance(turn.wait_s or 0.01)
    assert (most_in_a_second(starts) <= 50) is is_told
    assert len(starts) / (starts[-1] - starts[0]) > 0.75 * 50


def test_many_threads_together_keep_the_rate(redis: Redis) -> None:
    clock = SharedFakeClock()
    schedule = schedule_of(redis, clock, requests_per_second=40, max_concurrent_requests=16)
    pacer = pacer_of(schedule, clock)
    threads = [threading.Thread(target=start, args=(pacer, 25)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(schedule.granted_s) == 200
    assert most_in_a_second(schedule.granted_s) <= 40


def test_processes_share_one_rate(valkey: ValkeyServer, redis: Redis) -> None:
    pacing = Pacing(redis_url=valkey.url, requests_per_second=60, threads=3, for_s=1.6)
    permits = take_in_processes(pacing, processes=2)
    assert len(permits) >= 60
    assert most_in_a_window(permits, 1.0) <= 60


def test_processes_that_do_not_share_pass_the_rate(valkey: ValkeyServer, redis: Redis) -> None:
    pacing = Pacing(redis_url=valkey.url, requests_per_second=60, threads=3, for_s=1.6, is_shared=False)
    assert most_in_a_window(take_in_processes(pacing, processes=2), 1.0) > 60


def test_no_more_requests_are_open_than_allowed(place: SolanaPlace) -> None:
    place.node = Node(signatures(30))
    place.build(max_concurrent_requests=3)
    together = threading.Barrier(3, timeout=10)

    def meet(call: dict[str, object]) -> None:
        if call["method"] == FETCHED:
            together.wait()

    place.http.before_answer = meet  # type: ignore[assignment]
    assert place.run()["meta"]["persisted"] == 30
    assert place.http.most_open == 3, "three were open at once, and never a fourth"


def test_the_open_requests_of_all_processes_are_counted_together(redis: Redis) -> None:
    clock = FakeClock()
    first, second = (schedule_of(redis, clock, max_concurrent_requests=2) for _ in range(2))
    taken = first.take("a")
    assert taken.is_granted
    clock.advance(1)
    assert second.take("b").is_granted
    clock.advance(1)
    assert second.take("c") == Turn(is_granted=False, wait_s=None)
    first.give_back("a", taken)
    assert second.take("c").is_granted


def test_the_place_of_a_request_that_died_runs_out(redis: Redis) -> None:
    clock = FakeClock()
    schedule = schedule_of(redis, clock, max_concurrent_requests=1)
    assert schedule.take("died").is_granted
    clock.advance(20 + OPEN_GRACE_S - 1)
    assert not schedule.take("next").is_granted
    clock.advance(2)
    assert schedule.take("next").is_granted


def refuse_once(place: SolanaPlace, reply: Reply) -> NotedSchedule:
    """Eight threads that fetch forty transactions, of which the ninth is refused; return what was granted."""
    place.node = Node(signatures(40))
    clock = SharedFakeClock()
    place.build(clock=clock, max_concurrent_requests=8, requests_per_second=50)
    schedule = NotedSchedule(place.redis, place.endpoint, clock)
    place.client._pacer = pacer_of(schedule, clock)
    place.node.say_of(signature(9), reply)
    meta = place.run(limit=40)["meta"]
    assert (meta["persisted"], meta["rateLimited"]) == (40, 1)
    return schedule


def test_after_a_refusal_with_a_hint_nobody_starts_before_it_is_over_and_then_all_go_on(
    place: SolanaPlace,
) -> None:
    schedule = refuse_once(place, replace(RATE_LIMITED, headers={"Retry-After": "3"}))
    [(_, length)] = schedule.pauses
    assert length == 3
    assert schedule.inside_pauses() == []
    assert most_in_a_second(schedule.granted_s) <= 50


def test_a_hint_may_be_a_date(place: SolanaPlace) -> None:
    at = FakeClock().moment + timedelta(seconds=30)
    header = {"Retry-After": format_datetime(at, usegmt=True)}
    schedule = refuse_once(place, replace(RATE_LIMITED, headers=header))
    [(_, length)] = schedule.pauses
    assert 25 < length <= 30
    assert schedule.inside_pauses() == []


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_in_any_spelling_pauses_all_threads(place: SolanaPlace, name: str) -> None:
    [case] = [each for each in sample_json("solana/rpc_errors.json")["cases"] if each["name"] == name]
    reply = Reply(status=case["http_status"], body=json.dumps(case["body"]).encode())
    schedule = refuse_once(place, reply)
    [(_, length)] = schedule.pauses
    assert length == ENDPOINT.pause_after_rate_limit_ms / 1000
    assert schedule.inside_pauses() == []


def test_without_a_shared_pause_others_start_inside_it(place: SolanaPlace) -> None:
    class Deaf(NotedSchedule):
        """Notes pauses and tells nobody."""

        def pause(self, seconds: float) -> None:
            with self._step:
                self._now()
                self.pauses.append((self._latest_s, seconds))

    place.node = Node(signatures(40))
    clock = SharedFakeClock()
    place.build(clock=clock, max_concurrent_requests=8, requests_per_second=50)
    schedule = Deaf(place.redis, place.endpoint, clock)
    place.client._pacer = pacer_of(schedule, clock)
    place.node.say_of(signature(9), replace(RATE_LIMITED, headers={"Retry-After": "3"}))
    place.run(limit=40)
    assert schedule.inside_pauses() != []


@pytest.mark.parametrize(("hint", "length"), [("86400", PAUSE_MAX_S), ("0", 1.0), ("soon", 1.0), ("7", 7.0)])
def test_a_hint_is_capped_and_one_that_says_nothing_is_none(
    place: SolanaPlace, hint: str, length: float
) -> None:
    schedule = refuse_once(place, replace(RATE_LIMITED, headers={"Retry-After": hint}))
    assert [found for _, found in schedule.pauses] == [length]


def test_an_endpoint_that_goes_on_refusing_is_left_alone_ever_longer_within_bounds(redis: Redis) -> None:
    clock = FakeClock()
    schedule = schedule_of(redis, clock)
    pacer = pacer_of(schedule, clock)
    for _ in range(10):
        with pacer.permit(NEVER) as permit:
            clock.advance(0.1)
            pacer.refused(permit, None)
    lengths = [length for _, length in schedule.pauses]
    assert lengths == [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]
    assert schedule.inside_pauses() == []
    with pacer.permit(NEVER) as permit:
        pacer.accepted(permit)
    with pacer.permit(NEVER) as permit:
        pacer.refused(permit, None)
    assert schedule.pauses[-1][1] == 1, "an answer ends the row"


def test_refusals_of_requests_that_were_under_way_together_count_as_one(redis: Redis) -> None:
    clock = FakeClock()
    schedule = schedule_of(redis, clock, max_concurrent_requests=8)
    pacer = pacer_of(schedule, clock)
    granted = []
    for _ in range(5):
        with pacer.permit(NEVER) as permit:
            granted.append(permit)
    clock.advance(0.01)
    for each in granted:
        pacer.refused(each, None)
    assert [length for _, length in schedule.pauses] == [1] * 5


def test_a_pause_is_spread_by_a_quarter_at_most_and_a_longer_one_stands(redis: Redis) -> None:
    clock = FakeClock()
    schedule = schedule_of(redis, clock)
    pacer = pacer_of(schedule, clock, jitter=1.0)
    with pacer.permit(NEVER) as permit:
        pacer.refused(permit, None)
    assert schedule.pauses == [(clock.monotonic(), 1.25)]
    schedule.pause(10)
    schedule.pause(0.5)
    assert schedule.take("a").wait_s == pytest.approx(10)


def test_times_from_before_the_clock_was_set_back_hold_nobody_up(redis: Redis) -> None:
    clock = FakeClock()
    schedule = schedule_of(redis, clock, requests_per_second=1)
    assert schedule.take("a").is_granted
    schedule.pause(100)
    clock.advance(-900)
    assert schedule.take("b").is_granted


def test_endpoints_with_different_keys_have_budgets_of_their_own(redis: Redis) -> None:
    clock = FakeClock()
    one = schedule_of(redis, clock, requests_per_second=1)
    other = schedule_of(redis, clock, requests_per_second=1, url="https://node.example/rpc/other-key")
    assert one.take("a").is_granted
    assert other.take("a").is_granted
    assert not one.take("b").is_granted


def nobody() -> Redis:
    """A Redis that refuses connections."""
    return Redis(host="127.0.0.1", port=9, socket_connect_timeout=1, retry=Retry(NoBackoff(), 0))


def test_without_the_store_nothing_is_asked_uncounted(redis: Redis) -> None:
    clock = FakeClock()
    pacer = pacer_of(schedule_of(nobody(), clock), clock)
    with pytest.raises(LockUnavailable):
        start(pacer, 1)
    assert clock.waits == [STORE_PAUSE_S] * (STORE_TRIES - 1)


def test_a_job_fails_that_cannot_count_its_requests(place: SolanaPlace) -> None:
    place.node = Node(signatures(3))
    clock = SharedFakeClock()
    place.build(clock=clock)
    place.client._pacer = pacer_of(NotedSchedule(nobody(), place.endpoint, clock), clock)
    with pytest.raises(JobFailed) as refusal:
        place.run()
    assert refusal.value.code == "LOCK_UNAVAILABLE"
    assert place.http.asked == []


def test_waits_between_tries_grow_and_no_try_is_earlier(place: SolanaPlace) -> None:
    place.node = Node()
    place.node.say(FETCHED, *[error(-32005, "Node is behind by 3 slots")] * 10)
    place.node.add(signature(1), 5)
    place.build(max_concurrent_requests=1)
    assert place.run()["meta"]["failed"] == 1
    gaps = [after.at_s - before.at_s for before, after in pairwise(place.http.of(FETCHED))]
    assert [round(gap, 1) for gap in gaps] == [0.5, 1.0, 2.0, 4.0]
