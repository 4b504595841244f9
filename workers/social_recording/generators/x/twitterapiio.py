"""twitterapi.io, a reseller: asks it about posts, accounts and communities.

It has three envelopes for what went wrong (`detail`, `msg`, `error` with `message`), and calls the words of a
good answer `msg` or `message`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workers.errors import CreditExhausted, FetchFailed, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.http.retry import PAID
from workers.settings import Settings
from workers.social_graph.vocabulary import ObjectKind
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.verdicts import (
    http_error,
    misconfigured,
    rate_limited,
    unexpected_html,
)
from workers.social_recording.generators.x.drafts import check_number, is_recordable, number_of_account
from workers.social_recording.generators.x.twitterapiio_answers import (
    SOURCE,
    account_graph,
    community_graph,
    post_graph,
)
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.routing import Route

# Without credit of one's own, one call in five seconds is allowed; no answer says how long to wait.
_RATE_LIMIT_WAIT_S = 5.0
_NOT_FOUND = re.compile(r"\bnot (be )?found\b|\bnot exist|\bno such\b|\bcould not find\b", re.IGNORECASE)
_NO_CREDIT = re.compile(r"\bcredits?\b.*\b(not enough|insufficient)\b|\binsufficient credit", re.IGNORECASE)


class TwitterAPIIOGenerator:
    """Asks twitterapi.io; only with its key."""

    source = SOURCE
    is_paid = True

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._base_url = settings.twitterapiio_base_url
        self._key = settings.twitterapiio_api_key

    def supports(self, way: Route) -> bool:
        """Posts, accounts and communities, with a key."""
        return self._key is not None and is_recordable(way)

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call."""
        match way.object:
            case ObjectKind.ACCOUNTS:
                return self._account(way, context)
            case ObjectKind.VENUES:
                check_number(way.key)
                response = self._ask("/twitter/community/info", {"community_id": way.key}, context)
                return community_graph(judge(response, way), way, response.received_at)
            case ObjectKind.CONTENTS:
                check_number(way.key)
                response = self._ask("/twitter/tweets", {"tweet_ids": way.key}, context)
                return post_graph(judge(response, way), way, response.received_at)

    def _account(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        number = number_of_account(way)
        if number is None:
            response = self._ask("/twitter/user/info", {"userName": way.key}, context)
        else:
            check_number(number)
            response = self._ask("/twitter/user/batch_info_by_ids", {"userIds": number}, context)
        return account_graph(judge(response, way), way, response.received_at)

    def _ask(self, path: str, query: Mapping[str, str], context: FetchContext) -> Response:
        key = "" if self._key is None else self._key.get_secret_value()
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}{path}",
            query=query,
            headers={"Accept": "application/json", "X-API-Key": key},
            retry=PAID,
        )
        return self._http.fetch(request, context.budget, context.calls.add)


def judge(response: Response, way: Route) -> dict[str, object]:
    """The payload of a good answer.

    Raises `TargetGone`, `FetchFailed` or `CreditExhausted`. The status decides, and the words only where they
    have to: the answer without credit calls itself `Unauthorized`.
    """
    status, words = response.status, _words_of(response)
    if status == 402 or (status >= 400 and _NO_CREDIT.search(words)):
        raise CreditExhausted("the credit at twitterapi.io is used up", source=response.source)
    if status == 429:
        raise rate_limited(response, wait_s=_RATE_LIMIT_WAIT_S)
    if status >= 500:
        raise http_error(response)
    if response.is_html and response.body:
        raise unexpected_html(response)
    if status in (400, 401, 403, 422):
        raise misconfigured(response)
    if status != 200:
        raise http_error(response)
    payload = response.json()
    if not isinstance(payload, dict):
        raise FetchFailed("twitterapiio answered with something that is no answer", reason="unexpected_shape")
    if payload.get("status") == "error":
        raise _verdict_of_error(response, words, way)
    return payload


def _verdict_of_error(response: Response, words: str, way: Route) -> Exception:
    """What a 200 means that calls itself an error."""
    if _NO_CREDIT.search(words):
        return CreditExhausted("the credit at twitterapi.io is used up", source=response.source)
    if not _NOT_FOUND.search(words):
        return FetchFailed("twitterapiio failed in a way that we do not know", reason="unknown_problem")
    if way.object is ObjectKind.CONTENTS:
        return FetchFailed("twitterapiio shows no such post", reason="weak_not_found")
    return TargetGone("x knows no such thing", reason="not_found")


def _words_of(response: Response) -> str:
    """What the answer says in words, whatever it calls them."""
    try:
        payload = response.json()
    except FetchFailed:
        return ""
    if not isinstance(payload, dict):
        return ""
    said = (payload.get(name) for name in ("detail", "msg", "message", "error"))
    return " ".join(words for words in said if isinstance(words, str))
