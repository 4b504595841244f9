"""Reddit: what the actor's items become."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import responses

from tests.apify_stand_in import DictRunMemory, ask_paid, paid_calls, sent_input, serve_run
from tests.conftest import FakeClock
from tests.samples import sample_json
from workers.errors import FetchFailed, TargetGone
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.social_recording.generators.apify.answers import Findings
from workers.social_recording.generators.generator import CallCounter
from workers.social_recording.generators.reddit.actor import ACTOR, graph_of
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.routing import route

POST, COMMENT, COMMUNITY, USER = range(4)
POST_URL = "https://www.reddit.com/r/riverviolet/comments/18m7xjm/blue_new_morning_round_sun/"
COMMENT_URL = f"{POST_URL}m1lq2vd/"
SHARE_URL = "https://www.reddit.com/r/riverviolet/s/xWmWYsIDlM"
# The sample's items were looked at when the samples were made, long before the run of the stand-in ended.
LOOKED_AT = datetime(2026, 4, 13, 23, 3, 27, 164_000, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(LOOKED_AT + timedelta(days=1))


def item_of(nth: int, **changes: Any) -> dict[str, Any]:
    item: dict[str, Any] = sample_json("reddit/apify_items.json")[nth]
    return {**item, **changes}


def graph_for(url: str, item: dict[str, Any], clock: FakeClock) -> SocialObjectGraph:
    return graph_of(Findings(items=(item,), looked_at=clock.now()), route(url))


def serve(*items: Any) -> None:
    serve_run(ACTOR, list(items))


@responses.activate
def test_a_post_has_its_author_and_a_subreddit_without_a_key(clock: FakeClock) -> None:
    serve(item_of(POST))
    calls = CallCounter()
    (group,) = ask_paid(clock, POST_URL, calls=calls).groups
    content, account, venue = group.content, group.account, group.venue
    assert content is not None
    assert account is not None
    assert venue is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.POST, "18m7xjm")
    assert content.url == "https://reddit.com/comments/18m7xjm"
    assert content.text_primary == "Blue new morning round sun"
    assert content.text_body == item_of(POST)["body"]
    assert content.published_at == datetime(2026, 4, 13, 18, 48, 14, tzinfo=UTC)
    assert (account.platform_key, account.url) == ("meadowonyxc", "https://reddit.com/user/meadowonyxc")
    assert (venue.subtype, venue.platform_key, venue.name) == (VenueSubtype.SUBREDDIT, None, "riverviolet")
    assert venue.url == "https://reddit.com/r/riverviolet"
    assert group.metrics == {ObjectKind.CONTENTS: {"upVotes": 3345, "numberOfComments": 147}}
    assert set(group.metrics[ObjectKind.CONTENTS]) <= METRIC_SPEC[Platform.REDDIT, ObjectKind.CONTENTS]
    assert calls.calls == 3
    assert sent_input() == {
        "startUrls": [{"url": "https://www.reddit.com/comments/18m7xjm/"}],
        "maxItems": 1,
        "skipComments": True,
    }


def test_the_time_of_looking_is_the_actors(clock: FakeClock) -> None:
    assert graph_for(POST_URL, item_of(POST), clock).observed_at == LOOKED_AT
    crawled = item_of(POST, crawledAt="2026-04-13T20:00:00Z")
    assert graph_for(POST_URL, crawled, clock).observed_at == datetime(2026, 4, 13, 20, tzinfo=UTC)
    to_come = item_of(POST, scrapedAt="2026-05-13T20:00:00Z")
    assert graph_for(POST_URL, to_come, clock).observed_at == clock.now()


@responses.activate
def test_a_comment_is_found_below_its_post(clock: FakeClock) -> None:
    serve(item_of(POST), item_of(COMMENT))
    (group,) = ask_paid(clock, COMMENT_URL).groups
    content = group.content
    assert content is not None
    assert content.platform_key == "t1_m1lq2vd"
    assert content.url == "https://reddit.com/comments/18m7xjm/_/m1lq2vd"
    assert content.text_primary == "Winter in between it sun."
    assert content.data == {"in_reply_to": "t3_18m7xjm"}
    assert group.metrics == {ObjectKind.CONTENTS: {"upVotes": 41}}
    asked = sent_input()
    assert (asked["skipComments"], asked["maxItems"]) == (False, 2)


@responses.activate
def test_a_subreddit_is_a_venue(clock: FakeClock) -> None:
    serve(item_of(POST), item_of(COMMUNITY))
    (group,) = ask_paid(clock, "https://www.reddit.com/r/riverviolet/").groups
    venue = group.venue
    assert venue is not None
    assert (venue.platform_key, venue.name, venue.members) == ("t5_4dooyr", "riverviolet", 17313)
    assert venue.description == "Northern communication from our winter notice."
    assert venue.venue_created_at == datetime(2009, 6, 17, 17, 8, 21, tzinfo=UTC)
    assert group.metrics == {ObjectKind.VENUES: {"numberOfMembers": 17313}}
    assert sent_input()["maxPostCount"] == 0


@responses.activate
def test_a_user_is_keyed_by_the_name_in_lower_case(clock: FakeClock) -> None:
    serve(item_of(USER, username="MeadowOnyxC", description="see https://example.com/a"))
    (group,) = ask_paid(clock, "https://www.reddit.com/user/meadowonyxc/").groups
    account = group.account
    assert account is not None
    assert (account.platform_key, account.handle) == ("meadowonyxc", "MeadowOnyxC")
    assert (account.bio, account.links) == ("see https://example.com/a", ("https://example.com/a",))
    assert account.account_created_at == datetime(2013, 9, 5, 23, 38, 17, tzinfo=UTC)
    assert account.followers is None
    assert group.metrics == {ObjectKind.ACCOUNTS: {"postKarma": 50781, "commentKarma": 206653}}


def test_what_was_deleted_is_gone_and_what_was_removed_is_blocked(clock: FakeClock) -> None:
    with pytest.raises(TargetGone):
        graph_for(POST_URL, item_of(POST, body="[deleted]"), clock)
    graph = graph_for(POST_URL, item_of(POST, body="[removed]", username="[deleted]"), clock)
    assert graph.blocked_reason == "removed"
    (group,) = graph.groups
    assert group.account is None
    assert group.content is not None
    assert (group.content.text_primary, group.content.text_body) == ("Blue new morning round sun", None)


def test_a_post_on_a_profile_stands_in_no_subreddit(clock: FakeClock) -> None:
    item = item_of(POST, parsedCommunityName=None, communityName="u_meadowonyxc")
    assert graph_for(POST_URL, item, clock).groups[0].venue is None


@pytest.mark.parametrize(
    ("url", "item", "is_fitting"),
    [
        (SHARE_URL, {}, True),
        (SHARE_URL, {"parsedCommunityName": "RiverViolet"}, True),
        (SHARE_URL, {"parsedCommunityName": "elsewhere"}, False),
        ("https://www.reddit.com/user/meadowonyxc/s/c4fYAppQOk", {}, True),
        ("https://www.reddit.com/user/somebody/s/c4fYAppQOk", {}, False),
    ],
)
@responses.activate
def test_the_post_behind_a_share_link_stands_where_the_link_says(
    url: str, item: dict[str, Any], is_fitting: bool, clock: FakeClock
) -> None:
    serve(item_of(POST, **item))
    if is_fitting:
        content = ask_paid(clock, url).groups[0].content
        assert content is not None
        assert content.platform_key == "18m7xjm"
    else:
        with pytest.raises(FetchFailed, match="another post"):
            ask_paid(clock, url)


@pytest.mark.parametrize(
    ("url", "items", "reason"),
    [
        (POST_URL, [], "empty_dataset"),
        (POST_URL, [item_of(COMMUNITY)], "empty_dataset"),
        (COMMENT_URL, [item_of(POST)], "empty_dataset"),
        (POST_URL, [{"url": POST_URL, "error": "words"}], "actor_error"),
        (POST_URL, [{"url": POST_URL, "dataType": "page"}], "unexpected_shape"),
        (POST_URL, [item_of(POST, id="t3_other")], "unexpected_shape"),
        ("https://www.reddit.com/r/riverviolet/", [item_of(COMMUNITY, title="other")], "unexpected_shape"),
        ("https://www.reddit.com/user/meadowonyxc/", [item_of(USER, username="other")], "unexpected_shape"),
    ],
)
@responses.activate
def test_a_run_that_says_nothing_about_the_target_is_no_verdict(
    url: str, items: list[Any], reason: str, clock: FakeClock
) -> None:
    serve(*items)
    memory = DictRunMemory()
    with pytest.raises(FetchFailed) as caught:
        ask_paid(clock, url, memory)
    assert caught.value.reason == reason
    assert paid_calls() == 1
    assert memory.notes == {}
