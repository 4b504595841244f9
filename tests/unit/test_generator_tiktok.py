"""TikTok: what oEmbed's and the actor's answers become, and where short links lead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import responses

from tests.apify_stand_in import DictRunMemory, ask_paid, paid_calls, sent_input, serve_run
from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_bytes, sample_json
from workers.clock import Budget
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.apify.answers import Findings
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.generators.tiktok.actor import (
    ACTOR,
    profile_graph,
    read_video,
    speech_url,
    video_graph,
    words_of_subtitles,
)
from workers.social_recording.generators.tiktok.oembed import TikTokGenerator
from workers.social_recording.generators.tiktok.places import hashtags_in, place_of_location, time_of_id
from workers.social_recording.object_graph import MentionDraft, ObjectGroup, SocialObjectGraph, check
from workers.social_recording.routing import route

OEMBED = "https://www.tiktok.com/oembed"
VIDEO = "7524354453693802698"
VIDEO_URL = f"https://www.tiktok.com/@amberpixel_/video/{VIDEO}"
PROFILE_URL = "https://www.tiktok.com/@amberpixel_"
ERRORS = "tiktok/errors.json"
TRANSCRIPT = (
    "https://api.apify.com/v2/key-value-stores/rKoUyZrNuHrCmBhHz/records/"
    f"subtitle-amberpixel_-20250707145813-{VIDEO}-eng-US"
)
SUBTITLES = """WEBVTT

1
00:00:00.000 --> 00:00:01.500
notes from the harbor

00:00:01.500 --> 00:00:02.000
notes from the harbor

NOTE a remark

