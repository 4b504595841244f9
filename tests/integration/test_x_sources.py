"""X's sources over the wire of the sandbox: what is asked, what it costs, what stands in the graph then."""

from __future__ import annotations

import logging
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from devstack.sandbox import x_facts
from devstack.sandbox.process import SandboxServer
from tests.conftest import make_settings
from tests.integration.recording_place import LONG_AGO, RecordingPlace, failed_url, place, sandbox
from workers.clock import Budget, Clock
from workers.errors import CreditExhausted, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import route

__all__ = ["place", "sandbox"]

RESELLER = {"twitterapiio_api_key": "reseller-secret-1"}
OWN_API = {"x_api_bearer_token": "bearer-secret-1"}
BOTH = {**RESELLER, **OWN_API}
COMMUNITY = "https://x.com/i/communities/1867306814230749484"
FATES = {fate: f"https://x.com/i/status/{post_id}" for post_id, fate in x_facts.FATES.items()}
QUOTING = next(str(n) for n in range(2 * 10**18, 2 * 10**18 + 99) if x_facts.quotes(str(n)))


class Outside:
    """Asks the sandbox as a worker with these keys does, and counts what reached it."""

    def __init__(self, server: SandboxServer, *, is_paid_enabled: bool = True, **keys: str) -> None:
        names = {name.lower(): value for name, value in server.settings().items()}
        settings = make_settings(**{**names, **keys})
        self._generators = Generators(OutboundClient(settings, Clock()), settings)
        self._is_paid_enabled = is_paid_enabled
        self._server = server
        self.server = server.client
        self.server.reset()

    def ask(self, url: str) -> SocialObjectGraph:
        way = route(url)
        generator = self._generators.for_route(way, is_paid_enabled=self._is_paid_enabled)
        assert generator is not None
        context = FetchContext(
            budget=Budget.of(Clock(), 20), calls=CallCounter(), is_paid_enabled=self._is_paid_enabled
        )
        try:
            graph = generator.generate(way, context)
        finally:
            assert context.calls.calls == self.server.calls().total
        check(graph, url)
        return graph

    @property
    def services(self) -> Counter[str]:
        """How often each service was asked."""
        found: Counter[str] = Counter()
        for call, times in self.server.calls().by_call.items():
            found[call.split("/")[1]] += times
        return found


@pytest.mark.parametrize(
    ("keys", "service"), [(BOTH, "twitterapiio"), (RESELLER, "twitterapiio"), (OWN_API, "x-api")]
)
def test_an_account_and_a_community_cost_one_call_each_at_the_cheapest_source(
    sandbox: SandboxServer, keys: dict[str, str], service: str
) -> None:
    outside = Outside(sandbox, **keys)
    account = outside.ask("https://x.com/Author_7").groups[0].account
    assert account is not None
    assert (account.platform_key, account.handle) == (x_facts.author(7).id, "author_7")
    assert account.followers == x_facts.author(7).followers
    assert account.account_created_at == x_facts.author(7).created_at
    assert account.links
    outside.server.reset()
    (group,) = outside.ask(COMMUNITY).groups
    assert group.venue is not None
    assert (group.venue.platform_key, group.venue.members) == (
        "1867306814230749484",
        x_facts.community("1867306814230749484").members,
    )
    assert outside.services == {service: 1}
    if service == "twitterapiio":
        assert group.account is not None
        assert group.account.platform_key == x_facts.community("1867306814230749484").creator.id


@pytest.mark.parametrize("keys", [RESELLER, OWN_API])
def test_a_hidden_post_is_what_syndication_would_have_shown(
    sandbox: SandboxServer, keys: dict[str, str]
) -> None:
    url = f"https://x.com/i/status/{QUOTING}"
    free = Outside(sandbox, **keys)
    shown = free.ask(url)
    assert free.services == {"x": 1}
    paid = Outside(sandbox, **keys)
    paid.server.set_faults({"route": "/x/tweet-result", "status": 200, "body": {}})
    bought = paid.ask(url)
    assert len(shown.groups) == len(bought.groups) == 2
    for seen, sold in zip(shown.groups, bought.groups, strict=True):
        assert seen.content is not None
        assert sold.content is not None
        assert seen.account is not None
        assert sold.account is not None
        for name in ("url", "platform_key", "published_at", "text_primary", "tags", "subtype"):
            assert getattr(seen.content, name) == getattr(sold.content, name)
        assert (seen.account.url, seen.account.platform_key) == (sold.account.url, sold.account.platform_key)
        # What the free source lacks.
        assert seen.account.followers is None
        assert sold.account.followers is not None
    services = paid.services
    assert (services["x"], services["x-oembed"], services["twitterapiio"] + bool(services["x-api"])) == (
        1,
        1,
        1,
    )


