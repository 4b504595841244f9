"""Telegram's pages: what their markup says. Pure: markup in, facts out; it never fails.

Three kinds of page are read. A *card* (`t.me/name`, `t.me/+invite`) shows one person, bot, group or channel;
a name that nobody has gets a card as well, without a title. A *preview* (`t.me/s/name`) shows a channel with
about twenty of its messages. A *widget* (`t.me/name/1?embed=1`) is one message for embedding, in channels and
public groups. A page of another structure is none of ours, whatever its words say.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

from selectolax.lexbor import LexborHTMLParser, LexborNode

# A channel's id in the Bot API is this below zero: https://core.telegram.org/api/bots/ids.
_CHANNEL_IDS_START_AT = -1_000_000_000_000
_CHANNEL_ID_MAX = 997_852_516_352
_COUNTED = re.compile(
    r"([\d\s.]*\d)\s*([KMB]?)\s+(subscriber|member|online|monthly user|photo|video|file|link)s?\b",
    re.IGNORECASE,
)
_FACTORS = {"": 1, "K": 1000, "M": 1_000_000, "B": 1_000_000_000}
_ROUNDED = re.compile(r"([\d\s]*\d(?:\.\d+)?)\s*([KMB]?)", re.IGNORECASE)
_DIGITS_MAX = 15
_LINE_MAX = 200
_HANDLE = re.compile(r"@([A-Za-z]\w{3,31})\b", re.ASCII)
_PEER = re.compile(r"c(\d{1,15})_")
_MEDIA = {
    "photo": ".tgme_widget_message_photo_wrap",
    "video": ".tgme_widget_message_video_player, .tgme_widget_message_roundvideo_player",
    "voice": ".tgme_widget_message_voice_player",
    "document": ".tgme_widget_message_document_wrap",
    "sticker": ".tgme_widget_message_sticker_wrap",
    "poll": ".tgme_widget_message_poll",
    "location": ".tgme_widget_message_location_wrap",
}
_BREAKING_TAGS = "pre, blockquote, p, div"


class CardKind(StrEnum):
    """Whom or what a card shows; `nobody` has no title."""

    CHANNEL = "channel"
    GROUP = "group"
    USER = "user"
    BOT = "bot"
    NOBODY = "nobody"


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """The facts of a card. `kind` is None when the card has a title and no sign of what it shows.

    `counts` has exact numbers by the words of the page: `subscribers`, `members`, `online`, `monthly_users`.
    `links` are as written. `handle` is in its owner's spelling.
    """

    kind: CardKind | None
    title: str | None = None
    description: str | None = None
    links: tuple[str, ...] = ()
    counts: Mapping[str, int]
    handle: str | None = None
    has_preview: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Button:
    """A button under a message that leads somewhere."""

    text: str
    url: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """The facts of a message. `post` is `name/number` in the spelling of the page; links are as written.

    `views` is rounded by the page. `chat_id` has the form of the Bot API. `owner_name` is the channel's or
    group's, `author_*` the sender's in a group. `siblings` are the other `name/number` of an album.
    """

    post: str
    text: str | None
    links: tuple[str, ...]
    tags: tuple[str, ...]
    posted_at: datetime | None
    views: int | None
    is_service: bool
    chat_id: str | None
    owner_name: str | None
    author_name: str | None
    author_url: str | None
    signature: str | None
    forwarded_from: str | None
    forwarded_url: str | None
    reply_to_url: str | None
    buttons: tuple[Button, ...]
    media: tuple[str, ...]
    siblings: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """The facts of a preview. `counts` (`subscribers`, `photos`, `videos`, `links`) are rounded by the page.

    `is_silent` says that the page claims to have no messages, which it also does when it is asked too often.
    """

    counts: Mapping[str, int]
    chat_id: str | None
    messages: tuple[Message, ...]
    is_silent: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Widget:
    """A message, or the words in which the widget refuses to show it."""

    message: Message | None
    refusal: str | None


def read_card(markup: str) -> Card | None:
    """The facts of a card; None when the page is no card."""
    tree = LexborHTMLParser(markup)
    page = tree.css_first(".tgme_page")
    if page is None:
        return None
    window_title = _line(tree.css_first("head title")) or ""
    title = _line(page.css_first(".tgme_page_title span")) or _line(page.css_first(".tgme_page_title"))
    if title is None:
        is_nobody = page.css_first(".tgme_page_icon .tgme_icon_user, .tgme_page_icon .tgme_icon_group")
        return None if is_nobody is None else Card(kind=CardKind.NOBODY, counts={})
    extra = _line(page.css_first(".tgme_page_extra")) or ""
    counts = counted(extra)
    about = page.css_first(".tgme_page_description")
    handle = _HANDLE.search(extra) or _HANDLE.search(window_title)
    return Card(
        kind=_kind_of(page, window_title, counts, handle[1] if handle else ""),
        title=title,
        links=() if about is None else _hrefs(about),
        description=_text(about),
        counts=counts,
        handle=handle[1] if handle else None,
        has_preview=page.css_first(".tgme_page_context_link") is not None,
    )


def _kind_of(page: LexborNode, window_title: str, counts: Mapping[str, int], handle: str) -> CardKind | None:
    """What the card shows: the counted word is the surest sign, then the buttons, then the window's title."""
    buttons = " ".join(filter(None, (_line(node) for node in page.css(".tgme_page_action a")))).lower()
    additional = (_line(page.css_first(".tgme_page_additional")) or "").lower()
    signs: tuple[tuple[CardKind, bool], ...] = (
        (CardKind.CHANNEL, "subscribers" in counts),
        (CardKind.GROUP, "members" in counts),
        (CardKind.BOT, "monthly_users" in counts or "start bot" in buttons),
        (CardKind.BOT, window_title.startswith("Telegram: Launch @")),
        (CardKind.BOT, window_title.startswith("Telegram: Contact @") and handle.lower().endswith("bot")),
        (CardKind.USER, window_title.startswith("Telegram: Contact @")),
        (CardKind.CHANNEL, "join channel" in buttons or "invited to a channel" in additional),
        (CardKind.GROUP, "join group" in buttons or "invited to a group" in additional),
        (CardKind.CHANNEL, page.css_first(".tgme_page_context_link") is not None),
        # A channel or a group that shows no number; channels are the commoner.
        (CardKind.CHANNEL, window_title.startswith("Telegram: View @")),
        (CardKind.GROUP, window_title.startswith("Telegram: Join Group Chat")),
    )
    return next((kind for kind, is_shown in signs if is_shown), None)


