"""Retrying URLs with real stores: claims, attempts, limits, order, and the sums that a job reports."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo.results import UpdateResult
from redis import Redis

from tests.conftest import FakeClock, make_settings
from tests.integration.recording_place import (
    LONG_AGO,
    OwnGenerator,
    RecordingPlace,
    failed_url,
    new_site,
    place,
    sandbox,
)
from tests.integration.test_job_service import StandInMessenger
from workers.clock import Clock
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.jobs.record import JobStore
from workers.jobs.service import JobService
from workers.leases import KEY_PREFIX
from workers.social_graph.token import RetryableURL, TokenRepository, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.due import RetryInterval
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.job_kinds import RETRY, RetryRequest
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.recording import token_lease
from workers.social_recording.retry import select
from workers.social_recording.routing import Route
from workers.social_recording.sweep import RetrySweep
from workers.social_recording.url_collection import graph_of_route, url_lease

__all__ = ["place", "sandbox"]

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
INTERVAL = RetryInterval(shortest=HOUR)


def down(_: Route) -> SocialObjectGraph:
    raise FetchFailed("down", reason="http_503")


def is_due(found: RetryableURL) -> bool:
    return INTERVAL.is_due(found, NOW)


def candidate(number: int, attempted_at: datetime | None) -> RetryableURL:
    return RetryableURL(
        address=f"a{number}",
        symbol=None,
        first_transfer_at=None,
        url=f"https://s{number}.example/",
        status=FetchStatus.ERROR,
        attempts=0 if attempted_at is None else 1,
        attempted_at=attempted_at,
    )


@given(
    tried=st.lists(
        st.tuples(st.booleans(), st.one_of(st.none(), st.timedeltas(timedelta(0), timedelta(hours=3)))),
        max_size=60,
    ),
    limit=st.integers(1, 20),
)
def test_every_candidate_is_counted_in_one_group_and_the_limit_holds(
    tried: Sequence[tuple[bool, timedelta | None]], limit: int
) -> None:
    found = [candidate(n, None if ago is None else NOW - ago) for n, (_, ago) in enumerate(tried)]
    processable = {each.url for each, (is_processable, _) in zip(found, tried, strict=True) if is_processable}
    selection = select(
        found,
        is_processable=processable.__contains__,
        is_due=is_due,
        limit=limit,
    )
    due = selection.candidates - selection.skipped_by_interval - selection.not_processable
    assert selection.candidates == len(found)
    assert selection.not_processable == len(found) - len(processable)
    assert len(selection.targets) == min(limit, due)
    in_order = [each for each in found if each.url in {target.candidate.url for target in selection.targets}]
    assert [target.candidate for target in selection.targets] == in_order
    for target in selection.targets:
        attempted_at = target.candidate.attempted_at
        assert attempted_at is None or NOW - attempted_at >= HOUR
        assert target.candidate.url in processable


def test_a_url_is_due_after_exactly_the_interval(place: RecordingPlace) -> None:
    """With times as they come back from the store."""
    ago = {"early": HOUR - timedelta(seconds=1), "exact": HOUR}
    urls = {name: new_site() for name in ago}
    for name, since in ago.items():
        place.store_token(failed_url(urls[name], attempted_at=NOW - since))
    place.store_token(TokenSocialURL(url=new_site(), status=FetchStatus.ERROR))
    selection = select(
        place.tokens.iterate_retryable_urls([FetchStatus.ERROR]),
        is_processable=lambda _: True,
        is_due=is_due,
        limit=9,
    )
    chosen = [target.candidate.url for target in selection.targets]
    assert chosen[1:] == [urls["exact"]]
    assert (len(chosen), selection.skipped_by_interval) == (2, 1)


def test_two_workers_at_one_url_count_one_attempt(place: RecordingPlace) -> None:
    generator = OwnGenerator(show=down)
    place.rebuild(generator=generator)
    address = place.store_token(failed_url(new_site()))
    found = place.candidate(address)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(place.retrier.retry, [found, found]))
    assert sorted(str(result["outcome"]) for result in results) in (
        ["lockedOut", "processed"],
        ["changed", "processed"],
    )
    assert (place.element(address)["attempts"], generator.calls.total()) == (2, 1)


def retry_from_two_places(place: RecordingPlace, tokens: TokenRepository) -> tuple[int, list[object]]:
    """Two workers hold the same token, as after a loss of Redis data; return attempts and outcomes."""
    both, started = threading.Event(), threading.Event()

    def show(_: Route) -> SocialObjectGraph:
        started.set()
        both.wait(10)
        raise FetchFailed("down", reason="http_503")

    place.rebuild(generator=OwnGenerator(show=show), tokens=tokens, url_lease_wait_s=0)
    address = place.store_token(failed_url(new_site()))
    found = place.candidate(address)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(place.retrier.retry, found)
        assert started.wait(10)
        place.redis.delete(f"{KEY_PREFIX}{token_lease(address)}")
        second = pool.submit(place.retrier.retry, found).result(timeout=10)
        both.set()
        results: list[object] = [first.result(timeout=10)["outcome"], second["outcome"]]
    return place.element(address)["attempts"], results


def test_a_claim_lets_one_of_two_holders_of_a_token_try_its_url(place: RecordingPlace) -> None:
    """The twin below counts twice without the condition of the claim."""
    attempts, results = retry_from_two_places(place, place.tokens)
    assert results[1] == "changed"
    assert attempts == 2


def test_without_the_condition_of_the_claim_both_would_count(place: RecordingPlace) -> None:
    class Unconditional(TokenRepository):
        """Counts the attempt, whatever has happened since the URL was chosen."""

        def claim_social_url(self, address: str, url: str, **_: object) -> bool:
            done: UpdateResult = self._collection.update_one(
                {"address": address, "social_urls.url": url}, {"$inc": {"social_urls.$.attempts": 1}}
            )
            return done.matched_count == 1

    attempts, _ = retry_from_two_places(place, Unconditional(place.database, place.clock))
    assert attempts == 3


def test_a_late_result_does_not_replace_a_newer_one(place: RecordingPlace) -> None:
    def overtaken(_: Route) -> SocialObjectGraph:
        newer = place.candidate(address)
        place.tokens.claim_social_url(
            address,
            newer.url,
            expected_status=newer.status,
            expected_attempts=newer.attempts,
            attempted_at=Clock().now() + timedelta(seconds=1),
        )
        raise TargetGone("gone", reason="deleted")

    place.rebuild(generator=OwnGenerator(show=overtaken))
    address = place.store_token(failed_url(new_site()))
    assert place.retrier.retry(place.candidate(address)) == {"outcome": "changed"}
    assert (place.element(address)["status"], place.element(address)["attempts"]) == ("error", 3)


def test_a_held_token_is_skipped_and_taken_by_the_next_run(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator())
    address = place.store_token(failed_url(new_site()))
    before = place.document(address)
    with place.leases.hold(token_lease(address), ttl_ms=60_000):
        assert place.retrier.retry(place.candidate(address)) == {"outcome": "lockedOut"}
        meta = place.run_retry()
        assert (meta["lockedOut"], meta["processed"], meta["remaining"]) == (1, 0, 1)
    assert place.document(address) == before
    assert place.run_retry()["converged"] == 1


def test_a_claim_without_a_call_is_given_back(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator(), url_lease_wait_s=0)
    url = new_site()
    address = place.store_token(failed_url(url, attempts=3))
    before = place.element(address)
    with place.leases.hold(url_lease(url), ttl_ms=60_000):
        place.retrier.retry(place.candidate(address))
    after = place.element(address)
    assert (after["attempts"], after["attempted_at"]) == (3, before["attempted_at"])
    assert (after["status"], after["reason"]) == ("error", "url_locked")


def test_a_url_whose_object_came_by_another_token_is_ok_without_an_attempt(place: RecordingPlace) -> None:
    generator, url = OwnGenerator(), new_site()
    place.rebuild(generator=generator)
    [other] = place.list_tokens({"website": url})
    address = place.store_token(failed_url(url, attempts=2))
    place.recorder.record(other)
    assert place.retrier.retry(place.candidate(address))["status"] == "ok"
    element = place.element(address)
    assert (element["status"], element["attempts"], element["attempted_at"]) == ("ok", 2, LONG_AGO)
    assert generator.calls == {url: 1}


@pytest.mark.parametrize("status", [FetchStatus.UNSUPPORTED, FetchStatus.SKIPPED_PAID])
def test_what_cannot_be_processed_never_counts_until_it_can(
    place: RecordingPlace, status: FetchStatus
) -> None:
    generator = OwnGenerator(is_there=False)
    place.rebuild(generator=generator)
    links = {
        FetchStatus.UNSUPPORTED: "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
        FetchStatus.SKIPPED_PAID: "https://www.instagram.com/somebody",
    }
    [address] = place.list_tokens({"website": links[status]})
    place.recorder.record(address)
    before = place.document(address)
    assert before["social_urls"][0]["status"] == status
    for _ in range(50):
        meta = place.run_retry(minIntervalMinutes=0)
        assert (meta["candidateUrls"], meta["notProcessable"], meta["processed"]) == (1, 1, 0)
    assert place.document(address) == before
    assert (before["social_urls"][0]["attempts"], before["social_urls"][0]["attempted_at"]) == (0, None)
    generator.is_there = True
    assert place.run_retry(minIntervalMinutes=0)["converged"] == 1
    assert place.element(address)["attempts"] == 1


def test_urls_that_cannot_be_processed_do_not_use_up_the_limit(place: RecordingPlace) -> None:
    class WebOnly(OwnGenerator):
        def supports(self, route: Route) -> bool:
            return "own-site" in route.url

    generator = WebOnly(show=down)
    place.rebuild(generator=generator, max_attempts=100)
    url = new_site()
    for number in range(60):
        link = f"https://www.youtube.com/watch?v=dQw4w9Wg{number:03}"
        place.store_token(TokenSocialURL(url=link, status=FetchStatus.UNSUPPORTED))
    place.store_token(failed_url(url))
    for sweep in range(1, 4):
        meta = place.run_retry(minIntervalMinutes=0, limit=10)
        assert (meta["candidateUrls"], meta["notProcessable"], meta["processed"]) == (61, 60, 1)
        assert (meta["remaining"], meta["stoppedBy"]) == (0, "drained")
        assert generator.calls == {url: sweep}


def test_no_url_waits_longer_than_the_others(place: RecordingPlace) -> None:
    generator = OwnGenerator(show=down)
    place.rebuild(generator=generator, max_attempts=100)
    for number in range(10):
        place.store_token(failed_url(new_site(), attempted_at=LONG_AGO + timedelta(minutes=number)))
    place.store_token(TokenSocialURL(url=new_site(), status=FetchStatus.ERROR))
    for turn in range(1, 4):
        for _ in range(3):
            place.run_retry(minIntervalMinutes=0, limit=4)
        assert len(generator.calls) == 11
        assert min(generator.calls.values()) >= turn
        assert max(generator.calls.values()) <= turn + 1


def test_130_urls_take_three_runs_of_50_and_each_is_called_once(place: RecordingPlace) -> None:
    generator = OwnGenerator()
    place.rebuild(generator=generator)
    for _ in range(130):
        place.store_token(failed_url(new_site()))
    runs = [place.run_retry(limit=50) for _ in range(3)]
    assert [run["processed"] for run in runs] == [50, 50, 30]
    assert [run["remaining"] for run in runs] == [80, 30, 0]
    assert [run["stoppedBy"] for run in runs] == ["limit", "limit", "drained"]
    assert (len(generator.calls), generator.calls.total()) == (130, 130)
    assert place.run_retry(limit=50)["candidateUrls"] == 0


def test_of_ten_urls_the_two_gone_ones_converge_and_none_is_asked_for_again(place: RecordingPlace) -> None:
    urls = [new_site() for _ in range(10)]
    errors = {
        urls[2]: TargetBlocked("closed", reason="suspended"),
        urls[7]: TargetGone("gone", reason="deleted"),
    }

    def show(way: Route) -> SocialObjectGraph:
        if way.url in errors:
            raise errors[way.url]
        return graph_of_route(way, Clock().now())

    generator = OwnGenerator(show=show)
    place.rebuild(generator=generator)
    addresses = [place.store_token(failed_url(url)) for url in urls]
    meta = place.run_retry()
    assert (meta["processed"], meta["converged"], meta["exhausted"]) == (10, 10, 0)
    assert meta["byStatus"] == {"ok": 8, "blocked": 1, "not_found": 1}
    stored = [(place.element(each)["status"], place.element(each)["reason"]) for each in addresses]
    assert stored[2] == ("blocked", "suspended")
    assert stored[7] == ("not_found", "deleted")
    assert place.run_retry(minIntervalMinutes=0)["candidateUrls"] == 0
    assert generator.calls.total() == 10


def test_the_last_allowed_attempt_exhausts_and_is_counted_apart(place: RecordingPlace) -> None:
    hopeless, fine = new_site(), new_site()

    def show(way: Route) -> SocialObjectGraph:
        return down(way) if way.url == hopeless else graph_of_route(way, Clock().now())

    place.rebuild(generator=OwnGenerator(show=show))
    address = place.store_token(failed_url(hopeless, attempts=4))
    place.store_token(failed_url(fine))
    place.store_token(failed_url(new_site(), attempted_at=Clock().now()))
    meta = place.run_retry()
    assert (meta["converged"], meta["exhausted"], meta["skippedByInterval"]) == (1, 1, 1)
    assert meta["candidateUrls"] == meta["skippedByInterval"] + meta["processed"] == 3
    assert (place.element(address)["status"], place.element(address)["attempts"]) == ("exhausted", 5)


def test_a_dead_host_is_exhausted_after_five_attempts_and_one_that_recovers_is_ok(
    place: RecordingPlace,
) -> None:
    dead, recovering = new_site(), new_site()

    def show(way: Route) -> SocialObjectGraph:
        if way.url == dead or generator.calls[recovering] <= 2:
            return down(way)
        return graph_of_route(way, Clock().now())

    generator = OwnGenerator(show=show)
    place.rebuild(generator=generator)
    addresses = [
        place.store_token(TokenSocialURL(url=u, status=FetchStatus.ERROR)) for u in (dead, recovering)
    ]
    runs = [place.run_retry(minIntervalMinutes=0) for _ in range(6)]
    found = [(place.element(each)["status"], place.element(each)["attempts"]) for each in addresses]
    assert found == [("exhausted", 5), ("ok", 3)]
    assert generator.calls == {dead: 5, recovering: 3}
    assert runs[5]["candidateUrls"] == 0


def test_a_url_that_is_ok_is_never_touched_beside_one_that_is_tried(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator())
    tokens = []
    for _ in range(3):
        done = TokenSocialURL(url=new_site(), status=FetchStatus.OK, attempts=1, attempted_at=LONG_AGO)
        tokens.append(place.store_token(done, failed_url(new_site())))
    before = [place.document(address)["social_urls"][0] for address in tokens]
    meta = place.run_retry()
    assert (meta["candidateUrls"], meta["converged"]) == (3, 3)
    assert [place.document(address)["social_urls"][0] for address in tokens] == before


def test_named_absorbing_statuses_are_tried_again_and_only_those(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator())
    reopened = place.store_token(
        TokenSocialURL(url=new_site(), status=FetchStatus.EXHAUSTED, attempts=5, attempted_at=LONG_AGO)
    )
    other = place.store_token(failed_url(new_site()))
    meta = place.run_retry(statuses=["exhausted"])
    assert (meta["candidateUrls"], meta["converged"]) == (1, 1)
    assert (place.element(reopened)["status"], place.element(reopened)["attempts"]) == ("ok", 6)
    assert place.element(other)["status"] == "error"


def test_a_url_whose_last_attempt_was_cut_off_is_exhausted_without_a_call(place: RecordingPlace) -> None:
    generator = OwnGenerator()
    place.rebuild(generator=generator)
    address = place.store_token(failed_url(new_site(), attempts=5))
    meta = place.run_retry(minIntervalMinutes=0)
    assert (meta["processed"], meta["exhausted"]) == (1, 1)
    element = place.element(address)
    assert (element["status"], element["attempts"], element["reason"]) == ("exhausted", 5, "cut_off")
    assert generator.calls == {}


def test_the_fetch_gets_the_symbol_that_is_stored_and_no_tracker_is_asked(place: RecordingPlace) -> None:
    names: list[str | None] = []

    class Noting(OwnGenerator):
        def generate(self, route: Route, context: object) -> SocialObjectGraph:
            names.append(context.token_name)  # type: ignore[attr-defined]
            return super().generate(route, context)  # type: ignore[arg-type]

    place.rebuild(generator=Noting())
    place.list_tokens()
    place.store_token(failed_url(new_site()), symbol="ANCHOR")
    place.run_retry()
    assert names == ["ANCHOR"]
    assert place.sandbox.client.calls().total == 0


class Sweeps:
    """Two schedulers that share a Redis, and what they have asked for."""

    def __init__(self, redis: Redis, clock: FakeClock, **settings: object) -> None:
        self.messenger = StandInMessenger()
        self.settings = make_settings(**{"schedule_enabled": True, **settings})
        self.store = JobStore(redis, retention_s=3600)
        jobs = JobService(self.store, self.messenger, clock, kinds={RETRY.name}, queue_expires_s=900)
        self.schedulers = [
            RetrySweep(redis=redis, jobs=jobs, clock=clock, settings=self.settings) for _ in range(2)
        ]


def test_two_schedulers_ask_for_one_sweep_an_hour(redis: Redis, clock: FakeClock) -> None:
    sweeps = Sweeps(redis, clock)
    ids = [scheduler.run() for _ in range(3) for scheduler in sweeps.schedulers]
    assert len(sweeps.messenger.published) == 1
    assert [each for each in ids if each] == sweeps.messenger.published
    clock.advance(3600)
    sweeps.schedulers[1].run()
    assert len(sweeps.messenger.published) == 2


def test_schedulers_that_tick_at_the_same_moment_ask_once(redis: Redis, clock: FakeClock) -> None:
    sweeps, together = Sweeps(redis, clock), threading.Barrier(8)

    def tick(number: int) -> str | None:
        together.wait(timeout=10)
        return sweeps.schedulers[number % 2].run()

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(tick, range(8)))
    assert len([each for each in ids if each]) == len(sweeps.messenger.published) == 1


def test_without_the_mark_of_the_hour_each_scheduler_would_ask(redis: Redis, clock: FakeClock) -> None:
    sweeps = Sweeps(redis, clock)
    for scheduler in sweeps.schedulers:
        redis.delete("converge:sweep:2026-01-15T12")
        scheduler.run()
    assert len(sweeps.messenger.published) == 2


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        ({"schedule_enabled": None, "app_env": "dev"}, False),
        ({"schedule_enabled": None, "app_env": "prod"}, True),
        ({"schedule_enabled": False, "app_env": "prod"}, False),
        ({"schedule_enabled": True, "app_env": "dev"}, True),
    ],
)
def test_the_schedule_is_on_in_prod_unless_a_setting_says_otherwise(
    redis: Redis, clock: FakeClock, settings: dict[str, object], is_on: bool
) -> None:
    sweeps = Sweeps(redis, clock, **settings)
    assert (sweeps.schedulers[0].run() is not None) is is_on
    assert len(sweeps.messenger.published) == int(is_on)


def test_the_sweep_asks_for_what_an_empty_body_asks_for(redis: Redis, clock: FakeClock) -> None:
    sweeps = Sweeps(redis, clock)
    job_id = sweeps.schedulers[0].run()
    assert job_id is not None
    record = sweeps.store.get(job_id)
    assert record is not None
    defaults = RetryRequest().with_defaults(sweeps.settings)
    assert record.request == defaults.model_dump(mode="json", by_alias=True)


@pytest.mark.parametrize(
    ("ago", "status"), [(timedelta(hours=1), "not_found"), (timedelta(minutes=59), "error")]
)
def test_a_post_that_is_not_shown_twice_with_an_hour_between_is_gone(
    place: RecordingPlace, ago: timedelta, status: str
) -> None:
    def hide(_: Route) -> SocialObjectGraph:
        raise FetchFailed("nothing is shown", reason="weak_not_found")

    place.rebuild(generator=OwnGenerator(show=hide))
    url = new_site()
    address = place.store_token(
        failed_url(url, attempted_at=place.clock.now() - ago, reason="weak_not_found")
    )
    place.run_retry(minIntervalMinutes=0)
    assert (place.element(address)["status"], place.element(address)["attempts"]) == (status, 2)


def test_a_retry_leaves_the_domain_and_the_fingerprints_of_its_token_alone(place: RecordingPlace) -> None:
    address = place.store_token(failed_url(new_site()))
    before = place.tokens.find_by_address(address)
    meta = place.run_retry()
    after = place.tokens.find_by_address(address)
    assert meta["converged"] == 1
    assert before is not None
    assert after is not None
    assert (after.web, after.fingerprints, after.created_at) == (
        before.web,
        before.fingerprints,
        before.created_at,
    )


def test_a_url_that_left_its_token_is_said_to_be_gone_and_nothing_is_written(place: RecordingPlace) -> None:
    address = place.store_token(failed_url(new_site()))
    candidate = place.candidate(address)
    place.database["tokens"].update_one({"address": address}, {"$set": {"social_urls": []}})
    before = place.document(address)
    assert place.retrier.retry(candidate) == {"outcome": "url_gone"}
    assert place.document(address) == before


def test_urls_of_a_source_that_lets_nobody_in_do_not_keep_the_others_from_their_turn(
    place: RecordingPlace,
) -> None:
    """Nothing was called and nothing is counted, but they rest like tried ones."""

    class Pausing(OwnGenerator):
        def generate(self, route: Route, context: FetchContext) -> SocialObjectGraph:
            if "own-site" in route.url:
                return super().generate(route, context)
            raise FetchFailed("a pause", reason="rate_limited", retry_in_s=60)

    generator = Pausing()
    place.rebuild(generator=generator)
    tokens = [place.store_token(failed_url(f"https://paused-{number}.com/")) for number in range(3)]
    other = place.store_token(failed_url(new_site(), attempted_at=LONG_AGO + HOUR))
    place.run_retry(limit=3)
    assert {place.element(address)["attempts"] for address in tokens} == {1}
    assert generator.calls.total() == 0
    assert place.run_retry(limit=3)["converged"] == 1
    assert place.element(other)["status"] == "ok"