@pytest.mark.parametrize(
    ("fate", "error", "reason", "services"),
    [
        ("deleted", TargetGone, "tombstone", {"x": 1}),
        ("account-gone", TargetGone, "tombstone", {"x": 1}),
        ("suspended", TargetBlocked, "suspended", {"x": 1}),
        ("protected", TargetBlocked, "protected", {"x": 1}),
        ("restricted", TargetBlocked, "restricted", {"x": 1}),
        ("silent", TargetGone, "oembed_404", {"x": 1, "x-oembed": 1}),
        ("missing", TargetGone, "oembed_404", {"x": 1, "x-oembed": 1}),
        ("refused", FetchFailed, "http_403", {"x": 1}),
        ("hidden", FetchFailed, "not_shown", {"x": 1, "x-oembed": 1}),
        # The redirect is a second call.
        ("moved", FetchFailed, "not_shown", {"x": 1, "x-oembed": 2}),
    ],
)
def test_what_became_of_a_post_is_told_without_money(
    sandbox: SandboxServer, fate: str, error: type[Exception], reason: str, services: dict[str, int]
) -> None:
    outside = Outside(sandbox, is_paid_enabled=False, **BOTH)
    with pytest.raises(error) as caught:
        outside.ask(FATES[fate])
    assert getattr(caught.value, "reason", None) == reason
    assert outside.services == services


def test_a_free_source_is_asked_three_times_and_a_paid_one_once(sandbox: SandboxServer) -> None:
    outside = Outside(sandbox, **OWN_API)
    outside.server.set_faults({"route": ".", "status": 503, "headers": {"Retry-After": "0"}})
    with pytest.raises(FetchFailed, match="503"):
        outside.ask(f"https://x.com/i/status/{QUOTING}")
    assert outside.services == {"x": 3}
    outside.server.reset()
    outside.server.set_faults({"route": ".", "status": 503, "headers": {"Retry-After": "0"}})
    with pytest.raises(FetchFailed, match="503"):
        outside.ask("https://x.com/somebody")
    assert outside.services == {"x-api": 1}


