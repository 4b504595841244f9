"""X's own API, version 2: posts, users and communities by their ids, users by their handles.

Owns the personalisation of the recorded answers; what is told of somebody or something is in `x_facts`. As
from X, an answer holds the default fields alone, unless others are named, and what a post refers to only with
the expansions for it.

The handles in `RESERVED_HANDLES` and the posts in `x_facts.FATES` get recorded refusals. A call without a key
is `v2-unauthorized`; any key will do. An id that is no number is `v2-invalid-id`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import parse_qs

from devstack.sandbox import x_facts
from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, error_answers, json_answer, payload_of

LIMIT_HEADERS = {
    "x-rate-limit-limit": "450",
    "x-rate-limit-remaining": "449",
    "x-rate-limit-reset": "1893456000",
}
POST: dict[str, Any] = payload_of("x/v2_tweet.json")["data"]
USER: dict[str, Any] = payload_of("x/v2_user.json")["data"]
COMMUNITY: dict[str, Any] = payload_of("x/v2_community.json")["data"]
ERRORS = error_answers("x/errors.json", prefix="v2_")
NO_KEY, BAD_ID, PARTIAL = "v2-unauthorized", "v2-invalid-id", "v2-partial-quoted-missing"
MISSING_POST, PROTECTED_POST, MISSING_USER = "v2-tweet-missing", "v2-tweet-protected", "v2-user-missing"
RESERVED_HANDLES = {
    "user_missing": MISSING_USER,
    "user_suspended": "v2-user-suspended",
    "bad_key": NO_KEY,
    "no_credit": "v2-credits-depleted",
    "usage_capped": "v2-usage-capped",
    "not_enrolled": "v2-client-forbidden",
    "rate_limited": "v2-rate-limited",
    "source_down": "v2-unavailable",
}
POST_DEFAULTS = ("id", "text", "edit_history_tweet_ids")
USER_DEFAULTS = ("id", "name", "username")
COMMUNITY_DEFAULTS = ("id", "name")
POST_ROUTE = re.compile(r"/tweets/([\w-]+)", re.ASCII)
HANDLE_ROUTE = re.compile(r"/users/by/username/(\w{1,15})", re.ASCII)
USER_ROUTE = re.compile(r"/users/([\w-]+)", re.ASCII)
COMMUNITY_ROUTE = re.compile(r"/communities/([\w-]+)", re.ASCII)
NO_ROUTE = json_answer({"title": "Not Found", "type": "about:blank", "status": 404}, status=404)


class XAPI:
    """Answers the four routes."""

    def __init__(self, people: x_facts.People) -> None:
        self._people = people

    def answer(self, request: Request, path: str) -> Answer:
        """Answer a GET of `path`, which starts after the base URL."""
        if request.method not in {"GET", "HEAD"}:
            return json_answer({"title": "Method Not Allowed", "status": 405}, status=405)
        if not request.headers.get("authorization", "").removeprefix("Bearer").strip():
            return ERRORS[NO_KEY]
        asked = _Asked(request.query)
        if found := HANDLE_ROUTE.fullmatch(path):
            case = RESERVED_HANDLES.get(found[1].lower())
            return _about(found[1], case) if case else _user(self._people.by_handle(found[1]), asked)
        for route, respond in (
            (POST_ROUTE, self._post),
            (USER_ROUTE, lambda number, asked: _user(self._people.by_id(number), asked)),
            (COMMUNITY_ROUTE, _community),
        ):
            if found := route.fullmatch(path):
                return respond(found[1], asked) if x_facts.is_number(found[1]) else ERRORS[BAD_ID]
        return NO_ROUTE

    def _post(self, number: str, asked: _Asked) -> Answer:
        fate = x_facts.FATES.get(number)
        if fate in x_facts.GONE:
            return _about(number, MISSING_POST)
        if fate in x_facts.CLOSED:
            return _about(number, PROTECTED_POST)
        post = x_facts.post(number)
        referred: list[x_facts.Post] = []
        errors: list[dict[str, Any]] = []
        if post.quoted_id is not None and "referenced_tweets.id" in asked.expansions:
            if fate == "quote-gone":
                errors = [_quote_is_gone(post.quoted_id)]
            else:
                referred = [x_facts.post(post.quoted_id)]
        authors = [post.author] if "author_id" in asked.expansions else []
        if "referenced_tweets.id.author_id" in asked.expansions:
            authors += [each.author for each in referred]
        includes = {
            "users": [asked.user(each) for each in {each.id: each for each in authors}.values()],
            "tweets": [asked.post(each) for each in referred],
        }
        payload: dict[str, Any] = {"data": asked.post(post)}
        if included := {name: items for name, items in includes.items() if items}:
            payload["includes"] = included
        if errors:
            payload["errors"] = errors
        return json_answer(payload, headers=LIMIT_HEADERS)


class _Asked:
    """The fields and expansions that a question names."""

    def __init__(self, query: str) -> None:
        named = {name: set(values[0].split(",")) for name, values in parse_qs(query).items()}
        self.expansions = named.get("expansions", set())
        self._post_fields = named.get("tweet.fields", set())
        self._user_fields = named.get("user.fields", set())
        self._community_fields = named.get("community.fields", set())

    def post(self, post: x_facts.Post) -> dict[str, Any]:
        return _only(_whole_post(post), POST_DEFAULTS, self._post_fields)

    def user(self, person: x_facts.Person) -> dict[str, Any]:
        return _only(_whole_user(person), USER_DEFAULTS, self._user_fields)

    def community(self, community: x_facts.Community) -> dict[str, Any]:
        return _only(_whole_community(community), COMMUNITY_DEFAULTS, self._community_fields)


def _only(whole: Mapping[str, Any], defaults: Iterable[str], asked: Iterable[str]) -> dict[str, Any]:
    wanted = {*defaults, *asked}
    return {name: value for name, value in whole.items() if name in wanted}


def _user(person: x_facts.Person, asked: _Asked) -> Answer:
    return json_answer({"data": asked.user(person)}, headers=LIMIT_HEADERS)


def _community(number: str, asked: _Asked) -> Answer:
    if number == x_facts.MISSING_COMMUNITY:
        problem = json.loads(_about(number, MISSING_USER).body)
        problem["errors"][0].update(
            detail=f"Could not find community with id: [{number}].", resource_type="community", parameter="id"
        )
        return json_answer(problem, headers=LIMIT_HEADERS)
    return json_answer({"data": asked.community(x_facts.community(number))}, headers=LIMIT_HEADERS)


def _whole_post(post: x_facts.Post) -> dict[str, Any]:
    whole = deepcopy(POST)
    whole.update(
        id=post.id,
        conversation_id=post.id,
        edit_history_tweet_ids=[post.id],
        text=post.text,
        created_at=x_facts.iso(post.created_at),
        author_id=post.author.id,
        public_metrics={
            "retweet_count": post.count("retweets"),
            "reply_count": post.count("replies"),
            "like_count": post.count("likes"),
            "quote_count": post.count("quotes"),
            "bookmark_count": post.count("bookmarks"),
            "impression_count": post.count("views"),
        },
    )
    for absent in ("entities", "referenced_tweets"):
        del whole[absent]
    if post.quoted_id is not None:
        whole["referenced_tweets"] = [{"type": "quoted", "id": post.quoted_id}]
        whole["entities"] = {"hashtags": [{"start": 0, "end": 12, "tag": "FrostCedarw"}]}
    if post.community_id is not None:
        whole["community_id"] = post.community_id
    return whole


def _whole_user(person: x_facts.Person) -> dict[str, Any]:
    whole = deepcopy(USER)
    whole.update(
        id=person.id,
        username=person.handle,
        name=person.name,
        created_at=x_facts.iso(person.created_at),
        public_metrics={
            "followers_count": person.followers,
            "following_count": person.count("following", below=3000),
            "tweet_count": person.count("posts", below=40_000),
            "listed_count": person.count("listed", below=400),
            "like_count": person.count("liked", below=60_000),
            "media_count": person.count("media", below=5000),
        },
    )
    return whole


def _whole_community(community: x_facts.Community) -> dict[str, Any]:
    return {
        **COMMUNITY,
        "id": community.id,
        "name": community.name,
        "description": f"A place for the people of {community.name}",
        "member_count": community.members,
        "created_at": x_facts.iso(community.created_at),
    }


def _about(name: str, case: str) -> Answer:
    """A recorded refusal, about the one asked for."""
    recorded = ERRORS[case]
    problem = json.loads(recorded.body)
    for error in problem.get("errors", ()):
        spoken_of = error["value"]
        error.update(value=name, resource_id=name, detail=error["detail"].replace(spoken_of, name))
    return Answer(status=recorded.status, headers=recorded.headers, body=json_answer(problem).body)


def _quote_is_gone(number: str) -> dict[str, Any]:
    problem: dict[str, Any] = json.loads(_about(number, PARTIAL).body)["errors"][0]
    return problem
