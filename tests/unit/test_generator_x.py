"""Posts on X: what the free endpoints say, and when money is spent on one all the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import responses

from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_bytes, sample_json
from workers.clock import Budget
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, ParentRelation, Platform
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.generators.x.drafts import time_of_id
from workers.social_recording.generators.x.posts import XPostGenerator
from workers.social_recording.generators.x.syndication import post_graph
from workers.social_recording.generators.x.syndication_token import to_base36, token_for
from workers.social_recording.object_graph import MentionDraft, SocialObjectGraph, check
from workers.social_recording.routing import route

ENDPOINT = "https://cdn.syndication.twimg.com/tweet-result"
OEMBED = "https://publish.x.com/oembed"
RESELLER = "https://api.twitterapi.io/twitter/tweets"
API = "https://api.x.com/2/tweets"
POST = "2023357708300373429"
QUOTING = "1641895049427614536"
POST_URL = f"https://x.com/whoever/status/{POST}"


def generate(
    clock: FakeClock,
    url: str = POST_URL,
    calls: CallCounter | None = None,
    *,
    is_paid_enabled: bool = False,
    **settings: Any,
) -> SocialObjectGraph:
    own = make_settings(**settings)
    way = route(url)
    # Posts have a free source first, with or without keys.
    generator = Generators(OutboundClient(own, clock), own).for_route(way, is_paid_enabled=is_paid_enabled)
    assert isinstance(generator, XPostGenerator)
    context = FetchContext(
        budget=Budget.of(clock, 60), calls=calls or CallCounter(), is_paid_enabled=is_paid_enabled
    )
    graph = generator.generate(way, context)
    check(graph, url)
    return graph


def serve_case(url: str, case: str) -> None:
    entry = error_case("x/errors.json", case)
    headers = {name: value for name, value in entry["headers"].items() if name != "content-type"}
    responses.get(
        url,
        status=entry["status"],
        body=body_of(entry),
        headers=headers,
        content_type=entry["headers"].get("content-type", ""),
    )


def serve_oembed(url: str = OEMBED) -> None:
    payload = {**sample_json("x/oembed.json"), "url": POST_URL}
    responses.get(url, json=payload)


def post_with(clock: FakeClock, **changes: Any) -> SocialObjectGraph:
    payload = {**sample_json("x/syndication_tweet.json"), **changes}
    return post_graph(payload, route(POST_URL), clock.now())


@responses.activate
def test_a_post_costs_one_call_and_has_its_author_from_the_answer(clock: FakeClock) -> None:
    responses.get(ENDPOINT, body=sample_bytes("x/syndication_tweet.json"))
    calls = CallCounter()
    graph = generate(clock, calls=calls)
    (group,) = graph.groups
    content, account = group.content, group.account
    assert content is not None
    assert account is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.TWEET, POST)
    assert content.url == f"https://x.com/i/status/{POST}"
    assert content.published_at == datetime(2026, 2, 16, 11, 24, 4, tzinfo=UTC)
    assert content.text_primary == sample_json("x/syndication_tweet.json")["text"]
    assert content.data == {"lang": "en"}
    assert (account.platform_key, account.handle) == ("2622548026", "solarmoonlar")
    assert (account.url, account.display_name) == ("https://x.com/solarmoonlar", "Tidala Moonze")
    assert (account.followers, account.account_created_at, account.bio) == (None, None, None)
    assert group.metrics == {ObjectKind.CONTENTS: {"favorite_count": 14, "conversation_count": 1}}
    assert set(group.metrics[ObjectKind.CONTENTS]) <= METRIC_SPEC[Platform.X, ObjectKind.CONTENTS]
    assert calls.calls == 1
    request = responses.calls[0].request
    assert parse_qs(urlsplit(str(request.url)).query) == {
        "id": [POST],
        "token": ["4wkkd5uw6x8"],
        "lang": ["en"],
    }
    assert request.headers["User-Agent"].startswith("Mozilla/5.0")


@responses.activate
def test_a_quote_refers_to_the_post_it_quotes(clock: FakeClock) -> None:
    responses.get(ENDPOINT, body=sample_bytes("x/syndication_quote.json"))
    quote, quoted = generate(clock, f"https://x.com/a/status/{QUOTING}").groups
    assert (quote.parent_ref, quote.parent_relation) == (1, ParentRelation.QUOTE)
    assert (quoted.parent_ref, quoted.parent_relation) == (None, None)
    assert quote.content is not None
    assert quote.content.tags == ("FrostCedarw",)
    content = quoted.content
    assert content is not None
    assert content.platform_key == "1641086480676673980"
    # Canonical links of known platforms name the place, and GitHub's sub-pages are their repository.
    assert content.links == ("https://github.com/aspence/moon-ledger-new-architecture",)
    assert content.data["media"] == [
        {"type": "photo", "url": "https://pbs.twimg.com/media/PqWCDucJNVWObrj.jpg"}
    ]
    assert quoted.account is not None
    assert quoted.account.platform_key == "476890701"
    assert quoted.metrics[ObjectKind.CONTENTS] == {
        "favorite_count": 226,
        "reply_count": 1,
        "retweet_count": 42,
    }


def test_a_quoted_post_that_is_gone_leaves_the_quoting_one_fine(clock: FakeClock) -> None:
    graph = post_with(clock, quoted_tweet={"tombstone": {"text": {"text": "deleted"}}})
    assert len(graph.groups) == 1
    assert graph.groups[0].parent_ref is None


def test_text_mentions_and_replies_are_read(clock: FakeClock) -> None:
    graph = post_with(
        clock,
        text="a &amp; b &lt;3",
        entities={"user_mentions": [{"id_str": "42", "screen_name": "Sol"}, {"screen_name": "nobody"}]},
        in_reply_to_status_id_str="41",
        in_reply_to_screen_name="Sol",
        note_tweet={"id": "1"},
    )
    content = graph.groups[0].content
    assert content is not None
    assert content.text_primary == "a & b <3"
    assert content.mentions == (MentionDraft(platform_key="42", screen_name="Sol"),)
    assert content.data["in_reply_to"] == {"id": "41", "screen_name": "Sol"}
    assert content.data["is_text_cut"] is True


def test_without_a_date_the_number_tells_it(clock: FakeClock) -> None:
    content = post_with(clock, created_at=None).groups[0].content
    assert content is not None
    assert content.published_at is not None
    assert abs((content.published_at - datetime(2026, 2, 16, 11, 24, 4, tzinfo=UTC)).total_seconds()) < 1
    assert time_of_id("20") is None


@pytest.mark.parametrize("empty", [None, {}, []])
def test_missing_extras_do_not_lose_the_post(empty: object, clock: FakeClock) -> None:
    graph = post_with(clock, entities=empty, mediaDetails=empty, edit_control=empty, favorite_count=None)
    assert graph.groups[0].metrics == {ObjectKind.CONTENTS: {"conversation_count": 1}}


def test_an_edited_post_may_answer_under_its_newest_number(clock: FakeClock) -> None:
    edited = {
        "edit_control": {"edit_tweet_ids": [POST, "2023357708300373999"]},
        "id_str": "2023357708300373999",
    }
    content = post_with(clock, **edited).groups[0].content
    assert content is not None
    assert content.platform_key == "2023357708300373999"


def test_neighbouring_numbers_stay_apart(clock: FakeClock) -> None:
    with pytest.raises(FetchFailed, match="another post"):
        post_with(clock, id_str=str(int(POST) + 1))


@pytest.mark.parametrize(
    ("case", "error", "reason"),
    [
        ("syndication_deleted", TargetGone, "tombstone"),
        ("syndication_account_gone", TargetGone, "tombstone"),
        ("syndication_suspended", TargetBlocked, "suspended"),
        ("syndication_protected", TargetBlocked, "protected"),
        ("syndication_restricted", TargetBlocked, "restricted"),
        ("syndication_refused", FetchFailed, "http_403"),
        ("syndication_rate_limited", FetchFailed, "rate_limited"),
    ],
)
@responses.activate
def test_every_known_refusal_has_its_meaning_and_needs_no_second_source(
    case: str, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    serve_case(ENDPOINT, case)
    with pytest.raises(error) as caught:
        generate(clock)
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", None) == reason


SILENCES = ["syndication_empty", "syndication_missing"]


@pytest.mark.parametrize("silence", SILENCES)
@responses.activate
def test_a_post_that_no_free_source_knows_is_gone_without_a_second_look(
    silence: str, clock: FakeClock
) -> None:
    serve_case(ENDPOINT, silence)
    serve_case(OEMBED, "oembed_missing")
    calls = CallCounter()
    with pytest.raises(TargetGone) as caught:
        generate(clock, calls=calls)
    assert (caught.value.reason, calls.calls) == ("oembed_404", 2)
    query = parse_qs(urlsplit(str(responses.calls[1].request.url)).query)
    assert query == {"url": [f"https://x.com/i/status/{POST}"], "omit_script": ["1"]}


@pytest.mark.parametrize("silence", SILENCES)
@responses.activate
def test_a_post_that_is_there_and_not_shown_is_tried_again(silence: str, clock: FakeClock) -> None:
    """Also when the endpoint itself is gone: then all posts answer like this, and none is lost."""
    serve_case(ENDPOINT, silence)
    serve_oembed()
    with pytest.raises(FetchFailed) as caught:
        generate(clock, twitterapiio_api_key="ta-secret", x_api_bearer_token="x-secret")
    assert caught.value.reason == "not_shown"


@responses.activate
def test_the_endpoint_that_says_whether_a_post_is_there_may_move(clock: FakeClock) -> None:
    """The recorded redirect leads to another host, which no key is sent to."""
    old = "https://publish.twitter.com/oembed"
    serve_case(ENDPOINT, "syndication_empty")
    serve_case(old, "oembed_moved")
    serve_oembed()
    with pytest.raises(FetchFailed) as caught:
        generate(clock, x_oembed_base_url="https://publish.twitter.com")
    assert caught.value.reason == "not_shown"


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [
        (404, b"<!doctype html><title>Proxy</title>", "text/html"),
        (200, b"<!doctype html><title>X</title>", "text/html"),
        (200, b"{}", "application/json"),
        (200, b"[]", "application/json"),
        (200, b'{"url": "https://x.com/a/status/1"}', "application/json"),
        (200, b"", "application/json"),
        (400, b'{"errors": [{"code": 357}]}', "application/json"),
        (403, b"", "text/plain"),
        (429, b"", "text/plain"),
        (503, b"", "text/plain"),
    ],
)
@responses.activate
def test_while_nobody_says_whether_the_post_is_there_its_absence_is_a_weak_sign(
    status: int, body: bytes, content_type: str, clock: FakeClock
) -> None:
    serve_case(ENDPOINT, "syndication_empty")
    responses.get(OEMBED, status=status, body=body, content_type=content_type)
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert caught.value.reason == "weak_not_found"


@responses.activate
def test_the_wait_that_the_second_source_asks_for_is_kept(clock: FakeClock) -> None:
    serve_case(ENDPOINT, "syndication_empty")
    responses.get(OEMBED, status=429, headers={"Retry-After": "900"})
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert (caught.value.reason, caught.value.retry_in_s) == ("weak_not_found", 900.0)


@responses.activate
def test_a_second_source_that_cannot_be_reached_leaves_the_sign_weak(clock: FakeClock) -> None:
    serve_case(ENDPOINT, "syndication_empty")
    responses.get(OEMBED, body=requests.ConnectionError("refused"))
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert caught.value.reason == "weak_not_found"


def serve_paid_posts() -> None:
    item, _ = sample_json("x/twitterapiio_tweets.json")["tweets"]
    responses.get(RESELLER, json={"tweets": [{**item, "id": POST}], "status": "success"})
    data = {**sample_json("x/v2_tweet.json")["data"], "id": POST}
    responses.get(f"{API}/{POST}", json={"data": data})


@pytest.mark.parametrize(
    ("keys", "metric"),
    [
        ({"twitterapiio_api_key": "ta-secret", "x_api_bearer_token": "x-secret"}, "viewCount"),
        ({"twitterapiio_api_key": "ta-secret"}, "viewCount"),
        ({"x_api_bearer_token": "x-secret"}, "impression_count"),
    ],
)
@responses.activate
def test_a_hidden_post_is_paid_for_once_at_the_cheapest_source_with_a_key(
    keys: dict[str, str], metric: str, clock: FakeClock
) -> None:
    serve_case(ENDPOINT, "syndication_empty")
    serve_oembed()
    serve_paid_posts()
    calls = CallCounter()
    (group, *_) = generate(clock, calls=calls, is_paid_enabled=True, **keys).groups
    assert group.content is not None
    assert group.content.platform_key == POST
    assert metric in group.metrics[ObjectKind.CONTENTS]
    assert calls.calls == len(responses.calls) == 3


@responses.activate
def test_no_money_is_spent_on_a_post_that_is_to_be_had_for_nothing(clock: FakeClock) -> None:
    responses.get(ENDPOINT, body=sample_bytes("x/syndication_tweet.json"))
    serve_paid_posts()
    generate(clock, is_paid_enabled=True, twitterapiio_api_key="ta-secret")
    assert len(responses.calls) == 1


@responses.activate
def test_no_money_is_spent_on_a_post_that_is_gone_or_while_the_free_source_is_down(clock: FakeClock) -> None:
    serve_paid_posts()
    serve_case(ENDPOINT, "syndication_empty")
    serve_case(OEMBED, "oembed_missing")
    keys = {"twitterapiio_api_key": "ta-secret"}
    with pytest.raises(TargetGone):
        generate(clock, is_paid_enabled=True, **keys)
    responses.replace(responses.GET, ENDPOINT, status=503)
    with pytest.raises(FetchFailed):
        generate(clock, is_paid_enabled=True, **keys)
    responses.replace(responses.GET, ENDPOINT, json={})
    responses.replace(responses.GET, OEMBED, status=503)
    with pytest.raises(FetchFailed):
        generate(clock, is_paid_enabled=True, **keys)
    assert not [call for call in responses.calls if str(call.request.url).startswith(RESELLER)]


@pytest.mark.parametrize(
    ("status", "body", "content_type", "reason"),
    [
        (200, b"<!DOCTYPE html><title>X</title>", "text/html", "unexpected_html"),
        (200, b"", "application/json", "unexpected_shape"),
        (200, b"null", "application/json", "unexpected_shape"),
        (200, b"[]", "application/json", "unexpected_shape"),
        (200, b'{"id_str": "1"}', "application/json", "unexpected_shape"),
        (
            200,
            b'{"__typename": "TweetTombstone", "tombstone": {"text": {"text": "New words"}}}',
            "",
            "unknown_tombstone",
        ),
        (403, b"{}", "application/json", "http_403"),
        (400, b"{}", "application/json", "http_400"),
        (503, b"", "text/plain", "http_503"),
    ],
)
@responses.activate
def test_an_answer_that_says_nothing_about_the_post_is_an_error(
    status: int, body: bytes, content_type: str, reason: str, clock: FakeClock
) -> None:
    responses.get(ENDPOINT, status=status, body=body, content_type=content_type)
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert caught.value.reason == reason


@pytest.mark.parametrize("number", ["99999999999999999999", "9223372036854775808", "0"])
@responses.activate
def test_a_number_that_no_post_can_have_costs_no_call(number: str, clock: FakeClock) -> None:
    calls = CallCounter()
    with pytest.raises(TargetGone) as caught:
        generate(clock, f"https://x.com/a/status/{number}", calls)
    assert (caught.value.reason, calls.calls) == ("impossible_id", 0)


@pytest.mark.parametrize(
    ("post_id", "token"),
    [
        # As a browser's own number formatting gives them.
        ("20", "6dq1a2xwd93"),
        ("1", "bhi2ay3f28n"),
        ("46", "eod2xzkd8v8"),
        ("732822797798539264", "1ry8bdjznc"),
        ("1407331906927944209", "3et9hll4p1c"),
        ("1641895049427614536", "3za5ye2w44m"),
        ("2023357708300373429", "4wkkd5uw6x8"),
        ("1000000000000000000", "2f9lc2ug9mm"),
        ("9223372036854775807", "mcw2svce2ao"),
    ],
)
def test_the_token_is_the_one_that_a_browser_computes(post_id: str, token: str) -> None:
    assert token_for(post_id) == token


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.i"), (36.0, "10"), (1295.0, "zz"), (35.99999999999999, "z.zzzzzzzzz"), (0.0, "0")],
)
def test_numbers_are_written_in_base_36_as_browsers_write_them(value: float, text: str) -> None:
    assert to_base36(value) == text


def test_accounts_and_communities_are_not_supported(clock: FakeClock) -> None:
    settings = make_settings()
    generator = XPostGenerator(OutboundClient(settings, clock), settings)
    for url in (
        "https://x.com/someone",
        "https://x.com/i/communities/1873866451949716154",
        "https://x.com/home",
    ):
        assert not generator.supports(route(url))


def test_an_account_tells_its_age_by_its_number_where_it_has_a_time_inside(clock: FakeClock) -> None:
    user = {"id_str": "1729123245750408839", "screen_name": "northemberxyz"}
    account = post_with(clock, user=user).groups[0].account
    assert account is not None
    assert account.account_created_at is not None
    assert account.account_created_at.replace(microsecond=0) == datetime(2023, 11, 27, 13, 1, 22, tzinfo=UTC)
