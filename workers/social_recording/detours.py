"""Short links that lead anywhere (`t.co`): where they lead is asked once and remembered.

The platforms' own short links (`vm.tiktok.com`, Reddit's share links) stay with their platform's generator,
because they lead nowhere else. What a detour leads to is told apart, found and fetched like any other URL.
"""

from __future__ import annotations

import hashlib
import logging

from redis import Redis
from redis.exceptions import RedisError

from workers.errors import TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.social_graph.vocabulary import ContentSubtype
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.short_links import ask_without_following, location_in
from workers.social_recording.routing import Route, leads_inside, normalize, route

log = logging.getLogger(__name__)

HOSTS = ("https://t.co/",)
KEY_PREFIX = "converge:detour:"
# The targets of short links do not change; a month is for those that are never asked about again.
REMEMBERED_FOR_S = 30 * 86_400
_GONE = (404, 410)


def is_detour(way: Route) -> bool:
    """Whether the URL says nothing about where it leads, and anybody may ask."""
    return way.subtype is ContentSubtype.SHORTLINK and way.url.startswith(HOSTS)


class Detours:
    """Asks where detours lead. What is remembered only saves calls, so an error of Redis is no failure."""

    def __init__(self, http: OutboundClient, redis: Redis) -> None:
        self._http = http
        self._redis = redis

    def remembered(self, way: Route) -> Route | None:
        """The place that a detour was found to lead to; None when nobody has asked."""
        try:
            target = self._redis.get(_key(way))
        except RedisError:
            return None
        return route(target.decode()) if isinstance(target, bytes) else None

    def target_of(self, way: Route, context: FetchContext) -> Route:
        """The place that a detour leads to; at most one call.

        Raises `TargetGone` for a link that does not exist or leads to no place, `TargetBlocked` for one that
        leads inside our own network, and `FetchFailed`.
        """
        known = self.remembered(way)
        if known is not None:
            return known
        answer = ask_without_following(self._http, way.url, context, source="web")
        if answer.status in _GONE:
            raise TargetGone("there is no such short link", reason=f"http_{answer.status}")
        location = location_in(answer)
        if leads_inside(location):
            raise TargetBlocked("the short link leads inside our own network", reason="unsafe_address")
        target = normalize(location).url
        if target is None or is_detour(route(target)):
            raise TargetGone("the short link leads to no place", reason="leads_nowhere")
        self._remember(way, target)
        return route(target)

    def _remember(self, way: Route, target: str) -> None:
        try:
            self._redis.set(_key(way), target, ex=REMEMBERED_FOR_S)
        except RedisError:
            log.warning("where a short link leads could not be remembered", extra={"url": way.url})


def _key(way: Route) -> str:
    return KEY_PREFIX + hashlib.sha256(way.url.encode()).hexdigest()
