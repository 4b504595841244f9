"""What a caller may ask of a retry, and what one URL goes through, with a generator of the test's own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from devstack.mongo import MongoServer
from tests.integration.recording_place import (
    LONG_AGO,
    OwnGenerator,
    RecordingPlace,
    ThreadMessenger,
    failed_url,
    new_site,
    place,
    sandbox,
)
from workers.clock import Clock
from workers.errors import ContractViolation, CreditExhausted, FetchFailed, TargetBlocked, TargetGone
from workers.leases import KEY_PREFIX, Lease, LeaseStore
from workers.social_graph.token import TokenSocialURL
from workers.social_graph.vocabulary import ContentSubtype, FetchStatus, Platform
from workers.social_recording import url_collection
from workers.social_recording.job_kinds import RECONCILE, RETRY
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.reconcile import RECORD_TOKEN_TASK
from workers.social_recording.retry import RETRY_URL_TASK
from workers.social_recording.routing import Route, route
from workers.social_recording.url_collection import graph_of_route, url_lease

__all__ = ["place", "sandbox"]

ALL_DEFAULTS = {
    "statuses": ["error", "unsupported", "skipped_paid"],
    "limit": 50,
    "deadlineMs": 45_000,
    "minIntervalMinutes": 60,
}
CLOSED = [FetchStatus.NOT_FOUND, FetchStatus.BLOCKED, FetchStatus.INVALID, FetchStatus.EXHAUSTED]
TIMES = ("queuedMs", "elapsedMs")


def shown(way: Route) -> SocialObjectGraph:
    return graph_of_route(way, Clock().now())


def down(_: Route) -> SocialObjectGraph:
    raise FetchFailed("down", reason="http_503")


def stored(status: FetchStatus, url: str) -> TokenSocialURL:
    return TokenSocialURL(url=url, status=status, attempts=3, attempted_at=LONG_AGO, reason="earlier")


# --- the request


def test_a_body_with_every_default_written_out_counts_what_an_empty_one_counts(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator(show=down))
    for _ in range(3):
        place.store_token(failed_url(new_site()))
    place.store_token(failed_url(new_site(), attempted_at=place.clock.now()))
    for status in CLOSED:
        place.store_token(stored(status, new_site()))
    metas = []
    for body in ({}, ALL_DEFAULTS):
        meta = place.run_retry(**body, dryRun=True)
        metas.append({name: value for name, value in meta.items() if name not in TIMES})
    assert metas[0] == metas[1]
    assert (metas[0]["candidateUrls"], metas[0]["planned"], metas[0]["skippedByInterval"]) == (4, 3, 1)
    assert place.run_retry()["processed"] == 3


@pytest.mark.parametrize("status", CLOSED)
def test_a_url_that_is_closed_is_opened_again_only_by_a_request_that_names_its_status(
    place: RecordingPlace, status: FetchStatus
) -> None:
    generator = OwnGenerator()
    place.rebuild(generator=generator)
    address = place.store_token(stored(status, new_site()))
    before = place.document(address)
    others = [each.value for each in CLOSED if each is not status]
    for body in ({}, {"statuses": others}):
        assert place.run_retry(**body, minIntervalMinutes=0)["candidateUrls"] == 0
    assert place.document(address) == before
    meta = place.run_retry(statuses=[status.value])
    assert (meta["candidateUrls"], meta["converged"]) == (1, 1)
    assert (place.element(address)["status"], place.element(address)["attempts"]) == ("ok", 4)
    assert generator.calls.total() == 1


def test_a_url_that_is_ok_is_the_same_after_a_hundred_sweeps(place: RecordingPlace) -> None:
    place.rebuild(generator=(generator := OwnGenerator(show=down)))
    address = place.store_token(stored(FetchStatus.OK, new_site()))
    before = place.document(address)
    for _ in range(100):
        assert place.run_retry(minIntervalMinutes=0)["candidateUrls"] == 0
    assert place.document(address) == before
    assert generator.calls == {}


def test_more_attempts_in_the_settings_open_nothing_by_themselves(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator(show=down), max_attempts=2)
    address = place.store_token(failed_url(new_site()))
    place.run_retry()
    assert place.element(address)["status"] == "exhausted"
    place.rebuild(generator=OwnGenerator(), max_attempts=10)
    assert place.run_retry(minIntervalMinutes=0)["candidateUrls"] == 0
    assert place.run_retry(minIntervalMinutes=0, statuses=["exhausted"])["converged"] == 1
    assert (place.element(address)["status"], place.element(address)["attempts"]) == ("ok", 3)


def test_only_the_urls_of_the_named_tokens_are_tried(place: RecordingPlace) -> None:
    generator = OwnGenerator()
    place.rebuild(generator=generator)
    mine, other = new_site(), new_site()
    named, unnamed = place.store_token(failed_url(mine)), place.store_token(failed_url(other))
    before = place.document(unnamed)
    meta = place.run_retry(tokenAddresses=[named])
    assert (meta["candidateUrls"], meta["processed"], meta["stoppedBy"]) == (1, 1, "drained")
    assert generator.calls == {mine: 1}
    assert place.document(unnamed) == before


def test_the_limit_counts_urls_and_not_tokens(place: RecordingPlace) -> None:
    generator = OwnGenerator()
    place.rebuild(generator=generator)
    address = place.store_token(*(failed_url(new_site()) for _ in range(60)))
    meta = place.run_retry()
    assert (meta["candidateUrls"], meta["processed"], meta["remaining"]) == (60, 50, 10)
    assert (meta["stoppedBy"], meta["lockedOut"], generator.calls.total()) == ("limit", 0, 50)
    statuses = [each["status"] for each in place.document(address)["social_urls"]]
    assert (statuses.count("ok"), statuses.count("error")) == (50, 10)


def test_outcomes_that_close_a_url_converge_and_an_exhausted_one_is_counted_apart(
    place: RecordingPlace,
) -> None:
    answers: dict[str, Exception | None] = {
        new_site(): None,
        new_site(): TargetGone("gone", reason="deleted"),
        new_site(): TargetBlocked("closed", reason="private"),
        new_site(): ContractViolation("broken", rule="cyclic", entry_url="u"),
        new_site(): FetchFailed("down", reason="http_503"),
        new_site(): FetchFailed("down", reason="http_503"),
    }
    fails, exhausts = list(answers)[-2:]

    def show(way: Route) -> SocialObjectGraph:
        error = answers[way.url]
        if error is not None:
            raise error
        return shown(way)

    place.rebuild(generator=OwnGenerator(show=show))
    for url in answers:
        place.store_token(failed_url(url, attempts=4 if url == exhausts else 1))
    result = place.retry_result()
    meta = result["meta"]
    assert (meta["processed"], meta["converged"], meta["exhausted"], meta["remaining"]) == (6, 4, 1, 0)
    statuses = {row["url"]: row["status"] for row in result["data"]}
    assert [statuses[url] for url in answers] == [
        "ok",
        "not_found",
        "blocked",
        "invalid",
        "error",
        "exhausted",
    ]
    assert fails in statuses


def test_a_broken_graph_names_its_rule_and_its_url_in_the_result_of_the_job(place: RecordingPlace) -> None:
    def show(_: Route) -> SocialObjectGraph:
        return SocialObjectGraph(groups=(), observed_at=Clock().now())

    place.rebuild(generator=OwnGenerator(show=show))
    address = place.store_token(failed_url(url := new_site()))
    [row] = place.retry_result()["data"]
    assert row == {
        "address": address,
        "url": url,
        "outcome": "processed",
        "status": "invalid",
        "reason": "contract:empty",
    }


# --- how it ends


def test_a_deadline_stops_the_starting_of_urls_and_leaves_the_others_as_they_were(
    place: RecordingPlace,
) -> None:
    def show(way: Route) -> SocialObjectGraph:
        threading.Event().wait(0.7)
        return shown(way)

    place.rebuild(generator=(generator := OwnGenerator(show=show)), window=2)
    addresses = [place.store_token(failed_url(new_site())) for _ in range(12)]
    before = {address: place.document(address) for address in addresses}
    meta = place.run_retry(deadlineMs=1000)
    assert meta["stoppedBy"] == "deadline"
    assert 0 < meta["processed"] == meta["converged"] == generator.calls.total() < 12
    assert meta["candidateUrls"] == meta["processed"] + meta["remaining"] == 12
    untouched = [address for address in addresses if place.document(address) == before[address]]
    assert len(untouched) == meta["remaining"]


def newest_job(place: RecordingPlace) -> str:
    [(job_id, _)] = place.store.newest_ids(before=None, limit=1)
    return job_id


def stops(place: RecordingPlace, lease: str) -> dict[str, Callable[[], object]]:
    return {
        "cancelled": lambda: place.store.request_cancel(newest_job(place)),
        "shutdown": place.shutdown.set,
        "lease_lost": lambda: place.redis.set(f"{KEY_PREFIX}{lease}", "somebody else"),
    }


@pytest.mark.parametrize("how", ["cancelled", "shutdown", "lease_lost"])
@pytest.mark.parametrize("kind", [RECONCILE, RETRY], ids=lambda kind: str(kind.name))
def test_a_job_that_is_stopped_says_by_what_and_its_counts_add_up(
    place: RecordingPlace, kind: Any, how: str
) -> None:
    stop, told = stops(place, kind.lease)[how], threading.Event()

    def show(way: Route) -> SocialObjectGraph:
        if not told.is_set():
            told.set()
            stop()
        threading.Event().wait(0.1)
        return shown(way)

    place.rebuild(generator=OwnGenerator(show=show), window=2)
    if kind is RETRY:
        for _ in range(100):
            place.store_token(failed_url(new_site()))
        meta = place.run_retry(limit=100)
        total, done = meta["candidateUrls"], meta["processed"]
    else:
        place.list_tokens(*({"website": new_site()} for _ in range(100)))
        meta = place.run_reconcile(limit=100)["meta"]
        total, done = meta["targeted"], meta["recorded"]
    assert meta["stoppedBy"] == how
    assert total == done + meta["remaining"] == 100
    assert 0 < done < 100


# --- one URL


class NotingLeases(LeaseStore):
    """Notes whose lease is taken and given back."""

    def __init__(self, place: RecordingPlace, events: list[str]) -> None:
        super().__init__(place.redis, place.clock)
        self._events = events

    def acquire(self, name: str, *, ttl_ms: int, owner: str | None = None, wait_s: float = 0.0) -> Lease:
        lease = super().acquire(name, ttl_ms=ttl_ms, owner=owner, wait_s=wait_s)
        self._events.append(f"take {name.partition(':')[0]}")
        return lease

    def release(self, lease: Lease) -> None:
        super().release(lease)
        self._events.append(f"give back {lease.name.partition(':')[0]}")

    def release_behind(self, lease: Lease) -> None:
        super().release_behind(lease)
        self._events.append(f"give back {lease.name.partition(':')[0]}")


class NotingCommands(CommandListener):
    """Notes each write by its collections, in the order in which they are sent."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name in ("insert", "update", "delete", "findAndModify"):
            self._events.append(f"{event.command_name} {event.command[event.command_name]}")
        elif event.command_name == "bulkWrite":
            touched = [each["ns"].partition(".")[2] for each in event.command["nsInfo"]]
            self._events.append(f"write {' '.join(touched)}")

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Nothing to note."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing to note."""


