"""Telegram: its hosts and the forms of its URLs.

A public name may turn out to be a channel, a group, a bot or a person: only the page tells, so the route says
channel. Names ignore letter case, invites do not. A message is keyed `name/number`, in a private chat
`chat id/number`. Mini apps, boosts, bot starts, stickers and the like are no profiles.
"""

from __future__ import annotations

import re

from workers.social_graph.vocabulary import ContentSubtype, Platform, VenueSubtype
from workers.social_recording.routing.parts import Parts
from workers.social_recording.routing.patterns import Field, Site, content, venue
from workers.social_recording.routing.queries import words

_FIELDS = {
    "name": Field(regex=r"[A-Za-z]\w{3,31}", folds=True),
    "id": Field(regex=r"\d{1,12}"),
    "chat": Field(regex=r"\d{5,20}"),
    "peer": Field(regex=r"-?\d{3,20}"),
    # Digits alone are a phone number.
    "invite": Field(regex=r"(?!\d+\Z)[\w-]{10,64}"),
}
_RESERVED = words(
    "addemoji addlist addstickers addtheme auction bg boost call confirmphone contact contract"
    " folder giftcode invoice joinchat login message newbot nft proxy setlanguage share socks"
)
# A name with one of these opens something in the app; it does not show a profile.
_ACTIONS = words("boost game livestream start startapp startchannel startgroup story videochat voicechat")
_HOSTS = frozenset({"t.me", "telegram.me", "telegram.dog"})
_VENUE = "https://t.me/{name}"
_POST = "https://t.me/{name}/{id}"
_INVITE = "https://t.me/+{invite}"


def _path_of(parts: Parts) -> str:
    """`name.t.me` is the same as `t.me/name`."""
    host, path, _, _ = parts
    if host in _HOSTS:
        return path
    labels, _, _ = host.lower().rstrip(".").rpartition(".t.me")
    name = labels.rpartition(".")[2]
    return path if name in ("", "www") else f"/{name}{path}"


_MAIN = Site(
    platform=Platform.TELEGRAM,
    host="t.me",
    hosts=_HOSTS,
    prefix=r"w{2,4}\d?|[a-z][a-z0-9_]{3,31}",
    reserved=_RESERVED,
    rewrite=_path_of,
    fields=_FIELDS,
    patterns=(
        venue(None, "/joinchat/{invite}", key="{invite}", url=_INVITE),
        venue(None, r"/\+{invite}", key="{invite}", url=_INVITE),
        content(
            ContentSubtype.POST,
            "/c/{chat}(?:/\\d+)?/{id}",
            key="{chat}/{id}",
            url="https://t.me/c/{chat}/{id}",
        ),
        venue(VenueSubtype.CHANNEL, "/s/{name}", key="{name}", url=_VENUE),
        content(ContentSubtype.POST, "/s/{name}/{id}", key="{name}/{id}", url=_POST),
        content(ContentSubtype.UNKNOWN, "/{name}", flags=_ACTIONS, key="{place}", url="https://t.me{place}"),
        content(ContentSubtype.POST, "/{name}(?:/\\d+)?/{id}", key="{name}/{id}", url=_POST),
        venue(VenueSubtype.CHANNEL, "/@?{name}", key="{name}", url=_VENUE),
    ),
)


# What the web client shows: `#@name`, in its first version `#/im?p=@name`; or a chat's number and a message.
_CLIENT_NAME = re.compile(r"(?:/im\?p=)?(@\w+)/*", re.ASCII)
_CLIENT_PEER = re.compile(r"(-?\d{3,20})(?:_\d+)*/*", re.ASCII)


def _client_path_of(parts: Parts) -> str:
    """The web client keeps the chat behind `#`; whatever else stands there is no place."""
    _, path, _, fragment = parts
    if (name := _CLIENT_NAME.fullmatch(fragment)) is not None:
        return f"/{name[1]}"
    if (peer := _CLIENT_PEER.fullmatch(fragment)) is not None:
        return f"/k/#{peer[1]}"
    return path


_CLIENT = Site(
    platform=Platform.TELEGRAM,
    host="web.telegram.org",
    hosts=frozenset({"web.telegram.org"}),
    prefix="www",
    rewrite=_client_path_of,
    fields=_FIELDS,
    patterns=(
        venue(VenueSubtype.CHANNEL, "/@{name}", key="{name}", url=_VENUE),
        content(
            ContentSubtype.UNKNOWN, "/k/#{peer}", key="/k/#{peer}", url="https://web.telegram.org/k/#{peer}"
        ),
    ),
)
SITES = (_MAIN, _CLIENT)
