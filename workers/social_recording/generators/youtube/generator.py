"""YouTube: videos and channels from the Data API, and titles of videos from oEmbed for those without a key.

A channel's id is its key; handles can change and go to somebody else. A video names its channel without
followers and dates, so the channel costs a second call. The API does not list what is gone and what is
private alike; oEmbed tells the two apart. Nor does the API know the older kind of name (`/c/name`): the page
of such a name says which channel it is.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from workers.errors import ConvergeError, FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination, LargeBody, Request, Response
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.youtube.data import (
    CHANNELS,
    SOURCE,
    VIDEOS,
    Channel,
    Video,
    account_graph,
    judge,
    listed_channel,
    listed_video,
    video_graph,
)
from workers.social_recording.generators.youtube.site import (
    SITE_SOURCE,
    channel_of_page,
    judge_oembed,
    judge_page,
    oembed_graph,
)
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.routing import Route

_VIDEO_PARTS = "snippet,statistics,status,contentDetails"
_CHANNEL_PARTS = "snippet,statistics"
# The head of a channel's page stands behind half a megabyte of scripts.
_PAGE_MAX_BYTES = 2_097_152
# Otherwise a visitor from Europe is sent to a question about cookies first.
_COOKIES_REFUSED = "SOCS=CAI"


class YouTubeGenerator:
    """Asks the Data API, which wants a key: 10,000 calls a day cost nothing."""

    source = SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._base_url = settings.youtube_base_url
        self._key = settings.youtube_api_key
        self._site = _Site(http, settings)

    def supports(self, way: Route) -> bool:
        """Videos and channels, given a key."""
        if self._key is None or way.platform is not Platform.YOUTUBE:
            return False
        return way.object is ObjectKind.ACCOUNTS or way.subtype is ContentSubtype.VIDEO

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call for a channel, two for a video with its channel; `/c/name` and missing videos one more."""
        if way.object is ObjectKind.ACCOUNTS:
            return self._account(way, context)
        response = self._ask("videos", {"part": _VIDEO_PARTS, "id": way.key}, context)
        video = listed_video(judge(response, VIDEOS), way.key)
        if video is None:
            raise self._why_missing(way, context)
        return video_graph(video, self._channel_of(video, context), response.received_at)

    def _account(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        place = urlsplit(way.url).path.split("/")[1]
        if place == "c":
            question = {"id": channel_of_page(self._site.page(way, context))}
        elif place == "channel":
            question = {"id": way.key}
        elif place == "user":
            question = {"forUsername": way.key}
        else:
            question = {"forHandle": f"@{way.key}"}
        response = self._ask("channels", {"part": _CHANNEL_PARTS, **question}, context)
        channel = listed_channel(judge(response, CHANNELS), question.get("id"))
        if channel is None:
            raise TargetGone("youtube knows no such channel, or has ended it", reason="no_such_channel")
        return account_graph(channel, response.received_at)

    def _channel_of(self, video: Video, context: FetchContext) -> Channel | None:
        """The whole channel of a video; None when it is not listed. The video has been seen by then."""
        channel_id = video.snippet.channel_id
        response = self._ask("channels", {"part": _CHANNEL_PARTS, "id": channel_id}, context)
        return listed_channel(judge(response, CHANNELS), channel_id)

    def _why_missing(self, way: Route, context: FetchContext) -> ConvergeError:
        """What it means that a video is not listed: only oEmbed tells what is gone from what is private."""
        try:
            judge_oembed(self._site.oembed(way, context))
        except (TargetGone, TargetBlocked) as exc:
            return exc
        except FetchFailed:
            # Whatever ails oEmbed, the API did not list the video.
            pass
        return FetchFailed(
            "youtube does not list the video and oembed does not say why", reason="weak_not_found"
        )

    def _ask(self, collection: str, query: dict[str, str], context: FetchContext) -> Response:
        key = "" if self._key is None else self._key.get_secret_value()
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}/{collection}",
            query=query,
            headers={"Accept": "application/json", "X-Goog-Api-Key": key},
        )
        return self._http.fetch(request, context.budget, context.calls.add)


class YouTubeSiteGenerator:
    """Asks oEmbed, which wants no key: title and author of a video, no numbers, no dates."""

    source = SITE_SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._site = _Site(http, settings)

    def supports(self, way: Route) -> bool:
        """Videos only."""
        return way.platform is Platform.YOUTUBE and way.subtype is ContentSubtype.VIDEO

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call."""
        response = self._site.oembed(way, context)
        return oembed_graph(judge_oembed(response), way, response.received_at)


class _Site:
    """What www.youtube.com shows without a key."""

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._base_url = settings.youtube_site_base_url

    def oembed(self, way: Route, context: FetchContext) -> Response:
        """What oEmbed answers about a video."""
        request = Request(
            source=SITE_SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}/oembed",
            query={"format": "json", "url": f"https://www.youtube.com/watch?v={way.key}"},
            headers={"Accept": "application/json"},
        )
        return self._http.fetch(request, context.budget, context.calls.add)

    def page(self, way: Route, context: FetchContext) -> str:
        """The markup of the page that `way` leads to."""
        request = Request(
            source=SITE_SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}{urlsplit(way.url).path}",
            headers={"Accept": "text/html", "Accept-Language": "en", "Cookie": _COOKIES_REFUSED},
            large_body=LargeBody.CUT,
            body_max_bytes=_PAGE_MAX_BYTES,
        )
        return judge_page(self._http.fetch(request, context.budget, context.calls.add))
