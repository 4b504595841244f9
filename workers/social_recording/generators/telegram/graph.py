"""Telegram: from what the pages and the Bot API show to graphs. Pure.

A venue is keyed by the chat's number in the form of the Bot API (`-100...`), because titles and names change
and are traded. Without a bot only channels with a preview show it. People and bots show no number at all.

What kind of venue it is: a `channel`, where its owners write; a `community`, where everybody does; a `shell`,
a channel in which nobody has written anything; a `portal`, a channel with a guard bot's button and little
else, whose subscribers are those who look for the hidden group; a `guard_group`, a group that says itself
that a bot guards its door.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from workers.social_graph.vocabulary import (
    ContentSubtype,
    ObjectKind,
    ParentRelation,
    Platform,
    VenueSubtype,
)
from workers.social_recording.generators.telegram.bot import Chat
from workers.social_recording.generators.telegram.page import Card, CardKind, Message, Preview
from workers.social_recording.generators.text_links import link_meant, unique
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
    VenueDraft,
)
from workers.social_recording.routing import Route, route

# A portal has its button and sometimes a word of welcome or a picture beside it.
_PORTAL_MESSAGES_MAX = 3
_GUARD_WORDS = re.compile(r"\bverif|\bhuman\b|captcha|\bprotected by\b", re.IGNORECASE)
_GUARD_BOT = re.compile(r"(?:t(?:elegram)?\.me/|domain=|@)([A-Za-z]\w{3,31})(?=\b)", re.IGNORECASE | re.ASCII)
_BOT_START = re.compile(
    r"t(?:elegram)?\.me/([A-Za-z]\w{3,31})\?(?:.*&)?start=|domain=([A-Za-z]\w{3,31})&start=",
    re.IGNORECASE | re.ASCII,
)
_COUNTED_IN_PREVIEWS = frozenset({"subscribers", "photos", "videos", "links"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """All that was seen of one name or invite. `created_at` is the time of the channel's first message."""

    way: Route
    card: Card
    observed_at: datetime
    preview: Preview | None = None
    created_at: datetime | None = None
    chat: Chat | None = None
    member_count: int | None = None

    @property
    def is_of_somebody(self) -> bool:
        """Whether the name belongs to a person or a bot."""
        return self.card.kind in (CardKind.USER, CardKind.BOT)

    @property
    def is_of_channel(self) -> bool:
        """Whether only its owners write in it."""
        return self.chat.is_channel if self.chat else self.card.kind is CardKind.CHANNEL

    @property
    def description(self) -> str | None:
        """What the venue says of itself."""
        return (self.chat.description if self.chat else None) or self.card.description


def sighting_graph(sighting: Sighting) -> SocialObjectGraph:
    """The venue, or the account of a person or bot that a name turned out to be."""
    group = account_group(sighting) if sighting.is_of_somebody else venue_group(sighting)
    return SocialObjectGraph(groups=(group,), observed_at=sighting.observed_at)


def account_group(sighting: Sighting) -> ObjectGroup:
    """A person or a bot."""
    card = sighting.card
    account = AccountDraft(
        platform=Platform.TELEGRAM,
        url=sighting.way.url,
        platform_key=None,
        handle=card.handle or sighting.way.key,
        display_name=card.title,
        bio=card.description,
        links=_canonical(card.links),
        data={"type": "bot" if card.kind is CardKind.BOT else "user"},
    )
    metrics = {name: count for name, count in card.counts.items() if name == "monthly_users"}
    return ObjectGroup(account=account, metrics={ObjectKind.ACCOUNTS: metrics} if metrics else {})


def venue_group(sighting: Sighting) -> ObjectGroup:
    """A channel or a group with its numbers."""
    metrics = _venue_metrics(sighting)
    group = ObjectGroup(venue=venue_draft(sighting))
    return replace(group, metrics={ObjectKind.VENUES: metrics}) if metrics else group


