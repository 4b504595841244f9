"""Reddit: what the answers of its API become, and how its tokens are used."""

from __future__ import annotations

import base64
import logging
import threading
import traceback
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import responses

from tests.apify_stand_in import DictRunMemory, paid_calls, serve_run
from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_json
from workers.clock import Budget
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, ParentRelation, Platform
from workers.social_recording.generators.generator import CallCounter, FetchContext, Generator
from workers.social_recording.generators.reddit.actor import ACTOR
from workers.social_recording.generators.reddit.answers import post_graph
from workers.social_recording.generators.registry import Generators
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import route

API = "https://oauth.reddit.com"
LOGIN = "https://www.reddit.com/api/v1/access_token"
POST_URL = "https://www.reddit.com/r/moondeltalarkmo/comments/18m7xjm/blue_new_morning/"
ERRORS = "reddit/errors.json"
KEYS = {"reddit_client_id": "our-app", "reddit_client_secret": "app-secret"}


def generator_for(clock: FakeClock, url: str, **settings: Any) -> Generator:
    own = make_settings(**KEYS, **settings)
    found = Generators(OutboundClient(own, clock), own, DictRunMemory()).for_route(
        route(url), is_paid_enabled=False
    )
    assert found is not None
    assert found.source == "reddit"
    return found


def ask(
    clock: FakeClock,
    url: str,
    calls: CallCounter | None = None,
    *,
    generator: Generator | None = None,
    is_paid_enabled: bool = False,
    **settings: Any,
) -> SocialObjectGraph:
    context = FetchContext(
        budget=Budget.of(clock, 240), calls=calls or CallCounter(), is_paid_enabled=is_paid_enabled
    )
    graph = (generator or generator_for(clock, url, **settings)).generate(route(url), context)
    check(graph, url)
    return graph


def serve_token(text: str = "token-1", **changes: Any) -> None:
    payload = {**error_case(ERRORS, "token_ok")["body"], "access_token": text, **changes}
    responses.post(LOGIN, json=payload)


def serve_case(case: str) -> None:
    """Serve a recorded refusal where it was recorded."""
    entry = error_case(ERRORS, case)
    responses.add(
        entry["request"]["method"],
        entry["request"]["url"].partition("?")[0],
        status=entry["status"],
        body=body_of(entry),
        headers={name: value for name, value in entry["headers"].items() if name != "content-type"},
        content_type=entry["headers"]["content-type"],
    )


def serve_post(payload: Any) -> None:
    """Serve a post whose author and subreddit are not shown (any more)."""
    responses.get(f"{API}/api/info", json=payload)
    data = payload["data"]["children"][0]["data"]
    missing = {"status": 404, "json": {"message": "Not Found", "error": 404}}
    responses.get(f"{API}/user/{data['author']}/about", **missing)
    responses.get(f"{API}/r/{data['subreddit']}/about", **missing)


