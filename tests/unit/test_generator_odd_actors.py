"""One odd value in an answer of TikTok, Instagram, Reddit or Apify gives a graph that keeps its contract, a
verdict, or a named failure; never a crash."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.odd_values import NOW, ODD_VALUES, places, with_value
from tests.samples import sample_json
from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.social_recording.generators import instagram
from workers.social_recording.generators.apify import answers as apify_answers
from workers.social_recording.generators.apify.answers import Findings
from workers.social_recording.generators.reddit import actor as reddit_actor
from workers.social_recording.generators.reddit import answers as reddit_answers
from workers.social_recording.generators.reddit import verdicts as reddit_verdicts
from workers.social_recording.generators.tiktok import actor as tiktok_actor
from workers.social_recording.generators.tiktok import oembed as tiktok
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import Route, route

Parse = Callable[[Any], SocialObjectGraph]
TIKTOK_VIDEO = route("https://tiktok.com/@_/video/7524354453693802698")
TIKTOK_PROFILE = route("https://tiktok.com/@amberpixel_")
INSTAGRAM_POST = route("https://instagram.com/p/DNNlfk8h8wr")
INSTAGRAM_PROFILE = route("https://instagram.com/maplem_apleonyx")
REDDIT_CROSSPOST = route("https://reddit.com/comments/11k1sgc")
REDDIT_PLACES = (
    route("https://reddit.com/comments/18m7xjm"),
    route("https://reddit.com/comments/18m7xjm/_/m1lq2vd"),
    route("https://reddit.com/r/riverviolet"),
    route("https://reddit.com/user/meadowonyxc"),
)


def found(item: Any) -> Findings:
    """A run's findings, as the transport hands them over: decoded objects only."""
    items = apify_answers.read_items([item])
    if not items:
        raise FetchFailed("nothing", reason="unexpected_shape")
    return Findings(items=tuple(items), looked_at=NOW)


def read_tiktok_video(item: Any) -> SocialObjectGraph:
    video = tiktok_actor.read_video(found(item), TIKTOK_VIDEO)
    tiktok_actor.speech_url(video)
    return tiktok_actor.video_graph(video, NOW, None)


def read_tiktok_profile(item: Any) -> SocialObjectGraph:
    return tiktok_actor.profile_graph(found(item), TIKTOK_PROFILE)


def read_tiktok_embed(payload: Any) -> SocialObjectGraph:
    return tiktok.video_graph(payload, TIKTOK_VIDEO, NOW)


def read_tiktok_profile_embed(payload: Any) -> SocialObjectGraph:
    return tiktok.profile_graph(payload, TIKTOK_PROFILE, NOW)


def read_instagram_post(item: Any) -> SocialObjectGraph:
    return instagram.post_graph(found(item), INSTAGRAM_POST)


def read_instagram_profile(item: Any) -> SocialObjectGraph:
    return instagram.profile_graph(found(item), INSTAGRAM_PROFILE)


def read_reddit_post(payload: Any) -> SocialObjectGraph:
    data = reddit_verdicts.only_thing_of(payload)
    reddit_verdicts.author_of(data)
    reddit_verdicts.subreddit_of(data)
    return reddit_answers.post_graph(data, REDDIT_CROSSPOST, NOW)


def read_reddit_user(payload: Any) -> SocialObjectGraph:
    return reddit_answers.user_graph(reddit_verdicts.thing_of(payload, "t2"), "Com_etharbo", NOW)


def read_reddit_subreddit(payload: Any) -> SocialObjectGraph:
    return reddit_answers.subreddit_graph(reddit_verdicts.thing_of(payload, "t5"), "frostfrostmea", NOW)


def reddit_item_reader(way: Route) -> Parse:
    return lambda item: reddit_actor.graph_of(found(item), way)


CASES: list[tuple[Any, Parse]] = [
    (sample_json("tiktok/apify_video.json")[0], read_tiktok_video),
    (sample_json("tiktok/apify_video.json")[1], read_tiktok_profile),
    (sample_json("tiktok/oembed_video.json"), read_tiktok_embed),
    (sample_json("tiktok/oembed_profile.json"), read_tiktok_profile_embed),
    (sample_json("instagram/apify_posts.json")[1], read_instagram_post),
    (sample_json("instagram/apify_profile.json")[0], read_instagram_profile),
    (sample_json("reddit/crosspost.json"), read_reddit_post),
    (sample_json("reddit/user_about.json"), read_reddit_user),
    (sample_json("reddit/subreddit_about.json"), read_reddit_subreddit),
    *(
        (item, reddit_item_reader(way))
        for item, way in zip(sample_json("reddit/apify_items.json"), REDDIT_PLACES, strict=True)
    ),
]


def is_storable(graph: SocialObjectGraph) -> bool:
    """Whether every text can be written as UTF-8 and every number, also one below zero, fits 64 bits."""
    json.dumps(dataclasses.asdict(graph), ensure_ascii=False, default=str).encode()
    numbers = [n for group in graph.groups for metrics in group.metrics.values() for n in metrics.values()]
    return all(-(2**63) < number < 2**63 for number in numbers)


@pytest.mark.parametrize(("payload", "parse"), CASES)
def test_one_odd_value_anywhere_never_crashes_a_parser(payload: Any, parse: Parse) -> None:
    kept = 0
    for path in places(payload):
        for odd in ODD_VALUES:
            try:
                graph = parse(with_value(payload, path, odd))
            except FetchFailed as exc:
                assert exc.reason in ("unexpected_shape", "actor_error"), (path, odd)  # noqa: PT017
                continue
            except (TargetGone, TargetBlocked):
                # An empty list of children and a category of removal are verdicts.
                assert path[-1] in ("children", "removed_by_category", "body"), (path, odd)
                continue
            check(graph, "https://entry.example.com/")
            assert is_storable(graph), (path, odd)
            kept += 1
    assert kept > len(ODD_VALUES)


@pytest.mark.parametrize("payload", ODD_VALUES)
@pytest.mark.parametrize("parse", [parse for _, parse in CASES])
def test_an_odd_payload_as_a_whole_has_another_shape(parse: Parse, payload: Any) -> None:
    with pytest.raises(FetchFailed) as caught:
        parse(payload)
    assert caught.value.reason == "unexpected_shape"


@pytest.mark.parametrize(
    ("payload", "read"),
    [
        (sample_json("apify/run.json"), apify_answers.read_run),
        ({"data": {"items": [sample_json("apify/run.json")["data"]]}}, apify_answers.read_runs),
    ],
)
def test_one_odd_value_in_a_run_is_read_or_refused(payload: Any, read: Callable[[Any], object]) -> None:
    for path in places(payload):
        for odd in ODD_VALUES:
            try:
                read(with_value(payload, path, odd))
            except FetchFailed as exc:
                assert exc.reason == "unexpected_shape", (path, odd)  # noqa: PT017
