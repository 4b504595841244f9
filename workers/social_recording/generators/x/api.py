"""X's own API, version 2: asks it about posts, accounts and communities.

Each returned object costs money. Without the names of fields the API shows ids and texts alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workers.errors import BudgetExceeded, CreditExhausted, FetchFailed, TargetBlocked, TargetGone
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
from workers.social_recording.generators.x.api_answers import (
    SOURCE,
    Community,
    account_graph,
    community_graph,
    community_number,
    post_graph,
    read_community,
)
from workers.social_recording.generators.x.drafts import (
    check_number,
    closed_account_graph,
    is_recordable,
    number_of_account,
)
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.routing import Route

_USER_FIELDS = "created_at,description,entities,public_metrics,url,verified,protected"
POST_QUERY = {
    "tweet.fields": (
        "author_id,created_at,public_metrics,referenced_tweets,lang,entities,note_tweet,community_id"
    ),
    "expansions": "author_id,referenced_tweets.id,referenced_tweets.id.author_id",
    "user.fields": _USER_FIELDS,
}
USER_QUERY = {"user.fields": _USER_FIELDS}
COMMUNITY_QUERY = {"community.fields": "access,created_at,description,id,join_policy,member_count,name"}

SUSPENDED = "suspended"
_SUSPENDED_WORDS = re.compile(r"\bsuspended\b", re.IGNORECASE)
_NOT_AUTHORIZED = re.compile(r"\bnot authorized\b|\bauthorization error\b", re.IGNORECASE)
_NOT_FOUND = re.compile(r"\bcould not find\b|\bnot found\b", re.IGNORECASE)
# What we ask about; a parameter of any other name is of our own making.
_TARGET_PARAMETERS = frozenset({"id", "username"})
_ABOUT_US = frozenset({"client-forbidden", "unsupported-authentication"})


class XAPIGenerator:
    """Asks X's own API; only with its key."""

    source = SOURCE
    is_paid = True

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._base_url = settings.x_api_base_url
        self._token = settings.x_api_bearer_token

    def supports(self, way: Route) -> bool:
        """Posts, accounts and communities, with a key."""
        return self._token is not None and is_recordable(way)

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call; two for a post in a community, whose name would else stay unknown for good."""
        match way.object:
            case ObjectKind.ACCOUNTS:
                return self._account(way, context)
            case ObjectKind.VENUES:
                check_number(way.key)
                response = self._ask(f"/communities/{way.key}", COMMUNITY_QUERY, context)
                return community_graph(judge(response), way, response.received_at)
            case ObjectKind.CONTENTS:
                check_number(way.key)
                response = self._ask(f"/tweets/{way.key}", POST_QUERY, context)
                payload = judge(response)
                community = self._community_of(payload, context)
                return post_graph(payload, community, way, response.received_at)

    def _account(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        number = number_of_account(way)
        if number is None:
            path = f"/users/by/username/{way.key}"
        else:
            check_number(number)
            path = f"/users/{number}"
        response = self._ask(path, USER_QUERY, context)
        try:
            payload = judge(response)
        except TargetBlocked as exc:
            if exc.reason != SUSPENDED:
                raise
            return closed_account_graph(way, SUSPENDED, response.received_at)
        return account_graph(payload, way, response.received_at)

    def _ask(self, path: str, query: Mapping[str, str], context: FetchContext) -> Response:
        token = "" if self._token is None else self._token.get_secret_value()
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}{path}",
            query=query,
            headers={"Accept": "application/json", "Authorization": f"Bearer {token}"},
            retry=PAID,
        )
        return self._http.fetch(request, context.budget, context.calls.add)

    def _community_of(self, payload: object, context: FetchContext) -> Community | None:
        """The community that a post stands in; None when there is none or when it is not shown.

        The post itself has been paid for by then, so nothing that happens here may lose it.
        """
        number = community_number(payload)
        if number is None:
            return None
        try:
            found = judge(self._ask(f"/communities/{number}", COMMUNITY_QUERY, context))
            return read_community(found, number)
        except (TargetGone, TargetBlocked, FetchFailed, BudgetExceeded):
            return None


def judge(response: Response) -> dict[str, object]:
    """The payload of a good answer, with `data` in it.

    Most answers about what is gone are a 200 with `errors` and without `data`. Raises `TargetGone`,
    `TargetBlocked`, `FetchFailed` or `CreditExhausted`.
    """
    status = response.status
    problem = _fields_of(response) if status != 200 else {}
    if status == 402 or (status == 429 and _names(problem, "usage-capped", "UsageCapExceeded")):
        raise CreditExhausted("the credit of x's own api is used up", source=response.source)
    if status == 429:
        raise rate_limited(response)
    if status >= 500:
        raise http_error(response)
    if response.is_html and response.body:
        raise unexpected_html(response)
    if status == 401 or (status == 403 and _kind_of(problem) in _ABOUT_US):
        raise misconfigured(response)
    if status == 400:
        raise _verdict_of_bad_request(response, problem)
    if status not in (200, 404):
        raise http_error(response)
    payload = _fields_of(response) if status == 404 else response.json()
    if status == 200 and isinstance(payload, dict) and isinstance(payload.get("data"), dict):
        return payload
    raise _verdict_of_problems(response, payload)


def _verdict_of_bad_request(response: Response, problem: dict[str, object]) -> Exception:
    """A name or number that cannot be one is a broken link; anything else that is bad is our request."""
    errors = problem.get("errors")
    parameters: set[object] = set()
    for error in errors if isinstance(errors, list) else ():
        named = error.get("parameters") if isinstance(error, dict) else None
        parameters |= set(named) if isinstance(named, dict) else {None}
    if parameters and parameters <= _TARGET_PARAMETERS:
        return TargetGone("nothing on x can have this name or number", reason="impossible_id")
    return misconfigured(response)


def _verdict_of_problems(response: Response, payload: object) -> Exception:
    errors = payload.get("errors") if isinstance(payload, dict) else None
    problems = errors if isinstance(errors, list) else [payload] if response.status == 404 else []
    for problem in problems:
        if isinstance(problem, dict):
            return _verdict_of_problem(response, problem)
    if response.status != 200:
        return http_error(response)
    return FetchFailed("x answered without data and without a reason", reason="unexpected_shape")


def _verdict_of_problem(response: Response, problem: dict[str, object]) -> Exception:
    """What one problem means. The `type` comes last: suspended accounts are called `resource-not-found`."""
    words = f"{problem.get('title')} {problem.get('detail')}"
    if _SUSPENDED_WORDS.search(words):
        return TargetBlocked("x has suspended the account", reason=SUSPENDED)
    if _NOT_AUTHORIZED.search(words) or _kind_of(problem) == "not-authorized-for-resource":
        return TargetBlocked("it is protected, or its account suspended", reason="not_authorized")
    if _NOT_FOUND.search(words) or _kind_of(problem) == "resource-not-found":
        return TargetGone("x knows no such thing", reason="resource_not_found")
    if response.status != 200:
        return http_error(response)
    return FetchFailed("x gives a reason that we do not know", reason="unknown_problem")


def _names(problem: dict[str, object], kind: str, title: str) -> bool:
    return _kind_of(problem) == kind or problem.get("title") == title


def _kind_of(problem: dict[str, object]) -> str:
    """The last part of a problem's type, whose host is `api.twitter.com` or `api.x.com`."""
    return str(problem.get("type", "")).rpartition("/")[2]


def _fields_of(response: Response) -> dict[str, object]:
    try:
        payload = response.json()
    except FetchFailed:
        return {}
    return payload if isinstance(payload, dict) else {}