00:00:02.000 --> 00:00:04.000 align:start
<c.loud>it is quiet</c>
"""
# What the sample's run looked at: the stand-in's runs end half a minute before the clock's time.
LOOKED_AT = datetime(2026, 1, 15, 11, 59, 30, tzinfo=UTC)


def ask_free(clock: FakeClock, url: str, calls: CallCounter | None = None) -> SocialObjectGraph:
    settings = make_settings()
    generator = TikTokGenerator(OutboundClient(settings, clock), settings)
    way = route(url)
    assert generator.supports(way)
    graph = generator.generate(way, FetchContext(budget=Budget.of(clock, 60), calls=calls or CallCounter()))
    check(graph, url)
    return graph


def serve_case(url: str, case: str) -> None:
    entry = error_case(ERRORS, case)
    headers = {name: value for name, value in entry["headers"].items() if name != "content-type"}
    responses.get(
        url,
        status=entry["status"],
        body=body_of(entry),
        headers=headers,
        content_type=entry["headers"].get("content-type", "text/plain"),
    )


def video_item(**changes: Any) -> dict[str, Any]:
    item: dict[str, Any] = sample_json("tiktok/apify_video.json")[0]
    return {**item, **changes}


def graph_of_item(item: dict[str, Any], clock: FakeClock) -> ObjectGroup:
    found = Findings(items=(item,), looked_at=clock.now())
    video = read_video(found, route(VIDEO_URL))
    (group,) = video_graph(video, found.looked_at, None).groups
    return group


# --- oEmbed


@responses.activate
def test_a_video_at_no_cost_has_text_and_handle_and_no_numbers(clock: FakeClock) -> None:
    responses.get(OEMBED, body=sample_bytes("tiktok/oembed_video.json"))
    calls = CallCounter()
    graph = ask_free(clock, f"{VIDEO_URL}?_t=abc&_r=1", calls)
    (group,) = graph.groups
    content, account = group.content, group.account
    assert content is not None
    assert account is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.VIDEO, VIDEO)
    assert content.url == f"https://tiktok.com/@_/video/{VIDEO}"
    assert content.text_primary == "weekend notes from the quiet harbor #solana #memecoin"
    assert content.tags == ("solana", "memecoin")
    # The id holds the second; the page shows three seconds more.
    assert content.published_at == datetime(2025, 7, 7, 14, 58, 10, tzinfo=UTC)
    assert (account.platform_key, account.handle) == (None, "amberpixel_")
    assert (account.url, account.display_name) == ("https://tiktok.com/@amberpixel_", "Amber Pixel")
    assert (account.followers, group.metrics) == (None, {})
    assert calls.calls == 1
    asked = parse_qs(urlsplit(str(responses.calls[0].request.url)).query)
    assert asked == {"url": [f"https://www.tiktok.com/@_/video/{VIDEO}"]}


@responses.activate
def test_a_profile_at_no_cost_is_there_and_no_more(clock: FakeClock) -> None:
    responses.get(OEMBED, body=sample_bytes("tiktok/oembed_profile.json"))
    (group,) = ask_free(clock, "https://www.tiktok.com/@AmberPixel_").groups
    assert group.content is None
    assert group.account is not None
    assert (group.account.platform_key, group.account.handle) == (None, "amberpixel_")
    assert group.account.display_name == "Amber Pixel"
    assert group.metrics == {}


@responses.activate
def test_a_photo_post_keeps_its_own_form_of_url(clock: FakeClock) -> None:
    payload = {**sample_json("tiktok/oembed_video.json"), "embed_type": "photo"}
    responses.get(OEMBED, json=payload)
    content = ask_free(clock, f"https://www.tiktok.com/@a/photo/{VIDEO}").groups[0].content
    assert content is not None
    assert (content.subtype, content.url) == (
        ContentSubtype.PHOTO,
        f"https://tiktok.com/@_/photo/{VIDEO}",
    )


@pytest.mark.parametrize(
    ("case", "reason"),
    [("oembed_missing_or_private", "weak_not_found"), ("oembed_refused", "http_403")],
)
@pytest.mark.parametrize("url", [VIDEO_URL, PROFILE_URL])
@responses.activate
def test_refusals_of_oembed_are_no_verdicts(case: str, reason: str, url: str, clock: FakeClock) -> None:
    serve_case(OEMBED, case)
    with pytest.raises(FetchFailed) as caught:
        ask_free(clock, url)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("status", "body", "content_type", "reason"),
    [
        (200, b"<!DOCTYPE html><title>Verify</title>", "text/html", "unexpected_html"),
        (403, b"<html><title>Verify</title></html>", "text/html", "unexpected_html"),
        (200, b"", "application/json", "unexpected_shape"),
        (200, b"[]", "application/json", "unexpected_shape"),
        (200, b'{"author_unique_id": "amberpixel_"}', "application/json", "unexpected_shape"),
        (400, b'{"message": "other words"}', "application/json", "http_400"),
        (400, b"words", "text/plain", "http_400"),
        (404, b"{}", "application/json", "http_404"),
        (429, b"", "text/plain", "rate_limited"),
        (503, b"", "text/plain", "http_503"),
    ],
)
@responses.activate
def test_an_answer_that_says_nothing_about_the_video_is_an_error(
    status: int, body: bytes, content_type: str, reason: str, clock: FakeClock
) -> None:
    responses.get(OEMBED, status=status, body=body, content_type=content_type)
    with pytest.raises(FetchFailed) as caught:
        ask_free(clock, VIDEO_URL)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("url", "sample"),
    [
        ("https://www.tiktok.com/@a/video/7524354453693802699", "tiktok/oembed_video.json"),
        ("https://www.tiktok.com/@somebody_else", "tiktok/oembed_profile.json"),
    ],
)
@responses.activate
def test_an_answer_about_something_else_is_none(url: str, sample: str, clock: FakeClock) -> None:
    responses.get(OEMBED, body=sample_bytes(sample))
    with pytest.raises(FetchFailed, match="another") as caught:
        ask_free(clock, url)
    assert caught.value.reason == "unexpected_shape"


# --- short links


@pytest.mark.parametrize(
    ("url", "asked", "case"),
    [
        ("https://vm.tiktok.com/ZMabcd123/", "https://vm.tiktok.com/ZMabcd123/", "shortlink_vm"),
        ("https://www.tiktok.com/t/ZTabcd123/", "https://www.tiktok.com/t/ZTabcd123/", "shortlink_t"),
        ("https://vt.tiktok.com/ZSabcd123/", "https://vt.tiktok.com/ZSabcd123/", "shortlink_no_handle"),
    ],
)
@responses.activate
def test_a_short_link_is_the_video_that_its_redirect_names(
    url: str, asked: str, case: str, clock: FakeClock
) -> None:
    serve_case(asked, case)
    responses.get(OEMBED, body=sample_bytes("tiktok/oembed_video.json"))
    calls = CallCounter()
    content = ask_free(clock, url, calls).groups[0].content
    assert content is not None
    assert content.platform_key == VIDEO
    # The page of the video itself was not asked for.
    assert [urlsplit(str(call.request.url)).path for call in responses.calls] == [
        urlsplit(asked).path,
        "/oembed",
    ]
    assert calls.calls == 2


@pytest.mark.parametrize("is_paid_enabled", [False, True])
@responses.activate
def test_a_short_link_to_the_front_page_is_dead_and_nobody_pays_for_it(
    is_paid_enabled: bool, clock: FakeClock
) -> None:
    serve_case("https://vm.tiktok.com/ZMexpired/", "shortlink_expired")
    with pytest.raises(TargetGone) as caught:
        (ask_paid if is_paid_enabled else ask_free)(clock, "https://vm.tiktok.com/ZMexpired")
    assert caught.value.reason == "dead_short_link"
    assert len(responses.calls) == 1


@responses.activate
def test_a_short_link_to_a_short_link_is_followed_that_far_and_a_circle_is_not(clock: FakeClock) -> None:
    responses.get(
        "https://vm.tiktok.com/ZMfirst/", status=301, headers={"Location": "https://www.tiktok.com/t/ZTnext/"}
    )
    serve_case("https://www.tiktok.com/t/ZTnext/", "shortlink_t")
    responses.get(OEMBED, body=sample_bytes("tiktok/oembed_video.json"))
    assert ask_free(clock, "https://vm.tiktok.com/ZMfirst").groups[0].content is not None
    responses.get("https://vt.tiktok.com/ZSround/", status=302, headers={"Location": "/ZSround/"})
    with pytest.raises(FetchFailed) as caught:
        ask_free(clock, "https://vt.tiktok.com/ZSround")
    assert caught.value.reason == "redirect_loop"


@responses.activate
def test_a_short_link_to_a_search_needs_no_second_call(clock: FakeClock) -> None:
    responses.get(
        "https://vm.tiktok.com/ZMtag1/",
        status=302,
        headers={"Location": "https://www.tiktok.com/tag/solana?_t=1"},
    )
    calls = CallCounter()
    content = ask_free(clock, "https://vm.tiktok.com/ZMtag1", calls).groups[0].content
    assert content is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.SEARCH, "#solana")
    assert calls.calls == 1


@responses.activate
def test_a_short_link_to_a_profile_is_the_account(clock: FakeClock) -> None:
    responses.get(
        "https://vm.tiktok.com/ZMprof1/", status=302, headers={"Location": f"{PROFILE_URL}?_t=1&_r=1"}
    )
    responses.get(OEMBED, body=sample_bytes("tiktok/oembed_profile.json"))
    (group,) = ask_free(clock, "https://vm.tiktok.com/ZMprof1").groups
    assert group.account is not None
    assert group.account.handle == "amberpixel_"


@pytest.mark.parametrize(
    ("status", "location", "reason"),
    [
        (302, "https://www.tiktok.com/login?redirect_url=x", "login_wall"),
        (302, "https://apps.apple.com/app/tiktok", "unexpected_shape"),
        (302, "http://[bad", "bad_url"),
        (200, None, "unexpected_html"),
        (404, None, "unexpected_html"),
        (302, None, "unexpected_html"),
        (503, None, "http_503"),
        (429, None, "rate_limited"),
    ],
)
@responses.activate
def test_a_short_link_that_leads_nowhere_is_no_verdict(
    status: int, location: str | None, reason: str, clock: FakeClock
) -> None:
    headers = {} if location is None else {"Location": location}
    responses.get(
        "https://vm.tiktok.com/ZMabcd123/",
        status=status,
        headers=headers,
        body="<html><title>TikTok</title></html>",
        content_type="text/html",
    )
    with pytest.raises(FetchFailed) as caught:
        ask_free(clock, "https://vm.tiktok.com/ZMabcd123")
    assert caught.value.reason == reason


def test_the_front_page_is_dead_in_every_spelling() -> None:
    for location in ("https://www.tiktok.com/?_r=1", "https://www.tiktok.com", "https://m.tiktok.com//"):
        with pytest.raises(TargetGone):
            place_of_location(location)


# --- the actor


@responses.activate
def test_a_paid_video_has_numbers_dates_ids_and_what_was_spoken(clock: FakeClock) -> None:
    serve_run(ACTOR, sample_json("tiktok/apify_video.json")[:1])
    responses.get(TRANSCRIPT, body=SUBTITLES)
    calls = CallCounter()
    graph = ask_paid(clock, VIDEO_URL, calls=calls)
    assert (graph.observed_at, graph.blocked_reason) == (LOOKED_AT, None)
    (group,) = graph.groups
    content, account = group.content, group.account
    assert content is not None
    assert account is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.VIDEO, VIDEO)
    assert content.url == f"https://tiktok.com/@_/video/{VIDEO}"
    assert content.published_at == datetime(2025, 7, 7, 14, 58, 13, tzinfo=UTC)
    assert content.text_from_media == "notes from the harbor it is quiet"
    assert content.tags == ("solana", "memecoin")
    assert content.data == {
        "web_url": VIDEO_URL,
        "lang": "en",
        "duration_s": 20,
        "music_id": "7524354479435888028",
        "is_slideshow": False,
        "is_ad": False,
        "is_sponsored": False,
        "subtitles": ["eng-US", "spa-ES"],
    }
    assert (account.platform_key, account.handle) == ("6812345678901234693", "amberpixel_")
    assert (account.display_name, account.bio) == ("Amber Pixel", "daily charts\n👇 join")
    assert account.links == ("https://amberpixel.example.org/",)
    assert (account.followers, account.account_created_at) == (149_800, None)
    assert account.data == {"verified": False, "private": False}
    assert group.metrics == {
        ObjectKind.CONTENTS: {
            "playCount": 2314,
            "diggCount": 158,
            "commentCount": 12,
            "shareCount": 0,
            "collectCount": 23,
        },
        ObjectKind.ACCOUNTS: {
            "fans": 149_800,
            "following": 57,
            "friends": 31,
            "heart": 2_400_000,
            "video": 395,
        },
    }
    for kind, metrics in group.metrics.items():
        assert set(metrics) <= METRIC_SPEC[Platform.TIKTOK, kind]
    assert calls.calls == 4
    assert sent_input() == {
        "postURLs": [f"https://www.tiktok.com/@_/video/{VIDEO}"],
        "resultsPerPage": 1,
        "shouldDownloadVideos": False,
        "shouldDownloadCovers": False,
        "shouldDownloadSubtitles": False,
        "shouldDownloadSlideshowImages": False,
        "shouldDownloadAvatars": False,
    }


@responses.activate
def test_a_paid_profile_is_seen_through_one_of_its_videos(clock: FakeClock) -> None:
    serve_run(ACTOR, sample_json("tiktok/apify_video.json")[1:])
    (group,) = ask_paid(clock, PROFILE_URL).groups
    assert group.content is None
    assert group.account is not None
    assert group.account.platform_key == "6812345678901234693"
    assert set(group.metrics) == {ObjectKind.ACCOUNTS}
    assert sent_input()["profiles"] == ["amberpixel_"]


@responses.activate
def test_a_paid_short_link_costs_one_run_for_the_video_it_leads_to(clock: FakeClock) -> None:
    serve_case("https://vm.tiktok.com/ZMabcd123/", "shortlink_vm")
    serve_run(ACTOR, sample_json("tiktok/apify_video.json")[:1])
    responses.get(TRANSCRIPT, status=404, json={"error": {"type": "record-not-found"}})
    memory = DictRunMemory()
    assert ask_paid(clock, "https://vm.tiktok.com/ZMabcd123/", memory).groups[0].content is not None
    # The video under its own URL is the same question.
    assert list(memory.notes) == [f"{ACTOR} https://tiktok.com/@_/video/{VIDEO}"]
    ask_paid(clock, VIDEO_URL, memory)
    assert paid_calls() == 1


@pytest.mark.parametrize(
    ("case", "url", "error", "reason"),
    [
        ("actor_post_missing", "/@nosuchhandle000/video/7500000000000000000", TargetGone, "actor_not_found"),
        ("actor_post_private", "/@nosuchhandle000/video/7500000000000000000", TargetBlocked, "private"),
        ("actor_profile_missing", "/@nosuchhandle000", TargetGone, "actor_not_found"),
        ("actor_empty", "/@nosuchhandle000", FetchFailed, "empty_dataset"),
    ],
)
@responses.activate
def test_every_known_item_that_is_an_error_has_its_meaning(
    case: str, url: str, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    serve_run(ACTOR, error_case(ERRORS, case)["body"])
    with pytest.raises(error) as caught:
        ask_paid(clock, f"https://www.tiktok.com{url}")
    assert getattr(caught.value, "reason", None) == reason
    assert paid_calls() == 1


@pytest.mark.parametrize(
    "item",
    [
        {"input": VIDEO_URL, "error": "Something new", "errorCode": "NEW"},
        {"input": VIDEO_URL, "error": "Something new"},
        {"input": VIDEO_URL, "errorCode": ["odd"]},
    ],
)
@responses.activate
def test_an_item_with_an_unknown_error_is_no_verdict_and_is_not_read_again(
    item: dict[str, Any], clock: FakeClock
) -> None:
    serve_run(ACTOR, [item])
    memory = DictRunMemory()
    with pytest.raises(FetchFailed) as caught:
        ask_paid(clock, VIDEO_URL, memory)
    assert caught.value.reason == "actor_error"
    assert memory.notes == {}


@responses.activate
def test_the_video_of_a_private_account_is_stored_and_blocked(clock: FakeClock) -> None:
    item = video_item()
    item["authorMeta"]["privateAccount"] = True
    item["videoMeta"]["subtitleLinks"] = []
    serve_run(ACTOR, [item])
    graph = ask_paid(clock, VIDEO_URL)
    assert graph.blocked_reason == "private"
    assert graph.groups[0].account is not None
    profile = profile_graph(Findings(items=(item,), looked_at=clock.now()), route(PROFILE_URL))
    assert (profile.blocked_reason, profile.groups[0].account) == ("private", graph.groups[0].account)


@pytest.mark.parametrize(
    ("url", "item"),
    [
        ("https://www.tiktok.com/@_/video/7524354453693802699", {"id": VIDEO}),
        ("https://www.tiktok.com/@somebody", {}),
    ],
)
@responses.activate
def test_a_video_of_something_else_is_no_answer(url: str, item: dict[str, Any], clock: FakeClock) -> None:
    serve_run(ACTOR, [video_item(**item, input=url)])
    with pytest.raises(FetchFailed) as caught:
        ask_paid(clock, url)
    assert caught.value.reason == "unexpected_shape"


def test_a_slideshow_is_a_photo_post_whatever_the_url_says(clock: FakeClock) -> None:
    content = graph_of_item(video_item(isSlideshow=True), clock).content
    assert content is not None
    assert (content.subtype, content.url) == (
        ContentSubtype.PHOTO,
        f"https://tiktok.com/@_/photo/{VIDEO}",
    )


def test_what_the_item_lacks_is_unknown_and_the_id_tells_the_time(clock: FakeClock) -> None:
    group = graph_of_item({"id": VIDEO, "authorMeta": {"id": 6812345678901234693, "name": "a"}}, clock)
    assert group.content is not None
    assert group.content.published_at == datetime(2025, 7, 7, 14, 58, 10, tzinfo=UTC)
    assert (group.content.text_primary, group.content.data, group.metrics) == (None, {}, {})
    assert group.account is not None
    assert group.account.platform_key == "6812345678901234693"
    unix = graph_of_item(video_item(createTimeISO="soon"), clock).content
    assert unix is not None
    assert unix.published_at == datetime(2025, 7, 7, 14, 58, 13, tzinfo=UTC)


def test_mentions_with_ids_are_kept(clock: FakeClock) -> None:
    mentions = [{"id": "42", "name": "Sol"}, {"name": "nobody"}, 7]
    content = graph_of_item(video_item(detailedMentions=mentions), clock).content
    assert content is not None
    assert content.mentions == (MentionDraft(platform_key="42", screen_name="Sol"),)


@pytest.mark.parametrize("name", ["crawledAt", "scrapedAt"])
def test_the_actors_own_time_of_looking_counts_unless_it_is_still_to_come(
    name: str, clock: FakeClock
) -> None:
    for offset, expected in (
        (timedelta(minutes=-7), clock.now() - timedelta(minutes=7)),
        (timedelta(1), None),
    ):
        item = video_item(**{name: (clock.now() + offset).isoformat()})
        video = read_video(Findings(items=(item,), looked_at=clock.now()), route(VIDEO_URL))
        assert video_graph(video, clock.now(), None).observed_at == (expected or clock.now())


@responses.activate
def test_subtitles_on_tiktoks_own_host_are_read_without_our_key(clock: FakeClock) -> None:
    url = "https://v16-webapp.tiktok.com/119d1f9a/a.vtt"
    item = video_item(videoMeta={"subtitleLinks": [{"source": "ASR", "tiktokLink": url}]})
    serve_run(ACTOR, [item])
    responses.get(url, body=SUBTITLES)
    content = ask_paid(clock, VIDEO_URL).groups[0].content
    assert content is not None
    assert content.text_from_media == "notes from the harbor it is quiet"
    assert "Authorization" not in responses.calls[-1].request.headers


@pytest.mark.parametrize(("status", "body"), [(403, "<html>"), (404, "{}"), (200, "<html><body>"), (200, "")])
@responses.activate
def test_subtitles_that_cannot_be_had_do_not_lose_the_video(status: int, body: str, clock: FakeClock) -> None:
    serve_run(ACTOR, sample_json("tiktok/apify_video.json")[:1])
    responses.get(TRANSCRIPT, status=status, body=body)
    content = ask_paid(clock, VIDEO_URL).groups[0].content
    assert content is not None
    assert content.text_from_media is None


def test_a_translation_is_not_what_was_spoken(clock: FakeClock) -> None:
    item = video_item(videoMeta={"subtitleLinks": [{"source": "MT", "downloadLink": TRANSCRIPT}, "odd"]})
    video = read_video(Findings(items=(item,), looked_at=clock.now()), route(VIDEO_URL))
    assert speech_url(video) is None


@pytest.mark.parametrize("text", ["", "WEBVTT", "no cues at all", "WEBVTT\n\n00:00.000 --> 00:01.000\n\n"])
def test_subtitles_without_words_are_none(text: str) -> None:
    assert words_of_subtitles(text) is None


# --- which source is asked


@pytest.mark.parametrize(
    ("keys", "is_paid_enabled", "source"),
    [
        ({}, False, "tiktok"),
        ({}, True, "tiktok"),
        ({"apify_token": "a"}, False, "tiktok"),
        ({"apify_token": "a"}, True, "apify"),
    ],
)
@pytest.mark.parametrize("url", [VIDEO_URL, PROFILE_URL, "https://vm.tiktok.com/ZMabcd123/"])
def test_the_paid_source_is_asked_first_where_it_may_be_used(
    url: str, keys: dict[str, str], is_paid_enabled: bool, source: str, clock: FakeClock
) -> None:
    settings = make_settings(**keys)
    generator = Generators(OutboundClient(settings, clock), settings).for_route(
        route(url), is_paid_enabled=is_paid_enabled
    )
    assert generator is not None
    assert generator.source == source


@pytest.mark.parametrize("url", ["https://www.tiktok.com/music/a-123", "https://www.tiktok.com/search?q=a"])
def test_places_without_a_name_have_no_source(url: str, clock: FakeClock) -> None:
    settings = make_settings(apify_token="a")
    generators = Generators(OutboundClient(settings, clock), settings)
    assert generators.for_route(route(url), is_paid_enabled=True) is None


@pytest.mark.parametrize(
    ("video_id", "second"),
    [
        (VIDEO, 1_751_900_290),
        ("7231192519906343444", 1_683_643_208),
        ("12345", None),
        ("0", None),
        ("9" * 25, None),
        ("x", None),
    ],
)
def test_an_id_tells_its_second(video_id: str, second: int | None) -> None:
    expected = None if second is None else datetime.fromtimestamp(second, UTC)
    assert time_of_id(video_id) == expected


def test_hashtags_are_words_behind_a_sign() -> None:
    assert hashtags_in("#a b#c (#d) #été #a # #") == ("a", "d", "été")
    assert hashtags_in(None) == ()
