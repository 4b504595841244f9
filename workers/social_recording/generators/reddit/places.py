"""Reddit: which of its places can be asked for. Shared by the free and the paid source."""

from __future__ import annotations

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.social_recording.routing import Route


def is_supported(way: Route) -> bool:
    """Posts, comments, share links, subreddits and users."""
    return way.platform is Platform.REDDIT and (
        way.object is ObjectKind.ACCOUNTS
        or way.subtype in (ContentSubtype.POST, VenueSubtype.SUBREDDIT)
        or is_share_link(way)
    )


def is_share_link(way: Route) -> bool:
    """Whether `way` is a link of the form `/r/name/s/token`, which hides what post it leads to.

    Reddit's other short links (`v.redd.it`, `reddit.app.link`) are on hosts of their own and lead to files
    and to apps.
    """
    return way.subtype is ContentSubtype.SHORTLINK and way.url.startswith("https://reddit.com/")