def post_data(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = sample_json("reddit/post.json")["data"]["children"][0]["data"]
    return {**data, **changes}


def comment_data(**changes: Any) -> dict[str, Any]:
    return {
        "id": "m1lq2vd",
        "name": "t1_m1lq2vd",
        "author": "CoralFrostP",
        "body": "Winter in https://example.com/a between it sun.",
        "subreddit": "riverviolet",
        "subreddit_id": "t5_4dooyr",
        "link_id": "t3_18m7xjm",
        "parent_id": "t1_m1lq2vc",
        "created_utc": 1776106971.0,
        "score": -4,
        "ups": -4,
        "locked": False,
        **changes,
    }


def listing(data: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Listing", "data": {"children": [{"kind": data["name"][:2], "data": data}]}}


def post_of(data: Any, clock: FakeClock) -> SocialObjectGraph:
    return post_graph(data, route(POST_URL), clock.now())


# --- what is shown


@responses.activate
def test_a_post_comes_with_its_whole_author_and_subreddit(clock: FakeClock) -> None:
    serve_token()
    payload = sample_json("reddit/post.json")
    responses.get(f"{API}/api/info", json=payload)
    user = sample_json("reddit/user_about.json")
    user["data"]["name"] = "meadowonyxc"
    responses.get(f"{API}/user/meadowonyxc/about", json=user)
    subreddit = sample_json("reddit/subreddit_about.json")
    subreddit["data"]["display_name"] = "moondeltalarkmo"
    responses.get(f"{API}/r/moondeltalarkmo/about", json=subreddit)
    calls = CallCounter()
    graph = ask(clock, POST_URL, calls)
    (group,) = graph.groups
    content, account, venue = group.content, group.account, group.venue
    assert content is not None
    assert account is not None
    assert venue is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.POST, "18m7xjm")
    assert content.url == "https://reddit.com/comments/18m7xjm"
    assert content.published_at == datetime(2026, 4, 13, 18, 48, 14, tzinfo=UTC)
    assert content.text_primary == payload["data"]["children"][0]["data"]["title"]
    assert content.text_body is None
    # Its own video is no link to somewhere else.
    assert content.links == ()
    assert content.data == {"kind": "hosted:video", "over_18": False, "locked": False}
    assert (account.platform_key, account.handle) == ("meadowonyxc", "meadowonyxc")
    assert (account.followers, account.account_created_at) == (
        156,
        datetime(2013, 9, 5, 23, 38, 17, tzinfo=UTC),
    )
    assert venue.platform_key == "t5_2zaq4"
    assert venue.members == 47_456_009
    assert group.metrics == {
        ObjectKind.CONTENTS: {
            "score": 3345,
            "ups": 3345,
            "upvote_ratio": 0.97,
            "num_comments": 147,
            "num_crossposts": 0,
        },
        ObjectKind.ACCOUNTS: {"link_karma": 50781, "comment_karma": 206653, "total_karma": 265351},
        ObjectKind.VENUES: {"subscribers": 47456009, "active_user_count": 727},
    }
    for kind, metrics in group.metrics.items():
        assert set(metrics) <= METRIC_SPEC[Platform.REDDIT, kind]
    assert calls.calls == 4
    asked = responses.calls[1].request
    assert parse_qs(urlsplit(str(asked.url)).query) == {"id": ["t3_18m7xjm"], "raw_json": ["1"]}
    assert asked.headers["Authorization"] == "Bearer token-1"
    assert asked.headers["User-Agent"].startswith("python:our-app:v0.1 (converge/")


@responses.activate
def test_a_post_whose_author_and_subreddit_are_hidden_has_what_it_tells_itself(clock: FakeClock) -> None:
    serve_token()
    serve_post(sample_json("reddit/post.json"))
    (group,) = ask(clock, POST_URL).groups
    assert group.account is not None
    assert (group.account.platform_key, group.account.followers) == ("meadowonyxc", None)
    assert group.venue is not None
    assert (group.venue.platform_key, group.venue.name) == ("t5_2jk7v", "moondeltalarkmo")
    assert group.venue.url == "https://reddit.com/r/moondeltalarkmo"
    assert group.venue.members == 12_478_171
    assert group.metrics[ObjectKind.VENUES] == {"subscribers": 12_478_171}


@responses.activate
def test_the_suspended_author_of_a_post_is_marked(clock: FakeClock) -> None:
    serve_token()
    responses.get(f"{API}/api/info", json=listing(post_data(author="somehandle", subreddit="u_somehandle")))
    serve_case("user_suspended")
    graph = ask(clock, POST_URL)
    assert graph.blocked_reason is None
    (group,) = graph.groups
    assert group.account is not None
    assert (group.account.platform_key, group.account.unavailable) == ("somehandle", True)
    # The subreddit of a profile is no place where people gather.
    assert group.venue is None


@responses.activate
def test_trouble_with_the_author_is_trouble_with_the_post(clock: FakeClock) -> None:
    serve_token()
    responses.get(f"{API}/api/info", json=sample_json("reddit/post.json"))
    responses.get(f"{API}/user/meadowonyxc/about", status=503)
    with pytest.raises(FetchFailed) as caught:
        ask(clock, POST_URL)
    assert caught.value.reason == "http_503"


@responses.activate
def test_a_comment_is_known_by_its_full_name_and_says_what_it_answers(clock: FakeClock) -> None:
    serve_token()
    serve_post(listing(comment_data()))
    url = "https://www.reddit.com/r/riverviolet/comments/18m7xjm/blue/m1lq2vd/?context=3"
    (group,) = ask(clock, url).groups
    content = group.content
    assert content is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.POST, "t1_m1lq2vd")
    assert content.url == route(url).url == "https://reddit.com/comments/18m7xjm/_/m1lq2vd"
    assert content.text_primary == "Winter in https://example.com/a between it sun."
    assert content.links == ("https://example.com/a",)
    assert content.data == {"locked": False, "post": "t3_18m7xjm", "in_reply_to": "t1_m1lq2vc"}
    assert group.metrics[ObjectKind.CONTENTS] == {"score": -4, "ups": -4}
    assert group.account is not None
    assert (group.account.platform_key, group.account.handle) == ("coralfrostp", "CoralFrostP")
    assert parse_qs(urlsplit(str(responses.calls[1].request.url)).query)["id"] == ["t1_m1lq2vd"]


