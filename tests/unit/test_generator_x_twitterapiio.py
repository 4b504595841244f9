"""twitterapi.io: what its answers become, and what it costs to ask."""

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
from workers.social_recording.generators.x.twitterapiio import TwitterAPIIOGenerator
from workers.social_recording.generators.x.twitterapiio_answers import (
    account_graph,
    community_graph,
    post_graph,
)
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

API = "https://api.twitterapi.io/twitter"
KEY = "twitterapiio-secret"
ERRORS = "x/errors.json"
POST = "1997360967721576278"
QUOTING = "1997361967718956947"
USER = "1729123245750408839"
HANDLE_URL = "https://x.com/NorthEmberXYZ"
COMMUNITY = "1867306814230749484"
COMMUNITY_URL = f"https://x.com/i/communities/{COMMUNITY}"


def post_url(number: str) -> str:
    return f"https://x.com/whoever/status/{number}"


def generate(clock: FakeClock, url: str, calls: CallCounter | None = None) -> SocialObjectGraph:
    settings = make_settings(twitterapiio_api_key=KEY)
    generator = TwitterAPIIOGenerator(OutboundClient(settings, clock), settings)
    way = route(url)
    assert generator.is_paid
    assert generator.supports(way)
    graph = generator.generate(way, FetchContext(budget=Budget.of(clock, 60), calls=calls or CallCounter()))
    check(graph, url)
    return graph


