"""X's services in the sandbox: each tells the same of one post, person or community, without a socket."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from devstack.sandbox import syndication, twitterapiio, x_api, x_facts, x_oembed
from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer
from devstack.sandbox.twitterapiio import TwitterAPIIO
from devstack.sandbox.x_api import XAPI
from workers.social_recording.generators.x.api import COMMUNITY_QUERY, POST_QUERY, USER_QUERY

FIRST = 2_000_000_000_000_000_000
POSTS = [str(FIRST + number) for number in range(120)]
KEYS = {"authorization": "Bearer anything", "x-api-key": "anything"}


def get(path: str, query: str = "", **headers: str) -> Request:
    return Request(
        method="GET",
        target=f"{path}?{query}" if query else path,
        headers={"host": "sandbox", **headers},
        body=b"",
    )


def body(answer: Answer) -> Any:
    return json.loads(answer.body)


class World:
    """Everybody's view of the same X."""

    def __init__(self) -> None:
        people = x_facts.People()
        self._api, self._reseller = XAPI(people), TwitterAPIIO(people)

    def syndication(self, post_id: str) -> Answer:
        return syndication.answer(f"id={post_id}")

    def oembed(self, url: str, **more: str) -> Answer:
        return x_oembed.answer(get("/x-oembed/oembed", urlencode({"url": url, **more})), "/oembed")

    def api(self, path: str, query: dict[str, str] | None = None, **headers: str) -> Answer:
        request = get(f"/x-api{path}", urlencode(query or {}), **(headers or KEYS))
        return self._api.answer(request, path)

    def reseller(self, path: str, **query: str) -> Answer:
        return self._reseller.answer(get(f"/twitterapiio{path}", urlencode(query), **KEYS), path)

    def api_post(self, post_id: str) -> Any:
        return body(self.api(f"/tweets/{post_id}", POST_QUERY))

    def reseller_post(self, post_id: str) -> Any:
        return body(self.reseller("/twitter/tweets", tweet_ids=post_id))["tweets"][0]


@pytest.fixture
def world() -> World:
    return World()


def test_a_post_is_the_same_post_at_every_service(world: World) -> None:
    for post_id in POSTS:
        free, reseller = body(world.syndication(post_id)), world.reseller_post(post_id)
        paid = world.api_post(post_id)
        data, metrics = paid["data"], paid["data"]["public_metrics"]
        assert free["id_str"] == data["id"] == reseller["id"] == post_id
        assert free["text"] == data["text"] == reseller["text"]
        assert free["user"]["id_str"] == data["author_id"] == reseller["author"]["id"]
        assert free["user"]["screen_name"] == paid["includes"]["users"][0]["username"]
        assert free["user"]["screen_name"] == reseller["author"]["userName"]
        assert free["created_at"] == data["created_at"]
        assert free["favorite_count"] == metrics["like_count"] == reseller["likeCount"]
        assert free["conversation_count"] == metrics["reply_count"] == reseller["replyCount"]
        oembed = body(world.oembed(f"https://x.com/i/status/{post_id}"))
        assert oembed["author_url"] == f"https://x.com/{free['user']['screen_name']}"
        assert oembed["url"].endswith(f"/status/{post_id}")


def test_a_quoted_post_is_the_same_post_at_every_service(world: World) -> None:
    quoting = [each for each in POSTS if x_facts.quotes(each)]
    assert 5 < len(quoting) < 60
    for post_id in quoting:
        free, reseller = body(world.syndication(post_id)), world.reseller_post(post_id)
        paid = world.api_post(post_id)
        quoted = paid["includes"]["tweets"][0]
        assert paid["data"]["referenced_tweets"] == [{"type": "quoted", "id": quoted["id"]}]
        assert free["quoted_tweet"]["id_str"] == quoted["id"] == reseller["quoted_tweet"]["id"]
        assert free["quoted_tweet"]["retweet_count"] == quoted["public_metrics"]["retweet_count"]
        authors = {user["id"] for user in paid["includes"]["users"]}
        assert authors == {free["user"]["id_str"], free["quoted_tweet"]["user"]["id_str"]}


def test_some_posts_stand_in_a_community_that_both_paid_services_know(world: World) -> None:
    numbers = [world.api_post(each)["data"].get("community_id") for each in POSTS]
    named = {number for number in numbers if number}
    assert 3 < len(named) <= len(x_facts.COMMUNITY_IDS)
    for number in named:
        paid = body(world.api(f"/communities/{number}", COMMUNITY_QUERY))["data"]
        info = body(world.reseller("/twitter/community/info", community_id=number))["community_info"]
        assert (paid["id"], paid["name"]) == (info["id"], info["name"]) == (number, info["name"])
        assert paid["member_count"] == info["member_count"]
        maker = body(world.reseller("/twitter/user/info", userName=info["creator"]["screen_name"]))["data"]
        assert (maker["id"], maker["followers"]) == (
            info["creator"]["id"],
            info["creator"]["followers_count"],
        )