def read_preview(markup: str) -> Preview | None:
    """The facts of a preview; None when the page is none."""
    tree = LexborHTMLParser(markup)
    if tree.css_first(".tgme_channel_info") is None and tree.css_first(".tgme_channel_history") is None:
        return None
    words = (_line(node) or "" for node in tree.css(".tgme_channel_info_counter"))
    messages = tuple(_messages_of(tree))
    return Preview(
        counts={name: count for word in words for name, count in counted(word).items()},
        chat_id=next((message.chat_id for message in messages if message.chat_id), None),
        messages=messages,
        is_silent=tree.css_first(".tme_no_messages_found") is not None,
    )


def read_widget(markup: str) -> Widget | None:
    """A message or a refusal; None when the page is no widget."""
    tree = LexborHTMLParser(markup)
    message = next(iter(_messages_of(tree)), None)
    if message is not None:
        return Widget(message=message, refusal=None)
    refusal = _line(tree.css_first(".tgme_widget_message_error"))
    return None if refusal is None else Widget(message=None, refusal=refusal)


def counted(text: str) -> dict[str, int]:
    """The numbers of a line such as `20 125 members, 991 online`, by their words in the plural."""
    counts: dict[str, int] = {}
    for number, factor, word in _COUNTED.findall(text[:_LINE_MAX]):
        name = word.lower().replace(" ", "_")
        count = _number(number, factor)
        if count is not None:
            counts.setdefault(name if name == "online" else f"{name}s", count)
    return counts


def rounded(text: str | None) -> int | None:
    """The number that a page writes as `912` or `1.49K`; None when it is none."""
    found = _ROUNDED.fullmatch((text or "").strip())
    return None if found is None else _number(found[1], found[2])


def _number(digits: str, factor: str) -> int | None:
    digits = "".join(digits.split())
    if len(digits) > _DIGITS_MAX or not re.fullmatch(r"\d+(\.\d+)?", digits):
        return None
    return int(Decimal(digits) * _FACTORS[factor.upper()])


def _messages_of(tree: LexborHTMLParser) -> list[Message]:
    messages = []
    for node in tree.css(".tgme_widget_message[data-post]"):
        post = node.attributes.get("data-post") or ""
        if re.fullmatch(r"\w{1,64}/\d{1,12}", post, re.ASCII):
            messages.append(_message(node, post))
    return messages


