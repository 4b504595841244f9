"""Telegram: channels, groups, people, bots, invites and messages, from t.me and the Bot API.

t.me says almost everything under a 200, so its markup decides. Whether a name is a channel, a group, a bot or
a person is known only from its page: the router takes it for a venue, and the graph may hold an account. With
a bot's token the Bot API adds the number of every public channel and group; it never decides that something
is gone, because it does not find people and bots either.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination, LargeBody, Redirects, Request, Response
from workers.http.retry import FREE, HINT_WAITED_FOR_MAX_S
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.telegram.bot import (
    BOT_SOURCE,
    flood_wait_s,
    judge_bot,
    read_chat,
    read_count,
)
from workers.social_recording.generators.telegram.graph import (
    Sighting,
    is_private,
    message_graph,
    sighting_graph,
    venue_group,
)
from workers.social_recording.generators.telegram.page import (
    Card,
    CardKind,
    Message,
    Preview,
    read_card,
    read_preview,
    read_widget,
)
from workers.social_recording.generators.verdicts import http_error, rate_limited
from workers.social_recording.object_graph import ObjectGroup, SocialObjectGraph
from workers.social_recording.routing import Route, route

SOURCE = "telegram"
_OWN_SITE = frozenset({"telegram.org", "www.telegram.org"})
# Its hint stands in the body, where the client does not look, so the wait is ours.
_BOT_RETRY = replace(FREE, statuses=FREE.statuses - {429})
_NO_CHAT = re.compile(r"with username .{1,64} not found", re.IGNORECASE)
_NO_POST = re.compile(r"^(post|message) not found", re.IGNORECASE)
_RESTRICTED = re.compile(r"can.?t be displayed", re.IGNORECASE)


class TelegramGenerator:
    """Asks t.me, and the Bot API where there is a token."""

    source = SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._base_url = settings.telegram_base_url
        self._bot = None if settings.telegram_bot_token is None else _Bot(http, settings)

    def supports(self, way: Route) -> bool:
        """Names, invites and messages."""
        if way.platform is not Platform.TELEGRAM:
            return False
        return way.object is ObjectKind.VENUES or way.subtype is ContentSubtype.POST

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call for a person, a bot, a group or an invite, up to three for a channel, one more for a
        message, two to the Bot API for a channel or group where there is a token. A private chat costs none.
        """
        if way.subtype is ContentSubtype.POST:
            return self._message(way, context)
        return sighting_graph(self._look_at(way, context))

    def _look_at(self, way: Route, context: FetchContext) -> Sighting:
        response = self._ask(urlsplit(way.url).path, context)
        card = judge_card(judge(response), way)
        sighting = Sighting(way=way, card=card, observed_at=response.received_at)
        # Behind an invite is a private chat, of which nobody else is told.
        if sighting.is_of_somebody or way.subtype is None:
            return sighting
        name = way.key.lower()
        if card.has_preview:
            preview = self._preview_of(name, context)
            created_at = None if preview is None else self._created_at(name, preview, context)
            sighting = replace(sighting, preview=preview, created_at=created_at)
        if self._bot is not None:
            sighting = self._bot.add_to(sighting, name, context)
        return sighting

    def _preview_of(self, name: str, context: FetchContext) -> Preview | None:
        """The channel's preview; None when it has been turned off, which leads back to the card."""
        response = self._ask(f"/s/{name}", context)
        return None if leads_to_card(response, name) else judge_preview(response)

    def _created_at(self, name: str, preview: Preview, context: FetchContext) -> datetime | None:
        """When the channel was created, which its first message says, unless somebody has deleted that."""
        if not preview.messages:
            return None
        seen = time_of_creation(preview, name)
        if seen is not None or any(message.post.endswith("/1") for message in preview.messages):
            return seen
        response = self._ask(f"/s/{name}/1", context)
        return None if leads_to_card(response, name) else time_of_creation(judge_preview(response), name)

    def _message(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        if is_private(way):
            raise TargetBlocked(
                "a private chat shows its messages to its members only", reason="private_chat"
            )
        name, _, number = way.key.lower().partition("/")
        response = self._ask(f"/{name}/{number}", context, embed="1")
        message = judge_widget(judge(response), way)
        return message_graph(message, way, self._venue_of(name, context), response.received_at)

    def _venue_of(self, name: str, context: FetchContext) -> ObjectGroup | None:
        """The whole venue of a message that has been seen; None when its own page does not show it."""
        try:
            sighting = self._look_at(route(f"https://t.me/{name}"), context)
        except (TargetGone, TargetBlocked):
            return None
        except FetchFailed as exc:
            if exc.reason == "weak_not_found":
                return None
            raise
        return None if sighting.is_of_somebody else venue_group(sighting)

    def _ask(self, path: str, context: FetchContext, **query: str) -> Response:
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}{path}",
            query=query,
            headers={"Accept": "text/html", "Accept-Language": "en"},
            redirects=Redirects.NEVER,
            large_body=LargeBody.CUT,
        )
        return self._http.fetch(request, context.budget, context.calls.add)


