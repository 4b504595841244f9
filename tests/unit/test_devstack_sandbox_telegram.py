"""What the sandbox's Telegram answers, without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from devstack.sandbox import telegram
from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer
from workers.social_recording.generators.telegram.graph import is_empty, portal_guard
from workers.social_recording.generators.telegram.page import (
    Card,
    CardKind,
    Message,
    Preview,
    read_card,
    read_preview,
    read_widget,
)


def get(target: str) -> Answer:
    request = Request(method="GET", target=f"/telegram{target}", headers={"host": "sandbox"}, body=b"")
    return telegram.pages(request, target.partition("?")[0])


def ask_bot(method: str, name: str) -> Any:
    target = f"/telegram-bot/bot1:a/{method}?chat_id=%40{name}"
    answer = telegram.bot(Request(method="GET", target=target, headers={}, body=b""), f"/bot1:a/{method}")
    return json.loads(answer.body)


def card_of(name: str) -> Card:
    card = read_card(get(f"/{name}").body.decode())
    assert card is not None
    return card


def preview_of(name: str, number: str = "") -> Preview:
    preview = read_preview(get(f"/s/{name}{number}").body.decode())
    assert preview is not None
    return preview


def message_of(post: str) -> Message:
    widget = read_widget(get(f"/{post}?embed=1").body.decode())
    assert widget is not None
    assert widget.message is not None
    return widget.message


@pytest.mark.parametrize(
    ("name", "kind", "has_preview"),
    [
        ("channel_moon", CardKind.CHANNEL, True),
        ("busy_moon", CardKind.CHANNEL, True),
        ("portal_moon", CardKind.CHANNEL, True),
        ("shell_moon", CardKind.CHANNEL, True),
        ("nopreview_moon", CardKind.CHANNEL, False),
        ("group_moon", CardKind.GROUP, False),
        ("guarded_moon", CardKind.GROUP, False),
        ("user_moon", CardKind.USER, False),
        ("MoonBot", CardKind.BOT, False),
        ("missing_moon", CardKind.NOBODY, False),
    ],
)
def test_a_name_says_what_it_is(name: str, kind: CardKind, has_preview: bool) -> None:
    card = card_of(name)
    assert (card.kind, card.has_preview) == (kind, has_preview)
    if kind is not CardKind.NOBODY:
        assert card.title == telegram.title_of(name)
        assert name in get(f"/{name}").body.decode()


def test_names_by_chance_are_of_every_kind() -> None:
    kinds = {telegram.kind_of(f"moon{number}") for number in range(300)}
    assert kinds == {"portal", "shell", "channel", "busy", "group", "user", "missing"}
    assert telegram.kind_of("Moon7") == telegram.kind_of("moon7")


@pytest.mark.parametrize("name", ["channel_moon", "busy_moon", "portal_moon", "shell_moon"])
def test_a_chat_is_the_same_on_its_pages_and_in_the_bot_api(name: str) -> None:
    card, preview = card_of(name), preview_of(name)
    chat, count = ask_bot("getChat", name)["result"], ask_bot("getChatMemberCount", name)["result"]
    assert preview.chat_id == str(chat["id"]) == str(telegram.bot_id(name))
    assert (card.title, card.counts) == (chat["title"], {"subscribers": count})
    assert abs(preview.counts["subscribers"] - count) <= max(50, count // 100)


def test_a_group_has_a_number_and_a_count_in_the_bot_api() -> None:
    assert card_of("group_moon").counts["members"] == ask_bot("getChatMemberCount", "group_moon")["result"]
    assert ask_bot("getChat", "group_moon")["result"]["type"] == "supergroup"
    assert ask_bot("getChat", "guarded_moon")["result"]["description"] == card_of("guarded_moon").description


def test_previews_differ_by_kind() -> None:
    assert portal_guard(preview_of("portal_moon")) == "gatekeeperbot"
    assert portal_guard(preview_of("channel_moon")) is None
    assert is_empty(preview_of("shell_moon"))
    assert not is_empty(preview_of("channel_moon"))
    posts = [message.post for message in preview_of("busy_moon").messages]
    assert posts == ["busy_moon/2", "busy_moon/20"]
    assert preview_of("busy_moon", "/1").messages[0].post == "busy_moon/1"


@pytest.mark.parametrize("name", ["group_moon", "nopreview_moon", "user_moon", "missing_moon", "moonbot"])
def test_what_has_no_preview_leads_back_to_its_card(name: str) -> None:
    answer = get(f"/s/{name}")
    assert (answer.status, answer.headers["location"]) == (302, f"https://t.me/{name}")


@pytest.mark.parametrize("path", ["/ab", "/1moon", "/web_name_too_short_or_invalid", "/s/ab", "/c/17930/20"])
def test_what_cannot_be_a_name_leads_to_telegrams_own_site(path: str) -> None:
    assert (get(path).status, get(path).headers["location"]) == (302, "https://telegram.org/")


def test_invites_are_groups_and_channels_and_dead() -> None:
    cards = [read_card(get(f"/+invite{number:010}").body.decode()) for number in range(60)]
    kinds = [card.kind for card in cards if card]
    assert len(kinds) == 60
    assert set(kinds) == {CardKind.GROUP, CardKind.CHANNEL}
    dead = read_card(get("/joinchat/DeadInvite0123456").body.decode())
    assert dead is not None
    assert dead.kind is CardKind.NOBODY


def test_messages_have_their_number_and_their_chat() -> None:
    message = message_of("channel_moon/21")
    assert (message.post, message.chat_id) == ("channel_moon/21", str(telegram.bot_id("channel_moon")))
    assert (message.forwarded_from, message.is_service) == (None, False)
    forward = message_of("channel_moon/25")
    assert forward.forwarded_url == "https://t.me/channel_archive/25"
    assert message_of("channel_moon/1").is_service
    in_group = message_of("group_moon/77")
    assert (in_group.post, in_group.author_name) == ("group_moon/77", "Willow Ember")
    assert in_group.chat_id == str(telegram.bot_id("group_moon"))


@pytest.mark.parametrize(
    ("post", "refusal"),
    [
        ("channel_moon/404", "Post not found"),
        ("user_moon/5", "Channel with username @user_moon not found"),
        ("missing_moon/5", "Channel with username @missing_moon not found"),
    ],
)
def test_messages_that_are_missing_are_refused_in_words(post: str, refusal: str) -> None:
    widget = read_widget(get(f"/{post}?embed=1").body.decode())
    assert widget is not None
    assert (widget.message, widget.refusal) == (None, refusal)


@pytest.mark.parametrize(
    ("name", "status"),
    [("flood", 429), ("bad_token", 401), ("chat_not_found", 400), ("user_moon", 400), ("moonbot", 400)],
)
def test_refusals_of_the_bot_api_can_be_asked_for(name: str, status: int) -> None:
    assert ask_bot("getChat", name)["error_code"] == status


def test_other_methods_of_the_bot_api_are_unknown() -> None:
    assert ask_bot("sendMessage", "channel_moon")["error_code"] == 404