@pytest.mark.parametrize(
    ("handle", "error", "reason"),
    [
        ("user_missing", TargetGone, "resource_not_found"),
        ("bad_key", FetchFailed, "misconfigured"),
        ("no_credit", CreditExhausted, "credit_exhausted"),
        ("usage_capped", CreditExhausted, "credit_exhausted"),
        ("not_enrolled", FetchFailed, "misconfigured"),
        ("rate_limited", FetchFailed, "rate_limited"),
        ("source_down", FetchFailed, "http_503"),
    ],
)
def test_refusals_of_the_api_have_their_meaning_and_show_no_key(
    sandbox: SandboxServer, caplog: pytest.LogCaptureFixture, handle: str, error: type[Exception], reason: str
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = refusal(Outside(sandbox, **OWN_API), handle, error, reason)
    assert OWN_API["x_api_bearer_token"] not in shown + caplog.text


@pytest.mark.parametrize(
    ("handle", "error", "reason"),
    [
        ("user_missing", TargetGone, "not_found"),
        ("bad_key", FetchFailed, "misconfigured"),
        ("no_credit", CreditExhausted, "credit_exhausted"),
        ("rate_limited", FetchFailed, "rate_limited"),
    ],
)
def test_refusals_of_the_reseller_have_their_meaning_and_show_no_key(
    sandbox: SandboxServer, caplog: pytest.LogCaptureFixture, handle: str, error: type[Exception], reason: str
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = refusal(Outside(sandbox, **RESELLER), handle, error, reason)
    assert RESELLER["twitterapiio_api_key"] not in shown + caplog.text


def refusal(outside: Outside, handle: str, error: type[Exception], reason: str) -> str:
    """The error of an account, in words, after it was found to be the one that is due."""
    with pytest.raises(error) as caught:
        outside.ask(f"https://x.com/{handle}")
    assert getattr(caught.value, "reason", None) == reason
    return f"{caught.value!r} {caught.value.__cause__!r}"


def test_a_dropped_connection_to_a_paid_source_is_not_tried_again_and_shows_no_key(
    sandbox: SandboxServer,
) -> None:
    outside = Outside(sandbox, **OWN_API)
    outside.server.set_faults({"route": ".", "drop": True})
    with pytest.raises(FetchFailed) as caught:
        outside.ask("https://x.com/somebody")
    assert caught.value.reason == "connection_failed"
    assert outside.services == {"x-api": 1}
    assert OWN_API["x_api_bearer_token"] not in f"{caught.value!r} {caught.value.__cause__!r}"


def use_keys(place: RecordingPlace, **keys: str) -> None:
    """Let the place pay."""
    names = {name.lower(): value for name, value in place.sandbox.settings().items()}
    place.settings = make_settings(tracker_timeout_ms=2000, **names, **keys)
    place.http = OutboundClient(place.settings, place.clock)
    place.rebuild(is_paid_enabled=True)


def outcomes(report: Any) -> dict[str, tuple[str, str | None]]:
    return {each["url"]: (each["status"], each["reason"]) for each in report.urls}


@pytest.mark.parametrize("keys", [RESELLER, OWN_API])
def test_a_token_gets_its_accounts_posts_and_communities_each_once(
    place: RecordingPlace, keys: dict[str, str]
) -> None:
    use_keys(place, **keys)
    writer = x_facts.post(QUOTING).author
    [address] = place.list_tokens(
        {
            "website": f"https://x.com/{writer.handle} https://x.com/i/user/{writer.id}",
            "twitter": f"https://x.com/whoever/status/{QUOTING} {COMMUNITY}",
        }
    )
    report = place.recorder.record(address)
    assert set(outcomes(report).values()) == {("ok", None)}
    accounts = list(place.database["accounts"].find({"platform": "x", "platform_key": writer.id}))
    assert len(accounts) == 1
    # Both its URLs and its post led to it.
    assert {each["url"] for each in accounts[0]["source_urls"]} == {
        f"https://x.com/{writer.handle}",
        f"https://x.com/i/user/{writer.id}",
    }
    assert accounts[0]["metrics"]["followers"] == writer.followers
    post = place.database["contents"].find_one({"source_urls.url": f"https://x.com/i/status/{QUOTING}"})
    assert post is not None
    assert (post["subtype"], post["creator_id"]) == (ContentSubtype.TWEET, accounts[0]["_id"])
    assert post["parent_relation"] == "quote"
    venue = place.database["venues"].find_one({"source_urls.url": COMMUNITY})
    assert venue is not None
    assert venue["metrics"]["members"] == x_facts.community("1867306814230749484").members
    has_creator = keys is RESELLER
    assert ("creator_id" in venue) is has_creator
    assert place.database["metric_series"].count_documents({"object": ObjectKind.VENUES.value}) == 1


def test_a_post_stands_in_its_community_where_the_answer_names_it(place: RecordingPlace) -> None:
    """Only X's own API does, so the post has to be one that syndication does not show."""
    use_keys(place, **OWN_API)
    post = next(post for n in range(99) if (post := x_facts.post(str(2 * 10**18 + n))).community_id)
    [address] = place.list_tokens({"twitter": f"https://x.com/a/status/{post.id}"})
    place.sandbox.client.set_faults({"route": "/x/tweet-result", "status": 200, "body": {}})
    place.recorder.record(address)
    assert place.element(address)["status"] == "ok"
    content = place.database["contents"].find_one({"source_urls.url": f"https://x.com/i/status/{post.id}"})
    venue = place.database["venues"].find_one(
        {"source_urls.url": f"https://x.com/i/communities/{post.community_id}"}
    )
    assert content is not None
    assert venue is not None
    assert content["venue_id"] == venue["_id"]
    assert venue["name"] == x_facts.community(str(post.community_id)).name
    assert place.database["token_links"].count_documents({"object_id": venue["_id"], "link_depth": 1}) == 1


@pytest.mark.parametrize("keys", [RESELLER, OWN_API])
def test_a_suspended_account_is_blocked_and_marked_and_not_asked_for_again(
    place: RecordingPlace, keys: dict[str, str]
) -> None:
    use_keys(place, **keys)
    url = "https://x.com/user_suspended"
    first, second = place.list_tokens({"twitter": url}, {"twitter": url})
    place.recorder.record(first)
    assert (place.element(first)["status"], place.element(first)["reason"]) == ("blocked", "suspended")
    account = place.database["accounts"].find_one({"source_urls.url": url})
    assert account is not None
    assert account["moderation"] == {"unavailable": True}
    place.sandbox.client.clear_faults()
    before = place.sandbox.client.calls().total
    place.recorder.record(second)
    assert place.element(second)["status"] == "blocked"
    assert place.sandbox.client.calls().total == before + 1, "the tracker alone"
    assert place.run_retry(minIntervalMinutes=0)["candidateUrls"] == 0


def test_a_hidden_post_without_credit_is_an_error_and_the_rest_of_that_source_waits(
    place: RecordingPlace,
) -> None:
    """It is the paid source that is out of credit, and not the free one that was asked first."""
    use_keys(place, **RESELLER)
    place.rebuild(is_paid_enabled=True, window=1)
    place.sandbox.client.reset()
    place.sandbox.client.set_faults(
        {"route": "/twitterapiio/", "status": 402, "body": {"error": "Unauthorized"}}
    )
    hidden = place.store_token(failed_url(FATES["hidden"], attempted_at=LONG_AGO - timedelta(days=1)))
    account = place.store_token(failed_url("https://x.com/somebody"))
    shown = place.store_token(failed_url(f"https://x.com/i/status/{QUOTING}", attempted_at=Clock().now()))
    place.run_retry(minIntervalMinutes=0)
    found = [
        (place.element(each)["status"], place.element(each)["reason"]) for each in (hidden, account, shown)
    ]
    assert found == [("error", "credit_exhausted"), ("skipped_paid", "credit_exhausted"), ("ok", None)]
    assert place.sandbox.client.calls().matching("/twitterapiio/") == 1
