"""Whether a post exists, from the free oEmbed endpoint.

It tells a post that is there from one that is not, and nothing else: posts that are protected or of a
suspended account are missing here like deleted ones.
"""

from __future__ import annotations

from workers.errors import FetchFailed
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Redirects, Request, Response
from workers.settings import Settings
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.verdicts import (
    http_error,
    misconfigured,
    rate_limited,
    unexpected_html,
)
from workers.social_recording.routing import Route

SOURCE = "x_oembed"


class OEmbed:
    """Asks the endpoint about posts."""

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._url = f"{settings.x_oembed_base_url}/oembed"

    def knows(self, way: Route, context: FetchContext) -> bool:
        """Whether the post is there, by one call. Raises `FetchFailed` when the answer does not say."""
        request = Request(
            source=SOURCE,
            destination=Destination.SERVICE,
            url=self._url,
            query={"url": way.url, "omit_script": "1"},
            headers={"Accept": "application/json"},
            # The endpoint has moved before (publish.twitter.com), and redirects from there.
            redirects=Redirects.ANYWHERE,
        )
        return judge(self._http.fetch(request, context.budget, context.calls.add), way)


def judge(response: Response, way: Route) -> bool:
    """Whether the answer shows the post. Raises `FetchFailed` when it does not say.

    A 404 without a body is the endpoint's own; one with a page may come from anybody on the way.
    """
    status = response.status
    if status == 429:
        raise rate_limited(response)
    if status >= 500:
        raise http_error(response)
    if response.is_html and response.body:
        raise unexpected_html(response)
    if status == 404:
        return False
    if status == 400:
        raise misconfigured(response)
    if status != 200:
        raise http_error(response)
    payload = response.json()
    url = payload.get("url") if isinstance(payload, dict) else None
    if not isinstance(url, str) or way.key not in url:
        raise FetchFailed("x answered with something that is not the post", reason="unexpected_shape")
    return True