@responses.activate
def test_a_crosspost_quotes_the_post_it_repeats(clock: FakeClock) -> None:
    serve_token()
    serve_post(sample_json("reddit/crosspost.json"))
    crosspost, origin = ask(clock, "https://redd.it/11k1sgc").groups
    assert (crosspost.parent_ref, crosspost.parent_relation) == (1, ParentRelation.QUOTE)
    assert crosspost.content is not None
    assert crosspost.content.data["crosspost_of"] == "t3_1smmkm6"
    assert crosspost.content.links == ()
    content = origin.content
    assert content is not None
    assert content.platform_key == "1smmkm6"
    assert (
        content.text_primary
        == "Garden in Weekend it sun Plan Understand 2026 Notice Background Appearance (blue MAP!)"
    )
    assert content.text_body is not None
    assert content.text_body.startswith("Of character,")
    assert origin.account is not None
    assert (origin.account.platform_key, origin.account.handle) == ("viol_etwi", "Viol_etwi")
    assert origin.venue is not None
    assert (origin.venue.platform_key, origin.venue.url) == ("t5_ar0128", "https://reddit.com/r/tidacoral")


@pytest.mark.parametrize(
    "origins",
    [None, [], ["odd"], [{"id": "a"}], "odd", [post_data(removed_by_category="deleted", id="other")]],
)
def test_a_crosspost_of_what_is_not_shown_is_fine_itself(origins: object, clock: FakeClock) -> None:
    graph = post_of(post_data(crosspost_parent="t3_other", crosspost_parent_list=origins), clock)
    assert len(graph.groups) == 1


@responses.activate
def test_a_subreddit_is_a_venue(clock: FakeClock) -> None:
    serve_token()
    payload = sample_json("reddit/subreddit_about.json")
    responses.get(f"{API}/r/frostfrostmea/about", json=payload)
    calls = CallCounter()
    graph = ask(clock, "https://old.reddit.com/r/frostfrostmea/top/?t=all", calls)
    (group,) = graph.groups
    venue = group.venue
    assert venue is not None
    assert (venue.platform_key, venue.name) == ("t5_2zaq4", "frostfrostmea")
    assert venue.url == "https://reddit.com/r/frostfrostmea"
    # The short description is empty, so the long one counts.
    assert venue.description == payload["data"]["description"]
    assert (venue.members, venue.venue_created_at) == (
        47_456_009,
        datetime(2009, 6, 17, 16, 28, 21, tzinfo=UTC),
    )
    assert venue.data == {
        "title": "Northern Change communication",
        "type": "restricted",
        "over_18": False,
        "quarantine": False,
        "lang": "en",
    }
    assert group.metrics == {ObjectKind.VENUES: {"subscribers": 47_456_009, "active_user_count": 727}}
    assert (group.account, calls.calls) == (None, 2)


