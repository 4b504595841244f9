"""Says where a URL leads: platform, kind of object and key. Pure; never raises, never calls.

`route()` is meant for canonical URLs. Given another spelling it answers for the same place; only the key
then has the letter case that was given.
"""

from __future__ import annotations

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform
from workers.social_recording.routing.hosts import facts_of
from workers.social_recording.routing.normalize import web_url
from workers.social_recording.routing.parts import split
from workers.social_recording.routing.route import Route, new_route

# Looked up once: before Python 3.12 a member of an enumeration costs more than the tuple.
_WEB_SITE = (Platform.WEB, ObjectKind.CONTENTS, ContentSubtype.SITE)


def route(url: str) -> Route:
    """Where `url` leads. What is on no known platform, or is no URL at all, is a site on the web.

    A site's key is its canonical URL without the scheme: two pages of one host are two contents.
    """
    scheme, port, parts = split(url)
    facts = facts_of(parts[0])
    if facts.places is not None and not port:
        return facts.places.route(parts)
    canonical = web_url(facts.name, parts, scheme, port)
    return new_route((canonical, *_WEB_SITE, canonical.partition("://")[2]))