class _Bot:
    """The Bot API."""

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        token = settings.telegram_bot_token
        self._http = http
        self._base_url = settings.telegram_bot_base_url
        self._path = f"/bot{'' if token is None else token.get_secret_value()}"

    def add_to(self, sighting: Sighting, name: str, context: FetchContext) -> Sighting:
        """What is known with the chat's number, type, description and count, where they are shown."""
        chat = read_chat(self._ask("getChat", name, context))
        if chat is None:
            return sighting
        member_count = read_count(self._ask("getChatMemberCount", name, context))
        return replace(sighting, chat=chat, member_count=member_count)

    def _ask(self, method: str, name: str, context: FetchContext) -> object | None:
        request = Request(
            source=BOT_SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}{self._path}/{method}",
            query={"chat_id": f"@{name}"},
            headers={"Accept": "application/json"},
            retry=_BOT_RETRY,
        )
        tries_left = FREE.tries
        while True:
            response = self._http.fetch(request, context.budget, context.calls.add)
            tries_left -= 1
            wait_s = flood_wait_s(response)
            if wait_s is None or not tries_left:
                break
            if wait_s > min(HINT_WAITED_FOR_MAX_S, context.budget.remaining_s):
                break
            context.budget.sleep(wait_s)
        return judge_bot(response)


def judge(response: Response) -> str:
    """The markup of a page.

    Raises `TargetGone` for a name that cannot be one, from which t.me leads away, and `FetchFailed`.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response)
    if 300 <= status < 400:
        host = urlsplit(response.headers.get("location", "")).hostname
        if host in _OWN_SITE:
            raise TargetGone("telegram has no such names", reason="unusable_name")
        raise FetchFailed(f"{SOURCE} leads elsewhere", reason="redirect_refused")
    if status != 200:
        raise http_error(response)
    return response.text()


def judge_card(markup: str, way: Route) -> Card:
    """The card of a page that is one and shows something.

    Raises `TargetGone` for a dead invite and `FetchFailed`. A missing name is a weak sign: people who hide
    their profile look the same.
    """
    card = read_card(markup)
    if card is None or card.kind is None:
        raise FetchFailed(f"{SOURCE} shows a page of another kind", reason="unexpected_shape")
    is_invite = way.subtype is None
    if card.kind is CardKind.NOBODY and is_invite:
        raise TargetGone("the invite has ended or never was", reason="dead_invite")
    if card.kind is CardKind.NOBODY:
        raise FetchFailed("telegram shows nobody of this name", reason="weak_not_found")
    if is_invite and card.kind in (CardKind.USER, CardKind.BOT):
        raise FetchFailed(f"{SOURCE} shows somebody in place of an invite", reason="unexpected_shape")
    return card


def judge_preview(response: Response) -> Preview:
    """The preview of a channel whose card has been seen.

    Raises `FetchFailed`; whatever happens here, the channel is there.
    """
    try:
        markup = judge(response)
    except TargetGone as exc:
        raise FetchFailed(f"{SOURCE} leads away from a preview", reason="redirect_refused") from exc
    preview = read_preview(markup)
    if preview is None:
        raise FetchFailed(f"{SOURCE} shows a page of another kind", reason="unexpected_shape")
    if preview.is_silent and any(preview.counts.get(name) for name in ("photos", "videos", "links")):
        raise FetchFailed(f"{SOURCE} keeps the messages of a channel to itself", reason="no_messages_shown")
    return preview


def leads_to_card(response: Response, name: str) -> bool:
    """Whether a preview that is turned off leads back to the card of the same name."""
    place = urlsplit(response.headers.get("location", "")).path.strip("/").lower()
    return response.status in (301, 302) and place == name


def judge_widget(markup: str, way: Route) -> Message:
    """The message that was asked for.

    Raises `TargetGone`, `TargetBlocked` and `FetchFailed`. A message that is not found is a weak sign:
    widgets do not show every kind of message.
    """
    widget = read_widget(markup)
    if widget is None:
        raise FetchFailed(f"{SOURCE} shows a page of another kind", reason="unexpected_shape")
    if widget.message is not None:
        shown = {widget.message.post, *widget.message.siblings}
        # In an album every picture has a number, and the widget shows the first one's.
        if way.key.lower() not in {post.lower() for post in shown}:
            raise FetchFailed(f"{SOURCE} shows another message", reason="unexpected_shape")
        return widget.message
    refusal = widget.refusal or ""
    if _NO_CHAT.search(refusal):
        raise TargetGone("telegram knows no such chat", reason="no_such_chat")
    if _NO_POST.search(refusal):
        raise FetchFailed("telegram shows no such message", reason="weak_not_found")
    if _RESTRICTED.search(refusal):
        raise TargetBlocked("telegram has closed the chat", reason="restricted")
    raise FetchFailed(f"{SOURCE} refuses in words that we do not know", reason="unknown_refusal")


def time_of_creation(preview: Preview, name: str) -> datetime | None:
    """The time of the channel's first message, when it is the one that every channel begins with."""
    first = (each for each in preview.messages if each.post.lower() == f"{name}/1" and each.is_service)
    return next((each.posted_at for each in first), None)