@contextmanager
def noted_commands(place: RecordingPlace, mongo: MongoServer, events: list[str]) -> Iterator[None]:
    """Inside, the place writes over a client whose commands are noted."""
    client: MongoClient[dict[str, Any]] = MongoClient(
        mongo.url, tz_aware=True, event_listeners=[NotingCommands(events)]
    )
    plain, place.database = place.database, client[place.database.name]
    place.tokens = type(place.tokens)(place.database, place.clock)
    yield
    place.database = plain
    client.close()


def test_one_url_is_locked_claimed_fetched_written_and_decided_in_this_order(
    place: RecordingPlace, mongo: MongoServer
) -> None:
    events: list[str] = []

    def show(way: Route) -> SocialObjectGraph:
        events.append("fetch")
        return shown(way)

    address = place.store_token(failed_url(new_site()))
    candidate = place.candidate(address)
    with noted_commands(place, mongo, events):
        place.rebuild(generator=OwnGenerator(show=show), leases=NotingLeases(place, events))
        assert place.retrier.retry(candidate)["status"] == "ok"
    graph = [each for each in events if each.startswith(("write", "insert", "delete"))]
    assert graph, "the object and its link are written"
    assert events == [
        "take social-record",
        "update tokens",
        "take social-url",
        "fetch",
        *graph,
        "give back social-url",
        "update tokens",
        "give back social-record",
    ]


