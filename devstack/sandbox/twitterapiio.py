"""twitterapi.io: posts, users by handle or id, communities.

Owns the personalisation of the recorded answers; what is told of somebody or something is in `x_facts`.

The handles in `RESERVED_HANDLES` get recorded refusals; posts that are gone or closed are left out. A call
without a key is `twitterapiio-bad-key`, one without its parameter `twitterapiio-bad-parameter`; any key will
do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

from devstack.sandbox import x_facts
from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, error_answers, json_answer, payload_of

IDS_MAX = 100
POST: dict[str, Any] = payload_of("x/twitterapiio_tweets.json")["tweets"][0]
USER: dict[str, Any] = payload_of("x/twitterapiio_user.json")["data"]
COMMUNITY: dict[str, Any] = payload_of("x/twitterapiio_community.json")["community_info"]
ERRORS = error_answers("x/errors.json", prefix="twitterapiio_")
NO_KEY, NO_PARAMETER = "twitterapiio-bad-key", "twitterapiio-bad-parameter"
MISSING_USER, SUSPENDED_USER = "twitterapiio-user-missing", "twitterapiio-user-suspended"
RESERVED_HANDLES = {
    "user_missing": MISSING_USER,
    "user_suspended": SUSPENDED_USER,
    "bad_key": NO_KEY,
    "no_credit": "twitterapiio-no-credit",
    "rate_limited": "twitterapiio-rate-limited",
}
LEFT_OUT = x_facts.GONE | x_facts.CLOSED
SUCCESS = {"status": "success", "msg": "success"}
NO_ROUTE = json_answer({"detail": "Not Found"}, status=404)


class TwitterAPIIO:
    """Answers the four routes."""

    def __init__(self, people: x_facts.People) -> None:
        self._people = people
        self._routes: dict[str, tuple[str, Callable[[str], Answer]]] = {
            "/twitter/tweets": ("tweet_ids", _posts),
            "/twitter/user/info": ("userName", self._user),
            "/twitter/user/batch_info_by_ids": ("userIds", self._users),
            "/twitter/community/info": ("community_id", _community),
        }

    def answer(self, request: Request, path: str) -> Answer:
        """Answer a GET of `path`, which starts after the base URL."""
        if request.method not in {"GET", "HEAD"}:
            return json_answer({"detail": "Method Not Allowed"}, status=405)
        if not request.headers.get("x-api-key"):
            return ERRORS[NO_KEY]
        if path not in self._routes:
            return NO_ROUTE
        name, respond = self._routes[path]
        value = parse_qs(request.query).get(name, [""])[0]
        return respond(value) if value else ERRORS[NO_PARAMETER]

    def _user(self, handle: str) -> Answer:
        case = RESERVED_HANDLES.get(handle.lower())
        if case == SUSPENDED_USER:
            suspended = json.loads(ERRORS[case].body)
            suspended["data"].update(id=x_facts.person_id(handle), userName=handle)
            return json_answer(suspended)
        if case is not None:
            return ERRORS[case]
        return json_answer({"data": _person(self._people.by_handle(handle)), **SUCCESS})

    def _users(self, ids: str) -> Answer:
        people = [_person(self._people.by_id(each)) for each in _numbers(ids)]
        return json_answer({"users": people, **SUCCESS})


def _numbers(ids: str) -> list[str]:
    return [each for each in ids.split(",")[:IDS_MAX] if x_facts.is_number(each)]


def _posts(ids: str) -> Answer:
    found = [x_facts.post(each) for each in _numbers(ids) if x_facts.FATES.get(each) not in LEFT_OUT]
    return json_answer({"tweets": [_post(each) for each in found], "status": "success", "message": "success"})


def _post(post: x_facts.Post) -> dict[str, Any]:
    shown = deepcopy(POST)
    url = f"{post.author.handle}/status/{post.id}"
    shown.update(
        id=post.id,
        conversationId=post.id,
        url=f"https://x.com/{url}",
        twitterUrl=f"https://twitter.com/{url}",
        text=post.text,
        displayTextRange=[0, len(post.text)],
        lang="en",
        createdAt=_long_form(post.created_at),
        likeCount=post.count("likes"),
        replyCount=post.count("replies"),
        retweetCount=post.count("retweets"),
        quoteCount=post.count("quotes"),
        bookmarkCount=post.count("bookmarks"),
        viewCount=post.count("views"),
        author=_person(post.author),
        extendedEntities={},
    )
    shown["entities"]["hashtags"] = []
    if post.quoted_id is not None:
        shown["entities"]["hashtags"] = [{"indices": [0, 12], "text": "FrostCedarw"}]
        if x_facts.FATES.get(post.id) != "quote-gone":
            shown["quoted_tweet"] = _post(x_facts.post(post.quoted_id))
    return shown


def _person(person: x_facts.Person) -> dict[str, Any]:
    shown = deepcopy(USER)
    shown.update(
        id=person.id,
        userName=person.handle,
        name=person.name,
        url=f"https://x.com/{person.handle}",
        twitterUrl=f"https://twitter.com/{person.handle}",
        createdAt=_long_form(person.created_at),
        followers=person.followers,
        following=person.count("following", below=3000),
        statusesCount=person.count("posts", below=40_000),
        favouritesCount=person.count("liked", below=60_000),
        mediaCount=person.count("media", below=5000),
    )
    return shown


def _community(number: str) -> Answer:
    if number == x_facts.MISSING_COMMUNITY or not x_facts.is_number(number):
        return json_answer({"status": "error", "msg": "community not found", "community_info": None})
    community = x_facts.community(number)
    shown = deepcopy(COMMUNITY)
    shown.update(
        id=community.id,
        name=community.name,
        description=f"A place for the people of {community.name}",
        member_count=community.members,
        moderator_count=community.moderators,
        created_at=_long_form(community.created_at),
        creator=_creator(community.creator),
        admin=_creator(community.creator),
    )
    return json_answer({"community_info": shown, **SUCCESS})


def _creator(person: x_facts.Person) -> dict[str, Any]:
    """A person in the other spelling, which is used inside communities alone."""
    shown: dict[str, Any] = deepcopy(COMMUNITY["creator"])
    shown.update(
        id=person.id,
        id_str=person.id,
        screen_name=person.handle,
        name=person.name,
        created_at=_long_form(person.created_at),
        followers_count=person.followers,
        friends_count=person.count("following", below=3000),
        statuses_count=person.count("posts", below=40_000),
        favourites_count=person.count("liked", below=60_000),
        listed_count=person.count("listed", below=400),
        media_count=person.count("media", below=5000),
    )
    return shown


def _long_form(moment: datetime) -> str:
    return f"{moment:%a %b %d %H:%M:%S %z %Y}"
