"""YouTube's Data API: what its answers mean and what they become. Pure.

https://developers.google.com/youtube/v3/docs: counts come as text and are left out when they are hidden; what
is missing is a good answer without items.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field

from workers.errors import CreditExhausted, FetchFailed
from workers.http.messages import Response
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.foreign_json import (
    Foreign,
    Id,
    MaybeBool,
    MaybeCount,
    MaybeText,
    MaybeTexts,
    MaybeTime,
    Text,
    present,
    read_as,
)
from workers.social_recording.generators.text_links import links_in_prose
from workers.social_recording.generators.verdicts import (
    http_error,
    misconfigured,
    rate_limited,
    unexpected_html,
)
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
)
from workers.social_recording.routing import route

SOURCE = "youtube"
VIDEOS = "youtube#videoListResponse"
CHANNELS = "youtube#channelListResponse"

_QUOTA_REASONS = frozenset({"quotaExceeded", "dailyLimitExceeded"})
_RATE_REASONS = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})
# Older answers name the trouble in `errors`, newer ones in `details` as well.
_KEY_REASONS = frozenset(
    {"keyInvalid", "keyExpired", "accessNotConfigured", "ipRefererBlocked"}
    | {"API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED", "API_KEY_IP_ADDRESS_BLOCKED"}
    | {"API_KEY_HTTP_REFERRER_BLOCKED", "SERVICE_DISABLED", "CONSUMER_SUSPENDED", "CONSUMER_INVALID"}
)
_KEY_WORDS = re.compile(r"api key (not valid|expired)", re.IGNORECASE)
_DAILY_LIMIT = re.compile(r"per ?day", re.IGNORECASE)
# Without summer time: at worst an hour late.
_PACIFIC_STANDARD_TIME = timezone(timedelta(hours=-8))


class _VideoSnippet(Foreign):
    channel_id: Id = Field(alias="channelId")
    title: Text
    channel_title: MaybeText = Field(default=None, alias="channelTitle")
    description: MaybeText = None
    published_at: MaybeTime = Field(default=None, alias="publishedAt")
    tags: MaybeTexts = ()
    live_broadcast_content: MaybeText = Field(default=None, alias="liveBroadcastContent")


class _ContentDetails(Foreign):
    duration: MaybeText = None


class _Status(Foreign):
    privacy_status: MaybeText = Field(default=None, alias="privacyStatus")


class _VideoStatistics(Foreign):
    views: MaybeCount = Field(default=None, alias="viewCount")
    likes: MaybeCount = Field(default=None, alias="likeCount")
    comments: MaybeCount = Field(default=None, alias="commentCount")


class Video(Foreign):
    """A video as the API lists it."""

    id: Id
    snippet: _VideoSnippet
    content_details: _ContentDetails = Field(default=_ContentDetails(), alias="contentDetails")
    status: _Status = _Status()
    statistics: _VideoStatistics = _VideoStatistics()


class _ChannelSnippet(Foreign):
    title: Text
    description: MaybeText = None
    custom_url: MaybeText = Field(default=None, alias="customUrl")
    published_at: MaybeTime = Field(default=None, alias="publishedAt")
    country: MaybeText = None


class _ChannelStatistics(Foreign):
    views: MaybeCount = Field(default=None, alias="viewCount")
    videos: MaybeCount = Field(default=None, alias="videoCount")
    subscribers: MaybeCount = Field(default=None, alias="subscriberCount")
    hides_subscribers: MaybeBool = Field(default=None, alias="hiddenSubscriberCount")


class Channel(Foreign):
    """A channel as the API lists it."""

    id: Id
    snippet: _ChannelSnippet
    statistics: _ChannelStatistics = _ChannelStatistics()


def judge(response: Response, kind: str) -> list[object]:
    """The items of a good answer; `kind` is what the answer must call itself.

    Raises `CreditExhausted` with the time until the next quota, or `FetchFailed`.
    """
    status = response.status
    trouble = _Trouble.of(response)
    if trouble.is_quota:
        raise CreditExhausted(
            "the day's calls to youtube are used up",
            source=SOURCE,
            retry_in_s=until_next_quota_s(response.received_at),
        )
    if status == 429 or (status == 403 and trouble.names(_RATE_REASONS)):
        raise rate_limited(response)
    if status >= 500:
        raise http_error(response)
    if response.is_html:
        raise unexpected_html(response)
    if status == 401 or (status in (400, 403) and trouble.is_about_the_key):
        raise misconfigured(response)
    if status != 200:
        raise http_error(response)
    return items_of(response.json(), kind)


class _Trouble:
    """Why the API refused, as its error body puts it."""

    def __init__(self, status: int, error: dict[str, object]) -> None:
        self._status = status
        self._message = str(error.get("message", ""))
        details = (*_list_of(error, "errors"), *_list_of(error, "details"))
        self._reasons = frozenset(str(each.get("reason")) for each in details)
        metadata = (each.get("metadata") for each in details)
        self._limits = " ".join(str(each.get("quota_limit")) for each in metadata if isinstance(each, dict))

    @classmethod
    def of(cls, response: Response) -> _Trouble:
        """Read a refusal; a body that is none gives no trouble."""
        error: object = None
        if response.status != 200:
            try:
                payload = response.json()
            except FetchFailed:
                payload = None
            error = payload.get("error") if isinstance(payload, dict) else None
        return cls(response.status, error if isinstance(error, dict) else {})

    def names(self, reasons: frozenset[str]) -> bool:
        """Whether one of `reasons` is given."""
        return not self._reasons.isdisjoint(reasons)

    @property
    def is_quota(self) -> bool:
        """Whether the day's quota is used up; a 429 is about the day or about the minute."""
        if self._status == 403:
            return self.names(_QUOTA_REASONS)
        return self._status == 429 and _DAILY_LIMIT.search(f"{self._limits} {self._message}") is not None

    @property
    def is_about_the_key(self) -> bool:
        """Whether the key, and not the question, is refused."""
        return self.names(_KEY_REASONS) or _KEY_WORDS.search(self._message) is not None


