"""One odd value in an answer of YouTube gives a graph that keeps its contract or a named failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.odd_values import NOW, ODD_VALUES, is_storable, places, with_value
from tests.samples import sample_json
from workers.errors import FetchFailed
from workers.social_recording.generators.youtube.data import (
    CHANNELS,
    VIDEOS,
    account_graph,
    items_of,
    listed_channel,
    listed_video,
    video_graph,
)
from workers.social_recording.generators.youtube.site import oembed_graph
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import route

VIDEO, CHANNEL = "VQDZSte1IMU", "UCDN1oN-KN9UsRFwFzncbj5w"
Parse = Callable[[Any], SocialObjectGraph | None]


def read_video(payload: Any) -> SocialObjectGraph | None:
    video = listed_video(items_of(payload, VIDEOS), VIDEO)
    return None if video is None else video_graph(video, None, NOW)


def read_channel(payload: Any) -> SocialObjectGraph | None:
    channel = listed_channel(items_of(payload, CHANNELS), None)
    return None if channel is None else account_graph(channel, NOW)


def read_own_channel(payload: Any) -> SocialObjectGraph | None:
    channel = listed_channel(items_of(payload, CHANNELS), CHANNEL)
    return None if channel is None else account_graph(channel, NOW)


def read_oembed(payload: Any) -> SocialObjectGraph | None:
    return oembed_graph(payload, route(f"https://youtu.be/{VIDEO}"), NOW)


@pytest.mark.parametrize(
    ("sample", "parse"),
    [
        ("youtube/videos_list.json", read_video),
        ("youtube/channels_list.json", read_channel),
        ("youtube/channels_list.json", read_own_channel),
        ("youtube/oembed.json", read_oembed),
    ],
)
def test_one_odd_value_anywhere_never_crashes_a_parser(sample: str, parse: Parse) -> None:
    payload = sample_json(sample)
    kept = 0
    for path in places(payload):
        for odd in ODD_VALUES:
            try:
                graph = parse(with_value(payload, path, odd))
            except FetchFailed as exc:
                assert exc.reason == "unexpected_shape", (path, odd)  # noqa: PT017 - one test for many places
                continue
            if graph is not None:
                check(graph, "https://entry.example.com/")
                assert is_storable(graph), (path, odd)
                kept += 1
    assert kept > 0


@pytest.mark.parametrize("payload", [odd for odd in ODD_VALUES if odd is not None])
@pytest.mark.parametrize("parse", [read_video, read_channel, read_oembed])
def test_an_odd_payload_as_a_whole_has_another_shape(parse: Parse, payload: Any) -> None:
    with pytest.raises(FetchFailed) as caught:
        parse(payload)
    assert caught.value.reason == "unexpected_shape"