@pytest.mark.parametrize(
    "handle", ["Night_Owl", "author_7", "author_07", "author_40", "1234", "u_zz", "u_0z"]
)
def test_a_handle_has_one_id_in_whatever_case_and_at_both_services(world: World, handle: str) -> None:
    paid = body(world.api(f"/users/by/username/{handle}", USER_QUERY))["data"]
    again = body(world.api(f"/users/by/username/{handle.upper()}", USER_QUERY))["data"]
    reseller = body(world.reseller("/twitter/user/info", userName=handle.lower()))["data"]
    assert paid == again
    assert (paid["id"], paid["username"]) == (reseller["id"], reseller["userName"])
    assert paid["public_metrics"]["followers_count"] == reseller["followers"]
    assert body(world.api(f"/users/{paid['id']}", USER_QUERY))["data"] == paid
    by_id = body(world.reseller("/twitter/user/batch_info_by_ids", userIds=paid["id"]))["users"]
    assert by_id == [reseller]


def test_other_handles_are_other_people(world: World) -> None:
    handles = [
        "night_owl",
        "nightowl",
        "author_07",
        "author_40",
        "author_7",
        "u_zz",
        "u_0z",
        "1234",
        "author_",
    ]
    ids = {body(world.api(f"/users/by/username/{handle}"))["data"]["id"] for handle in handles}
    assert len(ids) == len(handles)


@pytest.mark.parametrize("number", ["1", "7", "1729123245750408839", "9223372036854775807", "2600000039"])
def test_somebody_without_a_name_has_one_that_leads_back(world: World, number: str) -> None:
    person = body(world.api(f"/users/{number}"))["data"]
    assert person["id"] == number
    assert len(person["username"]) <= 15
    assert body(world.api(f"/users/by/username/{person['username']}"))["data"] == person
    assert (
        body(world.reseller("/twitter/user/batch_info_by_ids", userIds=number))["users"][0]["userName"]
        == (person["username"])
    )


def test_an_account_and_a_community_are_as_old_as_their_ids_say(world: World) -> None:
    number = "1729123245750408839"
    person = body(world.api(f"/users/{number}", USER_QUERY))["data"]
    assert person["created_at"].startswith("2023-11-27T13:01:22")
    shown = body(world.reseller("/twitter/user/batch_info_by_ids", userIds=number))["users"][0]
    assert shown["createdAt"] == "Mon Nov 27 13:01:22 +0000 2023"
    info = body(world.reseller("/twitter/community/info", community_id="1867306814230749484"))
    assert info["community_info"]["created_at"] == "Thu Dec 12 20:33:32 +0000 2024"


def test_without_the_names_of_fields_the_api_shows_little(world: World) -> None:
    post = body(world.api(f"/tweets/{POSTS[0]}"))
    assert set(post) == {"data"}
    assert set(post["data"]) == {"id", "text", "edit_history_tweet_ids"}
    assert set(body(world.api("/users/by/username/somebody"))["data"]) == {"id", "name", "username"}
    assert set(body(world.api("/communities/1867306814230749484"))["data"]) == {"id", "name"}


# --- refusals ---------------------------------------------------------------

REFUSING = {
    "deleted": ("syndication-deleted", "oembed-missing", "v2-tweet-missing", False),
    "account-gone": ("syndication-account-gone", "oembed-missing", "v2-tweet-missing", False),
    "suspended": ("syndication-suspended", "oembed-missing", "v2-tweet-protected", False),
    "protected": ("syndication-protected", "oembed-missing", "v2-tweet-protected", False),
    "restricted": ("syndication-restricted", None, None, True),
    "silent": ("syndication-empty", "oembed-missing", "v2-tweet-missing", False),
    "missing": ("syndication-missing", "oembed-missing", "v2-tweet-missing", False),
    "refused": ("syndication-refused", None, None, True),
    "rate-limited": ("syndication-rate-limited", None, None, True),
    "hidden": ("syndication-empty", None, None, True),
    "moved": ("syndication-empty", "oembed-moved", None, True),
    "quote-gone": (None, None, None, True),
}


@pytest.mark.parametrize(("post_id", "fate"), x_facts.FATES.items())
def test_what_became_of_a_post_every_service_says_in_its_own_words(
    world: World, post_id: str, fate: str
) -> None:
    free, oembed, paid, is_sold = REFUSING[fate]
    shown = world.syndication(post_id)
    assert shown == syndication.ERRORS[free] if free else body(shown)["id_str"] == post_id
    embedded = world.oembed(f"https://x.com/i/status/{post_id}")
    assert embedded.status == (x_oembed.ERRORS[oembed].status if oembed else 200)
    answer = body(world.api(f"/tweets/{post_id}", POST_QUERY))
    if paid:
        recorded = body(x_api.ERRORS[paid])["errors"][0]
        assert (answer["errors"][0]["title"], answer["errors"][0]["value"]) == (recorded["title"], post_id)
        assert post_id in answer["errors"][0]["detail"]
        assert "data" not in answer
    else:
        assert answer["data"]["id"] == post_id
    sold = body(world.reseller("/twitter/tweets", tweet_ids=post_id))["tweets"]
    assert [each["id"] for each in sold] == ([post_id] if is_sold else [])


