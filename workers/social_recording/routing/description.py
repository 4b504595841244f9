"""What the router says about a text, for people and programs: one description for each link in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workers.social_recording.routing.addresses import leads_inside
from workers.social_recording.routing.normalize import Normalized, links_in
from workers.social_recording.routing.router import route

# The reason that its record gets.
UNSAFE_ADDRESS = "unsafe_address"


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """Where a link leads, or `reason`, why there is none. `input` is the whole text that holds it.

    A link that leads inside our own network has both: it has a place, and is never opened.
    """

    input: str
    canonical: str | None = None
    platform: str | None = None
    object: str | None = None
    subtype: str | None = None
    key: str | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, str | None]:
        """The description as an object whose values are text or null; no key is ever missing."""
        return {name: getattr(self, name) for name in self.__slots__}


def descriptions_of(text: str) -> Iterator[Description]:
    """Describe each link of a field, in order; a field without any has one description with the reason."""
    return (_described(text, each) for each in links_in(text))


def _described(text: str, found: Normalized) -> Description:
    if found.url is None:
        return Description(input=text, reason=found.reason)
    where = route(found.url)
    return Description(
        input=text,
        canonical=where.url,
        platform=where.platform,
        object=where.object,
        subtype=where.subtype,
        key=where.key,
        reason=UNSAFE_ADDRESS if leads_inside(where.url) else None,
    )
