"""YouTube: the Data API's videos and channels, and the site's oEmbed and channel pages.

Owns the personalisation of the recorded answers to the id or name asked for. Never lets two answers about one
channel differ: its id comes from its lower-cased handle, and the handle, the older user name and the page
`/c/name` of one spelling are one channel. A channel asked for by an id that nobody's name has given yet is
called `id-` and the id in hexadecimal.

- A video belongs to one of 40 channels, `studio0` to `studio39`, chosen by its id. About every eighth video
  hides its likes, another eighth has its comments closed.
- A channel whose handle ends in `-hidden` hides how many subscribers it has.
- The ids in `RESERVED_VIDEOS` get recorded refusals from the API, from oEmbed, or from both. A channel that
  bears the name of a case of `data/youtube/errors.json`, with `-` for `_` (`channel-missing`, `rate-limit`),
  gets that case's answer.
- Any key will do, but no key is `api-key-invalid`.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, derive, error_answers, json_answer, text_of

CHANNEL_COUNT = 40
IDS_MAX = 50
FIRST_DAY = datetime(2015, 1, 1, tzinfo=UTC)
DAYS = 4000

VIDEOS, VIDEO_ID = text_of("youtube/videos_list.json"), "VQDZSte1IMU"
CHANNELS, CHANNEL_ID = text_of("youtube/channels_list.json"), "UCDN1oN-KN9UsRFwFzncbj5w"
HANDLE, TITLE = "lunarorbitstudio", "Lunar Orbit Studio"
OEMBED = text_of("youtube/oembed.json")
ERRORS = error_answers("youtube/errors.json")
NO_VIDEO, NO_CHANNEL, NO_KEY = "video-missing-deleted-or-private", "channel-missing", "api-key-invalid"
# What the API answers and what oEmbed answers; an empty word is the usual answer.
RESERVED_VIDEOS = {
    "vid-missing": (NO_VIDEO, "oembed-missing"),
    "vid-private": (NO_VIDEO, "oembed-private"),
    "vid-badname": (NO_VIDEO, "oembed-malformed-id"),
    "vid-unclear": (NO_VIDEO, ""),
    "vid-noembed": ("", "oembed-embedding-disabled"),
    "vid-quota-1": ("quota-exceeded", ""),
    "vid-rate-01": ("rate-limit", ""),
    "vid-rate-02": ("rate-limit-429", ""),
    "vid-key-001": ("api-key-invalid", ""),
    "vid-key-002": ("api-key-invalid-old", ""),
}
VIDEO = re.compile(r"[\w-]{11}", re.ASCII)
CHANNEL = re.compile(r"UC[\w-]{22}", re.ASCII)
NAMELESS = re.compile(r"id-((?:[0-9a-f]{2}){24})")
PAGE = """<!DOCTYPE html><html lang="en"><head><script nonce="n">var ytcfg={{}};</script>
<title>{title} - YouTube</title><link rel="canonical" href="https://www.youtube.com/channel/{id}">
<meta property="og:title" content="{title}"><meta property="og:url" content="https://www.youtube.com/channel/{id}">
</head><body></body></html>"""
NO_PAGE = "<!DOCTYPE html><html><head><title>404 Not Found</title></head><body></body></html>"
HTML = {"content-type": "text/html; charset=utf-8"}


class YouTube:
    """Answers both services; remembers the names it has seen, for channels that are asked for by id."""

    def __init__(self) -> None:
        self._handles: dict[str, str] = {}
        for number in range(CHANNEL_COUNT):
            self._id_of(f"studio{number}")

    def api(self, request: Request, path: str) -> Answer:
        """Answer a GET of the Data API; `path` starts after the base URL."""
        query = {name: values[0] for name, values in parse_qs(request.query).items()}
        if not (request.headers.get("x-goog-api-key") or query.get("key")):
            return ERRORS[NO_KEY]
        if path == "/videos":
            return self._videos(query.get("id", "").split(",")[:IDS_MAX])
        if path == "/channels":
            return self._channels(query)
        return json_answer({"error": {"code": 404, "message": "Not Found"}}, status=404)

    def site(self, request: Request, path: str) -> Answer:
        """Answer a GET of www.youtube.com."""
        if path == "/oembed":
            return self._oembed(parse_qs(request.query).get("url", [""])[0])
        kind, _, name = unquote(path).removeprefix("/").partition("/")
        if kind == "c" and name and name.lower() not in ERRORS:
            page = PAGE.format(id=self._id_of(name), title=title_of(name))
            return Answer(headers=HTML, body=page.encode())
        return Answer(status=404, headers=HTML, body=NO_PAGE.encode())

    def _videos(self, ids: list[str]) -> Answer:
        cases = [RESERVED_VIDEOS.get(each, ("", ""))[0] for each in ids]
        refusals = [ERRORS[case] for case in cases if case and case != NO_VIDEO]
        if refusals:
            return refusals[0]
        shown = [each for each, case in zip(ids, cases, strict=True) if not case and VIDEO.fullmatch(each)]
        if not shown:
            return ERRORS[NO_VIDEO]
        return _listing(VIDEOS, [self._video(each) for each in shown])

    def _video(self, video_id: str) -> dict[str, Any]:
        handle = author_of(video_id)
        text = VIDEOS.replace(VIDEO_ID, video_id).replace(CHANNEL_ID, self._id_of(handle))
        video: dict[str, Any] = json.loads(text.replace(TITLE, title_of(handle)))["items"][0]
        snippet, counts = video["snippet"], video["statistics"]
        snippet["title"] = snippet["localized"]["title"] = video_title(video_id)
        snippet["publishedAt"] = _moment("published", video_id)
        views = derive("views", video_id, below=90_000)
        counts.update(viewCount=str(views), likeCount=str(views // 40), commentCount=str(views // 200))
        hidden = derive("hidden", video_id, below=8)
        if hidden < 2:
            del counts[("likeCount", "commentCount")[hidden]]
        return video

    def _channels(self, query: dict[str, str]) -> Answer:
        if "id" in query:
            ids = [each for each in query["id"].split(",")[:IDS_MAX] if CHANNEL.fullmatch(each)]
            handles = [self._handles.get(each) or f"id-{each.encode().hex()}" for each in ids]
        else:
            name = query.get("forHandle") or query.get("forUsername") or ""
            handles = [name.removeprefix("@").lower()]
        refusals = [ERRORS[each] for each in handles if each in ERRORS]
        if refusals or not any(handles):
            return refusals[0] if refusals else ERRORS[NO_CHANNEL]
        return _listing(CHANNELS, [self._channel(each) for each in handles])

    def _channel(self, handle: str) -> dict[str, Any]:
        text = CHANNELS.replace(CHANNEL_ID, self._id_of(handle)).replace(TITLE, title_of(handle))
        channel: dict[str, Any] = json.loads(text)["items"][0]
        subscribers = derive("subscribers", handle, below=2_000_000)
        is_hidden = handle.endswith("-hidden")
        channel["snippet"] |= {"customUrl": f"@{handle}", "publishedAt": _moment("opened", handle)}
        channel["statistics"] = {
            "viewCount": str(subscribers * 80),
            "subscriberCount": "0" if is_hidden else str(subscribers),
            "hiddenSubscriberCount": is_hidden,
            "videoCount": str(1 + derive("videos", handle, below=3000)),
        }
        return channel

    def _oembed(self, url: str) -> Answer:
        video_id = parse_qs(urlsplit(url).query).get("v", [""])[0]
        case = RESERVED_VIDEOS.get(video_id, ("", ""))[1]
        if case or not VIDEO.fullmatch(video_id):
            return ERRORS[case or "oembed-malformed-id"]
        handle = author_of(video_id)
        payload: dict[str, Any] = json.loads(OEMBED.replace(VIDEO_ID, video_id))
        payload |= {"title": video_title(video_id), "author_name": title_of(handle)}
        payload["author_url"] = f"https://www.youtube.com/@{handle}"
        return json_answer(payload)

    def _id_of(self, handle: str) -> str:
        found = channel_id(handle)
        self._handles.setdefault(found, handle.lower())
        return found


def channel_id(handle: str) -> str:
    """The id of the channel that `handle` names, whatever its case."""
    handle = handle.lower()
    if nameless := NAMELESS.fullmatch(handle):
        return bytes.fromhex(nameless[1]).decode()
    halves = (derive("youtube channel", half, handle, below=1 << 64).to_bytes(8, "big") for half in "ab")
    return f"UC{urlsafe_b64encode(b''.join(halves)).decode().rstrip('=')}"


def author_of(video_id: str) -> str:
    """The handle of the channel that a video belongs to."""
    return f"studio{derive('author', video_id, below=CHANNEL_COUNT)}"


def video_title(video_id: str) -> str:
    """The title of a video."""
    return f"Video {video_id}"


def title_of(handle: str) -> str:
    """The name that a channel shows; letters and digits only, so that it may stand in JSON and markup."""
    return "".join(char if char.isalnum() else " " for char in handle).title()


def _moment(*words: str) -> str:
    moment = FIRST_DAY + timedelta(minutes=derive(*words, below=DAYS * 24 * 60))
    return moment.isoformat().replace("+00:00", "Z")


def _listing(sample: str, items: list[dict[str, Any]]) -> Answer:
    page_info = {"totalResults": len(items), "resultsPerPage": len(items)}
    return json_answer({**json.loads(sample), "pageInfo": page_info, "items": items})
