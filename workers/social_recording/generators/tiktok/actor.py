"""TikTok, paid: an Apify actor that shows numbers, dates, ids and the spoken words of a video.

A profile is seen through one of its videos only: an account without any shows nothing. Counts of large
accounts come rounded.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import Field

from workers.errors import BudgetExceeded, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Request
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.apify.answers import (
    SOURCE,
    ActorItem,
    Findings,
    Item,
    Question,
    record_path,
)
from workers.social_recording.generators.apify.transport import Apify
from workers.social_recording.generators.foreign_json import (
    ONLY_READABLE,
    OR_NONE,
    Id,
    MaybeBool,
    MaybeCount,
    MaybeId,
    MaybeText,
    MaybeTime,
    MaybeUnixTime,
    Name,
    Text,
    present,
    read_as,
)
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.short_links import graph_of_place, public_url
from workers.social_recording.generators.text_links import link_meant, links_in_prose, unique
from workers.social_recording.generators.tiktok.places import SOURCE as TIKTOK
from workers.social_recording.generators.tiktok.places import ShortLinks, is_supported, time_of_id
from workers.social_recording.object_graph import (
    AccountDraft,
    ContentDraft,
    JSONValue,
    MentionDraft,
    Metrics,
    ObjectGroup,
    SocialObjectGraph,
)
from workers.social_recording.routing import Route, route

ACTOR = "clockworks~tiktok-scraper"
# Each of these costs extra and gives files that nobody here needs.
_NO_DOWNLOADS: dict[str, JSONValue] = {
    f"shouldDownload{what}": False for what in ("Videos", "Covers", "Subtitles", "SlideshowImages", "Avatars")
}
_SPEECH = "ASR"
_TRANSCRIPT_BYTES_MAX = 262_144
_CUE_TIME = re.compile(r"\d\d:\d\d[.:]\d\d.*-->")
_CUE_MARKUP = re.compile(r"<[^>]{0,60}>")


class _Author(ActorItem):
    id: Id
    name: Name
    nick_name: MaybeText = None
    signature: MaybeText = None
    bio_link: MaybeText = None
    verified: MaybeBool = None
    private_account: MaybeBool = None
    fans: MaybeCount = None
    following: MaybeCount = None
    friends: MaybeCount = None
    heart: MaybeCount = None
    video: MaybeCount = None


class _Subtitle(ActorItem):
    language: MaybeText = None
    source: MaybeText = None
    download_link: MaybeText = None
    tiktok_link: MaybeText = None


class _VideoMeta(ActorItem):
    duration: MaybeCount = None
    subtitle_links: Annotated[tuple[_Subtitle, ...], ONLY_READABLE] = ()


class _MusicMeta(ActorItem):
    music_id: MaybeId = None


class _Hashtag(ActorItem):
    name: Text


class _Mention(ActorItem):
    id: Id
    name: MaybeText = None


class Video(ActorItem):
    """An item of the actor, as far as it matters."""

    id: Id
    author_meta: _Author
    text: MaybeText = None
    text_language: MaybeText = None
    created_at: Annotated[MaybeTime, Field(alias="createTimeISO")] = None
    create_time: MaybeUnixTime = None
    video_meta: Annotated[_VideoMeta | None, OR_NONE] = None
    music_meta: Annotated[_MusicMeta | None, OR_NONE] = None
    hashtags: Annotated[tuple[_Hashtag, ...], ONLY_READABLE] = ()
    detailed_mentions: Annotated[tuple[_Mention, ...], ONLY_READABLE] = ()
    web_video_url: MaybeText = None
    is_slideshow: MaybeBool = None
    is_ad: MaybeBool = None
    is_sponsored: MaybeBool = None
    play_count: MaybeCount = None
    digg_count: MaybeCount = None
    comment_count: MaybeCount = None
    share_count: MaybeCount = None
    collect_count: MaybeCount = None
    repost_count: MaybeCount = None
    crawled_at: MaybeTime = None
    scraped_at: MaybeTime = None

    @property
    def subtitles(self) -> tuple[_Subtitle, ...]:
        """Where its words are written down."""
        return () if self.video_meta is None else self.video_meta.subtitle_links


class TikTokActorGenerator:
    """Asks the actor, after the short link where there is one."""

    source = SOURCE
    is_paid = True

    def __init__(self, http: OutboundClient, settings: Settings, apify: Apify) -> None:
        self._http = http
        self._apify = apify
        self._short_links = ShortLinks(http, settings.tiktok_base_url)

    def supports(self, way: Route) -> bool:
        """Accounts, videos, photo posts, and short links to any of them, with a key."""
        return self._apify.has_key and is_supported(way)

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One run, one call before it for a short link, and one after it for what was spoken."""
        place = self._short_links.place_of(way, context)
        if place.needs_no_call:
            return graph_of_place(place, context.budget.clock.now())
        if place.object is ObjectKind.ACCOUNTS:
            return self._apify.ask(question_about(place), lambda found: profile_graph(found, place), context)
        video, looked_at = self._apify.ask(
            question_about(place), lambda found: (read_video(found, place), found.looked_at), context
        )
        return video_graph(video, looked_at, self._spoken_words(video, context))

    def _spoken_words(self, video: Video, context: FetchContext) -> str | None:
        """The text of the subtitles; None when there are none or they cannot be had.

        The video is paid for and read by then, so a transcript that is missing does not make it fail.
        """
        url = speech_url(video)
        if url is None:
            return None
        try:
            if record_path(url) is not None:
                text = self._apify.text_of_record(url, context)
            else:
                text = self._text_at(url, context)
        except (FetchFailed, TargetGone, TargetBlocked, BudgetExceeded):
            return None
        return words_of_subtitles(text or "")

    def _text_at(self, url: str, context: FetchContext) -> str | None:
        """Subtitles that lie on one of TikTok's own hosts; such addresses die within hours."""
        request = Request(source=TIKTOK, url=url, body_max_bytes=_TRANSCRIPT_BYTES_MAX)
        response = self._http.fetch(request, context.budget, context.calls.add)
        return response.text() if response.status == 200 and not response.is_html else None


