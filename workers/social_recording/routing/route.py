"""What the router says about one canonical URL. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype

NO_CALL_SUBTYPES = frozenset({ContentSubtype.SEARCH, ContentSubtype.INTENT, ContentSubtype.UNKNOWN})


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """Where a canonical URL leads.

    `key` is what the URL itself says about the target (a post id, a login, `owner/repo`), as text in the
    platform's own spelling. It is the stored `platform_key` only where the platform's ids stand in URLs.
    `subtype` is None for accounts, and for venues that only an answer can tell apart.
    """

    url: str
    platform: Platform
    object: ObjectKind
    subtype: ContentSubtype | VenueSubtype | None
    key: str

    @property
    def needs_no_call(self) -> bool:
        """Whether the URL says everything there is to know (searches, intents, unknown places)."""
        return self.subtype in NO_CALL_SUBTYPES