def _list_of(error: dict[str, object], name: str) -> list[dict[str, object]]:
    values = error.get(name)
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def until_next_quota_s(now: datetime) -> float:
    """Seconds from `now` to the next midnight of Pacific time, when the day's quota is new."""
    local = now.astimezone(_pacific_time())
    midnight = datetime.combine(local.date() + timedelta(days=1), time(), tzinfo=local.tzinfo)
    return (midnight.astimezone(UTC) - now.astimezone(UTC)).total_seconds()


def _pacific_time() -> tzinfo:
    try:
        return ZoneInfo("America/Los_Angeles")
    except ZoneInfoNotFoundError:
        return _PACIFIC_STANDARD_TIME


def items_of(payload: object, kind: str) -> list[object]:
    """The listed items. `items` is empty or left out when nothing was found."""
    is_listing = isinstance(payload, dict) and payload.get("kind") == kind
    items = payload.get("items", []) if isinstance(payload, dict) else None
    if not is_listing or not isinstance(items, list):
        raise FetchFailed(f"{SOURCE} answered with something that is no {kind}", reason="unexpected_shape")
    return items


def listed_video(items: list[object], video_id: str) -> Video | None:
    """The video with this id among the items; None when it is not there."""
    item = _item_with_id(items, video_id)
    return None if item is None else read_as(Video, item, SOURCE)


def listed_channel(items: list[object], channel_id: str | None) -> Channel | None:
    """The channel with this id, or the only one when it was asked for by name; None when it is not there."""
    by_name = items[0] if items else None
    item = by_name if channel_id is None else _item_with_id(items, channel_id)
    return None if item is None else read_as(Channel, item, SOURCE)


def _item_with_id(items: list[object], wanted: str) -> object | None:
    return next((item for item in items if isinstance(item, dict) and item.get("id") == wanted), None)


def video_graph(video: Video, channel: Channel | None, observed_at: datetime) -> SocialObjectGraph:
    """A video with its channel, of which without a listing only id and title are known."""
    by_kind = {ObjectKind.CONTENTS: _video_metrics(video)}
    if channel is None:
        account = AccountDraft(
            platform=Platform.YOUTUBE,
            url=_channel_url(video.snippet.channel_id),
            platform_key=video.snippet.channel_id,
            display_name=video.snippet.channel_title,
        )
    else:
        account = _account(channel)
        by_kind[ObjectKind.ACCOUNTS] = _channel_metrics(channel)
    group = ObjectGroup(
        content=_content(video),
        account=account,
        metrics={kind: values for kind, values in by_kind.items() if values},
    )
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def account_graph(channel: Channel, observed_at: datetime) -> SocialObjectGraph:
    """A channel."""
    metrics = _channel_metrics(channel)
    group = ObjectGroup(account=_account(channel), metrics={ObjectKind.ACCOUNTS: metrics} if metrics else {})
    return SocialObjectGraph(groups=(group,), observed_at=observed_at)


def _content(video: Video) -> ContentDraft:
    snippet = video.snippet
    extras: dict[str, str | None] = {
        "duration": video.content_details.duration,
        "live_broadcast_content": snippet.live_broadcast_content,
        "privacy_status": video.status.privacy_status,
    }
    return ContentDraft(
        platform=Platform.YOUTUBE,
        subtype=ContentSubtype.VIDEO,
        url=route(f"https://youtube.com/watch?v={video.id}").url,
        platform_key=video.id,
        published_at=snippet.published_at,
        text_primary=snippet.title,
        text_body=snippet.description or None,
        links=links_in_prose(snippet.description),
        tags=snippet.tags,
        data={name: value for name, value in extras.items() if value},
    )


def _video_metrics(video: Video) -> Metrics:
    counts = video.statistics
    return present({"viewCount": counts.views, "likeCount": counts.likes, "commentCount": counts.comments})


def _account(channel: Channel) -> AccountDraft:
    snippet = channel.snippet
    data: dict[str, JSONValue] = {}
    if snippet.country:
        data["country"] = snippet.country
    if channel.statistics.hides_subscribers:
        data["hides_subscribers"] = True
    return AccountDraft(
        platform=Platform.YOUTUBE,
        url=_channel_url(channel.id),
        platform_key=channel.id,
        handle=(snippet.custom_url or "").removeprefix("@") or None,
        display_name=snippet.title,
        bio=snippet.description or None,
        links=links_in_prose(snippet.description),
        account_created_at=snippet.published_at,
        followers=_subscribers(channel),
        data=data,
    )


def _channel_url(channel_id: str) -> str:
    return route(f"https://youtube.com/channel/{channel_id}").url


def _channel_metrics(channel: Channel) -> Metrics:
    counts = channel.statistics
    return present(
        {
            "viewCount": counts.views,
            "videoCount": counts.videos,
            "subscriberCount": _subscribers(channel),
        }
    )


def _subscribers(channel: Channel) -> int | None:
    """What a channel hides comes as 0."""
    return None if channel.statistics.hides_subscribers else channel.statistics.subscribers
