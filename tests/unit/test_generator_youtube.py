"""YouTube: what the answers of its API, its oEmbed and its pages become."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import responses

from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_bytes, sample_json
from workers.clock import Budget
from workers.errors import CreditExhausted, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.youtube.data import until_next_quota_s
from workers.social_recording.generators.youtube.generator import YouTubeGenerator, YouTubeSiteGenerator
from workers.social_recording.generators.youtube.site import channel_of_page
from workers.social_recording.object_graph import AccountDraft, ContentDraft, SocialObjectGraph, check
from workers.social_recording.routing import route

API = "https://www.googleapis.com/youtube/v3"
SITE = "https://www.youtube.com"
ERRORS = "youtube/errors.json"
VIDEO, CHANNEL = "VQDZSte1IMU", "UCDN1oN-KN9UsRFwFzncbj5w"
VIDEO_URL = f"https://www.youtube.com/shorts/{VIDEO}?feature=share"
NO_ITEMS: dict[str, Any] = {"kind": "youtube#videoListResponse", "items": []}


def generate(clock: FakeClock, url: str = VIDEO_URL, calls: CallCounter | None = None) -> SocialObjectGraph:
    settings = make_settings(youtube_api_key="yt-secret")
    generator = YouTubeGenerator(OutboundClient(settings, clock), settings)
    return made_by(generator, clock, url, calls)


def generate_keyless(
    clock: FakeClock, url: str = VIDEO_URL, calls: CallCounter | None = None
) -> SocialObjectGraph:
    settings = make_settings()
    generator = YouTubeSiteGenerator(OutboundClient(settings, clock), settings)
    return made_by(generator, clock, url, calls)


def made_by(generator: Any, clock: FakeClock, url: str, calls: CallCounter | None) -> SocialObjectGraph:
    way = route(url)
    assert generator.supports(way)
    context = FetchContext(budget=Budget.of(clock, 60), calls=calls or CallCounter())
    graph: SocialObjectGraph = generator.generate(way, context)
    check(graph, url)
    return graph


def serve_case(case: str, url: str) -> None:
    entry = error_case(ERRORS, case)
    responses.get(
        url,
        status=entry["status"],
        content_type=entry["headers"]["content-type"],
        body=body_of(entry),
    )


def serve_channel(**changes: Any) -> None:
    payload = sample_json("youtube/channels_list.json")
    payload["items"][0] |= changes
    responses.get(f"{API}/channels", json=payload)


def content_of(graph: SocialObjectGraph) -> ContentDraft:
    content = graph.groups[0].content
    assert content is not None
    return content


def account_of(graph: SocialObjectGraph) -> AccountDraft:
    account = graph.groups[0].account
    assert account is not None
    return account


def asked(number: int) -> dict[str, list[str]]:
    return parse_qs(urlsplit(str(responses.calls[number].request.url)).query)


# --- the API


@responses.activate
def test_a_video_comes_with_its_channel_and_costs_two_calls(clock: FakeClock) -> None:
    responses.get(f"{API}/videos", body=sample_bytes("youtube/videos_list.json"))
    serve_channel()
    calls = CallCounter()
    graph = generate(clock, calls=calls)
    snippet = sample_json("youtube/videos_list.json")["items"][0]["snippet"]
    content = content_of(graph)
    assert (content.subtype, content.platform_key) == (ContentSubtype.VIDEO, VIDEO)
    assert content.url == f"https://youtube.com/watch?v={VIDEO}"
    assert content.published_at == datetime(2019, 3, 21, 20, 37, 49, tzinfo=UTC)
    assert content.text_primary == "From our Weekend by Winter (Character of Sun)"
    assert content.text_body == snippet["description"]
    assert content.links == (
        "https://site489.example.org/6EmbeR7",
        "https://site489.example.org/coralcoral",
    )
    assert content.tags == tuple(snippet["tags"])
    assert content.data == {
        "duration": "PT21M7S",
        "live_broadcast_content": "none",
        "privacy_status": "public",
    }
    assert account_of(graph).platform_key == CHANNEL
    assert account_of(graph).followers == 1_927_873
    assert graph.groups[0].metrics == {
        ObjectKind.CONTENTS: {"viewCount": 7920, "likeCount": 190, "commentCount": 32},
        ObjectKind.ACCOUNTS: {"viewCount": 160361638, "videoCount": 5026, "subscriberCount": 1927873},
    }
    for kind, metrics in graph.groups[0].metrics.items():
        assert set(metrics) <= METRIC_SPEC[Platform.YOUTUBE, kind]
    assert calls.calls == 2
    assert asked(0) == {"part": ["snippet,statistics,status,contentDetails"], "id": [VIDEO]}
    assert asked(1) == {"part": ["snippet,statistics"], "id": [CHANNEL]}


@responses.activate
def test_the_key_goes_in_a_header_and_is_in_no_address(clock: FakeClock) -> None:
    responses.get(f"{API}/videos", body=sample_bytes("youtube/videos_list.json"))
    serve_channel()
    generate(clock)
    for call in responses.calls:
        assert call.request.headers["X-Goog-Api-Key"] == "yt-secret"
        assert "yt-secret" not in str(call.request.url)


@pytest.mark.parametrize(
    ("url", "question"),
    [
        (f"https://www.youtube.com/channel/{CHANNEL}/videos", {"id": [CHANNEL]}),
        ("https://www.youtube.com/@LunarOrbitStudio", {"forHandle": ["@LunarOrbitStudio"]}),
        ("https://www.youtube.com/@%E6%9C%88", {"forHandle": ["@月"]}),
        ("https://www.youtube.com/user/LunarOrbit", {"forUsername": ["LunarOrbit"]}),
    ],
)
@responses.activate
def test_a_channel_costs_one_call_and_is_keyed_by_its_id(
    url: str, question: dict[str, list[str]], clock: FakeClock
) -> None:
    serve_channel()
    calls = CallCounter()
    graph = generate(clock, url, calls)
    account = account_of(graph)
    snippet = sample_json("youtube/channels_list.json")["items"][0]["snippet"]
    assert (account.platform_key, account.handle) == (CHANNEL, "lunarorbitstudio")
    assert account.url == f"https://youtube.com/channel/{CHANNEL}"
    assert (account.display_name, account.bio) == ("Lunar Orbit Studio", snippet["description"])
    assert account.links == ("https://site847.example.org/zephyrpear",)
    assert account.account_created_at == datetime(2007, 8, 23, 0, 34, 43, tzinfo=UTC)
    assert (account.followers, account.data) == (1_927_873, {"country": "US"})
    assert graph.groups[0].content is None
    assert calls.calls == 1
    assert asked(0) == {"part": ["snippet,statistics"], **question}


@responses.activate
def test_the_older_kind_of_name_is_looked_up_on_its_page(clock: FakeClock) -> None:
    page = f'<html><link rel="canonical" href="https://www.youtube.com/channel/{CHANNEL}"></html>'
    responses.get(f"{SITE}/c/lunarorbit", body=page, content_type="text/html")
    serve_channel()
    calls = CallCounter()
    account = account_of(generate(clock, "https://www.youtube.com/c/LunarOrbit", calls))
    assert account.platform_key == CHANNEL
    assert calls.calls == 2
    assert asked(1)["id"] == [CHANNEL]
    assert "X-Goog-Api-Key" not in responses.calls[0].request.headers


@responses.activate
def test_an_address_with_a_bare_name_means_the_older_kind_of_name(clock: FakeClock) -> None:
    page = f'<meta property="og:url" content="https://www.youtube.com/channel/{CHANNEL}">'
    responses.get(f"{SITE}/c/lunarorbit", body=page, content_type="text/html")
    serve_channel()
    assert account_of(generate(clock, "https://www.youtube.com/LunarOrbit")).platform_key == CHANNEL


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, "<html><title>404 Not Found</title>", "weak_not_found"),
        (429, "", "rate_limited"),
        (403, "<html>", "http_403"),
        (503, "<html>", "http_503"),
        (200, "<html><title>Before you continue</title>", "unexpected_shape"),
        (200, '<link rel="canonical" href="https://www.youtube.com/">', "unexpected_shape"),
        (200, '<link rel="canonical" href="https://evil.example/channel/UC">', "unexpected_shape"),
    ],
)
@responses.activate
def test_a_page_that_names_no_channel_says_nothing_about_it(
    status: int, body: str, reason: str, clock: FakeClock
) -> None:
    responses.get(f"{SITE}/c/lunarorbit", status=status, body=body, content_type="text/html")
    with pytest.raises(FetchFailed) as caught:
        generate(clock, "https://www.youtube.com/c/LunarOrbit")
    assert caught.value.reason == reason


@responses.activate
def test_a_question_about_cookies_is_an_error(clock: FakeClock) -> None:
    responses.get(f"{SITE}/c/lunar", status=302, headers={"location": "https://consent.youtube.com/m"})
    with pytest.raises(FetchFailed) as caught:
        generate(clock, "https://www.youtube.com/c/lunar")
    assert caught.value.reason == "redirect_refused"


@responses.activate
def test_counts_that_are_hidden_are_unknown(clock: FakeClock) -> None:
    payload = sample_json("youtube/videos_list.json")
    payload["items"][0]["statistics"] = {"viewCount": "7920", "favoriteCount": "0"}
    responses.get(f"{API}/videos", json=payload)
    serve_channel(
        statistics={
            "viewCount": "5",
            "subscriberCount": "0",
            "hiddenSubscriberCount": True,
            "videoCount": "1",
        }
    )
    graph = generate(clock)
    assert graph.groups[0].metrics == {
        ObjectKind.CONTENTS: {"viewCount": 7920},
        ObjectKind.ACCOUNTS: {"viewCount": 5, "videoCount": 1},
    }
    assert account_of(graph).followers is None
    assert account_of(graph).data["hides_subscribers"] is True


@responses.activate
def test_a_channel_that_is_not_listed_leaves_its_video_fine(clock: FakeClock) -> None:
    responses.get(f"{API}/videos", body=sample_bytes("youtube/videos_list.json"))
    serve_case("channel_missing", f"{API}/channels")
    graph = generate(clock)
    account = account_of(graph)
    assert (account.platform_key, account.display_name) == (CHANNEL, "Lunar Orbit Studio")
    assert account.url == f"https://youtube.com/channel/{CHANNEL}"
    assert (account.handle, account.followers) == (None, None)
    assert set(graph.groups[0].metrics) == {ObjectKind.CONTENTS}


@responses.activate
def test_a_channel_that_cannot_be_asked_now_fails_the_whole_url(clock: FakeClock) -> None:
    responses.get(f"{API}/videos", body=sample_bytes("youtube/videos_list.json"))
    serve_case("rate_limit", f"{API}/channels")
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert caught.value.reason == "rate_limited"


@pytest.mark.parametrize(
    ("case", "error", "reason"),
    [
        ("oembed_missing", TargetGone, "http_404"),
        ("oembed_malformed_id", TargetGone, "http_400"),
        ("oembed_private", TargetBlocked, "private"),
        ("oembed_embedding_disabled", FetchFailed, "weak_not_found"),
    ],
)
@responses.activate
def test_oembed_says_why_a_video_is_not_listed(
    case: str, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    serve_case("video_missing_deleted_or_private", f"{API}/videos")
    serve_case(case, f"{SITE}/oembed")
    calls = CallCounter()
    with pytest.raises(error) as caught:
        generate(clock, calls=calls)
    assert getattr(caught.value, "reason", None) == reason
    assert calls.calls == 2


@pytest.mark.parametrize(
    ("status", "body", "content_type"),
    [
        (200, b'{"title": "t"}', "application/json"),
        (200, b"<html>consent</html>", "text/html"),
        (500, b"", "text/plain"),
        (429, b"", "text/plain"),
    ],
)
@responses.activate
def test_without_a_verdict_of_oembed_a_missing_video_is_a_weak_sign(
    status: int, body: bytes, content_type: str, clock: FakeClock
) -> None:
    responses.get(f"{API}/videos", json=NO_ITEMS)
    responses.get(f"{SITE}/oembed", status=status, body=body, content_type=content_type)
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert caught.value.reason == "weak_not_found"


@responses.activate
def test_another_video_than_the_one_asked_for_means_that_this_one_is_missing(clock: FakeClock) -> None:
    payload = sample_json("youtube/videos_list.json")
    payload["items"][0]["id"] = VIDEO.lower()
    responses.get(f"{API}/videos", json=payload)
    serve_case("oembed_missing", f"{SITE}/oembed")
    with pytest.raises(TargetGone):
        generate(clock)


@pytest.mark.parametrize("case", ["channel_missing", "channel_missing_old"])
@responses.activate
def test_a_channel_that_is_not_listed_is_gone(case: str, clock: FakeClock) -> None:
    serve_case(case, f"{API}/channels")
    with pytest.raises(TargetGone) as caught:
        generate(clock, "https://www.youtube.com/@no-such-handle")
    assert caught.value.reason == "no_such_channel"


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("rate_limit", "rate_limited"),
        ("rate_limit_429", "rate_limited"),
        ("api_key_invalid", "misconfigured"),
        ("api_key_invalid_old", "misconfigured"),
    ],
)
@responses.activate
def test_a_refusal_of_us_is_an_error(case: str, reason: str, clock: FakeClock) -> None:
    serve_case(case, f"{API}/videos")
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert type(caught.value) is FetchFailed
    assert caught.value.reason == reason


def refusal(status: int, reason: str, message: str = "", /, **detail: Any) -> dict[str, Any]:
    error: dict[str, Any] = {"code": status, "message": message, "errors": [{"reason": reason}]}
    if detail:
        error["details"] = [detail]
    return {"error": error}


@pytest.mark.parametrize(
    ("status", "payload", "reason"),
    [
        (403, refusal(403, "userRateLimitExceeded"), "rate_limited"),
        (403, refusal(403, "accessNotConfigured"), "misconfigured"),
        (403, refusal(403, "ipRefererBlocked"), "misconfigured"),
        (403, refusal(403, "forbidden", reason="API_KEY_SERVICE_BLOCKED"), "misconfigured"),
        (400, refusal(400, "badRequest", "API key expired. Please renew the API key."), "misconfigured"),
        (401, {}, "misconfigured"),
        (400, refusal(400, "invalidPart"), "http_400"),
        (403, refusal(403, "forbidden"), "http_403"),
        (404, refusal(404, "notFound"), "http_404"),
        (500, refusal(500, "backendError"), "http_500"),
        (200, {}, "unexpected_shape"),
        (200, {"kind": "youtube#channelListResponse", "items": []}, "unexpected_shape"),
        (200, {"kind": "youtube#videoListResponse", "items": {}}, "unexpected_shape"),
        (200, {"kind": "youtube#videoListResponse", "items": [{"id": VIDEO}]}, "unexpected_shape"),
        (200, [], "unexpected_shape"),
        (403, [], "http_403"),
        (403, {"error": "no"}, "http_403"),
        (403, {"error": {"errors": ["no", 1]}}, "http_403"),
    ],
)
@responses.activate
def test_an_answer_that_says_nothing_about_the_video_is_an_error(
    status: int, payload: Any, reason: str, clock: FakeClock
) -> None:
    responses.get(f"{API}/videos", status=status, json=payload)
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert type(caught.value) is FetchFailed
    assert caught.value.reason == reason


@pytest.mark.parametrize("status", [200, 400, 403, 404])
@responses.activate
def test_a_page_instead_of_data_is_an_error(status: int, clock: FakeClock) -> None:
    responses.get(f"{API}/videos", status=status, body="<html>sorry</html>", content_type="text/html")
    with pytest.raises(FetchFailed) as caught:
        generate(clock)
    assert caught.value.reason == "unexpected_html"


# --- the quota


@responses.activate
def test_a_used_up_quota_says_when_there_is_a_new_one() -> None:
    # Four in the morning in California, on a day with a change of the clock ahead: 21 hours to midnight.
    clock = FakeClock(datetime(2026, 11, 1, 11, tzinfo=UTC))
    serve_case("quota_exceeded", f"{API}/videos")
    with pytest.raises(CreditExhausted) as caught:
        generate(clock)
    assert (caught.value.source, caught.value.reason) == ("youtube", "credit_exhausted")
    assert caught.value.retry_in_s == 21 * 3600


@pytest.mark.parametrize(
    ("status", "payload"),
    [
        (403, refusal(403, "dailyLimitExceeded")),
        (429, refusal(429, "rateLimitExceeded", metadata={"quota_limit": "defaultPerDayPerProject"})),
        (429, refusal(429, "rateLimitExceeded", "Quota exceeded for limit 'Queries per day' of service")),
    ],
)
@responses.activate
def test_a_limit_of_the_day_is_used_up_credit_in_whatever_words(
    status: int, payload: dict[str, Any], clock: FakeClock
) -> None:
    responses.get(f"{API}/videos", status=status, json=payload)
    with pytest.raises(CreditExhausted):
        generate(clock)


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        (datetime(2026, 1, 15, 8, tzinfo=UTC), 24),
        (datetime(2026, 1, 15, 7, 30, tzinfo=UTC), 0.5),
        (datetime(2026, 7, 15, 7, tzinfo=UTC), 24),
        # The day on which the clock is put forward has 23 hours.
        (datetime(2026, 3, 8, 8, tzinfo=UTC), 23),
        (datetime(2026, 11, 1, 7, tzinfo=UTC), 25),
    ],
)
def test_a_day_of_the_quota_ends_at_midnight_in_california(now: datetime, hours: float) -> None:
    assert until_next_quota_s(now) == hours * 3600


# --- without a key


@responses.activate
def test_without_a_key_a_video_has_its_title_and_an_author_without_a_key(clock: FakeClock) -> None:
    responses.get(f"{SITE}/oembed", body=sample_bytes("youtube/oembed.json"))
    calls = CallCounter()
    graph = generate_keyless(clock, f"https://youtu.be/{VIDEO}", calls)
    content, account = content_of(graph), account_of(graph)
    assert (content.subtype, content.platform_key) == (ContentSubtype.VIDEO, VIDEO)
    assert content.url == f"https://youtube.com/watch?v={VIDEO}"
    assert content.text_primary == "From our Weekend by Winter (Character of Sun)"
    assert (content.published_at, content.data) == (None, {})
    assert (account.platform_key, account.handle) == (None, "LunarOrbitStudio")
    assert (account.url, account.display_name) == (
        "https://youtube.com/@lunarorbitstudio",
        "Lunar Orbit Studio",
    )
    assert graph.groups[0].metrics == {}
    assert calls.calls == 1
    assert asked(0) == {"format": ["json"], "url": [f"https://www.youtube.com/watch?v={VIDEO}"]}


@pytest.mark.parametrize(
    ("author_url", "key", "handle", "url"),
    [
        (f"{SITE}/channel/{CHANNEL}", CHANNEL, None, f"https://youtube.com/channel/{CHANNEL}"),
        (f"{SITE}/user/Lunar", None, None, "https://youtube.com/user/lunar"),
        (f"{SITE}/@%E6%9C%88", None, "月", "https://youtube.com/@%E6%9C%88"),
    ],
)
@responses.activate
def test_an_author_is_known_by_what_the_address_says(
    author_url: str, key: str | None, handle: str | None, url: str, clock: FakeClock
) -> None:
    payload = {**sample_json("youtube/oembed.json"), "author_url": author_url}
    responses.get(f"{SITE}/oembed", json=payload)
    account = account_of(generate_keyless(clock))
    assert (account.platform_key, account.handle, account.url) == (key, handle, url)


@pytest.mark.parametrize("author_url", [None, "", 5, "https://example.com/a", "https://www.youtube.com/"])
@responses.activate
def test_an_author_without_a_channel_is_left_out(author_url: Any, clock: FakeClock) -> None:
    payload = {**sample_json("youtube/oembed.json"), "author_url": author_url}
    responses.get(f"{SITE}/oembed", json=payload)
    assert generate_keyless(clock).groups[0].account is None


@responses.activate
def test_a_video_that_must_not_be_embedded_is_there_all_the_same(clock: FakeClock) -> None:
    serve_case("oembed_embedding_disabled", f"{SITE}/oembed")
    graph = generate_keyless(clock)
    content = content_of(graph)
    assert (content.platform_key, content.text_primary) == (VIDEO, None)
    assert content.data == {"forbids_embedding": True}
    assert graph.groups[0].account is None


@pytest.mark.parametrize(
    ("case", "error", "reason"),
    [
        ("oembed_private", TargetBlocked, "private"),
        ("oembed_missing", TargetGone, "http_404"),
        ("oembed_malformed_id", TargetGone, "http_400"),
    ],
)
@responses.activate
def test_every_refusal_of_oembed_has_its_meaning(
    case: str, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    serve_case(case, f"{SITE}/oembed")
    with pytest.raises(error) as caught:
        generate_keyless(clock)
    assert getattr(caught.value, "reason", None) == reason


@responses.activate
def test_a_refusal_under_200_is_still_one(clock: FakeClock) -> None:
    responses.get(f"{SITE}/oembed", body="Forbidden", content_type="text/plain")
    with pytest.raises(TargetBlocked):
        generate_keyless(clock)


@pytest.mark.parametrize(
    ("status", "body", "content_type", "reason"),
    [
        (404, b"<html>gateway</html>", "text/html", "unexpected_html"),
        (200, b"<html>consent</html>", "text/html", "unexpected_html"),
        (200, b"hello", "text/plain", "unexpected_shape"),
        (200, b"{}", "application/json", "unexpected_shape"),
        (200, b'"title"', "application/json", "unexpected_shape"),
        (418, b"", "text/plain", "http_418"),
        (429, b"", "text/plain", "rate_limited"),
        (503, b"", "text/plain", "http_503"),
    ],
)
@responses.activate
def test_an_answer_of_oembed_that_says_nothing_about_the_video_is_an_error(
    status: int, body: bytes, content_type: str, reason: str, clock: FakeClock
) -> None:
    responses.get(f"{SITE}/oembed", status=status, body=body, content_type=content_type)
    with pytest.raises(FetchFailed) as caught:
        generate_keyless(clock)
    assert caught.value.reason == reason


def test_without_a_key_only_videos_are_supported(clock: FakeClock) -> None:
    settings = make_settings()
    http = OutboundClient(settings, clock)
    keyed, keyless = YouTubeGenerator(http, settings), YouTubeSiteGenerator(http, settings)
    assert not keyed.supports(route(VIDEO_URL))
    assert keyless.supports(route(VIDEO_URL))
    assert not keyless.supports(route("https://www.youtube.com/@LunarOrbitStudio"))


def test_places_without_a_source_are_not_supported(clock: FakeClock) -> None:
    settings = make_settings(youtube_api_key="k")
    generator = YouTubeGenerator(OutboundClient(settings, clock), settings)
    for url in (
        "https://www.youtube.com/playlist?list=PLqU_HbXonwt6SDfqA0bP4Uws292q1bkfO",
        "https://www.youtube.com/results?search_query=a",
        "https://www.youtube.com/post/UgkxAbCdEfGhIj",
        "https://x.com/a",
    ):
        assert not generator.supports(route(url))


@pytest.mark.parametrize(
    "markup", ["", "\0", "<" * 5000, "<link rel=canonical>", "<link rel=canonical href='//[x'>"]
)
def test_a_page_of_any_kind_is_read_without_a_crash(markup: str) -> None:
    with pytest.raises(FetchFailed):
        channel_of_page(markup)