def question_about(place: Route) -> Question:
    """What the actor is asked about a video or an account."""
    url = public_url(place)
    if place.object is ObjectKind.ACCOUNTS:
        asked: dict[str, JSONValue] = {"profiles": [place.key]}
    else:
        asked = {"postURLs": [url]}
    return Question(
        actor=ACTOR,
        target=place.url,
        input={**asked, "resultsPerPage": 1, **_NO_DOWNLOADS},
        names=(url, place.key),
    )


def read_video(found: Findings, place: Route) -> Video:
    """The video that was asked for.

    Raises `TargetGone`, `TargetBlocked`, or `FetchFailed` (`unexpected_shape` for another video,
    `actor_error` for an error without a meaning).
    """
    video = _read(found.items)
    if video.id != place.key:
        raise FetchFailed("the actor shows another video", reason="unexpected_shape")
    return video


def profile_graph(found: Findings, place: Route) -> SocialObjectGraph:
    """An account, as one of its videos shows it. Raises as `read_video` does."""
    video = _read(found.items)
    author = video.author_meta
    if author.name.lower() != place.key.lower():
        # What a profile reposts was made by others.
        raise FetchFailed("the actor shows somebody else's video", reason="unexpected_shape")
    group = ObjectGroup(account=_account(author), metrics={ObjectKind.ACCOUNTS: _account_metrics(author)})
    return SocialObjectGraph(
        groups=(group,),
        observed_at=_looked_at(video, found.looked_at),
        blocked_reason="private" if author.private_account else None,
    )


def video_graph(video: Video, looked_at: datetime, transcript: str | None) -> SocialObjectGraph:
    """A video or photo post with its author. `looked_at` holds when the item does not say when that was."""
    author = video.author_meta
    metrics = {
        ObjectKind.CONTENTS: _content_metrics(video),
        ObjectKind.ACCOUNTS: _account_metrics(author),
    }
    group = ObjectGroup(
        content=_content(video, transcript),
        account=_account(author),
        metrics={kind: values for kind, values in metrics.items() if values},
    )
    return SocialObjectGraph(
        groups=(group,),
        observed_at=_looked_at(video, looked_at),
        blocked_reason="private" if author.private_account else None,
    )