@responses.activate
def test_a_user_is_keyed_by_the_name_in_lower_case(clock: FakeClock) -> None:
    serve_token()
    payload = sample_json("reddit/user_about.json")
    responses.get(f"{API}/user/com_etharbo/about", json=payload)
    (group,) = ask(clock, "https://reddit.com/user/com_etharbo").groups
    account = group.account
    assert account is not None
    assert (account.platform_key, account.handle) == ("com_etharbo", "Com_etharbo")
    assert account.url == "https://reddit.com/user/com_etharbo"
    assert (account.display_name, account.bio) == ("a", payload["data"]["subreddit"]["public_description"])
    assert (account.followers, account.account_created_at) == (
        156,
        datetime(2013, 9, 5, 23, 38, 17, tzinfo=UTC),
    )
    assert account.data == {"id": "deefv", "verified": True, "is_gold": False, "over_18": False}


def test_a_post_that_is_a_link_leads_there(clock: FakeClock) -> None:
    link = {
        "is_reddit_media_domain": False,
        "url_overridden_by_dest": "https://www.example.com/a?utm_source=x",
    }
    content = post_of(post_data(**link), clock).groups[0].content
    assert content is not None
    assert content.links == ("https://example.com/a",)
    for own in ("https://www.reddit.com/gallery/18m7xjm", "/r/a/comments/18m7xjm/x/", "", None):
        graph = post_of(post_data(is_reddit_media_domain=False, url_overridden_by_dest=own, url=own), clock)
        assert graph.groups[0].content is not None
        assert graph.groups[0].content.links == ()


def test_the_post_of_a_deleted_account_stays_without_an_author(clock: FakeClock) -> None:
    graph = post_of(post_data(author="[deleted]"), clock)
    assert graph.blocked_reason is None
    assert graph.groups[0].account is None


# --- what is gone or closed


