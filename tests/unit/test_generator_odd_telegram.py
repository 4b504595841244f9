"""Telegram's markup with something odd in it gives graphs that keep their contract, and never a crash."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.odd_values import NOW, ODD_VALUES, is_storable
from tests.samples import sample_bytes
from workers.errors import ConvergeError, FetchFailed
from workers.social_recording.generators.telegram.bot import read_chat
from workers.social_recording.generators.telegram.generator import judge_card, judge_widget
from workers.social_recording.generators.telegram.graph import Sighting, message_graph, sighting_graph
from workers.social_recording.generators.telegram.page import (
    Card,
    CardKind,
    read_card,
    read_preview,
    read_widget,
)
from workers.social_recording.object_graph import check
from workers.social_recording.routing import route

CARDS = ("channel", "group", "user", "bot", "missing", "invite", "invite_expired")
PREVIEWS = ("preview", "portal_preview")
WIDGETS = ("widget_channel", "widget_group", "widget_service", "widget_missing", "widget_no_chat")
NAME, INVITE, POST = (
    route(f"https://t.me/{place}") for place in ("harbornews", "+AbCd1234EfGh5678", "harbornews/20")
)
ODD_TEXTS = (
    "",
    " ",
    "\0",
    "&#xD800;",
    "9" * 400,
    "\u202e🚀" * 3,
    "//[",
    "?q=%23",
    "https://t.me/",
    "data:,",
    "%",
)
# Every place gets some of them, in turn.
ODD_TEXTS_PER_PLACE = 3
ATTRIBUTE = re.compile(r'="([^"]*)"')
WORDS = re.compile(r">([^<>]+)<")


def text_of(sample: str) -> str:
    return sample_bytes(f"telegram/{sample}.html").decode()


def read_everything(markup: str) -> int:
    """Read one page as every kind of page; return how many graphs came of it."""
    graphs = []
    for way in (NAME, INVITE):
        try:
            card = judge_card(markup, way)
        except ConvergeError:
            continue
        graphs.append(sighting_graph(Sighting(way=way, card=card, observed_at=NOW)))
    preview = read_preview(markup)
    if preview is not None:
        card = Card(kind=CardKind.CHANNEL, title="A", counts={})
        graphs.append(sighting_graph(Sighting(way=NAME, card=card, observed_at=NOW, preview=preview)))
    widget = read_widget(markup)
    if widget is not None and widget.message is not None:
        graphs.append(message_graph(widget.message, POST, None, NOW))
    with contextlib.suppress(ConvergeError):
        judge_widget(markup, POST)
    for graph in graphs:
        check(graph, "https://entry.example.com/")
        assert is_storable(graph)
    return len(graphs)


def changed(markup: str, pattern: re.Pattern[str]) -> Iterator[str]:
    odd_texts = itertools.cycle(ODD_TEXTS)
    for found in pattern.finditer(markup[markup.index("<body") :]):
        start, end = (markup.index("<body") + place for place in found.span(1))
        for odd in itertools.islice(odd_texts, ODD_TEXTS_PER_PLACE):
            yield markup[:start] + odd + markup[end:]


@pytest.mark.parametrize("sample", [*CARDS, *PREVIEWS, *WIDGETS])
@pytest.mark.parametrize("pattern", [ATTRIBUTE, WORDS])
def test_one_odd_attribute_or_word_anywhere_never_crashes_a_parser(
    sample: str, pattern: re.Pattern[str]
) -> None:
    graphs = sum(read_everything(markup) for markup in changed(text_of(sample), pattern))
    shows_nothing = sample in ("missing", "invite_expired", "widget_missing", "widget_no_chat")
    assert shows_nothing or graphs > 0


@pytest.mark.parametrize("sample", [*CARDS, *PREVIEWS, *WIDGETS])
def test_a_page_cut_anywhere_is_still_read(sample: str) -> None:
    markup = text_of(sample)
    for end in range(0, len(markup), 97):
        read_everything(markup[:end])
        read_everything(markup[end:])


@pytest.mark.parametrize("sample", [*CARDS, *PREVIEWS, *WIDGETS])
def test_a_page_without_one_of_its_tags_is_still_read(sample: str) -> None:
    markup = text_of(sample)
    for tag in re.finditer(r"</?\w+[^>]*>", markup):
        read_everything(markup[: tag.start()] + markup[tag.end() :])


@pytest.mark.parametrize(
    "markup",
    ["", "\0", "<" * 10_000, "<div>" * 5000, "\ud800", '<div class="tgme_page">' * 500, "<?xml?><rss/>"],
)
def test_what_is_no_page_of_telegram_shows_nothing(markup: str) -> None:
    assert (read_card(markup), read_preview(markup), read_widget(markup)) == (None, None, None)


@pytest.mark.parametrize("value", [*ODD_VALUES, -(2**70), -1.5, -(10**13)])
def test_an_odd_number_of_a_chat_is_none(value: Any) -> None:
    for facts in ({"c": value}, value):
        view = base64.urlsafe_b64encode(json.dumps(facts).encode()).decode().rstrip("=")
        markup = (
            text_of("preview").replace("eyJj", f"{view}.eyJj").replace("data-view=", f'data-view="{view}" x=')
        )
        preview = read_preview(markup)
        assert preview is not None
        # The one negative number among them that a chat can have.
        assert preview.chat_id == ("-1000000000001" if facts == {"c": -1} else None)


@pytest.mark.parametrize("peer", ["", "c", "c_", "u123_4", "c0_1", "c99999999999999_1", "c12", "C12_3"])
def test_an_odd_peer_is_no_number_of_a_chat(peer: str) -> None:
    markup = text_of("widget_group").replace("c1866120934_-6170615297454910669", peer)
    widget = read_widget(markup)
    assert widget is not None
    assert widget.message is not None
    assert widget.message.chat_id is None


@pytest.mark.parametrize("field", ["id", "type", "title", "description", "linked_chat_id"])
def test_one_odd_value_in_a_chat_is_unknown_or_another_shape(field: str) -> None:
    chat = {"id": -1001793026118, "title": "A", "type": "channel", "linked_chat_id": -1001866120934}
    card = Card(kind=CardKind.CHANNEL, title="A", counts={})
    for odd in ODD_VALUES:
        try:
            seen = read_chat({**chat, field: odd})
        except FetchFailed as exc:
            assert exc.reason == "unexpected_shape"  # noqa: PT017 - one test for many values
            continue
        graph = sighting_graph(Sighting(way=NAME, card=card, observed_at=NOW, chat=seen))
        check(graph, NAME.url)
        assert is_storable(graph)
