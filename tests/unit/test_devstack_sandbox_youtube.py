"""What the sandbox's YouTube answers, without a socket."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from devstack.sandbox import youtube
from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer
from devstack.sandbox.youtube import RESERVED_VIDEOS, YouTube

VIDEO = "aFCO6Wid0VM"


def api(path: str, service: YouTube | None = None, *, key: str = "k") -> Answer:
    headers = {"x-goog-api-key": key} if key else {}
    request = Request(method="GET", target=f"/youtube{path}", headers=headers, body=b"")
    return (service or YouTube()).api(request, path.partition("?")[0])


def site(path: str, service: YouTube | None = None) -> Answer:
    request = Request(method="GET", target=f"/youtube-site{path}", headers={}, body=b"")
    return (service or YouTube()).site(request, path.partition("?")[0])


def items(answer: Answer) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(answer.body)["items"]
    return listed


def oembed(video_id: str) -> Answer:
    return site(f"/oembed?format=json&url=https%3A%2F%2Fwww.youtube.com%2Fwatch%3Fv%3D{video_id}")


def test_a_video_has_the_id_asked_for_and_a_channel_that_can_be_asked_for() -> None:
    service = YouTube()
    [video] = items(api(f"/videos?id={VIDEO}", service))
    [channel] = items(api(f"/channels?id={video['snippet']['channelId']}", service))
    assert video["id"] == VIDEO
    assert channel["id"] == video["snippet"]["channelId"]
    assert channel["snippet"]["title"] == video["snippet"]["channelTitle"]
    shown = json.loads(oembed(VIDEO).body)
    assert (shown["title"], shown["author_name"]) == (video["snippet"]["title"], channel["snippet"]["title"])
    assert shown["author_url"].endswith(channel["snippet"]["customUrl"])


def test_many_videos_share_a_channel_and_some_hide_numbers() -> None:
    ids = [f"video-{number:05}" for number in range(50)]
    listed = items(api(f"/videos?id={','.join(ids)}"))
    assert [video["id"] for video in listed] == ids
    assert 5 < len({video["snippet"]["channelId"] for video in listed}) < youtube.CHANNEL_COUNT
    assert any("likeCount" not in video["statistics"] for video in listed)
    assert any("commentCount" not in video["statistics"] for video in listed)


@pytest.mark.parametrize(
    "question", ["forHandle=@MoonHarbor", "forHandle=moonharbor", "forUsername=MoonHarbor"]
)
def test_a_channel_has_one_id_in_whatever_spelling(question: str) -> None:
    [channel] = items(api(f"/channels?{question}"))
    assert channel["id"] == youtube.channel_id("moonharbor")
    assert channel["snippet"]["customUrl"] == "@moonharbor"
    assert re.fullmatch(youtube.CHANNEL, channel["id"])


def test_the_page_of_an_older_name_leads_to_the_same_channel() -> None:
    service = YouTube()
    found = re.search(rb'rel="canonical" href="[^"]*/channel/([\w-]+)"', site("/c/MoonHarbor", service).body)
    assert found
    [channel] = items(api(f"/channels?id={found[1].decode()}", service))
    assert channel["snippet"]["customUrl"] == "@moonharbor"
    assert site("/c/channel-missing").status == 404


def test_a_channel_that_nobody_has_named_yet_is_one_channel_by_id_and_by_handle() -> None:
    own_id = "UCDN1oN-KN9UsRFwFzncbj5w"
    [channel] = items(api(f"/channels?id={own_id}"))
    [again] = items(api(f"/channels?forHandle={channel['snippet']['customUrl']}"))
    assert channel["id"] == again["id"] == own_id


def test_a_channel_may_hide_its_subscribers() -> None:
    [channel] = items(api("/channels?forHandle=@moon-hidden"))
    assert channel["statistics"]["hiddenSubscriberCount"] is True
    assert channel["statistics"]["subscriberCount"] == "0"


def test_every_recorded_case_can_be_asked_for() -> None:
    reached = {youtube.NO_VIDEO} if api("/videos?id=short") == youtube.ERRORS[youtube.NO_VIDEO] else set()
    for video_id, (api_case, oembed_case) in RESERVED_VIDEOS.items():
        assert len(video_id) == 11
        if api_case:
            assert api(f"/videos?id={video_id}") == youtube.ERRORS[api_case]
        if oembed_case:
            assert oembed(video_id) == youtube.ERRORS[oembed_case]
        reached |= {api_case, oembed_case} - {""}
    for case in set(youtube.ERRORS) - reached:
        assert api(f"/channels?forHandle=@{case}") == youtube.ERRORS[case]
        reached.add(case)
    assert reached == set(youtube.ERRORS)


def test_a_missing_video_is_left_out_of_a_list() -> None:
    assert [video["id"] for video in items(api(f"/videos?id=vid-missing,{VIDEO}"))] == [VIDEO]


def test_no_key_is_a_bad_key_and_other_routes_are_unknown() -> None:
    assert api(f"/videos?id={VIDEO}", key="") == youtube.ERRORS[youtube.NO_KEY]
    assert api(f"/videos?id={VIDEO}&key=k", key="").status == 200
    assert api("/search?q=a").status == 404
    assert site("/watch").status == 404
    assert api("/channels?part=snippet") == youtube.ERRORS[youtube.NO_CHANNEL]
