"""Says where a URL leads: platform, kind of object and key. Pure; never raises, never calls.

`route()` is meant for canonical URLs. Given another spelling it answers for the same place; only the key
then has the letter case that was given.
"""

from __future__ import annotations

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.routing.hosts import facts_of
from workers.social_recording.routing.normalize import split, web_url
from workers.social_recording.routing.route import Route


def route(url: str) -> Route:
    """Where `url` leads. What is on no known platform, or is no URL at all, is a site on the web.

    A site's key is its canonical URL without the scheme: two pages of one host are two contents.
    """
    scheme, authority, parts = split(url)
    facts = facts_of(parts.host)
    if facts.site is not None and authority == parts.host:
        return facts.site.place(parts)
    canonical = web_url(scheme, authority, parts, facts)
    return Route(
        url=canonical,
        platform=Platform.WEB,
        object=ObjectKind.CONTENTS,
        subtype=ContentSubtype.SITE,
        key=canonical.partition("://")[2],
    )