def venue_draft(sighting: Sighting) -> VenueDraft:
    """A channel or a group: the Bot API is believed before the pages, exact numbers before rounded ones."""
    card, chat, preview = sighting.card, sighting.chat, sighting.preview
    metrics = _venue_metrics(sighting)
    return VenueDraft(
        platform=Platform.TELEGRAM,
        subtype=subtype_of(sighting),
        url=sighting.way.url,
        platform_key=chat.id if chat else preview.chat_id if preview else None,
        name=(chat.title if chat else None) or card.title,
        description=sighting.description,
        venue_created_at=sighting.created_at,
        members=metrics.get("members", metrics.get("subscribers")),
        data=_venue_data(sighting),
    )


def subtype_of(sighting: Sighting) -> VenueSubtype:
    """What kind of venue it is; see the module docstring."""
    preview = sighting.preview
    if not sighting.is_of_channel:
        is_guarded = guard_bot_of_text(sighting.description) is not None
        return VenueSubtype.GUARD_GROUP if is_guarded else VenueSubtype.COMMUNITY
    if preview is not None and portal_guard(preview) is not None:
        return VenueSubtype.PORTAL
    if preview is not None and is_empty(preview):
        return VenueSubtype.SHELL
    return VenueSubtype.CHANNEL


def portal_guard(preview: Preview) -> str | None:
    """The guard bot of a portal; None when the channel is none."""
    spoken = [message for message in preview.messages if not message.is_service]
    if len(spoken) > _PORTAL_MESSAGES_MAX:
        return None
    return next((bot for message in spoken if (bot := guard_bot_of(message))), None)


def guard_bot_of(message: Message) -> str | None:
    """The bot to which a button of the message leads, when its words are those of a guard."""
    words = " ".join((message.text or "", *(button.text for button in message.buttons)))
    if not _GUARD_WORDS.search(words):
        return None
    found = (_BOT_START.search(button.url) for button in message.buttons)
    return next((each[1] or each[2] for each in found if each), None)


def guard_bot_of_text(text: str | None) -> str | None:
    """The bot that a description names as its guard; names of bots end in `bot`."""
    if not text or not _GUARD_WORDS.search(text):
        return None
    return next((name for name in _GUARD_BOT.findall(text) if name.lower().endswith("bot")), None)


def is_empty(preview: Preview) -> bool:
    """Whether nobody has ever written anything, so that only the chat itself speaks ("Channel created").

    A preview without any messages is not believed: it also comes when it is asked for too often.
    """
    has_media = any(preview.counts.get(name) for name in ("photos", "videos", "files", "links"))
    return not has_media and bool(preview.messages) and all(each.is_service for each in preview.messages)


def _venue_metrics(sighting: Sighting) -> Mapping[str, int]:
    card, preview = sighting.card, sighting.preview
    seen = {} if preview is None else preview.counts
    metrics = {name: count for name, count in seen.items() if name in _COUNTED_IN_PREVIEWS}
    metrics |= {name: count for name, count in card.counts.items() if name != "monthly_users"}
    if sighting.member_count is not None:
        metrics["subscribers" if sighting.is_of_channel else "members"] = sighting.member_count
    return metrics


