"""Telegram: t.me's cards, previews, invites and message widgets, and two methods of the Bot API.

Owns the personalisation of the recorded pages to the name asked for. Never lets two answers about one chat
differ: its number, its title and its count come from its lower-cased name, on every page and in the Bot API.

What a name is:

- a name that ends in `bot` is a bot; one that starts with `channel_`, `busy_`, `portal_`, `shell_`,
  `nopreview_`, `group_`, `guarded_`, `user_` or `missing_` is that; of 20 others eight are portals, four are
  shells, four channels, two groups, one is a person and one is missing;
- a `busy` channel's preview no longer shows its first message, a `nopreview` channel has none, a `guarded`
  group says that a bot guards its door;
- a name that cannot be one (shorter than four, a digit first) leads to telegram.org, as does
  `web_name_too_short_or_invalid`.

An invite that starts with `dead` has ended; about every third other one is a channel's. Message 404 is
missing everywhere, message 1 of a channel is "Channel created", and every fifth message of a channel is
forwarded from `channel_archive`. The widgets are assembled, not recorded.

The Bot API takes any token. The names `flood`, `bad_token` and `chat_not_found` get the recorded refusals
there; people, bots and missing names are `chat_not_found`.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, unquote

from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, derive, error_answers, json_answer, payload_of, text_of

HTML = {"content-type": "text/html; charset=utf-8"}
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = 900
BOT_IDS_START_AT = -1_000_000_000_000

CARDS = {kind: text_of(f"telegram/{kind}.html") for kind in ("channel", "group", "user", "bot", "missing")}
CARD_NAMES = {
    "channel": ("harbornews", "Harbor News"),
    "group": ("harborchat", "Harbor Chat"),
    "user": ("willowdev", "Willow Ember"),
    "bot": ("harborhelperbot", "Harbor Helper"),
    "missing": ("nosuchname000", "-"),
}
INVITE, DEAD_INVITE = text_of("telegram/invite.html"), text_of("telegram/invite_expired.html")
PREVIEW, PORTAL = text_of("telegram/preview.html"), text_of("telegram/portal_preview.html")
WIDGETS = {name: text_of(f"telegram/widget_{name}.html") for name in ("channel", "group", "service")}
NO_POST, NO_CHAT = text_of("telegram/widget_missing.html"), text_of("telegram/widget_no_chat.html")
CASES = error_answers("telegram/botapi_and_redirects.json")
CHATS = {
    record["case"]: record["body"]["result"]
    for record in payload_of("telegram/botapi_and_redirects.json")
    if record["case"].startswith("getchat_")
}
UNUSABLE, PRIVATE = CASES["web-name-too-short-or-invalid"], CASES["web-private-message-link"]
BOT_REFUSALS = {name: CASES[name.replace("_", "-")] for name in ("flood", "bad_token", "chat_not_found")}

NAME = re.compile(r"[a-z][a-z0-9_]{3,31}", re.IGNORECASE | re.ASCII)
KINDS = ("channel", "busy", "portal", "shell", "nopreview", "group", "guarded", "user", "missing")
BY_CHANCE = (
    *["portal"] * 8,
    *["shell"] * 4,
    *["channel"] * 2,
    *["busy"] * 2,
    *["group"] * 2,
    "user",
    "missing",
)
CHANNELS = frozenset({"channel", "busy", "portal", "shell", "nopreview"})
GROUPS = frozenset({"group", "guarded"})
WITH_PREVIEW = CHANNELS - {"nopreview"}
MESSAGE = re.compile(
    r' *<div class="tgme_widget_message_wrap js-widget_message_wrap">.*?</div>\s*</div>\s*</div></div>\n',
    re.DOTALL,
)
VIEW = re.compile(r'data-post="(\w+)/(\d+)" data-view="[\w-]+"', re.ASCII)
MEDIA_COUNTER = re.compile(
    r'<div class="tgme_channel_info_counter"><span class="counter_value">\d+</span> '
    r'<span class="counter_type">(?:photos|videos|links)</span></div>'
)
EMOJI = re.compile(r' (?:<i class="emoji".*?</i>|🚀)', re.DOTALL)
GUARDED = "This group is protected by @gatekeeperbot. Tap the button to verify."


def pages(request: Request, path: str) -> Answer:
    """Answer a GET of t.me; `path` starts after the base URL."""
    first, _, rest = unquote(path).strip("/").partition("/")
    if first.startswith("+") or first.lower() == "joinchat":
        return _page(_invite(first.removeprefix("+") if first.startswith("+") else rest))
    if first == "c":
        return PRIVATE
    if first == "s":
        name, _, number = rest.partition("/")
        return _preview(name, number) if NAME.fullmatch(name) else UNUSABLE
    if not NAME.fullmatch(first) or first.lower() == "web_name_too_short_or_invalid":
        return UNUSABLE
    if rest.isdecimal() and "embed" in parse_qs(request.query):
        return _page(_widget(first, int(rest)))
    return _page(_card(first))


def bot(request: Request, path: str) -> Answer:
    """Answer a call of the Bot API; `path` starts after the base URL."""
    called = re.fullmatch(r"/bot([^/]+)/(getChat|getChatMemberCount)", path)
    if not called:
        return json_answer({"ok": False, "error_code": 404, "description": "Not Found"}, status=404)
    name = parse_qs(request.query).get("chat_id", [""])[0].removeprefix("@").lower()
    if name in BOT_REFUSALS:
        return BOT_REFUSALS[name]
    if not NAME.fullmatch(name) or kind_of(name) not in CHANNELS | GROUPS:
        return BOT_REFUSALS["chat_not_found"]
    result: object = count_of(name) if called[2] == "getChatMemberCount" else _chat(name)
    return json_answer({"ok": True, "result": result})


def kind_of(name: str) -> str:
    """What a name is; see the module docstring."""
    name = name.lower()
    prefix = name.partition("_")[0]
    if name in BOT_REFUSALS:
        return "group"
    if name.endswith("bot"):
        return "bot"
    if prefix in KINDS and prefix != name:
        return prefix
    return BY_CHANCE[derive("telegram kind", name, below=len(BY_CHANCE))]


def chat_number(name: str) -> int:
    """The number of a chat, as previews have it below zero."""
    return 1_000_000_000 + derive("telegram chat", name.lower(), below=3_000_000_000)


def bot_id(name: str) -> int:
    """The number of a chat, as the Bot API has it."""
    return BOT_IDS_START_AT - chat_number(name)


def count_of(name: str) -> int:
    """How many members or subscribers a chat has."""
    return 3 + derive("telegram count", name.lower(), below=40_000)


def title_of(name: str) -> str:
    """The title of a chat; letters and digits only, so that it may stand in markup."""
    return name.replace("_", " ").title()


def _page(markup: str) -> Answer:
    return Answer(headers=HTML, body=markup.encode())


def _spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _rounded(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.3g}K"


def _renamed(markup: str, recorded: tuple[str, str], name: str) -> str:
    # The archive comes first: its name begins like another one.
    markup = markup.replace("harborarchive", "channel_archive").replace(
        "Harbor Archive", title_of("channel_archive")
    )
    return markup.replace(recorded[0], name).replace(recorded[1], title_of(name))


def _card(name: str) -> str:
    kind = kind_of(name)
    card = "channel" if kind in CHANNELS else "group" if kind in GROUPS else kind
    # In the title alone it would be a difference to the preview.
    markup = EMOJI.sub("", _renamed(CARDS[card], CARD_NAMES[card], name))
    count = count_of(name)
    markup = markup.replace("12 617 subscribers", f"{_spaced(count)} subscribers")
    markup = markup.replace("20 125 members, 991 online", f"{_spaced(count)} members, {count // 20} online")
    markup = markup.replace("24 000 monthly users", f"{_spaced(count)} monthly users")
    if kind == "nopreview":
        markup = re.sub(r'<div class="tgme_page_context_link_wrap">.*?</div>', "", markup)
    if kind == "guarded":
        markup = markup.replace("The community group. Rules: &lt;be kind&gt;.", GUARDED)
    return markup


def _invite(code: str) -> str:
    if code.lower().startswith("dead"):
        return DEAD_INVITE.replace("ZZZZ0000ZZZZ0000", code)
    count = count_of(code)
    markup = INVITE.replace("AbCd1234EfGh5678", code).replace("Harbor Insiders", f"Insiders {count}")
    if derive("telegram invite", code, below=3):
        return markup.replace("1 204 members, 87 online", f"{_spaced(count)} members, {count // 20} online")
    markup = markup.replace("1 204 members, 87 online", f"{_spaced(count)} subscribers")
    return markup.replace("Join Group<", "Join Channel<").replace("a <strong>group chat", "a <strong>channel")


def _preview(name: str, number: str) -> Answer:
    kind = kind_of(name)
    if kind not in WITH_PREVIEW:
        location = f"https://t.me/{name}"
        return Answer(status=302, headers={**HTML, "location": location}, body=b"")
    count = count_of(name)
    if kind == "portal":
        markup = _renamed(PORTAL, ("harborportal", "Harbor Portal"), name).replace("8.31K", _rounded(count))
        markup = markup.replace("start=-1002011840753", f"start={bot_id(name)}")
    else:
        markup = _renamed(PREVIEW, CARD_NAMES["channel"], name).replace("12.6K", _rounded(count))
    messages = MESSAGE.findall(markup)
    if kind == "shell":
        for message in messages[1:]:
            markup = markup.replace(message, "")
        markup = MEDIA_COUNTER.sub("", markup)
    if kind == "busy" and number != "1":
        markup = markup.replace(messages[0], "")
    return _page(_with_views(markup, name))


def _with_views(markup: str, name: str) -> str:
    """The markup with the chat's own number in each message."""

    def viewed(found: re.Match[str]) -> str:
        facts = {"c": -chat_number(name), "p": int(found[2]), "t": 1_790_000_000, "h": "3b3820860878ea9676"}
        text = urlsafe_b64encode(json.dumps(facts, separators=(",", ":")).encode()).decode().rstrip("=")
        return f'data-post="{found[1]}/{found[2]}" data-view="{text}"'

    return VIEW.sub(viewed, markup).replace("c1793026118_", f"c{chat_number(name)}_")


