"""Instagram: what the actor's answers become."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import responses

from tests.apify_stand_in import DictRunMemory, ask_paid, paid_calls, sent_input, serve_run
from tests.conftest import FakeClock, make_settings
from tests.samples import error_case, sample_json
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.apify.answers import Findings
from workers.social_recording.generators.generator import CallCounter
from workers.social_recording.generators.instagram import (
    ACTOR,
    media_id,
    place_of_location,
    post_graph,
    time_of_id,
)
from workers.social_recording.generators.registry import Generators
from workers.social_recording.object_graph import MentionDraft, ObjectGroup
from workers.social_recording.routing import route

ERRORS = "instagram/errors.json"
CAROUSEL, REEL, SHARED, HIDDEN = range(4)
LOOKED_AT = datetime(2026, 1, 15, 11, 59, 30, tzinfo=UTC)


def post_item(nth: int, **changes: Any) -> dict[str, Any]:
    """A recorded post, as if it had been asked for by its own URL."""
    item: dict[str, Any] = sample_json("instagram/apify_posts.json")[nth]
    return {**item, "inputUrl": f"https://www.instagram.com/p/{item['shortCode']}/", **changes}


def group_of(item: dict[str, Any], clock: FakeClock) -> ObjectGroup:
    way = route(f"https://instagram.com/p/{item['shortCode']}")
    (group,) = post_graph(Findings(items=(item,), looked_at=clock.now()), way).groups
    return group


@responses.activate
def test_a_post_has_its_owner_and_one_run_pays_for_both(clock: FakeClock) -> None:
    item = post_item(CAROUSEL)
    serve_run(ACTOR, [item])
    calls = CallCounter()
    graph = ask_paid(clock, "https://www.instagram.com/p/DMsI5Ls08jH/?igsh=a==", calls=calls)
    assert (graph.observed_at, graph.blocked_reason) == (LOOKED_AT, None)
    (group,) = graph.groups
    content, account = group.content, group.account
    assert content is not None
    assert account is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.POST, "3687361308855093447")
    assert content.url == "https://instagram.com/p/DMsI5Ls08jH"
    assert content.published_at == datetime(2025, 7, 29, 11, 15, 43, tzinfo=UTC)
    assert content.text_primary == item["caption"]
    assert content.text_from_media == item["alt"]
    assert content.tags == ("MoONtR", "northaspenivoryivo")
    assert content.data == {
        "short_code": "DMsI5Ls08jH",
        "type": "Sidecar",
        "is_sponsored": False,
        "is_comments_disabled": False,
    }
    assert (account.platform_key, account.handle) == ("49490384416", "maplem_apleonyx")
    assert (account.url, account.display_name) == ("https://instagram.com/maplem_apleonyx", "Moon Trio")
    assert (account.followers, account.account_created_at) == (None, None)
    assert group.metrics == {ObjectKind.CONTENTS: {"likesCount": 4244, "commentsCount": 0}}
    assert calls.calls == 3
    assert sent_input() == {
        "directUrls": ["https://www.instagram.com/p/DMsI5Ls08jH/"],
        "resultsType": "posts",
        "resultsLimit": 1,
    }


@responses.activate
def test_a_reel_is_one_whatever_the_url_and_the_item_call_it(clock: FakeClock) -> None:
    serve_run(ACTOR, [post_item(HIDDEN)])
    for url in ("https://www.instagram.com/reel/DNNlfk8h8wr/", "https://www.instagram.com/p/DNNlfk8h8wr/"):
        content = ask_paid(clock, url).groups[0].content
        assert content is not None
        assert (content.subtype, content.url) == (
            ContentSubtype.REEL,
            "https://instagram.com/reel/DNNlfk8h8wr",
        )
        assert content.data["duration_s"] == 60.21
        assert content.mentions == (MentionDraft(platform_key="5327004901", screen_name="ambercoral_"),)


def test_hidden_likes_are_unknown(clock: FakeClock) -> None:
    shown = group_of(post_item(REEL), clock).metrics[ObjectKind.CONTENTS]
    hidden = group_of(post_item(HIDDEN), clock).metrics[ObjectKind.CONTENTS]
    assert shown == {
        "likesCount": 1492,
        "commentsCount": 1,
        "videoPlayCount": 40562,
        "videoViewCount": 4584,
    }
    assert hidden == {name: value for name, value in shown.items() if name != "likesCount"}
    assert set(shown) <= METRIC_SPEC[Platform.INSTAGRAM, ObjectKind.CONTENTS]


def test_a_shared_post_belongs_to_its_owner_and_names_the_others(clock: FakeClock) -> None:
    group = group_of(post_item(SHARED), clock)
    assert group.account is not None
    assert (group.account.platform_key, group.account.handle) == ("151876817", "violet_ivo")
    assert group.content is not None
    assert group.content.data["coauthors"] == [{"id": "49490384416", "username": "maplem_apleonyx"}]


@pytest.mark.parametrize("owner_id", [None, "", " ", 1.5, {}])
def test_an_owner_without_a_number_has_no_key(owner_id: object, clock: FakeClock) -> None:
    account = group_of(post_item(CAROUSEL, ownerId=owner_id), clock).account
    assert account is not None
    assert (account.platform_key, account.handle) == (None, "maplem_apleonyx")
    assert account.url == "https://instagram.com/maplem_apleonyx"


def test_without_a_date_the_number_tells_it(clock: FakeClock) -> None:
    content = group_of(post_item(SHARED, timestamp=None), clock).content
    assert content is not None
    assert content.published_at is not None
    assert abs((content.published_at - datetime(2025, 8, 12, 12, tzinfo=UTC)).total_seconds()) < 60


@responses.activate
def test_a_profile_is_keyed_by_its_number_and_not_by_the_other_one(clock: FakeClock) -> None:
    serve_run(ACTOR, sample_json("instagram/apify_profile.json"))
    graph = ask_paid(clock, "https://www.instagram.com/MapleM_ApleOnyx/")
    (group,) = graph.groups
    account = group.account
    assert account is not None
    assert group.content is None
    assert graph.blocked_reason is None
    assert (account.platform_key, account.handle) == ("49490384416", "maplem_apleonyx")
    assert (account.display_name, account.bio) == (
        "Moon Trio",
        "Weekend music for the quiet\nBookings: contact@example.com",
    )
    assert account.links == ("https://moontrio.example.org/",)
    assert (account.followers, account.account_created_at) == (806, None)
    assert account.data == {
        "private": False,
        "verified": False,
        "is_business_account": True,
        "business_category": "None,Musician/band",
        "joined_recently": False,
    }
    assert group.metrics == {
        ObjectKind.ACCOUNTS: {
            "followersCount": 806,
            "followsCount": 4,
            "postsCount": 33,
            "highlightReelCount": 16,
        }
    }
    assert set(group.metrics[ObjectKind.ACCOUNTS]) <= METRIC_SPEC[Platform.INSTAGRAM, ObjectKind.ACCOUNTS]
    assert sent_input()["resultsType"] == "details"


@responses.activate
def test_a_private_profile_is_blocked_and_what_it_shows_is_kept(clock: FakeClock) -> None:
    serve_run(ACTOR, sample_json("instagram/apify_profile.json"))
    graph = ask_paid(clock, "https://www.instagram.com/privateone_/")
    (group,) = graph.groups
    assert graph.blocked_reason == "private"
    assert group.account is not None
    assert (group.account.platform_key, group.account.followers) == ("5520011299", 212)
    assert group.account.data["private"] is True
    assert group.account.unavailable is None
    assert group.metrics[ObjectKind.ACCOUNTS]["postsCount"] == 57


@pytest.mark.parametrize(
    ("case", "url", "error", "reason"),
    [
        ("post_missing", "https://www.instagram.com/p/AAAAAAAAAAA/", TargetGone, "actor_not_found"),
        ("empty_or_private", "https://www.instagram.com/privateone_/", TargetBlocked, "empty_or_private"),
        ("restricted", "https://www.instagram.com/p/AAAAAAAAAAB/", TargetBlocked, "restricted"),
        ("empty_dataset", "https://www.instagram.com/p/AAAAAAAAAAB/", FetchFailed, "empty_dataset"),
    ],
)
@responses.activate
def test_every_known_item_that_is_an_error_has_its_meaning(
    case: str, url: str, error: type[Exception], reason: str, clock: FakeClock
) -> None:
    serve_run(ACTOR, error_case(ERRORS, case)["body"])
    with pytest.raises(error) as caught:
        ask_paid(clock, url)
    assert getattr(caught.value, "reason", None) == reason
    assert paid_calls() == 1


@pytest.mark.parametrize("error", ["something_new", ["not_found"], True, 7])
@responses.activate
def test_an_item_with_an_unknown_error_is_no_verdict_and_is_not_read_again(
    error: object, clock: FakeClock
) -> None:
    serve_run(ACTOR, [{"inputUrl": "https://www.instagram.com/privateone_/", "error": error}])
    memory = DictRunMemory()
    with pytest.raises(FetchFailed) as caught:
        ask_paid(clock, "https://www.instagram.com/privateone_/", memory)
    assert caught.value.reason == "actor_error"
    assert memory.notes == {}


@responses.activate
def test_an_item_about_something_else_is_no_answer(clock: FakeClock) -> None:
    url = "https://www.instagram.com/p/DMsI5Ls08jH/"
    serve_run(ACTOR, [post_item(REEL, inputUrl=url)])
    with pytest.raises(FetchFailed, match="another post"):
        ask_paid(clock, url)
    serve_run(ACTOR, [{"inputUrl": "https://www.instagram.com/someone/", "username": "other"}], run_id="run2")
    with pytest.raises(FetchFailed, match="another profile"):
        ask_paid(clock, "https://www.instagram.com/someone/")


@responses.activate
def test_a_share_link_that_leads_to_the_login_costs_one_free_call(clock: FakeClock) -> None:
    entry = error_case(ERRORS, "web_page_logged_out")
    responses.get(
        "https://www.instagram.com/share/BAbCdEfG/", status=entry["status"], headers=entry["headers"]
    )
    calls = CallCounter()
    with pytest.raises(FetchFailed) as caught:
        ask_paid(clock, "https://www.instagram.com/share/reel/BAbCdEfG", calls=calls)
    assert (caught.value.reason, calls.calls) == ("login_wall", 1)


@responses.activate
def test_a_share_link_that_names_its_post_is_that_post(clock: FakeClock) -> None:
    responses.get(
        "https://www.instagram.com/share/BAbCdEfG/",
        status=302,
        headers={"Location": "https://www.instagram.com/reel/DNNlfk8h8wr/?igsh=x"},
    )
    serve_run(ACTOR, [post_item(HIDDEN)])
    content = ask_paid(clock, "https://www.instagram.com/share/BAbCdEfG").groups[0].content
    assert content is not None
    assert content.platform_key == "3696775766835973163"


@pytest.mark.parametrize("location", ["https://example.com/p/DNNlfk8h8wr", "https://www.instagram.com/"])
def test_a_share_link_elsewhere_is_no_verdict(location: str) -> None:
    with pytest.raises(FetchFailed):
        place_of_location(location)


@pytest.mark.parametrize(
    ("code", "media"),
    [
        ("DMsI5Ls08jH", "3687361308855093447"),
        ("DNNlfk8h8wr", "3696775766835973163"),
        ("DNQRFxm8Dhd", "3697530457725876317"),
        # A private account's post has 28 letters more, which are no part of its number.
        ("DNQRFxm8Dhd" + "A" * 28, "3697530457725876317"),
        ("_-", "4094"),
        ("a/b", None),
    ],
)
def test_a_code_spells_its_media_id(code: str, media: str | None) -> None:
    assert media_id(code) == media


@pytest.mark.parametrize("media", ["0", "123", str(2**63), str(2**200)])
def test_a_number_that_holds_no_time_tells_none(media: str) -> None:
    assert time_of_id(media) is None


@pytest.mark.parametrize(
    ("url", "has_source"),
    [
        ("https://www.instagram.com/p/DMsI5Ls08jH/", True),
        ("https://www.instagram.com/tv/DMsI5Ls08jH/", True),
        ("https://www.instagram.com/reels/DMsI5Ls08jH/", True),
        ("https://www.instagram.com/someone/", True),
        ("https://www.instagram.com/share/BAbCdEfG", True),
        ("https://www.instagram.com/stories/someone/18352830295687043/", False),
        ("https://www.instagram.com/s/aGlnaGxpZ2h0", False),
        ("https://www.instagram.com/explore/", False),
    ],
)
def test_the_actor_is_asked_with_a_key_and_while_paid_calls_are_on(
    url: str, has_source: bool, clock: FakeClock
) -> None:
    settings = make_settings(apify_token="a")
    generators = Generators(OutboundClient(settings, clock), settings)
    found = generators.for_route(route(url), is_paid_enabled=True)
    assert (found is not None and found.source == "apify") is has_source
    assert generators.for_route(route(url), is_paid_enabled=False) is None
    keyless = Generators(OutboundClient(make_settings(), clock), make_settings())
    assert keyless.for_route(route(url), is_paid_enabled=True) is None
