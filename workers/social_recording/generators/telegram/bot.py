"""Telegram's Bot API as far as it tells of public channels and groups: what its answers mean. Pure.

https://core.telegram.org/bots/api#making-requests. The token stands in the path of every call, so the URL of
a response is never put into a message, a log or a graph.
"""

from __future__ import annotations

from workers.errors import FetchFailed
from workers.http.messages import Response
from workers.http.retry import HINT_CAP_S
from workers.social_recording.generators.foreign_json import Foreign, Id, MaybeId, MaybeText, Text, read_as
from workers.social_recording.generators.verdicts import (
    http_error,
    misconfigured,
    rate_limited,
    unexpected_html,
)

BOT_SOURCE = "telegram_bot"
_VENUE_TYPES = frozenset({"channel", "supergroup", "group"})


class Chat(Foreign):
    """A channel or group as the API shows it; `id` is the number that stays when everything else changes."""

    id: Id
    type: Text
    title: MaybeText = None
    description: MaybeText = None
    linked_chat_id: MaybeId = None

    @property
    def is_channel(self) -> bool:
        """Whether only its owners write in it."""
        return self.type == "channel"


def flood_wait_s(response: Response) -> float | None:
    """How long the API asks to be left alone, in seconds; None when it does not."""
    if response.status != 429:
        return None
    parameters = _fields_of(response).get("parameters")
    wait_s = parameters.get("retry_after") if isinstance(parameters, dict) else None
    if isinstance(wait_s, int) and not isinstance(wait_s, bool):
        return float(min(max(wait_s, 0), int(HINT_CAP_S)))
    return response.wait_hint_s


def judge_bot(response: Response) -> object | None:
    """The result of a good answer; None when the API does not show this chat to us.

    That says nothing about the target: the name of a person or a bot is not found either, and a chat that has
    thrown the bot out is forbidden. Raises `FetchFailed`.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response, wait_s=flood_wait_s(response))
    if status >= 500:
        raise http_error(response)
    if response.is_html:
        raise unexpected_html(response)
    # A token of another form than theirs is a page that is not found.
    if status in (401, 404):
        raise misconfigured(response)
    fields = _fields_of(response)
    if status == 403 or (status == 400 and "chat not found" in str(fields.get("description", "")).lower()):
        return None
    if status != 200:
        raise http_error(response)
    if fields.get("ok") is not True or fields.get("result") is None:
        raise FetchFailed(
            f"{BOT_SOURCE} answered with something that is no result", reason="unexpected_shape"
        )
    return fields["result"]


def read_chat(result: object | None) -> Chat | None:
    """The channel or group; None when it was not shown, or is a person after all."""
    chat = None if result is None else read_as(Chat, result, BOT_SOURCE)
    return chat if chat is not None and chat.type in _VENUE_TYPES else None


def read_count(result: object | None) -> int | None:
    """The number of members; None when it was not shown."""
    is_count = isinstance(result, int) and not isinstance(result, bool) and 0 <= result < 2**63
    if result is not None and not is_count:
        raise FetchFailed(
            f"{BOT_SOURCE} answered with something that is no number", reason="unexpected_shape"
        )
    return result if isinstance(result, int) else None


def _fields_of(response: Response) -> dict[str, object]:
    try:
        payload = response.json()
    except FetchFailed:
        return {}
    return payload if isinstance(payload, dict) else {}