def _widget(name: str, number: int) -> str:
    kind = kind_of(name)
    if kind not in CHANNELS | GROUPS:
        return NO_CHAT.replace("nosuchname000", name)
    if number in (0, 404):
        return NO_POST
    moment = FIRST_DAY + timedelta(
        minutes=derive("telegram opened", name.lower(), below=DAYS * 1440) + number * 7
    )
    if kind in GROUPS:
        markup = WIDGETS["group"].replace("harborchat/5120", f"{name}/{number}").replace("harborchat", name)
        markup = markup.replace("Harbor Chat", title_of(name)).replace("5120", str(number))
        markup = markup.replace("c1866120934_", f"c{chat_number(name)}_")
        return markup.replace("2026-04-20T09:00:00+00:00", moment.isoformat())
    if number == 1:
        markup = _renamed(WIDGETS["service"], CARD_NAMES["channel"], name)
        return _with_views(markup, name)
    markup = _renamed(WIDGETS["channel"], CARD_NAMES["channel"], name)
    markup = markup.replace(f"{name}/20", f"{name}/{number}").replace(
        'data-post-id="20"', f'data-post-id="{number}"'
    )
    markup = markup.replace("</span>/20</a>", f"</span>/{number}</a>").replace("912", str(number * 37 % 1000))
    markup = markup.replace("2026-04-14T18:45:46+00:00", moment.isoformat())
    if number % 5 or name.lower() == "channel_archive":
        markup = re.sub(r'<div class="tgme_widget_message_forwarded_from.*?</div>', "", markup)
    return _with_views(markup.replace("channel_archive/40", f"channel_archive/{number}"), name)


def _chat(name: str) -> dict[str, Any]:
    is_channel = kind_of(name) in CHANNELS
    chat = dict(CHATS["getchat_channel" if is_channel else "getchat_supergroup"])
    chat |= {"id": bot_id(name), "title": title_of(name), "username": name, "active_usernames": [name]}
    chat["linked_chat_id"] = bot_id(f"linked_{name}")
    if kind_of(name) == "guarded":
        chat["description"] = GUARDED
    return chat
