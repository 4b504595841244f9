"""What the sandbox's TikTok, Instagram, Reddit and Apify answer, without a socket."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from devstack.sandbox import actors, apify, instagram, reddit, tiktok
from devstack.sandbox.apify import Apify
from devstack.sandbox.http_server import Request
from devstack.sandbox.reddit import Reddit
from devstack.sandbox.samples import Answer
from tests.samples import sample_json

NOW = datetime(2026, 1, 15, tzinfo=UTC)
VIDEO = "7524354453693802698"
TIKTOK = "clockworks~tiktok-scraper"


def body(answer: Answer) -> Any:
    return json.loads(answer.body)


def ask(
    service: Any, path: str, *, method: str = "GET", sent: bytes = b"", query: str = "", **headers: str
) -> Answer:
    target = f"{path}?{query}" if query else path
    request = Request(method=method, target=target, headers=headers, body=sent)
    answer: Answer = service(request, path)
    return answer


# --- TikTok


def embed(url: str) -> Answer:
    return ask(tiktok.answer, "/oembed", query=f"url={quote(url, safe='')}")


def scraped(**asked: Any) -> list[dict[str, Any]]:
    return actors.tiktok_scraper(asked, NOW)


def test_oembed_and_the_actor_tell_the_same_of_a_video() -> None:
    url = f"https://www.tiktok.com/@whoever/video/{VIDEO}"
    shown, (item,) = body(embed(url)), scraped(postURLs=[url])
    assert shown["embed_product_id"] == item["id"] == VIDEO
    assert shown["title"].strip() == item["text"]
    assert shown["author_unique_id"] == item["authorMeta"]["name"]
    assert shown["author_name"] == item["authorMeta"]["nickName"]
    assert item["input"] == url
    assert set(item) <= set(sample_json("tiktok/apify_video.json")[0])


def test_an_account_has_one_id_in_whatever_case_and_place() -> None:
    (profile,) = scraped(profiles=["NightHarbor"])
    assert profile["input"] == "NightHarbor"
    assert profile["authorMeta"] == tiktok.author_facts("nightharbor")
    assert body(embed("https://www.tiktok.com/@NIGHTHARBOR"))["author_unique_id"] == "nightharbor"


def test_short_links_lead_to_videos_profiles_or_nowhere() -> None:
    first = tiktok.short_link("https://vm.tiktok.com/ZMabc123/").headers["location"]
    assert first == tiktok.short_link("https://vm.tiktok.com/ZMabc123").headers["location"]
    kind, video_id, _ = tiktok.place_of(first)
    assert (kind, len(video_id)) == ("video", 19)
    assert "/@/video/" in tiktok.short_link("https://vt.tiktok.com/ZSabc123/").headers["location"]
    assert tiktok.place_of(ask(tiktok.answer, "/t/user-abc/").headers["location"])[0] == "profile"
    dead = tiktok.short_link("https://vm.tiktok.com/ZMexpired/").headers["location"]
    assert dead == "https://www.tiktok.com/?_r=1"
    assert not tiktok.is_short_link("https://www.tiktok.com/t/ZTabc123/")


def test_every_recorded_case_of_tiktok_can_be_asked_for() -> None:
    url = "https://www.tiktok.com/@nosuchhandle000/video/7500000000000000000"
    cases = {entry["case"]: entry["body"] for entry in sample_json("tiktok/errors.json")}
    assert body(embed(url)) == cases["oembed_missing_or_private"]
    assert embed(url[:-1] + "2").status == 403
    assert scraped(postURLs=[url]) == cases["actor_post_missing"]
    assert scraped(postURLs=[url[:-1] + "1"])[0]["errorCode"] == "PRIVATE_POST"
    assert scraped(profiles=["nosuchhandle000"]) == cases["actor_profile_missing"]
    assert scraped(profiles=["silentharbor"]) == scraped(postURLs=[url[:-1] + "2"]) == []
    assert scraped(postURLs=[url[:-1] + "3"])[0]["authorMeta"]["privateAccount"] is True


# --- Instagram


def test_posts_of_instagram_spell_their_own_id_and_share_owners() -> None:
    codes = [f"DN{nth:09d}" for nth in range(100)]
    urls = [f"https://www.instagram.com/p/{code}/" for code in codes]
    items = actors.instagram_scraper({"directUrls": urls}, NOW)
    assert [item["inputUrl"] for item in items] == urls
    assert [item["id"] for item in items] == [instagram.media_id(code) for code in codes]
    assert instagram.media_id("DMsI5Ls08jH") == "3687361308855093447"
    assert 10 < len({item["ownerId"] for item in items}) <= instagram.OWNER_COUNT
    (owner,) = actors.instagram_scraper(
        {"directUrls": [f"https://www.instagram.com/{items[0]['ownerUsername']}/"]}, NOW
    )
    assert owner["id"] == items[0]["ownerId"]


def test_every_recorded_case_of_instagram_can_be_asked_for() -> None:
    found = [
        item
        for path in ("p/AAAAAAAAAAA", "p/AAAAAAAAAAB", "p/AAAAAAAAAAC", "emptyharbor", "nosuchhandle000")
        for item in actors.instagram_scraper({"directUrls": [f"https://www.instagram.com/{path}/"]}, NOW)
    ]
    assert [item["error"] for item in found] == ["not_found", "restricted_page", "no_items", "not_found"]
    missing = next(entry for entry in sample_json("instagram/errors.json") if entry["case"] == "post_missing")
    assert [found[0]] == missing["body"]
    login = instagram.page("https://www.instagram.com/p/AAAAAAAAAAA/")
    assert (login.status, login.headers["location"]) == (
        302,
        "https://www.instagram.com/accounts/login/?next=%2Fp%2FAAAAAAAAAAA%2F",
    )


# --- Reddit


def basic(client: str) -> str:
    return f"Basic {b64encode(f'{client}:secret'.encode()).decode()}"


def token_from(service: Reddit) -> str:
    answer = ask(
        service.site,
        "/api/v1/access_token",
        method="POST",
        sent=b"grant_type=client_credentials",
        authorization=basic("our-app"),
    )
    return f"Bearer {body(answer)['access_token']}"


def test_reddit_wants_a_token_that_it_gave() -> None:
    service = Reddit()
    token = token_from(service)
    assert ask(service.api, "/user/a/about", authorization=token).status == 200
    for other in ("", "Bearer ", "Bearer other"):
        assert ask(service.api, "/user/a/about", authorization=other).status == 401
    assert ask(Reddit().api, "/user/a/about", authorization=token).status == 401


@pytest.mark.parametrize(
    ("authorization", "sent", "status"),
    [
        (basic("bad-client"), b"grant_type=client_credentials", 401),
        ("", b"grant_type=client_credentials", 401),
        ("Basic ///", b"grant_type=client_credentials", 401),
        (basic("our-app"), b"grant_type=password", 400),
        (basic("our-app"), b"", 400),
    ],
)
def test_a_login_needs_a_client_and_its_grant(authorization: str, sent: bytes, status: int) -> None:
    path = "/api/v1/access_token"
    answer = ask(Reddit().site, path, method="POST", sent=sent, authorization=authorization)
    assert answer.status == status


def test_every_recorded_case_of_reddit_can_be_asked_for() -> None:
    service = Reddit()
    token = token_from(service)
    for case, recorded in reddit.ERRORS.items():
        if case.startswith(("user-", "subreddit-", "rate-", "server-", "anonymous-")):
            answer = ask(service.api, f"/r/{case.replace('-', '_')}/about", authorization=token)
            assert (answer.status, answer.headers) == (recorded.status, recorded.headers)
    for post_id, fate in reddit.FATES.items():
        shown = body(ask(service.api, "/api/info", query=f"id=t3_{post_id}", authorization=token))
        children = shown["data"]["children"]
        assert bool(children) is (fate != "missing")
        if children:
            assert children[0]["data"]["author"] == "[deleted]"


def test_the_api_and_the_actor_tell_the_same_of_posts_places_and_people() -> None:
    post = reddit.post_facts("abc1234")
    assert post is not None
    subreddit, author = post["subreddit"], post["author"]
    urls = [
        "https://www.reddit.com/comments/abc1234/",
        f"https://www.reddit.com/r/{subreddit}/",
        f"https://www.reddit.com/user/{author}/",
    ]
    asked = {"startUrls": [{"url": url} for url in urls], "skipComments": True}
    shown, community, user = actors.reddit_scraper(asked, NOW)
    assert (shown["id"], shown["username"], shown["parsedCommunityName"]) == ("t3_abc1234", author, subreddit)
    assert community["name"] == post["subreddit_id"]
    assert community["numberOfMembers"] == post["subreddit_subscribers"]
    assert user["postKarma"] == reddit.user_about(author)["data"]["link_karma"]
    assert {item["scrapedAt"] for item in (shown, community, user)} == {"2026-01-15T00:00:00.000Z"}


def test_a_comment_comes_behind_its_post_and_only_when_it_is_wanted() -> None:
    url = "https://www.reddit.com/comments/abc1234/_/def5678/"
    both = actors.reddit_scraper({"startUrls": [{"url": url}], "skipComments": False}, NOW)
    assert [item["dataType"] for item in both] == ["post", "comment"]
    assert both[1]["id"] == "t1_def5678"
    assert len(actors.reddit_scraper({"startUrls": [{"url": url}], "skipComments": True}, NOW)) == 1


def test_a_share_link_leads_to_a_post_or_to_a_wall() -> None:
    service = Reddit()
    answer = ask(service.site, "/r/harbor/s/abcdef123")
    assert answer.status == 301
    assert f"/r/harbor/comments/{reddit.shared_post('abcdef123')}/" in answer.headers["location"]
    assert ask(service.site, "/r/harbor/s/walled123") == reddit.BLOCK_PAGE
    assert ask(service.site, "/r/harbor/about.json") == reddit.BLOCK_PAGE


def test_some_posts_repeat_others_which_are_the_same_by_themselves() -> None:
    posts = [reddit.post_facts(f"p{nth}") or {} for nth in range(200)]
    repeating = [post for post in posts if "crosspost_parent_list" in post]
    assert 10 < len(repeating) < 60
    for post in repeating:
        (origin,) = post["crosspost_parent_list"]
        assert post["crosspost_parent"] == origin["name"]
        assert reddit.post_facts(origin["id"]) == origin


# --- Apify


def start(
    service: Apify, asked: Any, *, actor: str = TIKTOK, query: str = "", key: str = "Bearer k"
) -> Answer:
    sent = json.dumps(asked).encode()
    return ask(
        service.answer, f"/acts/{actor}/runs", method="POST", sent=sent, query=query, authorization=key
    )


def look(service: Apify, path: str, query: str = "") -> Answer:
    return ask(service.answer, path, query=query, authorization="Bearer k")


def test_a_run_is_over_once_somebody_waits_and_can_be_read_and_found_again() -> None:
    service = Apify()
    asked = {"profiles": ["nightharbor"]}
    run = body(start(service, asked))["data"]
    assert (run["status"], run["finishedAt"]) == ("READY", None)
    assert body(look(service, f"/actor-runs/{run['id']}"))["data"]["status"] == "READY"
    over = body(look(service, f"/actor-runs/{run['id']}", "waitForFinish=60"))["data"]
    assert over["status"] == "SUCCEEDED"
    assert over["finishedAt"] >= over["startedAt"]
    assert set(over) == set(sample_json("apify/run.json")["data"])
    assert len(body(look(service, f"/datasets/{run['defaultDatasetId']}/items"))) == 1
    found = body(look(service, f"/acts/{TIKTOK}/runs", f"startedAfter={run['startedAt']}"))["data"]["items"]
    assert [each["id"] for each in found] == [run["id"]]
    record = look(service, f"/key-value-stores/{run['defaultKeyValueStoreId']}/records/INPUT")
    assert body(record)["profiles"] == ["nightharbor"]
    assert (
        body(look(service, f"/acts/{TIKTOK}/runs", "startedAfter=2999-01-01T00:00:00.000Z"))["data"]["items"]
        == []
    )


def test_two_starts_are_two_runs_and_a_run_gives_no_more_than_it_may() -> None:
    service = Apify()
    asked = {"profiles": ["one", "two"]}
    first, second = (body(start(service, asked, query="maxItems=1"))["data"] for _ in range(2))
    assert first["id"] != second["id"]
    assert len(body(look(service, f"/datasets/{first['defaultDatasetId']}/items"))) == 1
    newest = body(look(service, f"/acts/{TIKTOK}/runs", "desc=1&limit=1"))["data"]["items"]
    assert [each["id"] for each in newest] == [second["id"]]


@pytest.mark.parametrize("case", sorted(apify.ERRORS))
def test_every_recorded_case_of_apify_can_be_asked_for(case: str) -> None:
    for spelling in (case, case.replace("-", "_")):
        assert start(Apify(), {"profiles": [spelling]}) == apify.ERRORS[case]


@pytest.mark.parametrize(
    ("word", "statuses", "items"),
    [
        ("run_is_slow", ["RUNNING", "RUNNING", "SUCCEEDED", "SUCCEEDED"], 1),
        ("run_goes_on", ["RUNNING"] * 4, 1),
        ("run_ends_failed", ["FAILED"], 0),
        ("run_ends_aborted", ["ABORTED"], 0),
        ("run_ends_timed_out", ["TIMED-OUT"], 0),
        ("run_ends_late", ["TIMED-OUT"], 1),
    ],
)
def test_reserved_words_choose_how_a_run_ends(word: str, statuses: list[str], items: int) -> None:
    service = Apify()
    run = body(start(service, {"profiles": [word]}))["data"]
    path = f"/actor-runs/{run['id']}"
    assert [body(look(service, path, "waitForFinish=1"))["data"]["status"] for _ in statuses] == statuses
    assert len(body(look(service, f"/datasets/{run['defaultDatasetId']}/items"))) == items


def test_without_a_key_an_actor_or_an_object_nothing_is_started() -> None:
    service = Apify()
    for key in ("", "Bearer ", "Bearer  "):
        assert start(service, {}, key=key) == apify.ERRORS["bad-token"]
    assert start(service, {}, actor="nobody~nothing") == apify.ERRORS["actor-missing"]
    assert start(service, ["profiles"]) == apify.ERRORS["invalid-input"]
    assert body(look(service, f"/acts/{TIKTOK}/runs"))["data"]["total"] == 0


@pytest.mark.parametrize("path", ["/actor-runs/other", "/datasets/otherd/items", "/users/me", "/acts/a~b"])
def test_what_apify_does_not_know_is_not_found(path: str) -> None:
    assert look(Apify(), path).status == 404