def _venue_data(sighting: Sighting) -> dict[str, JSONValue]:
    card, chat, preview = sighting.card, sighting.chat, sighting.preview
    spoken = [each for each in preview.messages if not each.is_service] if preview else []
    # The newest messages stand last on the page.
    written = (link for message in reversed(spoken) for link in message.links)
    links = _canonical((*card.links, *written))
    guard = (portal_guard(preview) if preview else None) or guard_bot_of_text(sighting.description)
    facts: dict[str, JSONValue] = {
        "links": [*links] or None,
        "guard_bot": guard,
        "linked_chat_id": chat.linked_chat_id if chat else None,
        "is_invite": True if sighting.way.subtype is None else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def message_graph(
    message: Message, way: Route, venue: ObjectGroup | None, observed_at: datetime
) -> SocialObjectGraph:
    """A message with its venue, its sender in a group, and the message that it forwards."""
    place = venue.venue if venue is not None else None
    if place is None:
        place = VenueDraft(
            platform=Platform.TELEGRAM,
            subtype=VenueSubtype.COMMUNITY if message.author_name else VenueSubtype.CHANNEL,
            url=_venue_way(way).url,
            platform_key=message.chat_id,
            name=message.owner_name,
        )
    elif place.platform_key is None:
        place = replace(place, platform_key=message.chat_id)
    by_kind: dict[ObjectKind, Metrics] = dict(venue.metrics) if venue is not None else {}
    if message.views is not None:
        by_kind[ObjectKind.CONTENTS] = {"views": message.views}
    entry = ObjectGroup(
        content=_content(message, way), account=_sender(message, way), venue=place, metrics=by_kind
    )
    origin = _origin(message, way)
    if origin is None:
        return SocialObjectGraph(groups=(entry,), observed_at=observed_at)
    forward = replace(entry, parent_ref=1, parent_relation=ParentRelation.RETWEET)
    return SocialObjectGraph(groups=(forward, origin), observed_at=observed_at)


def _content(message: Message, way: Route) -> ContentDraft:
    facts: dict[str, JSONValue] = {
        "media": [*message.media] or None,
        "forwarded_from": message.forwarded_from,
        "in_reply_to": link_meant(message.reply_to_url),
        "signature": message.signature,
        "is_service": True if message.is_service else None,
    }
    return ContentDraft(
        platform=Platform.TELEGRAM,
        subtype=ContentSubtype.POST,
        url=way.url,
        platform_key=way.key.lower(),
        published_at=message.posted_at,
        text_primary=message.text,
        links=_canonical(message.links),
        tags=message.tags,
        data={name: value for name, value in facts.items() if value is not None},
    )


def _sender(message: Message, way: Route) -> AccountDraft | None:
    """Who wrote a group's message; None for channels, and for those who write in the group's own name."""
    sender = None if message.author_url is None else route(message.author_url)
    if sender is None or sender.platform is not Platform.TELEGRAM or sender.object is not ObjectKind.VENUES:
        return None
    # The router takes every bare name for a venue; an invite or the group itself is no person.
    if sender.subtype is None or sender.url == _venue_way(way).url:
        return None
    return AccountDraft(
        platform=Platform.TELEGRAM,
        url=sender.url,
        platform_key=None,
        handle=sender.key,
        display_name=message.author_name,
    )


def _origin(message: Message, way: Route) -> ObjectGroup | None:
    """The forwarded message: a forward repeats its words, and nothing else is known of it.

    Its channel is left out: stored without number and members, it would be found instead of being looked at.
    """
    origin = None if message.forwarded_url is None else route(message.forwarded_url)
    if (
        origin is None
        or origin.platform is not Platform.TELEGRAM
        or origin.subtype is not ContentSubtype.POST
    ):
        return None
    if origin.url == way.url or is_private(origin):
        return None
    content = ContentDraft(
        platform=Platform.TELEGRAM,
        subtype=ContentSubtype.POST,
        url=origin.url,
        platform_key=origin.key.lower(),
        text_primary=message.text,
        links=_canonical(message.links),
        tags=message.tags,
        data={"is_seen_in_forward": True},
    )
    return ObjectGroup(content=content)


def is_private(way: Route) -> bool:
    """Whether a message's URL names a private chat, by its number instead of a name."""
    return way.key.partition("/")[0].isdigit()


def _venue_way(way: Route) -> Route:
    return route(f"https://t.me/{way.key.partition('/')[0]}")


def _canonical(links: Iterable[str]) -> tuple[str, ...]:
    return unique(url for link in links if (url := link_meant(link)))
