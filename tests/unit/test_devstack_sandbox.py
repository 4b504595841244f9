"""What the sandbox's services answer, without a socket."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from devstack.sandbox import github, registries, syndication, web, x_facts
from devstack.sandbox.faults import Fault, Faults
from devstack.sandbox.github import GitHub
from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer

AGENT = {"user-agent": "test"}


def body(answer: Answer) -> Any:
    return json.loads(answer.body)


def ask_github(path: str, service: GitHub | None = None) -> Answer:
    return (service or GitHub()).answer(get(f"/github{path}", **AGENT), path)


def get(target: str, **headers: str) -> Request:
    return Request(method="GET", target=target, headers={"host": "sandbox", **headers}, body=b"")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/repos/a/repo-missing-or-private", 404),
        ("/repos/a/repo-dmca", 451),
        ("/repos/a/repo-disabled-tos", 403),
        ("/repos/secondary-rate-limit/b", 403),
        ("/users/secondary-rate-limit-429", 429),
        ("/users/user-missing", 404),
        ("/gists/gist-missing", 404),
        ("/users/bad-token", 401),
        ("/users/a%22b", 404),
        ("/repositories/1", 404),
        ("/user/1", 404),
        ("/search/code", 404),
    ],
)
def test_reserved_names_and_unknown_routes_of_github_answer_as_documented(path: str, status: int) -> None:
    assert ask_github(path).status == status


def test_every_recorded_case_of_github_can_be_asked_for() -> None:
    for case, answer in github.ERRORS.items():
        if case != github.RENAMED:
            assert ask_github(f"/users/{case}") == answer


def test_a_call_without_user_agent_is_refused_as_by_github() -> None:
    assert GitHub().answer(get("/github/users/a"), "/users/a").body.strip().startswith(b"Request forbidden")


def test_a_login_has_one_id_in_whatever_case_and_place() -> None:
    service = GitHub()
    ids = {
        body(ask_github("/users/Night-Owl", service))["id"],
        body(ask_github("/users/night-owl", service))["id"],
        body(ask_github("/repos/NIGHT-OWL/a", service))["owner"]["id"],
    }
    assert ids == {github.user_id("night-owl")}
    assert body(ask_github("/users/other", service))["id"] not in ids


def test_the_first_spelling_of_a_name_counts_from_then_on() -> None:
    service = GitHub()
    ask_github("/repos/Night-Owl/Lantern", service)
    assert body(ask_github("/repos/night-owl/lantern", service))["full_name"] == "Night-Owl/Lantern"


def test_an_answer_names_nobody_of_the_recording() -> None:
    for path in (
        "/repos/night-owl/lantern",
        "/repos/night-owl/lantern-fork",
        "/users/night-owl",
        "/gists/ab12",
    ):
        text = ask_github(path).body.decode()
        text = re.sub(r'"(description|topics|company|content|raw_url)":(\[.*?\]|".*?")', "", text)
        assert "willamber" not in text
        assert "orbittida" not in text
        assert "pixelma6p" not in text
        assert "Ledgerlib" not in text


def test_some_repositories_are_forks_and_their_parents_are_not() -> None:
    forks = [n for n in range(400) if github.is_fork("owner", f"repo{n}")]
    assert 20 < len(forks) < 100
    assert not any(github.is_fork("upstream-owner", f"repo{n}-fork") for n in range(400))


def test_a_post_has_the_id_asked_for_and_an_author_it_shares_with_others() -> None:
    posts = [body(syndication.answer(f"id={2_000_000_000_000_000_000 + n}&lang=en")) for n in range(200)]

    assert [post["id_str"] for post in posts] == [str(2_000_000_000_000_000_000 + n) for n in range(200)]
    assert len({post["user"]["id_str"] for post in posts}) == x_facts.AUTHOR_COUNT
    assert posts[0]["created_at"].startswith("2025-")
    assert all(post["display_text_range"] == [0, len(post["text"])] for post in posts)


def test_a_quoted_post_is_the_same_inside_and_by_itself() -> None:
    posts = [body(syndication.answer(f"id={2_000_000_000_000_000_000 + n}")) for n in range(100)]
    quoting = [post for post in posts if "quoted_tweet" in post]

    assert 5 < len(quoting) < 50
    for post in quoting:
        quoted = post["quoted_tweet"]
        alone = body(syndication.answer(f"id={quoted['id_str']}"))
        assert "quoted_tweet" not in alone
        for key in ("id_str", "text", "user", "created_at", "favorite_count"):
            assert quoted[key] == alone[key]


def test_posts_that_are_gone_or_closed_can_be_asked_for_by_id_and_by_case() -> None:
    assert set(syndication.RESERVED_IDS.values()) == set(syndication.ERRORS)
    for post_id, case in syndication.RESERVED_IDS.items():
        assert syndication.answer(f"id={post_id}") == syndication.ERRORS[case]
        assert syndication.answer(f"id=20&case={case}") == syndication.ERRORS[case]


@pytest.mark.parametrize("query", ["", "id=", "id=abc", "id=12345678901234567890", "id=%D9%A1"])
def test_what_is_no_post_id_is_missing(query: str) -> None:
    assert syndication.answer(query).status == 404


def test_a_post_from_before_times_in_ids_is_answered() -> None:
    assert body(syndication.answer("id=20"))["created_at"] == "2006-03-21T20:50:14.000Z"


def test_a_site_answers_the_same_at_every_path_and_names_its_host() -> None:
    kinds = set()
    for number in range(60):
        answer = web.answer(f"https://site{number}.com/")
        assert answer == web.answer(f"https://site{number}.com/elsewhere?a=b")
        text = answer.body.decode()
        title = re.search(r"<title>(.*?)</title>", text, re.DOTALL)
        assert title
        assert f"site{number}.com" in title[1]
        kinds.add("full" if "og:title" in text else "parked" if "for sale" in text else "empty")
    assert kinds == {"full", "parked", "empty"}


@pytest.mark.parametrize("word", sorted(web.TROUBLES))
def test_a_host_with_a_reserved_word_has_that_trouble(word: str) -> None:
    answer = web.answer(f"https://www.{word}-lantern.com/")
    assert answer.status == web.TROUBLES[word].status
    assert web.answer(f"https://{word}lantern.com/").status == 200


@pytest.mark.parametrize("url", ["", "lantern.com", "https://", "https://[::1/"])
def test_a_relay_without_a_site_is_the_callers_mistake(url: str) -> None:
    assert web.answer(url).status == 400


def test_the_first_rule_that_matches_and_has_uses_left_is_taken() -> None:
    faults = Faults()
    once, always = Fault(route="/a", status=500, times=1), Fault(route="GET /", status=429)
    faults.set([once, always])

    taken = [faults.take(call) for call in ("GET /b", "GET /a", "GET /a", "POST /b")]

    assert [fault and fault.status for fault in taken] == [429, 500, 429, None]


def test_a_rule_without_an_answer_of_its_own_leaves_the_usual_one() -> None:
    assert Fault(route=".", latency_ms=10).answer is None
    empty = Fault(route=".", status=503).answer
    assert empty is not None
    assert (empty.status, empty.body) == (503, b"")


def test_a_registry_gives_a_domain_the_same_day_each_time_and_different_domains_different_days() -> None:
    url = "https://rdap.verisign.com/com/v1/domain/harbor.com"
    assert registries.is_registry(url)
    assert not registries.is_registry("https://harbor.com/")
    assert not registries.is_registry("http://[")

    def day(name: str) -> str:
        events = body(registries.answer(f"https://rdap.verisign.com/com/v1/domain/{name}"))["events"]
        return next(event["eventDate"] for event in events if event["eventAction"] == "registration")

    assert (
        day("harbor.com")
        == day("harbor.com")
        == registries.registered_at("harbor.com").isoformat().replace("+00:00", "Z")
    )
    assert len({day(f"harbor{number}.com") for number in range(20)}) > 15
    assert registries.answer(url.replace("harbor", "unregistered-harbor")).status == 404
    assert body(registries.answer(url.replace("harbor", "unlisted-harbor")))["events"] == []