def _message(node: LexborNode, post: str) -> Message:
    reply = node.css_first(".tgme_widget_message_reply")
    reply_to_url = _attribute(reply, "href")
    if reply is not None:
        # It repeats the author and the text of another message under the same names.
        reply.decompose()
    forwarded = node.css_first(".tgme_widget_message_forwarded_from_name")
    author = node.css_first(".tgme_widget_message_author .tgme_widget_message_author_name")
    about = node.css_first(".tgme_widget_message_text")
    preview_url = _attribute(node.css_first(".tgme_widget_message_link_preview"), "href")
    hrefs = () if about is None else _hrefs(about)
    buttons = tuple(
        Button(text=_line(each) or "", url=url)
        for each in node.css(".tgme_widget_message_inline_button")
        if (url := _attribute(each, "href"))
    )
    links = (*hrefs, *((preview_url,) if preview_url else ()), *(button.url for button in buttons))
    return Message(
        post=post,
        text=_text(about),
        links=tuple(dict.fromkeys(link for link in links if not link.startswith("?"))),
        tags=() if about is None else _hashtags(about),
        posted_at=_moment(_attribute(node.css_first(".tgme_widget_message_date time[datetime]"), "datetime")),
        views=rounded(_line(node.css_first(".tgme_widget_message_views"))),
        is_service=_is_service(node),
        chat_id=_chat_id(node),
        owner_name=_line(node.css_first(".tgme_widget_message_owner_name")),
        author_name=_line(author),
        author_url=_attribute(author, "href"),
        signature=_line(node.css_first(".tgme_widget_message_from_author")),
        forwarded_from=_line(forwarded),
        forwarded_url=_attribute(forwarded, "href"),
        reply_to_url=reply_to_url,
        buttons=buttons,
        media=tuple(kind for kind, selector in _MEDIA.items() if node.css_first(selector) is not None),
        siblings=_siblings(node),
    )


def _is_service(node: LexborNode) -> bool:
    """Whether the message tells of the chat. A widget puts a placeholder where the text would be."""
    if "service_message" in (node.attributes.get("class") or "").split():
        return True
    placeholder = node.css_first(
        ".tgme_widget_message_bubble > .message_media_not_supported_wrap:not(.media_not_supported_cont)"
    )
    return placeholder is not None and node.css_first(".tgme_widget_message_text") is None


def _chat_id(node: LexborNode) -> str | None:
    """The chat's id in the form of the Bot API.

    Previews carry it as JSON in base64url, below zero; widgets as `c{id}_{hash}`.
    """
    view = node.attributes.get("data-view") or ""
    try:
        facts = json.loads(base64.urlsafe_b64decode(view + "=" * (-len(view) % 4)))
        number = facts["c"]
    except (ValueError, KeyError, TypeError, RecursionError):
        number = None
    if isinstance(number, int) and not isinstance(number, bool) and number < 0:
        return bot_chat_id(-number)
    peer = _PEER.match(node.attributes.get("data-peer") or "")
    return None if peer is None else bot_chat_id(int(peer[1]))


def bot_chat_id(channel_id: int) -> str | None:
    """The id of a channel or supergroup as the Bot API writes it; None for a number that cannot be one."""
    return str(_CHANNEL_IDS_START_AT - channel_id) if 0 < channel_id <= _CHANNEL_ID_MAX else None


def _siblings(node: LexborNode) -> frozenset[str]:
    hrefs = (_attribute(each, "href") or "" for each in node.css('a[href*="?single"]'))
    found = (re.search(r"/(\w{1,64}/\d{1,12})\?single", href, re.ASCII) for href in hrefs)
    return frozenset(each[1] for each in found if each)


def _hashtags(node: LexborNode) -> tuple[str, ...]:
    """Tags are links to a search inside the chat."""
    written = (_line(each) or "" for each in node.css('a[href^="?q=%23"]'))
    return tuple(dict.fromkeys(tag.removeprefix("#") for tag in written if tag.strip("#")))


def _hrefs(node: LexborNode) -> tuple[str, ...]:
    found = (_attribute(each, "href") for each in node.css("a[href]"))
    return tuple(dict.fromkeys(href.strip() for href in found if href and href.strip()))


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
        return None if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _attribute(node: LexborNode | None, name: str) -> str | None:
    return None if node is None else node.attributes.get(name)


def _line(node: LexborNode | None) -> str | None:
    """The text of a node with each run of white space as one space; None when there is none."""
    return None if node is None else " ".join(node.text().split()) or None


def _text(node: LexborNode | None) -> str | None:
    """The text of a node with its line breaks, which it loses."""
    if node is None:
        return None
    for line_break in node.css("br"):
        line_break.replace_with("\n")
    for block in node.css(_BREAKING_TAGS):
        if block.mem_id != node.mem_id:
            block.insert_before("\n")
            block.insert_after("\n")
    lines = (line.strip() for line in node.text().split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() or None
