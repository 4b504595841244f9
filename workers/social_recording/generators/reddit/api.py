"""Reddit: posts, comments, subreddits and users, from its API, with an app of our own at no cost.

A post names its author and its subreddit without their numbers and dates, so each of them costs one call
more. Share links hide the post behind a redirect of the web site, which strangers are often not allowed to
see; where paid calls are on, an actor is asked then.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from workers.errors import FetchFailed, TargetBlocked, TargetGone
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Redirects, Request, Response
from workers.settings import Settings
from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.generators.apify.transport import Apify
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.reddit.actor import RedditActorGenerator
from workers.social_recording.generators.reddit.answers import (
    COMMENT,
    post_graph,
    subreddit_graph,
    user_graph,
    with_details,
)
from workers.social_recording.generators.reddit.login import SOURCE as LOGIN
from workers.social_recording.generators.reddit.login import AccessTokens, user_agent
from workers.social_recording.generators.reddit.places import is_share_link, is_supported
from workers.social_recording.generators.reddit.verdicts import (
    SOURCE,
    author_of,
    judge,
    only_thing_of,
    subreddit_of,
    thing_of,
)
from workers.social_recording.generators.short_links import location_of
from workers.social_recording.object_graph import ObjectGroup, SocialObjectGraph
from workers.social_recording.routing import Route, route


class RedditGenerator:
    """Asks the API, as an app that has logged in for itself."""

    source = SOURCE
    is_paid = False

    def __init__(self, http: OutboundClient, settings: Settings, apify: Apify) -> None:
        self._http = http
        self._base_url = settings.reddit_base_url
        self._site_url = settings.reddit_login_base_url
        self._user_agent = user_agent(settings)
        self._tokens = AccessTokens(http, settings)
        self._actor = RedditActorGenerator(http, settings, apify)

    def supports(self, way: Route) -> bool:
        """Posts, comments, share links, subreddits and users, with an app's id and secret."""
        return self._tokens.has_key and is_supported(way)

    def generate(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        """One call for a user or a subreddit, up to three for a post, one more for a share link, and one for
        a token now and then.
        """
        if is_share_link(way):
            return self._shared(way, context)
        if way.object is ObjectKind.ACCOUNTS:
            return self._user(way.key, context)
        if way.object is ObjectKind.VENUES:
            return self._subreddit(way.key, context)
        return self._post(way, context)

    def _shared(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        try:
            url = f"{self._site_url}{urlsplit(way.url).path}"
            location = location_of(self._http, url, context, source=LOGIN, destination=Destination.SERVICE)
            place = place_of_location(location)
        except FetchFailed:
            if context.is_paid_enabled and self._actor.supports(way):
                return self._actor.generate(way, context)
            raise
        return self._post(place, context)

    def _post(self, way: Route, context: FetchContext) -> SocialObjectGraph:
        name = way.key if way.key.startswith(COMMENT) else f"t3_{way.key}"
        response = self._ask("/api/info", context, {"id": name.lower()})
        data = only_thing_of(judge(response))
        graph = post_graph(data, way, response.received_at)
        if graph.blocked_reason is not None:
            return graph
        return with_details(graph, self._author_of(data, context), self._venue_of(data, context))

    def _user(self, name: str, context: FetchContext) -> SocialObjectGraph:
        response = self._ask(f"/user/{quote(name, safe='')}/about", context)
        return user_graph(thing_of(judge(response), "t2"), name, response.received_at)

    def _subreddit(self, name: str, context: FetchContext) -> SocialObjectGraph:
        response = self._ask(f"/r/{quote(name, safe='')}/about", context)
        return subreddit_graph(thing_of(judge(response), "t5"), name, response.received_at)

    def _author_of(self, data: object, context: FetchContext) -> ObjectGroup | None:
        """The whole account of a post's author; None when it is not shown (any more).

        The post itself has been seen by then, so a vanished author does not make it vanish.
        """
        name = author_of(data)
        if name is None:
            return None
        try:
            return self._user(name, context).groups[0]
        except (TargetGone, TargetBlocked):
            return None

    def _venue_of(self, data: object, context: FetchContext) -> ObjectGroup | None:
        """The whole subreddit of a post; None when it is not shown to strangers."""
        name = subreddit_of(data)
        if name is None:
            return None
        try:
            return self._subreddit(name, context).groups[0]
        except (TargetGone, TargetBlocked):
            return None

    def _ask(self, path: str, context: FetchContext, query: Mapping[str, str] | None = None) -> Response:
        """Ask with the token at hand, and once more with a new one when Reddit does not take it."""
        token = self._tokens.current(context)
        response = self._ask_with(token, path, context, query)
        if response.status != 401:
            return response
        self._tokens.discard(token)
        return self._ask_with(self._tokens.current(context), path, context, query)

    def _ask_with(
        self, token: str, path: str, context: FetchContext, query: Mapping[str, str] | None
    ) -> Response:
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=f"{self._base_url}{path}",
            # Without `raw_json` texts come with `&amp;` for `&`.
            query={**(query or {}), "raw_json": "1"},
            headers={
                "Accept": "application/json",
                "Authorization": f"Bearer {token}",
                "User-Agent": self._user_agent,
            },
            redirects=Redirects.NEVER,
        )
        return self._http.fetch(request, context.budget, context.calls.add)


def place_of_location(location: str) -> Route:
    """The post that a share link's redirect names.

    Raises `FetchFailed`: a stranger may be led to a login instead.
    """
    place = route(location)
    if place.platform is Platform.REDDIT and place.subtype is ContentSubtype.POST:
        return place
    raise FetchFailed("reddit does not show where the share link leads", reason="login_wall")