def test_a_quoted_post_that_is_gone_is_an_error_beside_the_data(world: World) -> None:
    [post_id] = [each for each, fate in x_facts.FATES.items() if fate == "quote-gone"]
    paid = world.api_post(post_id)
    [problem] = paid["errors"]
    assert problem["parameter"] == "referenced_tweets.id"
    assert paid["data"]["referenced_tweets"][0]["id"] == problem["value"]
    assert "tweets" not in paid["includes"]
    assert "quoted_tweet" not in body(world.syndication(post_id))
    assert world.reseller_post(post_id)["quoted_tweet"] is None


@pytest.mark.parametrize(("handle", "case"), x_api.RESERVED_HANDLES.items())
def test_reserved_handles_get_the_refusals_of_the_api(world: World, handle: str, case: str) -> None:
    answer = world.api(f"/users/by/username/{handle}")
    recorded = x_api.ERRORS[case]
    assert (answer.status, answer.headers) == (recorded.status, recorded.headers)
    assert body(answer).get("title") == body(recorded).get("title")
    if answer.status == 200:
        assert body(answer)["errors"][0]["value"] == handle


@pytest.mark.parametrize(("handle", "case"), twitterapiio.RESERVED_HANDLES.items())
def test_reserved_handles_get_the_refusals_of_the_reseller(world: World, handle: str, case: str) -> None:
    answer = world.reseller("/twitter/user/info", userName=handle)
    assert answer.status == twitterapiio.ERRORS[case].status
    if case == "twitterapiio-user-suspended":
        assert body(answer)["data"]["unavailable"] is True
        assert body(answer)["data"]["userName"] == handle
    else:
        assert answer == twitterapiio.ERRORS[case]


def test_every_recorded_case_can_be_asked_for(world: World) -> None:
    reached = {*x_api.RESERVED_HANDLES.values(), *(paid for _, _, paid, _ in REFUSING.values() if paid)}
    assert world.api("/tweets/abc") == x_api.ERRORS["v2-invalid-id"]
    assert reached | {"v2-invalid-id", "v2-partial-quoted-missing"} == set(x_api.ERRORS)
    assert world.reseller("/twitter/tweets") == twitterapiio.ERRORS["twitterapiio-bad-parameter"]
    [gone, *_] = x_facts.FATES
    missing = twitterapiio.ERRORS["twitterapiio-tweet-missing"]
    assert body(world.reseller("/twitter/tweets", tweet_ids=gone)) == body(missing)
    known = {
        *twitterapiio.RESERVED_HANDLES.values(),
        "twitterapiio-bad-parameter",
        "twitterapiio-tweet-missing",
    }
    assert known == set(twitterapiio.ERRORS)
    assert x_oembed.answer(get("/x-oembed/oembed"), "/oembed") == x_oembed.ERRORS["oembed-bad-request"]
    assert {oembed for _, oembed, _, _ in REFUSING.values()} | {"oembed-bad-request"} == {
        None,
        *x_oembed.ERRORS,
    }


def test_a_community_that_is_missing_is_so_at_both_services(world: World) -> None:
    number = x_facts.MISSING_COMMUNITY
    [problem] = body(world.api(f"/communities/{number}"))["errors"]
    assert (problem["resource_type"], problem["value"]) == ("community", number)
    assert body(world.reseller("/twitter/community/info", community_id=number))["status"] == "error"


def test_a_call_without_a_key_is_refused_and_one_to_nowhere_too(world: World) -> None:
    for authorization in ("", "Bearer", "Bearer "):
        answer = world.api("/users/1", authorization=authorization)
        assert answer == x_api.ERRORS["v2-unauthorized"]
    reseller = TwitterAPIIO(x_facts.People())
    request = get("/twitterapiio/twitter/tweets", "tweet_ids=1")
    assert reseller.answer(request, "/twitter/tweets") == twitterapiio.ERRORS["twitterapiio-bad-key"]
    assert world.api("/lists/1").status == 404
    assert world.reseller("/twitter/list/members").status == 404


@pytest.mark.parametrize(
    "url", ["", "https://x.com/somebody", "https://x.com.evil.io/a/status/1", "https://x.com/a/status/abc"]
)
def test_what_is_no_url_of_a_post_is_not_embedded(world: World, url: str) -> None:
    assert world.oembed(url).status in {400, 404}


def test_a_move_of_the_endpoint_ends_at_the_post(world: World) -> None:
    [post_id] = [each for each, fate in x_facts.FATES.items() if fate == "moved"]
    url = f"https://x.com/a/status/{post_id}"
    moved = world.oembed(url)
    assert moved.status == 301
    assert moved.headers["location"] == f"http://sandbox/x-oembed/oembed?url={quote(url, safe='')}&moved=1"
    assert body(world.oembed(url, moved="1"))["url"].endswith(post_id)
