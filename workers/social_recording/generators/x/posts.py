"""Posts: the free source first, and money only for a post that is there and that the free source hides.

The syndication endpoint sometimes shows nothing (`{}`, a bare 404), which alone is no proof. oEmbed costs
nothing and says whether the post exists: if not, it is gone; if so, a paid source may show it.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers.errors import FetchFailed, TargetGone
from workers.http.client import OutboundClient
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, Platform
from workers.social_recording.generators.generator import FetchContext, Generator
from workers.social_recording.generators.x.drafts import check_number
from workers.social_recording.generators.x.oembed import OEmbed
from workers.social_recording.generators.x.syndication import SOURCE, Syndication
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.routing import Route


class XPostGenerator:
    """Asks about posts; `paid` are the sources for what is not to be had for nothing, the first one first."""

    source = SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings, paid: Sequence[Generator] = ()) -> None:
        self._syndication = Syndication(http, settings)
        self._oembed = OEmbed(http, settings)
        self._paid = paid

    def supports(self, way: Route) -> bool:
        """Posts only."""
        return way.platform is Platform.X and way.subtype is ContentSubtype.TWEET

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call as a rule; two free ones, and a paid one if that is allowed, for what is hidden."""
        check_number(way.key)
        graph = self._syndication.ask(way, context)
        if graph is not None:
            return graph
        try:
            is_there = self._oembed.knows(way, context)
        except FetchFailed as exc:
            raise FetchFailed(
                "x shows nothing, which may mean that the post is gone",
                reason="weak_not_found",
                retry_in_s=exc.retry_in_s,
            ) from exc
        if not is_there:
            raise TargetGone("x shows no such post, and oEmbed knows none", reason="oembed_404")
        return self._hidden(way, context)

    def _hidden(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        if context.is_paid_enabled:
            for each in self._paid:
                if each.supports(way):
                    return each.generate(way, context)
        raise FetchFailed("x has the post and shows it to nobody who does not pay", reason="not_shown")
