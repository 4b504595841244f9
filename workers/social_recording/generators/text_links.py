"""Canonical links out of what people wrote: bios, descriptions, one-line fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from workers.social_recording.routing import links_in, normalize

LINKS_MAX = 100


def links_in_prose(text: str | None) -> tuple[str, ...]:
    """The links in running text, in order.

    Only those written with a scheme: prose is full of words with a dot that are no hosts.
    """
    if not text:
        return ()
    return unique(found.url for found in links_in(text) if found.url and "://" in found.text)


def link_meant(text: str | None) -> str | None:
    """The link that a one-line field means, with or without a scheme; None when it means none."""
    return normalize(text).url if text else None


def unique(values: Iterable[str]) -> tuple[str, ...]:
    """Each value once, in order, at most `LINKS_MAX`."""
    return tuple(dict.fromkeys(values))[:LINKS_MAX]
