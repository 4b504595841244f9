"""X's own API: what its answers become, and what it costs to ask."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import responses

from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_json
from workers.clock import Budget
from workers.errors import CreditExhausted, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.vocabulary import ObjectKind, ParentRelation, Platform, VenueSubtype
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.x.api import XAPIGenerator
from workers.social_recording.generators.x.api_answers import account_graph, post_graph, read_community
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    MentionDraft,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
    check,
)
from workers.social_recording.routing import route

API = "https://api.x.com/2"
KEY = "x-bearer-secret"
ERRORS = "x/errors.json"
QUOTING = "1407331906927944209"
QUOTED = "1407228731485282242"
QUOTING_URL = f"https://x.com/whoever/status/{QUOTING}"
USER = "1313128625680634303"
HANDLE_URL = "https://x.com/Larksolarze4"
COMMUNITY = "1867306814230749484"
COMMUNITY_URL = f"https://x.com/i/communities/{COMMUNITY}"


def generate(clock: FakeClock, url: str, calls: CallCounter | None = None) -> SocialObjectGraph:
    settings = make_settings(x_api_bearer_token=KEY)
    generator = XAPIGenerator(OutboundClient(settings, clock), settings)
    way = route(url)
    assert generator.is_paid
    assert generator.supports(way)
    graph = generator.generate(way, FetchContext(budget=Budget.of(clock, 60), calls=calls or CallCounter()))
    check(graph, url)
    return graph


def serve_case(case: str, path: str) -> None:
    entry = error_case(ERRORS, case)
    headers = {name: value for name, value in entry["headers"].items() if name != "content-type"}
    responses.get(
        f"{API}{path}",
        status=entry["status"],
        headers=headers,
        content_type=entry["headers"]["content-type"],
        body=body_of(entry),
    )


def account_of(group: ObjectGroup) -> AccountDraft:
    assert group.account is not None
    return group.account


def content_of(group: ObjectGroup) -> ContentDraft:
    assert group.content is not None
    return group.content


def venue_of(group: ObjectGroup) -> VenueDraft:
    assert group.venue is not None
    return group.venue


def are_known(group: ObjectGroup) -> bool:
    """Whether every metric is on the list of those that are stored."""
    return all(set(names) <= METRIC_SPEC[Platform.X, kind] for kind, names in group.metrics.items())


@responses.activate
def test_an_account_is_asked_for_by_its_handle_and_keyed_by_its_number(clock: FakeClock) -> None:
    responses.get(f"{API}/users/by/username/Larksolarze4", json=sample_json("x/v2_user.json"))
    calls = CallCounter()
    graph = generate(clock, HANDLE_URL, calls)
    (group,) = graph.groups
    account = account_of(group)
    assert (account.platform, account.platform_key, account.handle) == (Platform.X, USER, "Larksolarze4")
    assert (account.url, account.display_name) == ("https://x.com/larksolarze4", "Ri. So-Sola EMB")
    assert account.bio == sample_json("x/v2_user.json")["data"]["description"]
    # The bio holds a short form of the second; the website is one, too.
    assert account.links == (
        "https://site230.example.com/aspenvi/Pixelw_Sol",
        "https://site819.example.org/maplez/5847119",
    )
    assert account.account_created_at == datetime(2020, 10, 5, 14, 47, 30, tzinfo=UTC)
    assert (account.followers, account.unavailable) == (109524, None)
    assert group.metrics == {
        ObjectKind.ACCOUNTS: {
            "followers_count": 109524,
            "following_count": 340,
            "tweet_count": 2445,
            "listed_count": 409,
            "like_count": 5120,
            "media_count": 311,
        }
    }
    assert are_known(group)
    assert (graph.observed_at, graph.blocked_reason) == (clock.now(), None)
    assert calls.calls == 1
    request = responses.calls[0].request
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    fields = parse_qs(urlsplit(str(request.url)).query)["user.fields"][0].split(",")
    assert {"created_at", "description", "entities", "public_metrics", "url"} <= set(fields)


@responses.activate
def test_an_account_may_be_asked_for_by_its_number(clock: FakeClock) -> None:
    responses.get(f"{API}/users/{USER}", json=sample_json("x/v2_user.json"))
    account = account_of(generate(clock, f"https://x.com/i/user/{USER}").groups[0])
    assert (account.platform_key, account.url) == (USER, "https://x.com/larksolarze4")


@responses.activate
def test_a_handle_of_digits_is_no_number(clock: FakeClock) -> None:
    user = {"data": {"id": "7", "username": "1234"}}
    responses.get(f"{API}/users/by/username/1234", json=user)
    assert account_of(generate(clock, "https://x.com/1234").groups[0]).platform_key == "7"


@pytest.mark.parametrize("url", ["https://x.com/somebody", "https://x.com/i/user/7"])
def test_another_account_than_the_one_asked_for_is_refused(url: str, clock: FakeClock) -> None:
    with pytest.raises(FetchFailed) as caught:
        account_graph(sample_json("x/v2_user.json"), route(url), clock.now())
    assert caught.value.reason == "unexpected_shape"


@responses.activate
def test_a_quote_refers_to_the_post_it_quotes_and_each_to_its_author(clock: FakeClock) -> None:
    responses.get(f"{API}/tweets/{QUOTING}", json=sample_json("x/v2_tweet.json"))
    calls = CallCounter()
    quote, quoted = generate(clock, QUOTING_URL, calls).groups
    assert (quote.parent_ref, quote.parent_relation) == (1, ParentRelation.QUOTE)
    content = content_of(quote)
    assert (content.platform_key, content.url) == (QUOTING, f"https://x.com/i/status/{QUOTING}")
    assert content.published_at == datetime(2021, 6, 22, 13, 37, 28, tzinfo=UTC)
    assert content.text_primary == sample_json("x/v2_tweet.json")["data"]["text"]
    assert content.tags == ("DeltaOrbiTcomEtiv",)
    assert content.links == (f"https://x.com/i/status/{QUOTED}",)
    assert content.data == {"lang": "en"}
    assert account_of(quote).platform_key == USER
    assert account_of(quote).followers == 109524
    assert quote.metrics[ObjectKind.CONTENTS] == {
        "like_count": 2334,
        "reply_count": 105,
        "retweet_count": 1267,
        "quote_count": 46,
        "bookmark_count": 61,
        "impression_count": 0,
    }
    assert are_known(quote)
    # A picture of the post itself is no link.
    assert content_of(quoted).links == ("https://t.me/embercoralvioleto",)
    assert account_of(quoted).handle == "Willoworbit"
    assert account_of(quoted).links == ("https://site489.example.org/7amBerP",)
    assert are_known(quoted)
    assert calls.calls == 1
    query = parse_qs(urlsplit(str(responses.calls[0].request.url)).query)
    assert "author_id" in query["expansions"][0].split(",")
    assert {"author_id", "community_id", "note_tweet"} <= set(query["tweet.fields"][0].split(","))


@responses.activate
def test_a_quoted_post_that_is_gone_leaves_the_quoting_one_fine(clock: FakeClock) -> None:
    """The answer has data and errors at once, and no more of the author than a number."""
    serve_case("v2_partial_quoted_missing", f"/tweets/{QUOTING}")
    (group,) = generate(clock, QUOTING_URL).groups
    assert (group.parent_ref, content_of(group).text_primary) == (None, "More for more")
    assert content_of(group).published_at is not None
    account = account_of(group)
    assert (account.platform_key, account.handle) == (USER, None)
    assert account.url == f"https://x.com/i/user/{USER}"
    assert group.metrics == {}


def post_with(clock: FakeClock, includes: Any = None, **changes: Any) -> SocialObjectGraph:
    payload = {
        "data": {"id": QUOTING, "text": "", "author_id": USER, **changes},
        "includes": includes or {},
    }
    graph = post_graph(payload, None, route(QUOTING_URL), clock.now())
    check(graph, QUOTING_URL)
    return graph


def test_a_retweet_refers_to_what_it_repeats_even_when_that_is_a_quote(clock: FakeClock) -> None:
    graph = post_with(
        clock,
        includes={"tweets": [{"id": "1", "text": "quoted"}, {"id": "2", "text": "repeated"}]},
        text="RT @a: repeated",
        referenced_tweets=[{"type": "quoted", "id": "1"}, {"type": "retweeted", "id": "2"}],
    )
    retweet, repeated = graph.groups
    assert retweet.parent_relation is ParentRelation.RETWEET
    assert content_of(repeated).platform_key == "2"


def test_a_reply_is_a_value_and_no_parent(clock: FakeClock) -> None:
    (group,) = post_with(
        clock,
        includes={"tweets": [{"id": "41", "text": "asked"}]},
        referenced_tweets=[{"type": "replied_to", "id": "41"}],
        entities={"mentions": [{"id": "42", "username": "Sol"}, {"username": "nobody"}]},
    ).groups
    assert content_of(group).data["in_reply_to"] == {"id": "41", "screen_name": None}
    assert content_of(group).mentions == (MentionDraft(platform_key="42", screen_name="Sol"),)


def test_a_long_post_has_its_whole_text_and_the_links_of_it(clock: FakeClock) -> None:
    links = {"urls": [{"url": "https://t.co/abc", "expanded_url": "https://ember.example.org/long"}]}
    (group,) = post_with(
        clock, text="a &amp; …", note_tweet={"text": "a &amp; b &lt;3 to the end", "entities": links}
    ).groups
    assert content_of(group).text_primary == "a & b <3 to the end"
    assert content_of(group).links == ("https://ember.example.org/long",)


def test_an_edited_post_may_answer_under_its_newest_number(clock: FakeClock) -> None:
    newest = str(int(QUOTING) + 999)
    (group,) = post_with(clock, id=newest, edit_history_tweet_ids=[QUOTING, newest]).groups
    assert content_of(group).platform_key == newest


def test_neighbouring_numbers_stay_apart_even_when_they_are_numbers(clock: FakeClock) -> None:
    (group,) = post_with(clock, id=int(QUOTING)).groups
    assert content_of(group).platform_key == QUOTING
    with pytest.raises(FetchFailed, match="another post"):
        post_with(clock, id=int(QUOTING) + 1)


@responses.activate
def test_a_community_comes_without_the_one_who_made_it(clock: FakeClock) -> None:
    responses.get(f"{API}/communities/{COMMUNITY}", json=sample_json("x/v2_community.json"))
    (group,) = generate(clock, COMMUNITY_URL).groups
    venue = venue_of(group)
    assert (venue.subtype, venue.platform_key, venue.url) == (
        VenueSubtype.COMMUNITY,
        COMMUNITY,
        COMMUNITY_URL,
    )
    assert (venue.name, venue.description) == ("Ember Holders", "A place for the people of Ember")
    assert (venue.members, venue.venue_created_at) == (1843, datetime(2024, 12, 12, 20, 33, 32, tzinfo=UTC))
    assert venue.data == {"access": "Public", "join_policy": "Open"}
    assert group.account is None
    assert group.metrics == {ObjectKind.VENUES: {"member_count": 1843}}
    assert are_known(group)


def serve_post_in_community() -> None:
    payload = sample_json("x/v2_tweet.json")
    payload["data"]["community_id"] = COMMUNITY
    responses.get(f"{API}/tweets/{QUOTING}", json=payload)


@responses.activate
def test_a_post_in_a_community_stands_in_it_with_its_name(clock: FakeClock) -> None:
    serve_post_in_community()
    responses.get(f"{API}/communities/{COMMUNITY}", json=sample_json("x/v2_community.json"))
    calls = CallCounter()
    group = generate(clock, QUOTING_URL, calls).groups[0]
    assert (venue_of(group).platform_key, venue_of(group).name) == (COMMUNITY, "Ember Holders")
    assert group.metrics[ObjectKind.VENUES] == {"member_count": 1843}
    assert account_of(group).platform_key == USER
    assert calls.calls == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (402, b"{}"),
        (429, b"{}"),
        (200, b'{"errors": [{"detail": "Could not find community"}]}'),
        (200, b'{"data": {"id": "1"}}'),
        (200, b"[]"),
    ],
)
@responses.activate
def test_a_community_that_is_not_shown_does_not_lose_the_post_that_was_paid_for(
    status: int, body: bytes, clock: FakeClock
) -> None:
    serve_post_in_community()
    responses.get(f"{API}/communities/{COMMUNITY}", status=status, body=body, content_type="application/json")
    group = generate(clock, QUOTING_URL).groups[0]
    assert content_of(group).platform_key == QUOTING
    assert (venue_of(group).platform_key, venue_of(group).name) == (COMMUNITY, None)
    assert venue_of(group).url == COMMUNITY_URL


def test_another_community_than_the_one_asked_for_is_refused() -> None:
    with pytest.raises(FetchFailed, match="another community"):
        read_community(sample_json("x/v2_community.json"), "1")


@responses.activate
def test_a_suspended_account_is_blocked_and_marked(clock: FakeClock) -> None:
    """Its type says that there is no such account; the words are right."""
    serve_case("v2_user_suspended", "/users/by/username/suspendedone")
    graph = generate(clock, "https://x.com/suspendedone")
    account = account_of(graph.groups[0])
    assert graph.blocked_reason == "suspended"
    assert (account.unavailable, account.handle, account.platform_key) == (True, "suspendedone", None)
    assert account.url == "https://x.com/suspendedone"


@responses.activate
def test_a_suspended_account_of_a_known_number_keeps_it(clock: FakeClock) -> None:
    serve_case("v2_user_suspended", f"/users/{USER}")
    account = account_of(generate(clock, f"https://x.com/i/user/{USER}").groups[0])
    assert (account.unavailable, account.handle, account.platform_key) == (True, None, USER)


OF_POST = (QUOTING_URL, f"/tweets/{QUOTING}")
OF_HANDLE = ("https://x.com/nosuchhandle0", "/users/by/username/nosuchhandle0")
OF_COMMUNITY = (COMMUNITY_URL, f"/communities/{COMMUNITY}")


@pytest.mark.parametrize(
    ("case", "place", "error", "reason"),
    [
        ("v2_tweet_missing", OF_POST, TargetGone, "resource_not_found"),
        ("v2_tweet_protected", OF_POST, TargetBlocked, "not_authorized"),
        ("v2_user_missing", OF_HANDLE, TargetGone, "resource_not_found"),
        ("v2_invalid_id", OF_POST, TargetGone, "impossible_id"),
        ("v2_unauthorized", OF_POST, FetchFailed, "misconfigured"),
        ("v2_credits_depleted", OF_POST, CreditExhausted, "credit_exhausted"),
        ("v2_client_forbidden", OF_COMMUNITY, FetchFailed, "misconfigured"),
        ("v2_usage_capped", OF_POST, CreditExhausted, "credit_exhausted"),
        ("v2_rate_limited", OF_POST, FetchFailed, "rate_limited"),
        ("v2_unavailable", OF_POST, FetchFailed, "http_503"),
    ],
)
@responses.activate
def test_every_known_refusal_has_its_meaning_after_one_call(
    case: str, place: tuple[str, str], error: type[Exception], reason: str, clock: FakeClock
) -> None:
    url, path = place
    serve_case(case, path)
    calls = CallCounter()
    with pytest.raises(error) as caught:
        generate(clock, url, calls)
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", None) == reason
    assert calls.calls == 1
    if isinstance(caught.value, CreditExhausted):
        assert caught.value.source == "x_api"


@responses.activate
def test_a_rate_limit_says_when_to_come_back_and_is_not_waited_for(clock: FakeClock) -> None:
    clock.moment = datetime.fromtimestamp(1_790_000_000, UTC)
    serve_case("v2_rate_limited", f"/tweets/{QUOTING}")
    with pytest.raises(FetchFailed) as caught:
        generate(clock, QUOTING_URL)
    assert (caught.value.retry_in_s, clock.waits) == (900.0, [])


def problem(**fields: str) -> dict[str, object]:
    return {"errors": [fields]}


@pytest.mark.parametrize(
    ("status", "body", "error", "reason"),
    [
        # The types have moved from one host to another.
        (
            200,
            problem(type="https://api.x.com/2/problems/resource-not-found"),
            TargetGone,
            "resource_not_found",
        ),
        (
            200,
            problem(type="https://api.x.com/2/problems/not-authorized-for-resource"),
            TargetBlocked,
            "not_authorized",
        ),
        (404, problem(detail="Could not find tweet with id: [1]."), TargetGone, "resource_not_found"),
        (404, {"title": "Not Found Error", "detail": "Could not find it"}, TargetGone, "resource_not_found"),
        (404, {}, FetchFailed, "http_404"),
        (404, [], FetchFailed, "http_404"),
        (200, problem(title="Strange", detail="New words"), FetchFailed, "unknown_problem"),
        (200, {"errors": []}, FetchFailed, "unexpected_shape"),
        (200, {"errors": ["word"]}, FetchFailed, "unexpected_shape"),
        (200, {"data": []}, FetchFailed, "unexpected_shape"),
        (200, {}, FetchFailed, "unexpected_shape"),
        (200, [], FetchFailed, "unexpected_shape"),
        (200, {"data": {"id": QUOTING}}, FetchFailed, "unexpected_shape"),
        (400, {"errors": [{"parameters": {"tweet.fields": ["word"]}}]}, FetchFailed, "misconfigured"),
        (400, {"errors": [{"message": "word"}]}, FetchFailed, "misconfigured"),
        (400, {}, FetchFailed, "misconfigured"),
        (402, {}, CreditExhausted, "credit_exhausted"),
        (403, {"title": "Forbidden"}, FetchFailed, "http_403"),
        (
            403,
            {"type": "https://api.x.com/2/problems/unsupported-authentication"},
            FetchFailed,
            "misconfigured",
        ),
        (410, {}, FetchFailed, "http_410"),
        (500, problem(detail="Could not find tweet with id: [1]."), FetchFailed, "http_500"),
    ],
)
@responses.activate
def test_answers_that_no_sample_shows_are_told_apart(
    status: int, body: object, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    responses.get(f"{API}/tweets/{QUOTING}", status=status, json=body)
    with pytest.raises(error) as caught:
        generate(clock, QUOTING_URL)
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", None) == reason


@pytest.mark.parametrize("status", [200, 403, 404])
@responses.activate
def test_a_page_instead_of_data_is_no_verdict(status: int, clock: FakeClock) -> None:
    page = b"<!doctype html><title>Just a moment...</title>"
    responses.get(f"{API}/tweets/{QUOTING}", status=status, body=page, content_type="text/html")
    with pytest.raises(FetchFailed) as caught:
        generate(clock, QUOTING_URL)
    assert caught.value.reason == "unexpected_html"


@pytest.mark.parametrize(
    "url",
    [
        "https://x.com/a/status/9223372036854775808",
        "https://x.com/i/user/99999999999999999999",
        "https://x.com/i/communities/0",
    ],
)
@responses.activate
def test_a_number_that_nothing_can_have_costs_nothing(url: str, clock: FakeClock) -> None:
    calls = CallCounter()
    with pytest.raises(TargetGone) as caught:
        generate(clock, url, calls)
    assert (caught.value.reason, calls.calls) == ("impossible_id", 0)


@pytest.mark.parametrize(
    ("url", "is_supported"),
    [
        (QUOTING_URL, True),
        (HANDLE_URL, True),
        (COMMUNITY_URL, True),
        ("https://x.com/search?q=ember", False),
        ("https://t.co/AbC123", False),
        ("https://x.com/home", False),
        ("https://github.com/someone", False),
    ],
)
def test_posts_accounts_and_communities_are_supported_with_a_key(
    url: str, is_supported: bool, clock: FakeClock
) -> None:
    for settings, expected in (
        (make_settings(x_api_bearer_token=KEY), is_supported),
        (make_settings(), False),
        (make_settings(twitterapiio_api_key="another-key"), False),
    ):
        assert XAPIGenerator(OutboundClient(settings, clock), settings).supports(route(url)) is expected


@responses.activate
def test_no_error_and_no_log_shows_the_key(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    path = f"{API}/tweets/{QUOTING}"
    for status in (401, 402, 403, 429, 500, 503):
        responses.upsert(responses.GET, path, status=status, json={"detail": "refused"})
        with pytest.raises(FetchFailed) as caught:
            generate(clock, QUOTING_URL)
        assert KEY not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert KEY not in caplog.text
