"""Short links: asks where one leads and stops there, so that nobody's page is fetched for a number.

A short link is a place of its own until it has been asked. What it leads to is then told apart like any URL.
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urljoin

from workers.errors import FetchFailed
from workers.http.client import OutboundClient
from workers.http.messages import Destination, LargeBody, Redirects, Request, Response
from workers.social_graph.vocabulary import ContentSubtype
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.verdicts import http_error, rate_limited, unexpected_html
from workers.social_recording.object_graph import ContentDraft, ObjectGroup, SocialObjectGraph
from workers.social_recording.routing import Route

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def location_of(
    http: OutboundClient,
    url: str,
    context: FetchContext,
    *,
    source: str,
    destination: Destination = Destination.SITE,
) -> str:
    """The absolute URL that `url` redirects to. One call, and what it names is not asked.

    Raises as `location_in` does, and as any call does.
    """
    return location_in(ask_without_following(http, url, context, source=source, destination=destination))


def ask_without_following(
    http: OutboundClient,
    url: str,
    context: FetchContext,
    *,
    source: str,
    destination: Destination = Destination.SITE,
) -> Response:
    """The answer of `url` itself. One call."""
    return http.fetch(
        Request(
            source=source,
            url=url,
            destination=destination,
            redirects=Redirects.NEVER,
            large_body=LargeBody.CUT,
        ),
        context.budget,
        context.calls.add,
    )


def location_in(response: Response) -> str:
    """The absolute URL that the answer redirects to.

    Raises `FetchFailed` for any answer that is no redirect (`unexpected_html` for a page: a login, a check
    for people).
    """
    source = response.source
    location = response.headers.get("location", "").strip()
    if response.status in _REDIRECTS and location:
        try:
            return urljoin(response.url, location)
        except ValueError as exc:
            raise FetchFailed(f"{source} redirects to what is no URL", reason="bad_url") from exc
    if response.status == 429:
        raise rate_limited(response)
    if response.status < 500 and response.is_html:
        raise unexpected_html(response)
    raise http_error(response)


def graph_of_place(place: Route, observed_at: datetime) -> SocialObjectGraph:
    """The graph of a short link to a place that says everything itself (a search, a page without a name)."""
    content = ContentDraft(
        platform=place.platform,
        subtype=ContentSubtype(place.subtype or ContentSubtype.UNKNOWN),
        url=place.url,
        platform_key=place.key,
        text_primary=place.key if place.subtype is ContentSubtype.SEARCH else None,
    )
    return SocialObjectGraph(groups=(ObjectGroup(content=content),), observed_at=observed_at)


def public_url(place: Route) -> str:
    """The URL of a canonical one as the platform itself writes it, with `www.`."""
    return f"https://www.{place.url.removeprefix('https://')}"
