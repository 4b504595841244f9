"""The sample's links given to other people's packages: which of them are recognised, and as what.

Both packages know profiles on many platforms; neither tells a post from a place, nor makes two spellings of
a link the same one. Compared are the seven platforms of the router: a link is recognised when one of them is
named, whatever kind of place it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import sociallinks
from socials.socials import get_platform

from workers.social_graph.vocabulary import Platform
from workers.social_recording.routing import normalize, route

Recognise: TypeAlias = Callable[[str], Platform | None]

PLATFORMS: Mapping[str | None, Platform] = {
    "x": Platform.X,
    "twitter": Platform.X,
    "tiktok": Platform.TIKTOK,
    "instagram": Platform.INSTAGRAM,
    "youtube": Platform.YOUTUBE,
    "reddit": Platform.REDDIT,
    "github": Platform.GITHUB,
    "telegram": Platform.TELEGRAM,
}


def by_router(text: str) -> Platform | None:
    """What our router says."""
    url = normalize(text).url
    platform = None if url is None else route(url).platform
    return None if platform is Platform.WEB else platform


def by_social_links(text: str) -> Platform | None:
    """What `social-links` says."""
    return PLATFORMS.get(sociallinks.detect_platform(text))


def by_socials(text: str) -> Platform | None:
    """What `socials` says."""
    return PLATFORMS.get(get_platform(text))


def recognised(sample: Sequence[str]) -> dict[str, float]:
    """The share of the sample's links that each of them recognises."""
    return {name: _share(sample, lambda text, by=by: by(text) is not None) for name, by in WAYS.items()}  # type: ignore[misc]


def agreeing(sample: Sequence[str]) -> dict[str, float]:
    """Of the links that a package recognises, the share of which the router says the same."""
    shares = {}
    for name, by in WAYS.items():
        known = [text for text in sample if by(text) is not None]
        shares[name] = _share(known, lambda text, by=by: by(text) is by_router(text))  # type: ignore[misc]
    return shares


def _share(sample: Sequence[str], is_so: Callable[[str], bool]) -> float:
    return round(sum(map(is_so, sample)) / len(sample), 3)


WAYS: Mapping[str, Recognise] = {
    "converge": by_router,
    "social_links": by_social_links,
    "socials": by_socials,
}