def serve_case(case: str, path: str) -> None:
    entry = error_case(ERRORS, case)
    responses.get(
        f"{API}{path}",
        status=entry["status"],
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


def asked() -> dict[str, list[str]]:
    return parse_qs(urlsplit(str(responses.calls[-1].request.url)).query)


@responses.activate
def test_a_post_comes_with_its_author_and_all_numbers_in_one_call(clock: FakeClock) -> None:
    responses.get(f"{API}/tweets", json=sample_json("x/twitterapiio_tweets.json"))
    calls = CallCounter()
    graph = generate(clock, post_url(POST), calls)
    (group,) = graph.groups
    content, account = content_of(group), account_of(group)
    assert (content.platform_key, content.url) == (POST, f"https://x.com/i/status/{POST}")
    assert content.published_at == datetime(2025, 12, 6, 17, 42, 18, tzinfo=UTC)
    assert content.text_primary == sample_json("x/twitterapiio_tweets.json")["tweets"][0]["text"]
    assert (content.tags, content.links) == (("769IvorYmEadowo",), ())
    assert content.data == {
        "lang": "pt",
        "media": [{"type": "photo", "url": "https://pbs.twimg.com/media/W1wM71oZKGCapV5.jpg"}],
    }
    assert group.metrics[ObjectKind.CONTENTS] == {
        "likeCount": 15,
        "replyCount": 2,
        "retweetCount": 1,
        "quoteCount": 0,
        "bookmarkCount": 0,
        "viewCount": 454,
    }
    assert (account.platform_key, account.handle) == ("1747802518", "harborlu8na")
    assert (account.followers, account.account_created_at) == (
        41168,
        datetime(2013, 3, 1, 5, 42, 42, tzinfo=UTC),
    )
    assert account.links == ("https://site650.example.org/",)
    assert account.data == {"verified": False, "is_blue_verified": True}
    assert group.metrics[ObjectKind.ACCOUNTS] == {
        "followers": 41168,
        "following": 2190,
        "statusesCount": 40183,
        "favouritesCount": 61260,
        "mediaCount": 4710,
    }
    assert are_known(group)
    assert graph.observed_at == clock.now()
    assert (calls.calls, asked()) == (1, {"tweet_ids": [POST]})
    assert responses.calls[0].request.headers["X-API-Key"] == KEY


@responses.activate
def test_a_quote_refers_to_the_post_it_quotes_and_a_bio_may_stand_elsewhere(clock: FakeClock) -> None:
    responses.get(f"{API}/tweets", json=sample_json("x/twitterapiio_tweets.json"))
    quote, quoted = generate(clock, post_url(QUOTING)).groups
    assert (quote.parent_ref, quote.parent_relation) == (1, ParentRelation.QUOTE)
    assert content_of(quoted).platform_key == POST
    assert account_of(quoted).platform_key == "1747802518"
    assert account_of(quote).bio == "official account, site: https://t.co/Q1w2e3R4t5"
    # The short form in the bio, and the website: both are this.
    assert account_of(quote).links == ("https://ember.example.org/",)
    assert are_known(quote)
    assert are_known(quoted)


OF_POST = (post_url(POST), "/tweets")
OF_HANDLE = ("https://x.com/nosuchhandle0", "/user/info")


@pytest.mark.parametrize(
    ("case", "place", "error", "reason"),
    [
        ("twitterapiio_tweet_missing", OF_POST, FetchFailed, "weak_not_found"),
        ("twitterapiio_user_missing", OF_HANDLE, TargetGone, "not_found"),
        ("twitterapiio_no_credit", OF_POST, CreditExhausted, "credit_exhausted"),
        ("twitterapiio_bad_key", OF_POST, FetchFailed, "misconfigured"),
        ("twitterapiio_rate_limited", OF_POST, FetchFailed, "rate_limited"),
        ("twitterapiio_bad_parameter", OF_POST, FetchFailed, "misconfigured"),
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
    assert (calls.calls, clock.waits) == (1, [])
    if isinstance(caught.value, CreditExhausted):
        assert caught.value.source == "twitterapiio"


@responses.activate
def test_a_suspended_account_is_blocked_and_marked_under_its_number(clock: FakeClock) -> None:
    serve_case("twitterapiio_user_suspended", "/user/info")
    graph = generate(clock, "https://x.com/suspendedone")
    account = account_of(graph.groups[0])
    assert graph.blocked_reason == "suspended"
    assert (account.unavailable, account.handle, account.platform_key) == (
        True,
        "suspendedone",
        "1729123245788157575",
    )


@pytest.mark.parametrize(
    ("shown", "reason", "number"),
    [
        ({"unavailable": True, "id": "7"}, "unavailable", None),
        ({"unavailable": True, "message": "User is protected"}, "protected", None),
        ({"unavailable": True, "id": "7", "userName": "Gone1"}, "unavailable", "7"),
    ],
)
def test_an_account_that_is_not_shown_is_marked_with_what_is_known(
    shown: dict[str, object], reason: str, number: str | None, clock: FakeClock
) -> None:
    graph = account_graph({"data": shown}, route("https://x.com/gone1"), clock.now())
    account = account_of(graph.groups[0])
    assert graph.blocked_reason == reason
    assert (account.unavailable, account.platform_key) == (True, number)
    assert account.url == "https://x.com/gone1"


@responses.activate
def test_an_account_is_asked_for_by_its_handle_and_keyed_by_its_number(clock: FakeClock) -> None:
    responses.get(f"{API}/user/info", json=sample_json("x/twitterapiio_user.json"))
    (group,) = generate(clock, HANDLE_URL).groups
    account = account_of(group)
    assert (account.platform_key, account.handle, account.url) == (
        USER,
        "northemberxyz",
        "https://x.com/northemberxyz",
    )
    assert account.bio == "official account, site: https://t.co/Q1w2e3R4t5"
    assert account.links == ("https://ember.example.org/",)
    assert (account.followers, account.account_created_at) == (
        318,
        datetime(2023, 11, 27, 13, 1, 22, tzinfo=UTC),
    )
    assert group.metrics[ObjectKind.ACCOUNTS] == {
        "followers": 318,
        "following": 41,
        "statusesCount": 96,
        "favouritesCount": 205,
        "mediaCount": 12,
    }
    assert are_known(group)
    assert asked() == {"userName": ["NorthEmberXYZ"]}


@responses.activate
def test_an_account_may_be_asked_for_by_its_number(clock: FakeClock) -> None:
    user = sample_json("x/twitterapiio_user.json")["data"]
    users = {"users": [{"id": "1"}, user], "status": "success", "msg": "success"}
    responses.get(f"{API}/user/batch_info_by_ids", json=users)
    account = account_of(generate(clock, f"https://x.com/i/user/{USER}").groups[0])
    assert (account.platform_key, account.url) == (USER, "https://x.com/northemberxyz")
    assert asked() == {"userIds": [USER]}


@pytest.mark.parametrize("elsewhere", [{}, {"url": {}, "description": {"urls": []}}, {"url": None}, "word"])
def test_a_profile_keeps_its_links_when_one_of_the_two_places_for_them_is_empty(
    elsewhere: object, clock: FakeClock
) -> None:
    user = {**sample_json("x/twitterapiio_user.json")["data"], "entities": elsewhere}
    account = account_of(account_graph({"data": user}, route(HANDLE_URL), clock.now()).groups[0])
    assert account.links == ("https://ember.example.org/",)


def test_an_account_that_the_numbers_do_not_lead_to_is_gone(clock: FakeClock) -> None:
    with pytest.raises(TargetGone) as caught:
        account_graph({"users": []}, route(f"https://x.com/i/user/{USER}"), clock.now())
    assert caught.value.reason == "not_found"


@responses.activate
def test_a_community_comes_with_the_account_that_made_it(clock: FakeClock) -> None:
    """The creator is spelled otherwise than every other account, and `following` is a flag there."""
    responses.get(f"{API}/community/info", json=sample_json("x/twitterapiio_community.json"))
    (group,) = generate(clock, COMMUNITY_URL).groups
    venue, creator = venue_of(group), account_of(group)
    assert (venue.subtype, venue.platform_key, venue.url) == (
        VenueSubtype.COMMUNITY,
        COMMUNITY,
        COMMUNITY_URL,
    )
    assert (venue.name, venue.members) == ("Ember Holders", 1843)
    assert venue.venue_created_at == datetime(2024, 12, 12, 20, 33, 32, tzinfo=UTC)
    assert venue.data == {"join_policy": "Open", "is_nsfw": False, "rules": ["Be kind and respectful."]}
    assert (creator.platform_key, creator.handle, creator.followers) == (USER, "northemberxyz", 318)
    assert creator.account_created_at == datetime(2023, 11, 27, 13, 1, 22, tzinfo=UTC)
    # Nothing says what the short form stands for.
    assert creator.links == ("https://t.co/Q1w2e3R4t5",)
    assert group.metrics == {
        ObjectKind.VENUES: {"member_count": 1843, "moderator_count": 2},
        ObjectKind.ACCOUNTS: {
            "followers_count": 318,
            "friends_count": 41,
            "statuses_count": 96,
            "favourites_count": 205,
            "listed_count": 2,
            "media_count": 12,
        },
    }
    assert are_known(group)
    assert asked() == {"community_id": [COMMUNITY]}


def community_with(clock: FakeClock, **changes: Any) -> SocialObjectGraph:
    info = {**sample_json("x/twitterapiio_community.json")["community_info"], **changes}
    return community_graph({"community_info": info}, route(COMMUNITY_URL), clock.now())


def test_a_community_without_a_readable_creator_is_still_a_community(clock: FakeClock) -> None:
    for creator in (None, {}, {"id": "1"}, "word"):
        (group,) = community_with(clock, creator=creator).groups
        assert group.account is None
        assert group.metrics == {ObjectKind.VENUES: {"member_count": 1843, "moderator_count": 2}}


def test_a_closed_community_is_blocked_and_another_one_refused(clock: FakeClock) -> None:
    with pytest.raises(TargetBlocked) as blocked:
        community_with(clock, unavailable=True)
    assert blocked.value.reason == "unavailable"
    with pytest.raises(FetchFailed, match="another community"):
        community_with(clock, id="1")


def post_with(clock: FakeClock, **changes: Any) -> SocialObjectGraph:
    item = {**sample_json("x/twitterapiio_tweets.json")["tweets"][0], **changes}
    graph = post_graph({"tweets": [item]}, route(post_url(POST)), clock.now())
    check(graph, post_url(POST))
    return graph


def test_a_retweet_refers_to_what_it_repeats_even_when_that_is_a_quote(clock: FakeClock) -> None:
    retweet, repeated = post_with(
        clock, retweeted_tweet={"id": "2", "text": "repeated"}, quoted_tweet={"id": "1", "text": "quoted"}
    ).groups
    assert retweet.parent_relation is ParentRelation.RETWEET
    assert content_of(repeated).platform_key == "2"
    assert repeated.account is None


def test_replies_mentions_and_links_are_read(clock: FakeClock) -> None:
    entities = {
        "urls": [{"url": "https://t.co/abc", "expanded_url": "https://ember.example.org"}],
        "user_mentions": [{"id_str": "42", "screen_name": "Sol"}, {"screen_name": "nobody"}],
    }
    (group,) = post_with(
        clock, text="a &amp; b", inReplyToId="41", inReplyToUsername="Sol", entities=entities
    ).groups
    content = content_of(group)
    assert content.text_primary == "a & b"
    assert content.links == ("https://ember.example.org/",)
    assert content.mentions == (MentionDraft(platform_key="42", screen_name="Sol"),)
    assert content.data["in_reply_to"] == {"id": "41", "screen_name": "Sol"}


def test_a_date_in_neither_form_is_told_by_the_number(clock: FakeClock) -> None:
    for text in ("", "yesterday", "Sat Dec 06 17:42:18 2025", None):
        content = content_of(post_with(clock, createdAt=text).groups[0])
        assert content.published_at is not None
        assert content.published_at.replace(microsecond=0) == datetime(2025, 12, 6, 17, 42, 18, tzinfo=UTC)
    assert content_of(post_with(clock, createdAt="2025-12-06T17:42:18.000Z").groups[0]).published_at == (
        datetime(2025, 12, 6, 17, 42, 18, tzinfo=UTC)
    )


@pytest.mark.parametrize("author", [None, {}, {"id": "1"}, {"unavailable": True}])
def test_an_author_that_cannot_be_read_does_not_lose_the_post(author: object, clock: FakeClock) -> None:
    (group,) = post_with(clock, author=author).groups
    assert group.account is None
    assert content_of(group).platform_key == POST


def test_an_author_that_is_closed_is_marked(clock: FakeClock) -> None:
    author = {"id": "7", "userName": "Gone1", "unavailable": True, "unavailableReason": "Suspended"}
    assert account_of(post_with(clock, author=author).groups[0]).unavailable is True


def test_neighbouring_numbers_stay_apart_even_when_they_are_numbers(clock: FakeClock) -> None:
    assert content_of(post_with(clock, id=int(POST)).groups[0]).platform_key == POST
    with pytest.raises(FetchFailed) as caught:
        post_with(clock, id=int(POST) + 1)
    assert caught.value.reason == "weak_not_found"


@pytest.mark.parametrize(
    ("status", "body", "error", "reason"),
    [
        (200, {"status": "error", "msg": "User not found"}, TargetGone, "not_found"),
        (200, {"status": "error", "message": "account does not exist"}, TargetGone, "not_found"),
        (200, {"status": "error", "detail": "no such user"}, TargetGone, "not_found"),
        (200, {"status": "error", "msg": "upstream trouble"}, FetchFailed, "unknown_problem"),
        (200, {"status": "error", "msg": None}, FetchFailed, "unknown_problem"),
        (200, {"status": "error", "msg": "Credits is not enough"}, CreditExhausted, "credit_exhausted"),
        (400, {"error": "Credits is not enough.Please recharge"}, CreditExhausted, "credit_exhausted"),
        (402, [], CreditExhausted, "credit_exhausted"),
        (200, {"status": "success", "data": None}, FetchFailed, "unexpected_shape"),
        (200, {"status": "success"}, FetchFailed, "unexpected_shape"),
        (200, {"status": "success", "users": {}}, FetchFailed, "unexpected_shape"),
        (
            200,
            {"status": "success", "data": {"id": "1", "userName": "other"}},
            FetchFailed,
            "unexpected_shape",
        ),
        (200, [], FetchFailed, "unexpected_shape"),
        (403, {"detail": "Forbidden"}, FetchFailed, "misconfigured"),
        (404, {"detail": "Not Found"}, FetchFailed, "http_404"),
        (422, {"detail": [{"msg": "field required"}]}, FetchFailed, "misconfigured"),
        (503, {"msg": "user not found"}, FetchFailed, "http_503"),
    ],
)
@responses.activate
def test_answers_that_no_sample_shows_are_told_apart(
    status: int, body: object, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    responses.get(f"{API}/user/info", status=status, json=body)
    with pytest.raises(error) as caught:
        generate(clock, HANDLE_URL)
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", None) == reason


@responses.activate
def test_a_post_that_is_called_not_found_may_be_a_failure_to_see_it(clock: FakeClock) -> None:
    responses.get(f"{API}/tweets", json={"status": "error", "message": "tweet not found"})
    with pytest.raises(FetchFailed) as caught:
        generate(clock, post_url(POST))
    assert caught.value.reason == "weak_not_found"


@pytest.mark.parametrize("status", [200, 403, 404])
@responses.activate
def test_a_page_instead_of_data_is_no_verdict(status: int, clock: FakeClock) -> None:
    page = b"<!doctype html><title>user not found</title>"
    responses.get(f"{API}/user/info", status=status, body=page, content_type="text/html")
    with pytest.raises(FetchFailed) as caught:
        generate(clock, HANDLE_URL)
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
        (post_url(POST), True),
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
        (make_settings(twitterapiio_api_key=KEY), is_supported),
        (make_settings(), False),
        (make_settings(x_api_bearer_token="another-key"), False),
    ):
        generator = TwitterAPIIOGenerator(OutboundClient(settings, clock), settings)
        assert generator.supports(route(url)) is expected


@responses.activate
def test_no_error_and_no_log_shows_the_key(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for status in (401, 402, 403, 429, 500, 503):
        responses.upsert(responses.GET, f"{API}/tweets", status=status, json={"detail": "refused"})
        with pytest.raises(FetchFailed) as caught:
            generate(clock, post_url(POST))
        assert KEY not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert KEY not in caplog.text
