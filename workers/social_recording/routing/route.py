"""What the router says about one canonical URL. Pure data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype

Subtype = ContentSubtype | VenueSubtype | None
NO_CALL_SUBTYPES = frozenset({ContentSubtype.SEARCH, ContentSubtype.INTENT, ContentSubtype.UNKNOWN})


class Route(NamedTuple):
    """Where a canonical URL leads. A tuple, because one is made for every link.

    `key` is what the URL itself says about the target (a post id, a login, `owner/repo`), as text in the
    platform's own spelling. It is the stored `platform_key` only where the platform's ids stand in URLs.
    `subtype` is None for accounts, and for venues that only an answer can tell apart.
    """

    url: str
    platform: Platform
    object: ObjectKind
    subtype: Subtype
    key: str

    @property
    def needs_no_call(self) -> bool:
        """Whether the URL says everything there is to know (searches, intents, unknown places)."""
        return self.subtype in NO_CALL_SUBTYPES


# `Route(...)` without the call of a Python function in between, which is half of its time.
new_route: Callable[[tuple[str, Platform, ObjectKind, Subtype, str]], Route] = partial(tuple.__new__, Route)