def speech_url(video: Video) -> str | None:
    """Where the words that are spoken in a video are written down; translations of them do not count."""
    for subtitle in video.subtitles:
        if subtitle.source == _SPEECH and (url := subtitle.download_link or subtitle.tiktok_link):
            return url
    return None


def words_of_subtitles(text: str) -> str | None:
    """The words of a WebVTT file without times, markup and repeated lines; None when there are none."""
    lines: list[str] = []
    is_cue = False
    for raw in text.splitlines():
        line = _CUE_MARKUP.sub("", raw).strip()
        if _CUE_TIME.match(line):
            is_cue = True
        elif not line:
            is_cue = False
        elif is_cue and line not in lines[-1:]:
            lines.append(line)
    return " ".join(lines) or None


def _read(items: tuple[Item, ...]) -> Video:
    item = next((each for each in items if not _is_error(each)), items[0])
    if _is_error(item):
        raise _verdict_of(item)
    return read_as(Video, item, ACTOR)


def _is_error(item: Item) -> bool:
    return bool(item.get("error") or item.get("errorCode"))


def _verdict_of(item: Item) -> Exception:
    match item.get("errorCode"):
        case "NOT_FOUND":
            return TargetGone("tiktok shows no such thing, or it is private", reason="actor_not_found")
        case "PRIVATE_POST":
            return TargetBlocked("the video is private", reason="private")
        case _:
            return FetchFailed("the actor gives an error that we do not know", reason="actor_error")


def _looked_at(video: Video, otherwise: datetime) -> datetime:
    """When the actor looked. Its clock is not ours: a time that is still to come counts as now."""
    return min(video.crawled_at or video.scraped_at or otherwise, otherwise)


def _content(video: Video, transcript: str | None) -> ContentDraft:
    # Both forms of URL share one space of ids, so the answer says which one a post is.
    subtype = ContentSubtype.PHOTO if video.is_slideshow else ContentSubtype.VIDEO
    return ContentDraft(
        platform=Platform.TIKTOK,
        subtype=subtype,
        url=route(f"https://tiktok.com/@_/{subtype.value}/{video.id}").url,
        platform_key=video.id,
        published_at=video.created_at or video.create_time or time_of_id(video.id),
        text_primary=video.text or None,
        text_from_media=transcript,
        links=links_in_prose(video.text),
        tags=unique(tag.name for tag in video.hashtags if tag.name),
        mentions=tuple(
            MentionDraft(platform_key=each.id, screen_name=each.name) for each in video.detailed_mentions
        ),
        data=_extras(video),
    )


def _extras(video: Video) -> dict[str, JSONValue]:
    named: dict[str, JSONValue] = {
        "web_url": video.web_video_url,
        "lang": video.text_language,
        "duration_s": video.video_meta.duration if video.video_meta else None,
        "music_id": video.music_meta.music_id if video.music_meta else None,
        "is_slideshow": video.is_slideshow,
        "is_ad": video.is_ad,
        "is_sponsored": video.is_sponsored,
        "subtitles": [each.language for each in video.subtitles if each.language],
    }
    return {name: value for name, value in named.items() if value not in (None, "", [])}


def _content_metrics(video: Video) -> Metrics:
    return present(
        {
            "playCount": video.play_count,
            "diggCount": video.digg_count,
            "commentCount": video.comment_count,
            "shareCount": video.share_count,
            "collectCount": video.collect_count,
            "repostCount": video.repost_count,
        }
    )


def _account(author: _Author) -> AccountDraft:
    links = [link_meant(author.bio_link), *links_in_prose(author.signature)]
    flags = {"verified": author.verified, "private": author.private_account}
    return AccountDraft(
        platform=Platform.TIKTOK,
        url=route(f"https://tiktok.com/@{author.name}").url,
        platform_key=author.id,
        handle=author.name,
        display_name=author.nick_name,
        bio=author.signature or None,
        links=unique(link for link in links if link),
        followers=author.fans,
        data={name: value for name, value in flags.items() if value is not None},
    )


def _account_metrics(author: _Author) -> Metrics:
    return present(
        {
            "fans": author.fans,
            "following": author.following,
            "friends": author.friends,
            "heart": author.heart,
            "video": author.video,
        }
    )