@pytest.mark.parametrize(
    ("case", "url", "error", "reason"),
    [
        ("user_missing_or_shadowbanned", "/user/nosuchuser000", TargetGone, "http_404"),
        ("subreddit_private", "/r/somewhereprivate", TargetBlocked, "private"),
        ("subreddit_quarantined", "/r/somequarantined", TargetBlocked, "quarantined"),
        ("subreddit_gated", "/r/somegated", TargetBlocked, "gated"),
        ("subreddit_premium_only", "/r/somegold", TargetBlocked, "gold_only"),
        ("subreddit_banned", "/r/somebanned", TargetBlocked, "banned"),
        ("subreddit_missing_redirect", "/r/nosuchsub000", TargetGone, "redirect_to_search"),
        ("subreddit_missing", "/r/nosuchsub000", TargetGone, "http_404"),
        ("post_missing", "/comments/zzzzzzz", TargetGone, "empty_listing"),
        ("post_deleted_by_author", "/comments/aaaaaaa", TargetGone, "deleted_by_author"),
        ("rate_limited", "/r/riverviolet", FetchFailed, "rate_limited"),
        ("token_expired", "/r/riverviolet", FetchFailed, "misconfigured"),
        ("server_error", "/r/riverviolet", FetchFailed, "http_500"),
    ],
)
@responses.activate
def test_every_known_refusal_has_its_meaning(
    case: str, url: str, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    serve_token()
    serve_case(case)
    with pytest.raises(error) as caught:
        ask(clock, f"https://www.reddit.com{url}")
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", None) == reason


@responses.activate
def test_a_suspended_user_is_blocked_and_the_account_is_marked(clock: FakeClock) -> None:
    serve_token()
    serve_case("user_suspended")
    graph = ask(clock, "https://reddit.com/user/somehandle")
    assert graph.blocked_reason == "suspended"
    (group,) = graph.groups
    assert group.account is not None
    assert (group.account.platform_key, group.account.unavailable) == ("somehandle", True)
    assert (group.account.account_created_at, group.metrics) == (None, {})


@pytest.mark.parametrize(
    "category", ["moderator", "reddit", "copyright_takedown", "automod_filtered", "anti_evil_ops"]
)
def test_a_post_that_others_removed_is_blocked_and_keeps_its_title_and_counts(
    category: str, clock: FakeClock
) -> None:
    removed = post_data(author="[deleted]", selftext="[removed]", removed_by_category=category)
    graph = post_of(removed, clock)
    assert graph.blocked_reason == f"removed_{category}"
    (group,) = graph.groups
    assert group.content is not None
    assert group.content.text_primary == post_data()["title"]
    assert group.content.text_body is None
    assert group.content.data["removed_by"] == category
    assert group.metrics[ObjectKind.CONTENTS]["num_comments"] == 147


@pytest.mark.parametrize("category", ["deleted", "author"])
def test_a_post_that_its_author_deleted_is_gone(category: str, clock: FakeClock) -> None:
    with pytest.raises(TargetGone):
        post_of(post_data(removed_by_category=category), clock)


def test_comments_that_are_gone_or_closed_say_so_in_their_text(clock: FakeClock) -> None:
    way = route("https://reddit.com/comments/18m7xjm/_/m1lq2vd")
    with pytest.raises(TargetGone):
        post_graph(comment_data(author="[deleted]", body="[deleted]"), way, clock.now())
    graph = post_graph(comment_data(body="[removed]"), way, clock.now())
    assert graph.blocked_reason == "removed"
    assert graph.groups[0].content is not None
    assert graph.groups[0].content.text_primary is None


@pytest.mark.parametrize("status", [200, 403, 404])
@responses.activate
def test_a_page_is_never_about_the_target(status: int, clock: FakeClock) -> None:
    serve_token()
    entry = error_case(ERRORS, "anonymous_json_blocked")
    responses.get(f"{API}/r/riverviolet/about", status=status, body=body_of(entry), content_type="text/html")
    with pytest.raises(FetchFailed) as caught:
        ask(clock, "https://reddit.com/r/riverviolet")
    assert caught.value.reason == "unexpected_html"


@pytest.mark.parametrize(
    ("status", "payload", "reason"),
    [
        (403, {"message": "Forbidden", "error": 403}, "http_403"),
        (403, {"reason": "something_new"}, "http_403"),
        (404, {"message": "other words"}, "http_404"),
        (404, [], "http_404"),
        (302, {}, "http_302"),
        (418, {}, "http_418"),
        (200, [], "unexpected_shape"),
        (200, {"kind": "t2", "data": {}}, "unexpected_shape"),
        (200, {"kind": "t5", "data": None}, "unexpected_shape"),
    ],
)
@responses.activate
def test_an_answer_that_says_nothing_about_the_subreddit_is_an_error(
    status: int, payload: object, reason: str, clock: FakeClock
) -> None:
    serve_token()
    responses.get(f"{API}/r/riverviolet/about", status=status, json=payload)
    with pytest.raises(FetchFailed) as caught:
        ask(clock, "https://reddit.com/r/riverviolet")
    assert caught.value.reason == reason


@responses.activate
def test_an_answer_about_something_else_is_none(clock: FakeClock) -> None:
    serve_token()
    responses.get(f"{API}/r/riverviolet/about", json=sample_json("reddit/subreddit_about.json"))
    responses.get(f"{API}/user/somebody/about", json=sample_json("reddit/user_about.json"))
    serve_post(sample_json("reddit/post.json"))
    for url in ("/r/riverviolet", "/user/somebody", "/comments/18m7xjn"):
        with pytest.raises(FetchFailed, match="another"):
            ask(clock, f"https://reddit.com{url}")


# --- tokens


def serve_user() -> None:
    payload = sample_json("reddit/user_about.json")
    responses.get(f"{API}/user/com_etharbo/about", json=payload)


USER_URL = "https://reddit.com/user/com_etharbo"


def logins() -> list[Any]:
    return [call.request for call in responses.calls if call.request.url == LOGIN]


@responses.activate
def test_one_login_serves_many_calls_until_it_nearly_ends(clock: FakeClock) -> None:
    serve_token(expires_in=3600)
    serve_user()
    generator = generator_for(clock, USER_URL)
    for _ in range(3):
        ask(clock, USER_URL, generator=generator)
    (login,) = logins()
    assert login.body == "grant_type=client_credentials"
    assert login.headers["Authorization"] == f"Basic {base64.b64encode(b'our-app:app-secret').decode()}"
    assert login.headers["User-Agent"].startswith("python:our-app:v0.1 (")
    clock.advance(3541)
    ask(clock, USER_URL, generator=generator)
    assert len(logins()) == 2


@responses.activate
def test_a_token_that_is_refused_is_renewed_once(clock: FakeClock) -> None:
    serve_token("token-1")
    responses.get(f"{API}/user/com_etharbo/about", status=401, json={"message": "Unauthorized"})
    serve_token("token-2")
    serve_user()
    assert ask(clock, USER_URL).groups[0].account is not None
    used = [call.request.headers["Authorization"] for call in responses.calls if call.request.url != LOGIN]
    assert used == ["Bearer token-1", "Bearer token-2"]


@responses.activate
def test_a_token_that_is_refused_twice_is_no_matter_of_time(clock: FakeClock) -> None:
    serve_token()
    responses.get(f"{API}/user/com_etharbo/about", status=401, json={"message": "Unauthorized"})
    calls = CallCounter()
    with pytest.raises(FetchFailed) as caught:
        ask(clock, USER_URL, calls)
    assert (caught.value.reason, calls.calls) == ("misconfigured", 4)


@pytest.mark.parametrize(
    ("status", "body", "content_type", "reason"),
    [
        (401, b'{"message": "Unauthorized", "error": 401}', "application/json", "misconfigured"),
        (400, b'{"error": "unsupported_grant_type"}', "application/json", "misconfigured"),
        (403, b"<!DOCTYPE html><title>Blocked</title>", "text/html", "unexpected_html"),
        (200, b'{"error": "invalid_grant"}', "application/json", "unexpected_shape"),
        (200, b'{"access_token": "two words"}', "application/json", "unexpected_shape"),
        (200, b"[]", "application/json", "unexpected_shape"),
        (302, b"", "text/plain", "http_302"),
        (503, b"", "text/plain", "http_503"),
        (429, b"", "text/plain", "rate_limited"),
    ],
)
@responses.activate
def test_a_login_that_fails_is_an_error_of_ours(
    status: int, body: bytes, content_type: str, reason: str, clock: FakeClock
) -> None:
    responses.post(LOGIN, status=status, body=body, content_type=content_type)
    with pytest.raises(FetchFailed) as caught:
        ask(clock, USER_URL)
    assert caught.value.reason == reason


@responses.activate
def test_a_token_of_unknown_life_is_used_for_an_hour(clock: FakeClock) -> None:
    serve_token(expires_in="soon")
    serve_user()
    generator = generator_for(clock, USER_URL)
    ask(clock, USER_URL, generator=generator)
    clock.advance(3500)
    ask(clock, USER_URL, generator=generator)
    assert len(logins()) == 1


@responses.activate
def test_threads_that_need_a_token_at_the_same_time_log_in_once(clock: FakeClock) -> None:
    serve_token()
    serve_user()
    generator = generator_for(clock, USER_URL)
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        ask(clock, USER_URL, generator=generator)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(logins()) == 1


@responses.activate
def test_no_failure_and_no_log_shows_a_secret(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    serve_token("token-1")
    responses.get(f"{API}/user/com_etharbo/about", status=401, json={"message": "Unauthorized"})
    with caplog.at_level(logging.DEBUG), pytest.raises(FetchFailed) as caught:
        ask(clock, USER_URL)
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    for secret in ("app-secret", "token-1", base64.b64encode(b"our-app:app-secret").decode()):
        assert secret not in told


# --- share links

SHARE_URL = "https://www.reddit.com/r/moondeltalarkmo/s/xWmWYsIDlM"


def serve_share_link(**answer: Any) -> None:
    responses.get("https://www.reddit.com/r/moondeltalarkmo/s/xWmWYsIDlM", **answer)


@responses.activate
def test_a_share_link_is_the_post_that_its_redirect_names(clock: FakeClock) -> None:
    serve_share_link(status=301, headers={"Location": f"{POST_URL}?share_id=abc&utm_name=x"})
    serve_token()
    serve_post(sample_json("reddit/post.json"))
    content = ask(clock, SHARE_URL).groups[0].content
    assert content is not None
    assert content.platform_key == "18m7xjm"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            {"status": 403, "body": "<html><title>Blocked</title>", "content_type": "text/html"},
            "unexpected_html",
        ),
        ({"status": 302, "headers": {"Location": "https://www.reddit.com/login/?dest=x"}}, "login_wall"),
        ({"status": 302, "headers": {"Location": "https://example.com/"}}, "login_wall"),
    ],
)
@responses.activate
def test_a_share_link_that_strangers_may_not_follow_is_an_error_where_nothing_may_cost(
    answer: dict[str, Any], reason: str, clock: FakeClock
) -> None:
    serve_share_link(**answer)
    with pytest.raises(FetchFailed) as caught:
        ask(clock, SHARE_URL, apify_token="a")
    assert caught.value.reason == reason
    with pytest.raises(FetchFailed):
        ask(clock, SHARE_URL, is_paid_enabled=True)
    assert paid_calls() == 0


