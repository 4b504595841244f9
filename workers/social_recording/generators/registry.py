"""The table of generators, one row each, and which places have paid sources only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workers.http.client import OutboundClient
from workers.settings import Settings
from workers.social_graph.vocabulary import ObjectKind, Platform
from workers.social_recording.generators.generator import Generator
from workers.social_recording.generators.github import GitHubGenerator
from workers.social_recording.generators.web import WebGenerator
from workers.social_recording.generators.x import XGenerator
from workers.social_recording.routing import Route


@dataclass(frozen=True, kw_only=True, slots=True)
class PaidPlace:
    """A kind of place whose only usable source costs money; `objects` None means all of the platform."""

    platform: Platform
    objects: frozenset[ObjectKind] | None = None

    def holds(self, way: Route) -> bool:
        """Whether `way` leads to such a place."""
        return way.platform is self.platform and (self.objects is None or way.object in self.objects)


GENERATORS: tuple[Callable[[OutboundClient, Settings], Generator], ...] = (
    GitHubGenerator,
    XGenerator,
    WebGenerator,
)
# X shows single posts for nothing; the other three show strangers nothing at all.
PAID_PLACES = (
    PaidPlace(platform=Platform.X, objects=frozenset({ObjectKind.ACCOUNTS, ObjectKind.VENUES})),
    PaidPlace(platform=Platform.INSTAGRAM),
    PaidPlace(platform=Platform.TIKTOK),
    PaidPlace(platform=Platform.REDDIT),
)


class Generators:
    """The generators of this process, by what they support."""

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._generators = tuple(build(http, settings) for build in GENERATORS)

    def for_route(self, way: Route) -> Generator | None:
        """The first generator that supports `way`; None when there is none."""
        return next((each for each in self._generators if each.supports(way)), None)

    def paid_only(self, way: Route) -> bool:
        """Whether only money would help: no free source exists for such a place."""
        return any(place.holds(way) for place in PAID_PLACES)
