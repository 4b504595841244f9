"""TikTok, Instagram and Reddit from a token's link to its documents, over the sandbox's socket."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis

from devstack.sandbox import reddit
from tests.conftest import make_settings
from tests.integration.recording_place import RecordingPlace, failed_url, place, sandbox
from workers.http.client import OutboundClient
from workers.mongo import Document
from workers.social_recording.generators.apify.runs import KEY_PREFIX

__all__ = ["place", "sandbox"]

STARTS = r"^POST /apify/acts/"
KEYS = {
    "apify_token": "apify-secret",
    "reddit_client_id": "our-app",
    "reddit_client_secret": "app-secret",
}
VIDEO = "https://tiktok.com/@_/video/7524354453693802698"


@pytest.fixture
def paying(place: RecordingPlace) -> RecordingPlace:
    """A place with every key, where money may be spent."""
    return with_keys(place, KEYS, is_paid_enabled=True)


@pytest.fixture
def frugal(place: RecordingPlace) -> RecordingPlace:
    """A place with every key, where money may not be spent."""
    return with_keys(place, KEYS, is_paid_enabled=False)


def with_keys(place: RecordingPlace, keys: dict[str, str], *, is_paid_enabled: bool) -> RecordingPlace:
    names = {name.lower(): value for name, value in place.sandbox.settings().items()}
    place.settings = make_settings(tracker_timeout_ms=2000, **names, **keys)
    place.http = OutboundClient(place.settings, place.clock)
    place.rebuild(is_paid_enabled=is_paid_enabled)
    place.sandbox.client.reset()
    return place


def record(place: RecordingPlace, *links: str) -> list[Document]:
    """Record a token with these links, and return the elements of its URLs in order."""
    slots = dict(zip(("website", "twitter", "telegram", "tiktok"), links, strict=False))
    (address,) = place.list_tokens(slots)
    assert place.recorder.record(address).outcome.value == "recorded"
    elements: list[Document] = place.document(address)["social_urls"]
    return elements


def brief(element: Document) -> tuple[str, str | None]:
    return element["status"], element.get("reason")


def only(place: RecordingPlace, collection: str, **query: Any) -> Document:
    """The one document whose fields are as given."""
    rows = list(place.database[collection].find())
    (found,) = [row for row in rows if all(row.get(name) == value for name, value in query.items())]
    return found


def starts(place: RecordingPlace) -> int:
    return place.sandbox.client.calls().matching(STARTS)


# --- TikTok


def test_a_paid_video_leaves_its_numbers_and_its_author(paying: RecordingPlace) -> None:
    (element,) = record(paying, "https://www.tiktok.com/@whoever/video/7524354453693802698?_t=1")
    assert (element["url"], *brief(element)) == (VIDEO, "ok", None)
    content = only(paying, "contents", platform="tt")
    assert content["platform_key"] == "7524354453693802698"
    assert content["text"]["from_media"] == "spoken in the harbor"
    account = only(paying, "accounts", platform="tt")
    assert account["platform_key"].isdigit()
    assert content["creator_id"] == account["_id"]
    assert {row["object"] for row in paying.database["metric_series"].find()} == {"contents", "accounts"}
    assert starts(paying) == 1


def test_two_tokens_with_one_video_pay_once(paying: RecordingPlace) -> None:
    paid = []
    for link in (VIDEO, "https://m.tiktok.com/v/7524354453693802698.html"):
        assert [brief(each) for each in record(paying, link)] == [("ok", None)]
        paid.append(starts(paying))
    assert paid == [1, 0]
    assert paying.database["contents"].count_documents({}) == 1


def test_a_video_at_no_cost_leaves_its_text_and_an_account_without_a_key(frugal: RecordingPlace) -> None:
    (element,) = record(frugal, VIDEO)
    assert brief(element) == ("ok", None)
    account = only(frugal, "accounts", platform="tt")
    assert "platform_key" not in account
    assert account["handles"][0]["value"].startswith("author_")
    assert only(frugal, "contents", platform="tt")["text"]["primary"].startswith("video 7524354453693802698")
    assert starts(frugal) == 0


def test_both_sources_tell_the_same_of_a_video(place: RecordingPlace) -> None:
    seen = []
    for is_paid_enabled in (False, True):
        own = with_keys(place, KEYS, is_paid_enabled=is_paid_enabled)
        record(own, VIDEO)
        content, account = only(own, "contents"), only(own, "accounts")
        seen.append((content["text"]["primary"], content["tags"], account["handles"][0]["value"]))
        for name in ("contents", "accounts", "tokens", "token_links", "metric_series"):
            own.database[name].delete_many({})
    assert seen[0] == seen[1]


@pytest.mark.parametrize("link", ["https://vm.tiktok.com/ZMharbor1/", "https://www.tiktok.com/t/ZTharbor1/"])
def test_a_short_link_leads_to_its_video(frugal: RecordingPlace, link: str) -> None:
    (element,) = record(frugal, link)
    assert brief(element) == ("ok", None)
    urls = {each["url"] for each in only(frugal, "contents")["source_urls"]}
    assert element["url"] in urls
    assert any(url.startswith("https://tiktok.com/@_/video/") for url in urls)


def test_a_short_link_to_a_profile_is_paid_for_once(paying: RecordingPlace) -> None:
    paid = []
    for _ in range(2):
        assert [brief(each) for each in record(paying, "https://vm.tiktok.com/user-harbor/")] == [
            ("ok", None)
        ]
        paid.append(starts(paying))
        for key in paying.redis.keys(f"{KEY_PREFIX}*"):
            paying.redis.delete(key)
    assert paid == [1, 0]
    assert only(paying, "accounts")["platform_key"].isdigit()


def test_fates_of_tiktok_are_told_by_the_paid_source_and_suspected_by_the_free_one(
    place: RecordingPlace,
) -> None:
    links = (
        "https://www.tiktok.com/@a/video/7500000000000000000",
        "https://www.tiktok.com/@a/video/7500000000000000001",
        "https://www.tiktok.com/@a/video/7500000000000000002",
        "https://vm.tiktok.com/ZMexpired/",
    )
    frugal = with_keys(place, KEYS, is_paid_enabled=False)
    assert [brief(each) for each in record(frugal, *links)] == [
        ("error", "weak_not_found"),
        ("error", "weak_not_found"),
        ("error", "http_403"),
        ("not_found", "dead_short_link"),
    ]
    paying = with_keys(place, KEYS, is_paid_enabled=True)
    assert [brief(each) for each in record(paying, *links)] == [
        ("not_found", "actor_not_found"),
        ("blocked", "private"),
        ("error", "empty_dataset"),
        ("not_found", "dead_short_link"),
    ]


# --- Instagram


def test_a_post_and_a_profile_of_instagram_cost_one_run_each(paying: RecordingPlace) -> None:
    elements = record(
        paying, "https://www.instagram.com/p/DMsI5Ls08jH/", "https://www.instagram.com/moonharbor/"
    )
    assert [brief(each) for each in elements] == [("ok", None), ("ok", None)]
    assert only(paying, "contents")["platform_key"] == "3687361308855093447"
    handles = {each["handles"][0]["value"] for each in paying.database["accounts"].find()}
    assert "moonharbor" in handles
    assert len(handles) == 2
    assert starts(paying) == 2


def test_fates_of_instagram(paying: RecordingPlace) -> None:
    elements = record(
        paying,
        "https://www.instagram.com/p/AAAAAAAAAAA/ https://www.instagram.com/p/AAAAAAAAAAB/",
        "https://www.instagram.com/p/AAAAAAAAAAC/ https://www.instagram.com/emptyharbor/",
        "https://www.instagram.com/share/BAbCdEfGh/ https://www.instagram.com/privateharbor/",
    )
    assert [brief(each) for each in elements] == [
        ("not_found", "actor_not_found"),
        ("blocked", "restricted"),
        ("error", "empty_dataset"),
        ("blocked", "empty_or_private"),
        ("error", "login_wall"),
        ("blocked", "private"),
    ]
    # What a private profile shows is kept.
    account = only(paying, "accounts")
    assert account["data"]["private"] is True
    assert account["metrics"]["followers"] > 0


def test_without_leave_to_pay_instagram_waits(frugal: RecordingPlace) -> None:
    (element,) = record(frugal, "https://www.instagram.com/moonharbor/")
    assert brief(element) == ("skipped_paid", None)
    assert frugal.sandbox.client.calls().matching("/apify/") == 0


# --- Reddit


def test_reddit_costs_nothing_with_an_app_of_our_own(frugal: RecordingPlace) -> None:
    elements = record(
        frugal,
        "https://www.reddit.com/r/harbor3/comments/abc1234/title/",
        "https://www.reddit.com/user/NightHarbor/",
        "https://www.reddit.com/r/quietplace/",
    )
    assert [brief(each) for each in elements] == [("ok", None)] * 3
    assert only(frugal, "contents", platform_key="abc1234")["venue_id"] is not None
    assert only(frugal, "accounts", platform_key="nightharbor")["metrics"]["followers"] == 156
    venue = only(frugal, "venues", name="quietplace")
    assert venue["platform_key"].startswith("t5_")
    calls = frugal.sandbox.client.calls()
    assert (calls.matching("access_token"), calls.matching("/apify/")) == (1, 0)


def test_the_api_and_the_actor_tell_the_same_of_a_post(place: RecordingPlace) -> None:
    seen = []
    for keys in (KEYS, {"apify_token": "a"}):
        own = with_keys(place, keys, is_paid_enabled=True)
        record(own, "https://redd.it/abc1234")
        content = only(own, "contents", platform_key="abc1234")
        author = only(own, "accounts")
        seen.append((content["text"]["primary"], content["published_at"], author["platform_key"]))
        for name in ("contents", "accounts", "venues", "tokens", "token_links", "metric_series"):
            own.database[name].delete_many({})
    assert seen[0] == seen[1]


def test_a_crosspost_links_to_the_post_it_repeats(frugal: RecordingPlace) -> None:
    post_id = next(
        post_id
        for post_id in (f"cross{nth}" for nth in range(100))
        if "crosspost_parent" in (reddit.post_facts(post_id) or {})
    )
    record(frugal, f"https://redd.it/{post_id}")
    crosspost = only(frugal, "contents", platform_key=post_id)
    origin = only(frugal, "contents", _id=crosspost["parent_content_id"])
    assert crosspost["parent_relation"] == "quote"
    assert origin["platform_key"] in reddit.ORIGINS


def test_fates_of_reddit(frugal: RecordingPlace) -> None:
    elements = record(
        frugal,
        "https://redd.it/zzzzzzz https://redd.it/aaaaaaa https://redd.it/bbbbbbb https://redd.it/ddddddd",
        "https://www.reddit.com/r/subreddit_private https://www.reddit.com/r/subreddit_banned",
        "https://www.reddit.com/r/subreddit_missing https://www.reddit.com/user/user_suspended",
        "https://www.reddit.com/r/somewhere/s/walled123 https://www.reddit.com/r/somewhere/s/abcdef123",
    )
    assert [brief(each) for each in elements] == [
        ("not_found", "empty_listing"),
        ("not_found", "deleted_by_author"),
        ("blocked", "removed_moderator"),
        ("ok", None),
        ("blocked", "private"),
        ("blocked", "banned"),
        ("not_found", "http_404"),
        ("blocked", "suspended"),
        ("error", "unexpected_html"),
        ("ok", None),
    ]


def test_a_share_link_that_is_walled_is_paid_for_where_that_is_allowed(paying: RecordingPlace) -> None:
    (element,) = record(paying, "https://www.reddit.com/r/somewhere/s/walled123")
    assert brief(element) == ("ok", None)
    assert starts(paying) == 1


def test_a_token_that_reddit_has_dropped_is_renewed(frugal: RecordingPlace) -> None:
    record(frugal, "https://www.reddit.com/user/first/")
    # The next listing resets the sandbox, which then knows the token no more.
    (element,) = record(frugal, "https://www.reddit.com/user/second/")
    assert brief(element) == ("ok", None)
    calls = frugal.sandbox.client.calls()
    assert (calls.matching("access_token"), calls.matching("/user/second/about")) == (1, 2)


# --- Apify itself


@pytest.mark.parametrize(
    ("handle", "reason"),
    [
        ("run_ends_failed", "run_failed"),
        ("run_ends_aborted", "run_aborted"),
        ("run_ends_timed_out", "run_timed_out"),
        ("no_credit", "credit_exhausted"),
        ("monthly_limit", "credit_exhausted"),
        ("actor_memory_limit", "rate_limited"),
        ("bad_token", "misconfigured"),
    ],
)
def test_trouble_with_apify_says_nothing_about_the_target(
    paying: RecordingPlace, handle: str, reason: str
) -> None:
    (element,) = record(paying, f"https://www.instagram.com/{handle}/")
    assert (brief(element), element["attempts"]) == (("error", reason), 1)
    assert starts(paying) == 1


@pytest.mark.parametrize("handle", ["run_is_slow", "run_ends_late"])
def test_a_run_that_takes_its_time_or_ends_badly_counts_by_what_it_found(
    paying: RecordingPlace, handle: str
) -> None:
    (element,) = record(paying, f"https://www.instagram.com/{handle}/")
    assert brief(element) == ("ok", None)
    assert starts(paying) == 1


def test_a_run_that_goes_on_is_taken_up_by_the_retry(paying: RecordingPlace, redis: Redis) -> None:
    url = "https://instagram.com/run_goes_on"
    address = paying.store_token(failed_url(url))
    paying.rebuild(is_paid_enabled=True, budget_s=8)
    assert paying.retrier.retry(paying.candidate(address))["reason"] == "run_unfinished"
    assert len(redis.keys(f"{KEY_PREFIX}*")) == 1
    paying.retrier.retry(paying.candidate(address))
    assert starts(paying) == 1


def test_once_the_balance_is_used_up_the_other_links_of_the_job_wait(paying: RecordingPlace) -> None:
    paying.list_tokens(
        {"website": "https://www.instagram.com/no_credit/", "tiktok": "https://www.tiktok.com/@nextharbor"}
    )
    (row,) = paying.run_reconcile(limit=1)["data"]
    assert [(each["status"], each["reason"]) for each in row["urls"]] == [
        ("error", "credit_exhausted"),
        ("skipped_paid", "credit_exhausted"),
    ]
    assert starts(paying) == 1
