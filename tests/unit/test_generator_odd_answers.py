"""One odd value in an answer gives a graph that keeps its contract or a named failure, and never a crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.odd_values import NOW, ODD_VALUES, is_storable, places, with_value
from tests.samples import sample_bytes, sample_json
from workers.errors import FetchFailed
from workers.social_recording.generators.github import account_graph, gist_graph, owner_login, repo_graph
from workers.social_recording.generators.web.page_facts import read_page
from workers.social_recording.generators.x.syndication import post_graph
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import route

Parse = Callable[[Any], SocialObjectGraph]


def read_account(payload: Any) -> SocialObjectGraph:
    return account_graph(payload, route("https://github.com/orbittida"), NOW)


def read_repo(payload: Any) -> SocialObjectGraph:
    owner_login(payload)
    return repo_graph(payload, payload, route("https://github.com/willamber/ledgerlib"), NOW)


def read_fork(payload: Any) -> SocialObjectGraph:
    owner_login(payload)
    return repo_graph(payload, None, route("https://github.com/willamber/ledgerlib"), NOW)


def read_gist(payload: Any) -> SocialObjectGraph:
    owner_login(payload)
    return gist_graph(payload, None, route("https://gist.github.com/6840786"), NOW)


def read_post(payload: Any) -> SocialObjectGraph:
    return post_graph(payload, route("https://x.com/i/status/1641895049427614536"), NOW)


@pytest.mark.parametrize(
    ("sample", "parse"),
    [
        ("github/user.json", read_account),
        ("github/repo.json", read_fork),
        ("github/repo_fork.json", read_fork),
        ("github/gist.json", read_gist),
        ("x/syndication_quote.json", read_post),
    ],
)
def test_one_odd_value_anywhere_never_crashes_a_parser(sample: str, parse: Parse) -> None:
    payload = sample_json(sample)
    kept = 0
    for path in places(payload):
        for odd in ODD_VALUES:
            try:
                graph = parse(with_value(payload, path, odd))
            except FetchFailed as exc:
                assert exc.reason == "unexpected_shape", (path, odd)  # noqa: PT017 - one test for many places
                continue
            check(graph, "https://entry.example.com/")
            assert is_storable(graph), (path, odd)
            kept += 1
    assert kept > 0


@pytest.mark.parametrize("payload", ODD_VALUES)
@pytest.mark.parametrize("parse", [read_account, read_repo, read_gist])
def test_an_odd_payload_as_a_whole_has_another_shape(parse: Parse, payload: Any) -> None:
    with pytest.raises(FetchFailed) as caught:
        parse(payload)
    assert caught.value.reason == "unexpected_shape"


def test_a_page_cut_anywhere_is_still_read() -> None:
    markup = sample_bytes("web/page_full.html").decode()
    for end in range(0, len(markup), 7):
        read_page(markup[:end], "https://example.com/")
        read_page(markup[end:], "https://example.com/")


@pytest.mark.parametrize(
    "markup",
    [
        "",
        "\0",
        "<" * 10_000,
        "<div>" * 20_000,
        "<a href='" + "x" * 100_000,
        "<meta content>" * 1000,
        "<meta property=og:title content='\ud800'>",
        "<base href='http://[bad'><a href='/x'>",
        "<frameset><frame></frameset>",
        "<?xml version='1.0'?><rss/>",
    ],
)
def test_markup_that_is_no_page_is_read_without_a_crash(markup: str) -> None:
    read_page(markup, "https://example.com/")