def test_a_url_is_routed_anew_by_the_rules_of_today(
    place: RecordingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored when it was first seen says nothing about where it leads."""
    place.rebuild(generator=OwnGenerator(show=shown))
    address = place.store_token(failed_url(url := new_site()))
    assert route(url).subtype is ContentSubtype.SITE
    monkeypatch.setattr(
        url_collection, "route", lambda each: route(each)._replace(subtype=ContentSubtype.VIDEO)
    )
    assert place.retrier.retry(place.candidate(address))["status"] == "ok"
    [content] = place.database["contents"].find()
    assert (content["platform"], content["subtype"]) == (Platform.WEB.value, ContentSubtype.VIDEO.value)


class NotingMessenger(ThreadMessenger):
    """Notes what is put on the queue."""

    def __init__(self, place: RecordingPlace) -> None:
        super().__init__(place)
        self.sent: list[tuple[str, str]] = []

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def publish_member(self, *, task: str, arguments: Mapping[str, Any], queue: str) -> None:
        self.sent.append((task, arguments["assignment"]["target"]))
        super().publish_member(task=task, arguments=arguments, queue=queue)


def test_every_token_and_every_url_is_one_message_with_a_task_of_its_own(place: RecordingPlace) -> None:
    messenger = place.messenger = NotingMessenger(place)
    place.rebuild(generator=OwnGenerator())
    addresses = place.list_tokens(*({"website": new_site()} for _ in range(5)))
    place.run_reconcile()
    assert sorted(messenger.sent) == sorted((RECORD_TOKEN_TASK, address) for address in addresses)
    messenger.sent.clear()
    urls = [(new_site(), new_site()) for _ in range(3)]
    tokens = [place.store_token(failed_url(one), failed_url(two)) for one, two in urls]
    place.run_retry()
    expected = [f"{token} {url}" for token, both in zip(tokens, urls, strict=True) for url in both]
    assert sorted(messenger.sent) == sorted((RETRY_URL_TASK, key) for key in expected)


def test_a_source_without_credit_keeps_no_free_url_of_the_same_job_waiting(place: RecordingPlace) -> None:
    free = [new_site() for _ in range(3)]

    def show(way: Route) -> SocialObjectGraph:
        if way.url in free:
            return shown(way)
        raise CreditExhausted("no credit", source="own")

    paid = [new_site() for _ in range(3)]
    source = OwnGenerator(show=show, is_paid=True)
    open_handed = OwnGenerator(show=show, source="free")

    class Both:
        def for_route(self, way: Route, *, is_paid_enabled: bool) -> OwnGenerator:
            return open_handed if way.url in free else source

        def costs_money(self, way: Route) -> bool:
            return way.url in paid

    place.rebuild(generator=source, is_paid_enabled=True, window=1)
    for collector in {id(each): each for each in (place.retrier._collector, place.retry._collector)}.values():
        collector._generators = Both()  # type: ignore[assignment]
    for url in (paid[0], free[0], paid[1], free[1], paid[2], free[2]):
        place.store_token(failed_url(url))
    meta = place.run_retry()
    assert meta["byStatus"] == {"error": 1, "skipped_paid": 2, "ok": 3}
    assert (source.calls.total(), open_handed.calls.total()) == (1, 3)


# --- in the long run


SCRIPT_MAX = 4
OUTCOMES = st.sampled_from(["ok", "gone", "blocked", "broken", "down", "no_call"])


@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(scripts=st.lists(st.lists(OUTCOMES, min_size=1, max_size=SCRIPT_MAX), min_size=1, max_size=4))
def test_whatever_comes_of_each_try_repeated_retries_reach_a_state_that_further_ones_do_not_change(
    place: RecordingPlace, scripts: list[list[str]]
) -> None:
    """The last outcome of each script comes again and again."""
    urls = {new_site(): script for script in scripts}
    max_attempts = 3

    class Scripted(OwnGenerator):
        def generate(self, route: Route, context: Any) -> SocialObjectGraph:
            script = urls[route.url]
            self.calls[route.url] += 1
            outcome = script[min(self.calls[route.url], len(script)) - 1]
            if outcome != "no_call":
                context.calls.add()
            if outcome == "ok":
                return shown(route)
            raise {
                "gone": TargetGone("gone", reason="deleted"),
                "blocked": TargetBlocked("closed", reason="private"),
                "broken": ContractViolation("broken", rule="cyclic", entry_url=route.url),
            }.get(outcome, FetchFailed("down", reason="http_503"))

    place.rebuild(generator=(generator := Scripted()), max_attempts=max_attempts)
    place.database["tokens"].delete_many({})
    addresses = [place.store_token(TokenSocialURL(url=url, status=FetchStatus.ERROR)) for url in urls]

    def state() -> list[tuple[str, int]]:
        return [(place.element(each)["status"], place.element(each)["attempts"]) for each in addresses]

    for _ in range(SCRIPT_MAX + max_attempts):
        place.run_retry(minIntervalMinutes=0)
    rest = state()
    for _ in range(2):
        meta = place.run_retry(minIntervalMinutes=0)
        assert state() == rest
    assert meta["converged"] == meta["exhausted"] == 0
    for (status, attempts), script in zip(rest, scripts, strict=True):
        assert attempts <= max_attempts
        if status == "error":
            assert script[-1] == "no_call", "only what made no call goes on for ever"
    assert generator.calls.total() > 0


# --- attempts that never ended, and attempts that were never made


@pytest.mark.parametrize("status", [FetchStatus.ERROR, FetchStatus.SKIPPED_PAID, FetchStatus.UNSUPPORTED])
def test_a_url_whose_every_allowed_attempt_was_cut_off_is_exhausted_without_a_call(
    place: RecordingPlace, status: FetchStatus
) -> None:
    """A claim leaves the status as it was, so what kills its workers from the start is no `error` yet."""
    place.rebuild(generator=(generator := OwnGenerator(is_paid=True)), is_paid_enabled=True)
    url = TokenSocialURL(url=new_site(), status=status, attempts=5, attempted_at=LONG_AGO)
    address = place.store_token(url)
    meta = place.run_retry()
    assert (meta["processed"], meta["exhausted"]) == (1, 1)
    element = place.element(address)
    assert (element["status"], element["attempts"], element["reason"]) == ("exhausted", 5, "cut_off")
    assert generator.calls == {}


def test_a_paid_url_that_takes_its_worker_with_it_each_time_is_paid_for_no_more_than_is_allowed(
    place: RecordingPlace,
) -> None:
    class Deadly(OwnGenerator):
        """Ends where a killed worker ends: the claim stands, and no result follows."""

        def generate(self, route: Route, context: Any) -> SocialObjectGraph:
            context.calls.add()
            self.calls[route.url] += 1
            raise SystemExit("killed")

    url = new_site()
    place.rebuild(generator=(generator := Deadly(is_paid=True)), is_paid_enabled=True, max_attempts=3)
    address = place.store_token(TokenSocialURL(url=url, status=FetchStatus.SKIPPED_PAID))
    for _ in range(6):
        found = place.tokens.iterate_retryable_urls([FetchStatus.SKIPPED_PAID], [address])
        for candidate in found:
            with suppress(SystemExit):
                place.retrier.retry(candidate)
    assert generator.calls == {url: 3}
    assert (place.element(address)["status"], place.element(address)["attempts"]) == ("exhausted", 3)


@pytest.mark.parametrize("status", CLOSED)
def test_a_url_that_is_opened_again_in_vain_stays_closed(place: RecordingPlace, status: FetchStatus) -> None:
    """Nobody was asked, because somebody else had the URL; the next one who names the status tries it."""
    place.rebuild(generator=OwnGenerator(), url_lease_wait_s=0)
    address = place.store_token(stored(status, url := new_site()))
    before = place.element(address)
    with place.leases.hold(url_lease(url), ttl_ms=60_000):
        result = place.retry_result(statuses=[status.value])
    assert place.element(address) == before
    meta = result["meta"]
    assert (meta["processed"], meta["converged"], meta["exhausted"], meta["remaining"]) == (0, 0, 0, 1)
    assert [(row["outcome"], row["reason"]) for row in result["data"]] == [("given_back", "url_locked")]
    assert place.run_retry(statuses=[status.value])["byStatus"] == {"ok": 1}