@responses.activate
def test_a_share_link_that_strangers_may_not_follow_is_asked_of_the_actor(clock: FakeClock) -> None:
    serve_share_link(status=403, body="<html></html>", content_type="text/html")
    item = {**sample_json("reddit/apify_items.json")[0], "parsedCommunityName": "MoonDeltaLarkMo"}
    serve_run(ACTOR, [item])
    content = ask(clock, SHARE_URL, is_paid_enabled=True, apify_token="a").groups[0].content
    assert content is not None
    assert content.platform_key == "18m7xjm"


@responses.activate
def test_a_share_link_to_what_is_gone_is_not_paid_for(clock: FakeClock) -> None:
    serve_share_link(status=301, headers={"Location": "https://www.reddit.com/comments/zzzzzzz/"})
    serve_token()
    serve_case("post_missing")
    with pytest.raises(TargetGone):
        ask(clock, SHARE_URL, is_paid_enabled=True, apify_token="a")


# --- which source is asked


@pytest.mark.parametrize(
    ("keys", "is_paid_enabled", "source"),
    [
        ({}, True, None),
        ({"reddit_client_id": "a"}, False, None),
        (KEYS, False, "reddit"),
        ({**KEYS, "apify_token": "a"}, True, "reddit"),
        ({"apify_token": "a"}, True, "apify"),
        ({"apify_token": "a"}, False, None),
    ],
)
@pytest.mark.parametrize(
    "url",
    [
        POST_URL,
        "https://redd.it/18m7xjm",
        SHARE_URL,
        "https://reddit.com/r/riverviolet",
        "https://reddit.com/user/a",
    ],
)
def test_the_free_source_is_asked_first_where_there_is_a_key(
    url: str, keys: dict[str, str], is_paid_enabled: bool, source: str | None, clock: FakeClock
) -> None:
    settings = make_settings(**keys)
    generator = Generators(OutboundClient(settings, clock), settings).for_route(
        route(url), is_paid_enabled=is_paid_enabled
    )
    assert (generator and generator.source) == source


@pytest.mark.parametrize(
    "url",
    ["https://www.reddit.com/settings", "https://v.redd.it/abcdefghij", "https://reddit.com/r/a/search?q=b"],
)
def test_places_that_are_no_posts_and_no_people_have_no_source(url: str, clock: FakeClock) -> None:
    settings = make_settings(**KEYS, apify_token="a")
    generators = Generators(OutboundClient(settings, clock), settings)
    assert generators.for_route(route(url), is_paid_enabled=True) is None
