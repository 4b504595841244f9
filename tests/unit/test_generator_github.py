"""GitHub: what its answers become."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import responses

from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_bytes, sample_json
from workers.clock import Budget
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.metric_spec import METRIC_SPEC
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, ParentRelation, Platform
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.github import GitHubGenerator, account_graph, repo_graph
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import route

API = "https://api.github.com"
ERRORS = "github/errors.json"


def generate(
    clock: FakeClock, url: str, calls: CallCounter | None = None, **settings: Any
) -> SocialObjectGraph:
    own = make_settings(**settings)
    generator = GitHubGenerator(OutboundClient(own, clock), own)
    way = route(url)
    assert generator.supports(way)
    graph = generator.generate(way, FetchContext(budget=Budget.of(clock, 120), calls=calls or CallCounter()))
    check(graph, url)
    return graph


def serve_case(case: str, path: str) -> None:
    entry = error_case(ERRORS, case)
    headers = {name: value for name, value in entry["headers"].items() if name != "content-type"}
    responses.get(
        f"{API}{path}",
        status=entry["status"],
        headers=headers,
        content_type=entry["headers"]["content-type"],
        body=body_of(entry),
    )


@responses.activate
def test_an_account_costs_one_call_and_is_keyed_by_its_number(clock: FakeClock) -> None:
    responses.get(f"{API}/users/OrbitTida", body=sample_bytes("github/user.json"))
    calls = CallCounter()
    graph = generate(clock, "https://github.com/OrbitTida?tab=repositories", calls, github_token="gh-secret")
    (group,) = graph.groups
    account = group.account
    assert account is not None
    assert group.content is None
    assert (account.platform, account.platform_key, account.handle) == (
        Platform.GITHUB,
        "1899666",
        "orbittida",
    )
    assert account.url == "https://github.com/orbittida"
    assert account.display_name == "Violeta Zep"
    assert account.bio == sample_json("github/user.json")["bio"]
    assert account.links == ("https://site624.example.org/",)
    assert (account.followers, account.account_created_at) == (
        146,
        datetime(2011, 8, 31, 8, 1, 43, tzinfo=UTC),
    )
    assert account.data == {"type": "User"}
    assert group.metrics == {
        ObjectKind.ACCOUNTS: {"public_repos": 96, "public_gists": 4, "followers": 146, "following": 144}
    }
    assert graph.observed_at == clock.now()
    assert calls.calls == 1
    sent = responses.calls[0].request.headers
    assert sent["Authorization"] == "Bearer gh-secret"
    assert sent["X-GitHub-Api-Version"] == "2022-11-28"
    assert sent["Accept"] == "application/vnd.github+json"


def test_an_account_tells_its_handle_on_x_and_its_blog_without_a_scheme(clock: FakeClock) -> None:
    payload = {
        **sample_json("github/user.json"),
        "blog": "moonharbor-example.com",
        "twitter_username": "MoonHarbor",
        "bio": "see https://t.co/AbC123xyz… and (https://t.co/Qq9).",
    }
    account = account_graph(payload, route("https://github.com/orbittida"), clock.now()).groups[0].account
    assert account is not None
    assert account.declared_handles == ((Platform.X, "MoonHarbor"),)
    assert account.links == (
        "https://moonharbor-example.com/",
        "https://x.com/moonharbor",
        "https://t.co/AbC123xyz",
        "https://t.co/Qq9",
    )


def test_what_may_be_missing_is_unknown_and_not_nothing(clock: FakeClock) -> None:
    payload = {"id": 5, "login": "a", "followers": None, "created_at": "yesterday", "blog": "", "name": 7}
    group = account_graph(payload, route("https://github.com/a"), clock.now()).groups[0]
    assert group.account is not None
    assert (group.account.followers, group.account.account_created_at, group.account.links) == (
        None,
        None,
        (),
    )
    assert group.metrics == {ObjectKind.ACCOUNTS: {}}


@responses.activate
def test_a_repository_comes_with_its_owners_followers_and_costs_two_calls(clock: FakeClock) -> None:
    repo = sample_json("github/repo.json")
    owner = {**sample_json("github/user.json"), "id": repo["owner"]["id"], "login": repo["owner"]["login"]}
    responses.get(f"{API}/repos/Ledgerlib/Ledgerlib", json=repo)
    responses.get(f"{API}/users/Ledgerlib", json=owner)
    calls = CallCounter()
    graph = generate(clock, "https://github.com/Ledgerlib/Ledgerlib/blob/main/README.md", calls)
    (group,) = graph.groups
    content = group.content
    assert content is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.REPO, "3159759")
    assert content.url == "https://github.com/ledgerlib/ledgerlib"
    assert content.text_primary == repo["description"]
    assert content.published_at == datetime(2012, 2, 25, 12, 53, 47, tzinfo=UTC)
    assert content.tags == ("github", "github-api", "ledgerlib", "python")
    assert content.links == ("https://site822.example.org/",)
    assert content.data == {"full_name": "Ledgerlib/Ledgerlib", "language": "Python", "archived": False}
    assert group.account is not None
    assert (group.account.platform_key, group.account.followers) == ("13074170", 146)
    assert group.metrics[ObjectKind.CONTENTS] == {
        "stargazers_count": 7701,
        "forks_count": 1874,
        "subscribers_count": 110,
        "open_issues_count": 393,
        "network_count": 1874,
        "size": 21449,
    }
    assert calls.calls == 2


@responses.activate
def test_a_fork_refers_to_the_repository_it_came_from(clock: FakeClock) -> None:
    repo = sample_json("github/repo_fork.json")
    responses.get(f"{API}/repos/willamber/Ledgerlib", json=repo)
    responses.get(f"{API}/users/willamber", json={"id": 80510, "login": "willamber", "followers": 3})
    fork, origin = generate(clock, "https://github.com/willamber/Ledgerlib").groups
    assert (fork.parent_ref, fork.parent_relation) == (1, ParentRelation.FORK)
    assert fork.content is not None
    assert origin.content is not None
    assert (fork.content.platform_key, origin.content.platform_key) == ("590133793", "3159759")
    assert fork.content.data["network_root"] == repo["source"]["full_name"]
    assert fork.account is not None
    assert fork.account.followers == 3
    assert origin.account is not None
    assert (origin.account.followers, origin.parent_ref) == (None, None)


@responses.activate
def test_a_login_that_belongs_to_somebody_else_by_now_gives_no_followers(clock: FakeClock) -> None:
    responses.get(f"{API}/repos/willamber/Ledgerlib", json=sample_json("github/repo_fork.json"))
    responses.get(f"{API}/users/willamber", json={"id": 999, "login": "willamber", "followers": 3})
    account = generate(clock, "https://github.com/willamber/Ledgerlib").groups[0].account
    assert account is not None
    assert (account.platform_key, account.followers) == ("80510", None)


@responses.activate
def test_a_vanished_owner_does_not_make_the_repository_vanish(clock: FakeClock) -> None:
    responses.get(f"{API}/repos/Ledgerlib/Ledgerlib", json=sample_json("github/repo.json"))
    serve_case("user_missing", "/users/Ledgerlib")
    account = generate(clock, "https://github.com/Ledgerlib/Ledgerlib").groups[0].account
    assert account is not None
    assert (account.platform_key, account.followers) == ("13074170", None)


@responses.activate
def test_an_owner_that_cannot_be_asked_now_fails_the_whole_url(clock: FakeClock) -> None:
    responses.get(f"{API}/repos/Ledgerlib/Ledgerlib", json=sample_json("github/repo.json"))
    serve_case("secondary_rate_limit_429", "/users/Ledgerlib")
    with pytest.raises(FetchFailed, match="come back"):
        generate(clock, "https://github.com/Ledgerlib/Ledgerlib")


@responses.activate
def test_a_renamed_repository_is_followed_and_its_former_name_kept(clock: FakeClock) -> None:
    serve_case("repo_renamed", "/repos/ledgerlib/old-name")
    responses.get(f"{API}/repositories/515738204", json=sample_json("github/repo.json"))
    responses.get(f"{API}/users/Ledgerlib", json=sample_json("github/user.json"))
    calls = CallCounter()
    content = generate(clock, "https://github.com/ledgerlib/old-name", calls).groups[0].content
    assert content is not None
    assert content.url == "https://github.com/ledgerlib/ledgerlib"
    assert content.data["former_name"] == "ledgerlib/old-name"
    assert calls.calls == 3


@responses.activate
def test_a_gist_comes_with_its_owner_and_the_one_it_was_forked_from(clock: FakeClock) -> None:
    responses.get(f"{API}/gists/6840786", body=sample_bytes("github/gist.json"))
    responses.get(f"{API}/users/pixelma6p", json={"id": 349759, "login": "pixelma6p", "followers": 9})
    gist, origin = generate(clock, "https://gist.github.com/pixelma6p/6840786").groups
    content = gist.content
    assert content is not None
    assert (content.subtype, content.platform_key) == (ContentSubtype.GIST, "6840786")
    assert (content.url, content.text_primary) == ("https://gist.github.com/6840786", "Update MAP")
    assert content.data == {"files": ["TokenLedger.lua"]}
    assert content.published_at == datetime(2013, 8, 21, 16, 28, 24, tzinfo=UTC)
    assert gist.account is not None
    assert (gist.account.platform_key, gist.account.followers) == ("349759", 9)
    assert gist.metrics[ObjectKind.CONTENTS] == {"comments": 0}
    assert (gist.parent_ref, gist.parent_relation) == (1, ParentRelation.FORK)
    assert origin.content is not None
    assert origin.content.platform_key == "6132343"
    assert origin.account is not None
    assert origin.account.handle == "Maplemeadowcoralc"


@responses.activate
def test_a_gist_without_an_owner_costs_one_call_and_has_no_account(clock: FakeClock) -> None:
    payload = {**sample_json("github/gist.json"), "owner": None, "fork_of": None, "description": ""}
    responses.get(f"{API}/gists/6840786", json=payload)
    calls = CallCounter()
    (gist,) = generate(clock, "https://gist.github.com/6840786", calls).groups
    assert gist.account is None
    assert gist.content is not None
    assert gist.content.text_primary == "TokenLedger.lua"
    assert calls.calls == 1


REPO = ("https://github.com/ledgerlib/x", "/repos/ledgerlib/x")
USER = ("https://github.com/no-such-user-000", "/users/no-such-user-000")
GIST = (
    "https://gist.github.com/0123456789abcdef0123456789abcdef",
    "/gists/0123456789abcdef0123456789abcdef",
)


@pytest.mark.parametrize(
    ("case", "place", "error", "reason"),
    [
        ("repo_missing_or_private", REPO, TargetGone, "http_404"),
        ("user_missing", USER, TargetGone, "http_404"),
        ("gist_missing", GIST, TargetGone, "http_404"),
        ("repo_disabled_tos", REPO, TargetBlocked, "blocked_tos"),
        ("repo_dmca", REPO, TargetBlocked, "blocked_dmca"),
        ("bad_token", REPO, FetchFailed, "misconfigured"),
        ("no_user_agent", REPO, FetchFailed, "misconfigured"),
        ("primary_rate_limit_keyless", REPO, FetchFailed, "rate_limited"),
        ("primary_rate_limit_token", REPO, FetchFailed, "rate_limited"),
        ("secondary_rate_limit", REPO, FetchFailed, "rate_limited"),
        ("secondary_rate_limit_429", USER, FetchFailed, "rate_limited"),
        ("abuse_detection_old_wording", REPO, FetchFailed, "rate_limited"),
    ],
)
@responses.activate
def test_every_known_refusal_has_its_meaning(
    case: str, place: tuple[str, str], error: type[Exception], reason: str, clock: FakeClock
) -> None:
    url, path = place
    serve_case(case, path)
    calls = CallCounter()
    with pytest.raises(error) as caught:
        generate(clock, url, calls)
    assert type(caught.value) is error
    assert getattr(caught.value, "reason", None) == reason
    assert calls.calls >= 1


@pytest.mark.parametrize(
    ("case", "wait"),
    [("secondary_rate_limit", 60), ("abuse_detection_old_wording", 60), ("primary_rate_limit_token", 7200)],
)
@responses.activate
def test_a_rate_limit_says_how_long(case: str, wait: float) -> None:
    # The recorded reset is 1777025431; two hours before it, that is the wait.
    clock = FakeClock(datetime.fromtimestamp(1777025431 - 7200, UTC))
    serve_case(case, "/repos/ledgerlib/x")
    with pytest.raises(FetchFailed) as caught:
        generate(clock, "https://github.com/ledgerlib/x")
    assert caught.value.retry_in_s == wait
    assert len(responses.calls) == 1


@responses.activate
def test_a_secondary_limit_without_a_hint_asks_for_a_minute(clock: FakeClock) -> None:
    message = "You have exceeded a secondary rate limit."
    responses.get(f"{API}/repos/ledgerlib/x", status=403, json={"message": message})
    with pytest.raises(FetchFailed) as caught:
        generate(clock, "https://github.com/ledgerlib/x")
    assert (caught.value.reason, caught.value.retry_in_s) == ("rate_limited", 60)


@pytest.mark.parametrize(
    ("status", "body", "content_type", "reason"),
    [
        (404, b"<html>404</html>", "text/html", "unexpected_html"),
        (404, b'{"message": "No route"}', "application/json", "http_404"),
        (200, b"<!DOCTYPE html><title>Unicorn!</title>", "text/html", "unexpected_html"),
        (200, b"", "application/json", "unexpected_shape"),
        (200, b"[]", "application/json", "unexpected_shape"),
        (200, b'{"login": "x"}', "application/json", "unexpected_shape"),
        (200, b'{"id": null, "login": "x"}', "application/json", "unexpected_shape"),
        (403, b'{"message": "Resource not accessible"}', "application/json", "http_403"),
        (403, b"<html>blocked by your proxy</html>", "text/html", "unexpected_html"),
        (418, b'{"message": "teapot"}', "application/json", "http_418"),
        (502, b"<html>bad gateway</html>", "text/html", "http_502"),
        (200, b"[" * 50_000, "application/json", "unexpected_shape"),
    ],
)
@responses.activate
def test_an_answer_that_says_nothing_about_the_target_is_an_error(
    status: int, body: bytes, content_type: str, reason: str, clock: FakeClock
) -> None:
    responses.get(f"{API}/users/somebody", status=status, body=body, content_type=content_type)
    with pytest.raises(FetchFailed) as caught:
        generate(clock, "https://github.com/somebody")
    assert caught.value.reason == reason


@pytest.mark.parametrize("missing", ["id", "full_name", "owner"])
def test_a_repository_without_what_must_be_there_has_another_shape(missing: str, clock: FakeClock) -> None:
    payload = {key: value for key, value in sample_json("github/repo.json").items() if key != missing}
    with pytest.raises(FetchFailed) as caught:
        repo_graph(payload, None, route("https://github.com/a/b"), clock.now())
    assert caught.value.reason == "unexpected_shape"


def test_places_that_need_no_call_and_other_platforms_are_not_supported(clock: FakeClock) -> None:
    settings = make_settings()
    generator = GitHubGenerator(OutboundClient(settings, clock), settings)
    for url in ("https://github.com/features", "https://github.com/search?q=a", "https://x.com/a"):
        assert not generator.supports(route(url))


@responses.activate
def test_every_metric_is_one_that_is_stored(clock: FakeClock) -> None:
    responses.get(f"{API}/repos/Ledgerlib/Ledgerlib", json=sample_json("github/repo.json"))
    responses.get(f"{API}/users/Ledgerlib", json=sample_json("github/user.json"))
    for group in generate(clock, "https://github.com/Ledgerlib/Ledgerlib").groups:
        for kind, metrics in group.metrics.items():
            assert set(metrics) <= METRIC_SPEC[Platform.GITHUB, kind]
