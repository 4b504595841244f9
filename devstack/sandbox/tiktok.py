"""TikTok: what is true there, and its two keyless services: oEmbed and short links.

Owns videos and accounts: handles, texts and numbers depend on a video's id or an account's handle alone, so
that oEmbed and the actor (`actors.py`) tell the same of one of them, as far as they tell it at all.

- The author of a video is one of 40, chosen by its id; the handle in a video's URL plays no part.
- A short link leads to a video that depends on its code; at `vt.tiktok.com` with an empty handle. A code that
  starts with `user-` leads to a profile, one that holds `expired` to the front page.
- What became of the videos in `FATES` and the handles in `HANDLE_FATES` is no usual thing: `missing`,
  `private` (the video, or the account of its author), or `silent`, of which nobody learns anything.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, derive, error_answers, json_answer, payload_of, text_of

AUTHOR_COUNT = 40
FIRST_AUTHOR_ID = 6_800_000_000_000_000_000
FIRST_SECOND, SECONDS = 1_735_689_600, 31_536_000
SHORT_HOSTS = frozenset({"vm.tiktok.com", "vt.tiktok.com"})

VIDEO_EMBED, PROFILE_EMBED = text_of("tiktok/oembed_video.json"), text_of("tiktok/oembed_profile.json")
ITEM = payload_of("tiktok/apify_video.json")[0]
VIDEO_ID, HANDLE, NAME = ITEM["id"], ITEM["authorMeta"]["name"], ITEM["authorMeta"]["nickName"]
ERRORS = error_answers("tiktok/errors.json")
EMBED_MISSING, EMBED_REFUSED = ERRORS["oembed-missing-or-private"], ERRORS["oembed-refused"]

FATES = {
    "7500000000000000000": "missing",
    "7500000000000000001": "private",
    "7500000000000000002": "silent",
    "7500000000000000003": "private account",
}
HANDLE_FATES = {
    "nosuchhandle000": "missing",
    "silentharbor": "silent",
    "privateharbor": "private account",
}
VIDEO_PATH = re.compile(r"/@[^/]*/(video|photo)/(\d+)", re.ASCII)
PROFILE_PATH = re.compile(r"/@([\w.]+)", re.ASCII)
SHORT_PATH = re.compile(r"/(?:t/)?([\w-]+)", re.ASCII)


def answer(request: Request, path: str) -> Answer:
    """Answer a GET of www.tiktok.com."""
    if path == "/oembed":
        return _embed(parse_qs(request.query).get("url", [""])[0])
    if path.startswith("/t/"):
        return _short_link("www.tiktok.com", path)
    return Answer(status=404, headers={"content-type": "text/html"}, body=b"<html></html>")


def is_short_link(url: str) -> bool:
    """Whether a relayed URL is on one of the hosts for short links."""
    return urlsplit(url).hostname in SHORT_HOSTS


def short_link(url: str) -> Answer:
    """Answer as the host of a short link."""
    parts = urlsplit(url)
    return _short_link(str(parts.hostname), parts.path)


def place_of(url: str) -> tuple[str, str, str]:
    """What a URL names: `("video" or "photo", id, "")`, `("profile", "", handle)`, or three empty words."""
    path = urlsplit(url).path.rstrip("/")
    if video := VIDEO_PATH.fullmatch(path):
        return video[1], video[2], ""
    profile = PROFILE_PATH.fullmatch(path)
    return ("profile", "", profile[1]) if profile else ("", "", "")


def author_of(video_id: str) -> str:
    """The handle of whoever made a video."""
    if FATES.get(video_id) == "private account":
        return "privateharbor"
    return f"author_{derive('tiktok author', video_id, below=AUTHOR_COUNT)}"


def name_of(handle: str) -> str:
    """How the owner of a handle calls himself."""
    return f"The {handle.lower()}"


def text_of_video(video_id: str) -> str:
    """What stands below a video."""
    return f"video {video_id} #solana #memecoin"


def author_facts(handle: str) -> dict[str, Any]:
    """The owner of a handle as the actor shows him; the id comes from the handle in lower case."""
    word = handle.lower()
    fans = derive("tiktok fans", word, below=200_000)
    return {
        **ITEM["authorMeta"],
        "id": str(FIRST_AUTHOR_ID + derive("tiktok id", word, below=10**15)),
        "name": word,
        "profileUrl": f"https://www.tiktok.com/@{word}",
        "nickName": name_of(word),
        "privateAccount": HANDLE_FATES.get(word) == "private account",
        "fans": fans,
        "heart": fans * 16,
        "video": 1 + derive("tiktok videos", word, below=400),
    }


def video_facts(video_id: str, handle: str) -> dict[str, Any]:
    """A video of the owner of `handle` as the actor shows it, without what it was asked for."""
    text = json.dumps(ITEM).replace(VIDEO_ID, video_id).replace(HANDLE, handle)
    item: dict[str, Any] = json.loads(text)
    views = derive("tiktok views", video_id, below=500_000)
    second = int(video_id) >> 32
    item |= {"authorMeta": author_facts(handle), "text": text_of_video(video_id), "createTime": second + 3}
    item |= {"playCount": views, "diggCount": views // 12, "commentCount": views // 200}
    del item["createTimeISO"], item["input"]
    return item


def video_of(*words: str) -> str:
    """The id of a video that depends on the words alone, with its second inside."""
    second = FIRST_SECOND + derive("tiktok second", *words, below=SECONDS)
    return str(second << 32 | derive("tiktok rest", *words, below=1 << 32))


def _embed(url: str) -> Answer:
    kind, video_id, handle = place_of(url)
    fate = FATES.get(video_id) or HANDLE_FATES.get(handle.lower(), "")
    if fate == "silent":
        return EMBED_REFUSED
    if not kind or fate:
        return EMBED_MISSING
    if kind == "profile":
        word = handle.lower()
        return json_answer(json.loads(PROFILE_EMBED.replace(HANDLE, word).replace(NAME, name_of(word))))
    author = author_of(video_id)
    text = VIDEO_EMBED.replace(VIDEO_ID, video_id).replace(HANDLE, author).replace(NAME, name_of(author))
    embed = {**json.loads(text), "title": f"{text_of_video(video_id)} ", "embed_type": kind}
    return json_answer(embed)


def _short_link(host: str, path: str) -> Answer:
    found = SHORT_PATH.fullmatch(path.rstrip("/"))
    if found is None:
        return Answer(status=404, headers={"content-type": "text/html"}, body=b"<html></html>")
    code = found[1]
    if "expired" in code.lower():
        return ERRORS["shortlink-expired"]
    if code.startswith("user-"):
        return _redirect(301, f"/@author_{derive('tiktok user', code, below=AUTHOR_COUNT)}")
    video_id = video_of(host, code)
    if host == "vt.tiktok.com":
        return _redirect(302, f"/@/video/{video_id}")
    return _redirect(301, f"/@{author_of(video_id)}/video/{video_id}")


def _redirect(status: int, path: str) -> Answer:
    return Answer(
        status=status, headers={"location": f"https://www.tiktok.com{path}?_r=1&_t=ZM-8xAbCdEfGhI"}, body=b""
    )
