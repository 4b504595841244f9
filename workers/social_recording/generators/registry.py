"""The table of generators, one row each, and which places have paid sources only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workers.http.client import OutboundClient
from workers.settings import Settings
from workers.social_graph.vocabulary import ObjectKind, Platform
from workers.social_recording.generators.apify.runs import NoRunMemory, RunMemory
from workers.social_recording.generators.apify.transport import Apify
from workers.social_recording.generators.generator import Generator
from workers.social_recording.generators.github import GitHubGenerator
from workers.social_recording.generators.instagram import InstagramGenerator
from workers.social_recording.generators.reddit.actor import RedditActorGenerator
from workers.social_recording.generators.reddit.api import RedditGenerator
from workers.social_recording.generators.telegram.generator import TelegramGenerator
from workers.social_recording.generators.tiktok.actor import TikTokActorGenerator
from workers.social_recording.generators.tiktok.oembed import TikTokGenerator
from workers.social_recording.generators.web.site import WebGenerator
from workers.social_recording.generators.x.sources import X_GENERATORS
from workers.social_recording.generators.youtube.generator import YouTubeGenerator, YouTubeSiteGenerator
from workers.social_recording.routing import Route


@dataclass(frozen=True, kw_only=True, slots=True)
class PaidPlace:
    """A kind of place whose only usable source costs money; `objects` None means all of the platform."""

    platform: Platform
    objects: frozenset[ObjectKind] | None = None

    def holds(self, way: Route) -> bool:
        """Whether `way` leads to such a place."""
        return way.platform is self.platform and (self.objects is None or way.object in self.objects)


@dataclass(frozen=True, slots=True)
class OnApify:
    """A row whose generator asks an actor, always or when there is no other way."""

    build: Callable[[OutboundClient, Settings, Apify], Generator]

    def __call__(self, http: OutboundClient, settings: Settings, runs: RunMemory | None = None) -> Generator:
        """Build it; without a memory of runs it pays for none."""
        return self.build(http, settings, Apify(http, settings, runs or NoRunMemory()))


# For a place that several support, the first one that may be used is asked: what is free comes first, unless
# it shows less than a platform's paid source does.
GENERATORS: tuple[Callable[[OutboundClient, Settings], Generator], ...] = (
    GitHubGenerator,
    *X_GENERATORS,
    OnApify(TikTokActorGenerator),
    TikTokGenerator,
    OnApify(InstagramGenerator),
    OnApify(RedditGenerator),
    OnApify(RedditActorGenerator),
    TelegramGenerator,
    YouTubeGenerator,
    YouTubeSiteGenerator,
    WebGenerator,
)
# X shows single posts for nothing, Instagram and Reddit show strangers nothing at all.
PAID_PLACES = (
    PaidPlace(platform=Platform.X, objects=frozenset({ObjectKind.ACCOUNTS, ObjectKind.VENUES})),
    PaidPlace(platform=Platform.INSTAGRAM),
    PaidPlace(platform=Platform.REDDIT),
)


# Costs nothing, and has a number of calls a day that can be used up.
METERED_FREE_SOURCES = frozenset({"youtube"})


def is_metered(generator: Generator) -> bool:
    """Whether the source's answers can say that credit or quota is used up."""
    return generator.is_paid or generator.source in METERED_FREE_SOURCES


class Generators:
    """The generators of this process, by what they support. `runs` is where paid runs are remembered."""

    def __init__(self, http: OutboundClient, settings: Settings, runs: RunMemory | None = None) -> None:
        self._generators = tuple(
            row(http, settings, runs) if isinstance(row, OnApify) else row(http, settings)
            for row in GENERATORS
        )

    def for_route(self, way: Route, *, is_paid_enabled: bool) -> Generator | None:
        """The first generator that supports `way` and may be used; None when there is none."""
        for each in self._generators:
            if (is_paid_enabled or not each.is_paid) and each.supports(way):
                return each
        return None

    def costs_money(self, way: Route) -> bool:
        """Whether money would help where no free source does; there is a paid one, with its key or not."""
        has_key = any(each.is_paid and each.supports(way) for each in self._generators)
        return has_key or any(place.holds(way) for place in PAID_PLACES)
