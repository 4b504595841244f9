"""One odd value in an answer of X's sources: a graph that keeps its contract or a named error, no crash."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests.structures import CaseInsensitiveDict

from tests.odd_values import NOW, ODD_VALUES, is_storable, places, with_value
from tests.samples import sample_json
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.messages import Response
from workers.social_recording.generators.x import api, api_answers, oembed, syndication, twitterapiio
from workers.social_recording.generators.x import twitterapiio_answers as reseller
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import Route, route

POST = route("https://x.com/a/status/1407331906927944209")
QUOTING = route("https://x.com/a/status/1997361967718956947")
ACCOUNT = route("https://x.com/larksolarze4")
MAKER = route("https://x.com/northemberxyz")
COMMUNITY = route("https://x.com/i/communities/1867306814230749484")
Read = Callable[[Any], SocialObjectGraph]


def read_api_post(payload: Any) -> SocialObjectGraph:
    api_answers.community_number(payload)
    return api_answers.post_graph(payload, None, POST, NOW)


def read_api_account(payload: Any) -> SocialObjectGraph:
    return api_answers.account_graph(payload, ACCOUNT, NOW)


def read_api_community(payload: Any) -> SocialObjectGraph:
    return api_answers.community_graph(payload, COMMUNITY, NOW)


def read_reseller_post(payload: Any) -> SocialObjectGraph:
    return reseller.post_graph(payload, QUOTING, NOW)


def read_reseller_account(payload: Any) -> SocialObjectGraph:
    return reseller.account_graph(payload, MAKER, NOW)


def read_reseller_community(payload: Any) -> SocialObjectGraph:
    return reseller.community_graph(payload, COMMUNITY, NOW)


# Nobody reads these, so that an odd value there would only take time.
UNREAD = frozenset(
    {"annotations", "attachments", "card", "display_url", "displayTextRange", "end", "focus_rects", "indices"}
    | {"original_info", "place", "possibly_sensitive", "sizes", "source", "start", "symbols", "twitterUrl"}
    | {
        "affiliatesHighlightedLabel",
        "canDm",
        "canMediaTag",
        "coverPicture",
        "profilePicture",
        "members_preview",
    }
)
READERS: list[tuple[str, Read]] = [
    ("x/v2_tweet.json", read_api_post),
    ("x/v2_user.json", read_api_account),
    ("x/v2_community.json", read_api_community),
    ("x/twitterapiio_tweets.json", read_reseller_post),
    ("x/twitterapiio_user.json", read_reseller_account),
    ("x/twitterapiio_community.json", read_reseller_community),
]


@pytest.mark.parametrize(("sample", "read"), READERS)
def test_one_odd_value_anywhere_never_crashes_a_parser(sample: str, read: Read) -> None:
    payload = sample_json(sample)
    # What is there twice is looked at once: the reseller's second post holds its first.
    if "tweets" in payload:
        del payload["tweets"][0]
    if "includes" in payload:
        del payload["includes"]["users"][1]
        del payload["includes"]["tweets"][0]["entities"]["hashtags"][1:]
    kept = lost = 0
    for path in places(payload):
        if UNREAD & set(path):
            continue
        for odd in ODD_VALUES:
            try:
                graph = read(with_value(payload, path, odd))
            except (FetchFailed, TargetGone) as exc:
                lost += 1
                assert exc.reason in {"unexpected_shape", "weak_not_found", "not_found"}, (path, odd)  # noqa: PT017 - one test for many places
                continue
            check(graph, "https://entry.example.com/")
            assert is_storable(graph), (path, odd)
            kept += 1
    # What was paid for is lost only with the few values that nothing can be without.
    assert kept > 2 * lost


ERRORS = sample_json("x/errors.json")


def answers(prefix: str) -> Iterator[tuple[int, Any, str]]:
    for entry in ERRORS:
        if entry["case"].startswith(prefix):
            yield entry["status"], entry["body"], entry["headers"].get("content-type", "")


def answer(status: int, body: Any, content_type: str) -> Response:
    raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else None
    return Response(
        source="x",
        status=status,
        headers=CaseInsensitiveDict({"content-type": content_type}),
        body=json.dumps(body).encode() if raw is None else raw,
        url="https://api.example.com/",
        chain=("https://api.example.com/",),
        received_at=NOW,
    )


def judges() -> list[tuple[str, Callable[[Response], object]]]:
    def for_way(judge: Callable[[Response, Route], object], way: Route) -> Callable[[Response], object]:
        return lambda response: judge(response, way)

    return [
        ("v2_", api.judge),
        ("syndication_", syndication.judge),
        ("oembed_", for_way(oembed.judge, POST)),
        ("twitterapiio_", for_way(twitterapiio.judge, MAKER)),
        ("twitterapiio_", for_way(twitterapiio.judge, POST)),
    ]


@pytest.mark.parametrize(("prefix", "judge"), judges())
def test_one_odd_value_in_a_refusal_never_crashes_its_judge(
    prefix: str, judge: Callable[[Response], object]
) -> None:
    judged = 0
    for status, body, content_type in answers(prefix):
        bodies = [body, *ODD_VALUES]
        bodies += [with_value(body, path, odd) for path in places(body) for odd in ODD_VALUES]
        for each in bodies:
            if isinstance(each, str) and "\ud800" in each:
                continue
            with_verdict(judge, answer(status, each, content_type))
            judged += 1
    assert judged > 30


def with_verdict(judge: Callable[[Response], object], response: Response) -> None:
    """A judge returns something or raises one of the errors that say what became of the target."""
    try:
        judge(response)
    except (TargetGone, TargetBlocked, FetchFailed) as exc:
        assert exc.reason  # noqa: PT017 - any verdict with a reason will do


@given(
    status=st.sampled_from([200, 201, 301, 400, 401, 402, 403, 404, 418, 429, 500, 503]),
    body=st.binary(max_size=60),
    content_type=st.sampled_from(["application/json", "text/html", ""]),
)
@pytest.mark.parametrize(("prefix", "judge"), judges())
def test_whatever_comes_over_the_wire_gets_a_verdict(
    prefix: str, judge: Callable[[Response], object], status: int, body: bytes, content_type: str
) -> None:
    with_verdict(judge, answer(status, body, content_type))
