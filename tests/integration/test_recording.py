"""Recording tokens and collecting URLs with real stores: leases, attempts, reasons."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from devstack.sandbox.registries import registered_at
from tests.integration.recording_place import (
    OwnGenerator,
    RecordingPlace,
    failed_url,
    new_site,
    place,
    sandbox,
)
from workers.clock import Clock
from workers.errors import CreditExhausted, FetchFailed, TargetBlocked, TargetGone
from workers.leases import KEY_PREFIX, Lease, LeaseStore
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus, ParentRelation, Platform
from workers.social_recording.object_graph import AccountDraft, ObjectGroup, SocialObjectGraph
from workers.social_recording.recording import TokenOutcome, token_lease
from workers.social_recording.routing import Route
from workers.social_recording.url_collection import graph_of_route, url_lease

__all__ = ["place", "sandbox"]


class WithoutURLLeases(LeaseStore):
    """Lets everybody in who wants to fetch a URL."""

    @contextmanager
    def hold(self, name: str, **how: Any) -> Iterator[Lease]:
        own = f"{name}:{threading.get_ident()}" if name.startswith("social-url:") else name
        with super().hold(own, **how) as lease:
            yield lease


class WithoutTokenLeases(LeaseStore):
    """Lets everybody in who wants to record a token."""

    @contextmanager
    def hold(self, name: str, **how: Any) -> Iterator[Lease]:
        own = f"{name}:{threading.get_ident()}" if name.startswith("social-record:") else name
        with super().hold(own, **how) as lease:
            yield lease


def record_together(place: RecordingPlace, addresses: list[str]) -> list[str]:
    with ThreadPoolExecutor(len(addresses)) as pool:
        return [report.outcome for report in pool.map(place.recorder.record, addresses)]


def test_two_tokens_recorded_at_once_pay_once_for_the_url_they_share(place: RecordingPlace) -> None:
    """The twin below shows two calls without the lease."""
    url = new_site()

    def show(way: Route) -> SocialObjectGraph:
        # Long enough for the other token to ask meanwhile.
        threading.Event().wait(0.3)
        return graph_of_route(way, Clock().now())

    generator = OwnGenerator(show=show, is_paid=True)
    place.rebuild(generator=generator, is_paid_enabled=True)
    addresses = place.list_tokens({"website": url}, {"website": url})
    assert record_together(place, addresses) == ["recorded", "recorded"]
    assert generator.calls == {url: 1}
    elements = [place.element(address) for address in addresses]
    assert {each["status"] for each in elements} == {"ok"}
    assert sorted(each["attempts"] for each in elements) == [0, 1]
    assert place.database["contents"].count_documents({"source_urls.url": url}) == 1
    assert place.database["token_links"].count_documents({"entry_url": url}) == 2


def test_without_the_lease_of_the_url_they_would_pay_twice(place: RecordingPlace) -> None:
    url, both = new_site(), threading.Barrier(2)

    def show(way: Route) -> SocialObjectGraph:
        both.wait(timeout=10)
        return graph_of_route(way, Clock().now())

    generator = OwnGenerator(show=show, is_paid=True)
    place.rebuild(
        generator=generator,
        leases=WithoutURLLeases(place.redis, place.clock),
        is_paid_enabled=True,
    )
    addresses = place.list_tokens({"website": url}, {"website": url})
    assert record_together(place, addresses) == ["recorded", "recorded"]
    assert generator.calls == {url: 2}


def test_a_url_that_somebody_else_fetches_for_too_long_is_an_error_without_an_attempt(
    place: RecordingPlace,
) -> None:
    url, generator = new_site(), OwnGenerator()
    place.rebuild(generator=generator, url_lease_wait_s=0.2)
    [address] = place.list_tokens({"website": url})
    with place.leases.hold(url_lease(url), ttl_ms=60_000):
        assert place.recorder.record(address).outcome is TokenOutcome.RECORDED
    element = place.element(address)
    assert (element["status"], element["reason"]) == ("error", "url_locked")
    assert (element["attempts"], element["attempted_at"]) == (0, None)
    assert generator.calls == {}


def test_a_paid_source_is_not_asked_while_paid_calls_are_off(place: RecordingPlace) -> None:
    url, generator = new_site(), OwnGenerator(is_paid=True)
    place.rebuild(generator=generator, is_paid_enabled=False)
    first, second = place.list_tokens({"website": url}, {"website": url})
    place.recorder.record(first)
    element = place.element(first)
    assert (element["status"], element["attempts"], element["attempted_at"]) == ("skipped_paid", 0, None)
    assert generator.calls == {}
    place.rebuild(generator=generator, is_paid_enabled=True)
    place.recorder.record(second)
    assert place.element(second)["status"] == "ok"
    assert generator.calls == {url: 1}


def test_a_token_that_somebody_else_records_is_locked_out_at_once(place: RecordingPlace) -> None:
    [address] = place.list_tokens({"website": new_site()})
    with place.leases.hold(token_lease(address), ttl_ms=60_000):
        took_s = []
        for _ in range(5):
            started = time.monotonic()
            assert place.recorder.record(address).outcome is TokenOutcome.LOCKED_OUT
            took_s.append(time.monotonic() - started)
        assert min(took_s) < 0.05, "one of them on a quiet machine"
    assert place.sandbox.client.calls().total == 0
    assert place.recorder.record(address).outcome is TokenOutcome.RECORDED


def test_a_token_that_was_recorded_meanwhile_is_seen_without_a_call(place: RecordingPlace) -> None:
    [address] = place.list_tokens({"website": new_site()})
    place.recorder.record(address)
    document, calls = place.document(address), place.sandbox.client.calls()
    assert place.recorder.record(address).outcome is TokenOutcome.ALREADY_SEEN
    assert place.document(address) == document
    assert place.sandbox.client.calls() == calls


def test_many_workers_at_one_token_record_it_once(place: RecordingPlace) -> None:
    generator = OwnGenerator()
    place.rebuild(generator=generator)
    [address] = place.list_tokens({"website": new_site()})
    place.sandbox.client.set_faults({"route": "by-addresses", "latency_ms": 200})
    found = record_together(place, [address] * 8)
    assert found.count("recorded") == 1
    assert set(found) <= {"recorded", "lockedOut", "alreadySeen"}
    assert place.sandbox.client.calls().by_address == {address: 1}
    assert generator.calls.total() == 1
    assert place.database["tokens"].count_documents({"address": address}) == 1


def test_without_the_lease_of_the_token_all_of_them_would_ask_the_tracker(place: RecordingPlace) -> None:
    leases = WithoutTokenLeases(place.redis, place.clock)
    place.rebuild(generator=OwnGenerator(), leases=leases)
    [address] = place.list_tokens({"website": new_site()})
    place.sandbox.client.set_faults({"route": "by-addresses", "latency_ms": 500})
    found = record_together(place, [address] * 8)
    assert place.sandbox.client.calls().by_address[address] > 1
    assert found.count("recorded") == 1, "the unique address is the last guard"
    assert place.database["tokens"].count_documents({"address": address}) == 1


def test_a_worker_whose_lease_is_gone_writes_no_document(place: RecordingPlace) -> None:
    """After a loss of Redis data another worker may hold the token: nothing is written any more."""

    def lose(way: Route) -> SocialObjectGraph:
        place.redis.set(f"{KEY_PREFIX}{token_lease(address)}", "another worker")
        [lease] = [each for each in place.leases._held if each.name == token_lease(address)]
        place.leases.renew(lease)
        return graph_of_route(way, Clock().now())

    place.rebuild(generator=OwnGenerator(show=lose))
    [address] = place.list_tokens({"website": new_site()})
    report = place.recorder.record(address)
    assert (report.outcome, report.reason) == (TokenOutcome.FAILED, "LeaseLost")
    assert place.database["tokens"].count_documents({}) == 0
    assert place.database["token_links"].count_documents({}) == 0
    assert place.redis.get(f"{KEY_PREFIX}{token_lease(address)}") == b"another worker"


def test_a_token_that_the_tracker_does_not_know_is_unresolved_and_leaves_nothing(
    place: RecordingPlace,
) -> None:
    [address] = place.list_tokens({"website": new_site()}, missing=1)
    assert place.recorder.record(address).outcome is TokenOutcome.UNRESOLVED
    assert place.database["tokens"].count_documents({}) == 0


def test_a_tracker_that_fails_is_never_an_empty_token(place: RecordingPlace) -> None:
    [address] = place.list_tokens({"website": new_site()})
    place.sandbox.client.set_faults({"route": "by-addresses", "status": 400})
    report = place.recorder.record(address)
    assert (report.outcome, report.reason) == (TokenOutcome.FAILED, "UpstreamFailed")
    assert place.database["tokens"].count_documents({}) == 0


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (TargetGone("gone", reason="deleted"), "not_found", "deleted"),
        (TargetBlocked("closed", reason="suspended"), "blocked", "suspended"),
        (FetchFailed("down", reason="http_503"), "error", "http_503"),
        (CreditExhausted("no credit", source="paid"), "error", "credit_exhausted"),
        (ValueError("ours"), "error", "internal"),
    ],
)
def test_what_a_generator_raises_decides_the_status_and_counts_the_call(
    place: RecordingPlace, error: Exception, status: str, reason: str
) -> None:
    def fail(_: Route) -> SocialObjectGraph:
        raise error

    place.rebuild(generator=OwnGenerator(show=fail))
    [address] = place.list_tokens({"website": new_site()})
    assert place.recorder.record(address).outcome is TokenOutcome.RECORDED
    element = place.element(address)
    assert (element["status"], element["reason"], element["attempts"]) == (status, reason, 1)
    assert element["attempted_at"] is not None
    assert place.database["token_links"].count_documents({}) == 0


@pytest.mark.parametrize("rule", ["empty", "cyclic", "unreachable", "empty_group"])
def test_a_graph_that_breaks_the_contract_is_invalid_after_one_attempt(
    place: RecordingPlace, rule: str
) -> None:
    def show(way: Route) -> SocialObjectGraph:
        [group] = graph_of_route(way, Clock().now()).groups
        groups = {
            "empty": (),
            "cyclic": (
                ObjectGroup(content=group.content, parent_ref=0, parent_relation=ParentRelation.QUOTE),
            ),
            "unreachable": (group, group),
            "empty_group": (ObjectGroup(),),
        }[rule]
        return SocialObjectGraph(groups=groups, observed_at=Clock().now())

    place.rebuild(generator=OwnGenerator(show=show))
    [address] = place.list_tokens({"website": new_site()})
    place.recorder.record(address)
    element = place.element(address)
    assert (element["status"], element["reason"]) == ("invalid", f"contract:{rule}")
    assert (element["attempts"], element["attempted_at"] is None) == (1, False)
    assert place.database["contents"].count_documents({}) == 0
    assert place.run_retry(minIntervalMinutes=0)["candidateUrls"] == 0


def test_one_bad_url_does_not_keep_the_others_from_their_token(place: RecordingPlace) -> None:
    bad, good = new_site(), new_site()

    def show(way: Route) -> SocialObjectGraph:
        if way.url == bad:
            raise RuntimeError("our own mistake")
        return graph_of_route(way, Clock().now())

    place.rebuild(generator=OwnGenerator(show=show))
    [address] = place.list_tokens({"website": f"{bad} {good}"})
    report = place.recorder.record(address)
    assert report.urls == [
        {"url": bad, "status": "error", "reason": "internal"},
        {"url": good, "status": "ok", "reason": None},
    ]


def test_a_url_that_is_stored_already_is_linked_without_a_call(place: RecordingPlace) -> None:
    url, generator = new_site(), OwnGenerator()
    place.rebuild(generator=generator)
    addresses = place.list_tokens({"website": url}, {"website": url})
    for address in addresses:
        place.recorder.record(address)
    assert generator.calls == {url: 1}
    second = place.element(addresses[1])
    assert (second["status"], second["attempts"], second["attempted_at"]) == ("ok", 0, None)


def test_a_live_token_that_gains_a_url_while_a_retry_repairs_another_keeps_everything(
    place: RecordingPlace,
) -> None:
    u1, u2, u3 = (new_site() for _ in range(3))
    done = TokenSocialURL(url=u2, status=FetchStatus.OK, attempts=3, attempted_at=Clock().now())
    address = place.store_token(failed_url(u1), done)
    extras = {"web": {"domain": "a.example"}, "fingerprints": ["img:1", "img:2"]}
    place.database["tokens"].update_one({"address": address}, {"$set": extras})
    before = place.document(address)

    def show(way: Route) -> SocialObjectGraph:
        added = [TokenSocialURL(url=u3, status=FetchStatus.UNSUPPORTED)]
        assert place.tokens.add_social_urls(address, added) == 1
        return graph_of_route(way, Clock().now())

    place.rebuild(generator=OwnGenerator(show=show))
    assert place.retrier.retry(place.candidate(address))["status"] == "ok"
    after = place.document(address)
    assert (place.element(address, u1)["status"], place.element(address, u1)["attempts"]) == ("ok", 2)
    assert place.element(address, u2) == before["social_urls"][1]
    assert place.element(address, u3)["status"] == "unsupported"
    for name in ("web", "fingerprints", "created_at", "_id"):
        assert after[name] == before[name]


def test_a_token_with_a_site_knows_its_domain_and_how_old_that_is(place: RecordingPlace) -> None:
    url = new_site()
    domain = url.removeprefix("https://").rstrip("/")
    [address] = place.list_tokens({"website": f"{url}about", "twitter": f"{url}team"})
    assert place.recorder.record(address).outcome is TokenOutcome.RECORDED
    token = place.tokens.find_by_address(address)
    assert token is not None
    assert token.fingerprints == (f"domain:{domain}",)
    assert token.web is not None
    assert (token.web.domain, token.web.domain_created_at) == (domain, registered_at(domain))
    assert token.web.scan_time is not None
    assert [each.address for each in place.tokens.find_by_fingerprint(f"domain:{domain}")] == [address]


def test_a_second_token_of_the_site_knows_its_age_without_a_call(place: RecordingPlace) -> None:
    url = new_site()
    domain = url.removeprefix("https://").rstrip("/")
    first, second = place.list_tokens({"website": url}, {"website": url})
    place.recorder.record(first)
    calls = place.sandbox.client.calls()
    place.recorder.record(second)
    assert place.sandbox.client.calls().total == calls.total + 1  # the tracker's answer about the token
    token = place.tokens.find_by_address(second)
    assert token is not None
    assert token.web is not None
    assert token.web.domain_created_at == registered_at(domain)


def test_a_site_that_cannot_be_seen_leaves_the_domain_without_an_age(place: RecordingPlace) -> None:
    url = "https://site-gone-harbor.com/"
    [address] = place.list_tokens({"website": url})
    place.recorder.record(address)
    token = place.tokens.find_by_address(address)
    assert token is not None
    assert token.web is not None
    assert (token.web.domain, token.web.domain_created_at) == ("site-gone-harbor.com", None)
    assert token.fingerprints == ("domain:site-gone-harbor.com",)


def test_a_suspended_account_is_stored_as_unavailable_and_its_url_is_blocked(place: RecordingPlace) -> None:
    """Also for the next token that links it, which asks nobody."""
    url = "https://x.com/closed_account"

    def show(way: Route) -> SocialObjectGraph:
        account = AccountDraft(platform=Platform.X, url=way.url, platform_key="77", unavailable=True)
        return SocialObjectGraph(
            groups=(ObjectGroup(account=account),), observed_at=place.clock.now(), blocked_reason="suspended"
        )

    generator = OwnGenerator(show=show)
    place.rebuild(generator=generator)
    first, second = place.list_tokens({"twitter": url}, {"twitter": url})
    for address in (first, second):
        assert place.recorder.record(address).outcome is TokenOutcome.RECORDED
    assert generator.calls == {url: 1}
    elements = [place.element(address) for address in (first, second)]
    assert [(each["status"], each["reason"], each["attempts"]) for each in elements] == [
        ("blocked", "suspended", 1),
        ("blocked", "account_unavailable", 0),
    ]
    [account] = place.database["accounts"].find()
    assert account["moderation"] == {"unavailable": True}
    assert {link["status"] for link in place.database["token_links"].find()} == {"unavailable"}


def test_a_token_that_another_worker_stored_first_keeps_that_ones_links_alone(place: RecordingPlace) -> None:
    """Two hold the lease only after Redis has lost its data; the unique address decides."""
    [address] = place.list_tokens({"website": new_site()})

    class BeatenToIt(TokenRepository):
        def insert(self, token: Token) -> None:
            super().insert(Token.of(address=token.address, created_at=place.clock.now(), social_urls=[]))
            super().insert(token)

    place.rebuild(tokens=BeatenToIt(place.database, place.clock))
    assert place.recorder.record(address).outcome is TokenOutcome.ALREADY_SEEN
    assert place.document(address)["social_urls"] == []
    assert place.database["token_links"].count_documents({"token_address": address}) == 0
