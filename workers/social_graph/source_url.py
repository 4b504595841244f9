"""The URLs under which an object was seen: one entry per URL, never one per observation. Pure.

They are the first way to find a row, so every row has at least one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from workers.errors import InvalidInput
from workers.social_graph.stored_text import known_word, required_text
from workers.social_graph.stored_time import required_time
from workers.social_graph.vocabulary import FetchStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceURL:
    """One canonical URL and the last outcome of asking it."""

    url: str
    status: FetchStatus
    observed_at: datetime

    @classmethod
    def of(cls, url: str, status: FetchStatus, observed_at: datetime) -> SourceURL:
        """Check and build. Raises `InvalidInput` for a blank URL, a status or time that is none."""
        return cls(
            url=required_text(url, "source_urls.url"),
            status=known_word(FetchStatus, status, "source_urls.status"),
            observed_at=required_time(observed_at, "source_urls.observed_at"),
        )

    def to_document(self) -> dict[str, Any]:
        """The stored form."""
        return {"url": self.url, "status": self.status.value, "observed_at": self.observed_at}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> SourceURL:
        """Read the stored form."""
        return cls(
            url=document["url"],
            status=FetchStatus(document["status"]),
            observed_at=document["observed_at"],
        )


def source_urls_of(entries: Iterable[SourceURL]) -> tuple[SourceURL, ...]:
    """One entry per URL, the latest observation of each, in the order of first appearance.

    Raises `InvalidInput` when there are none: rows without a URL would collide in the unique index.
    """
    merged: tuple[SourceURL, ...] = ()
    for entry in entries:
        merged = with_source_url(merged, entry)
    if not merged:
        raise InvalidInput("a row needs at least one source URL", field="source_urls")
    return merged


def given_up(
    entries: tuple[SourceURL, ...], urls: Collection[str], former_owner: str
) -> tuple[SourceURL, ...]:
    """The entries after `urls` have passed to another object: each stays as history, under another name."""
    return tuple(
        replace(entry, url=given_up_name(entry.url, former_owner)) if entry.url in urls else entry
        for entry in entries
    )


def given_up_name(url: str, former_owner: str) -> str:
    """Under which name the URL stays with its former owner; no canonical URL of a profile has a fragment."""
    return f"{url}#{former_owner}"


def with_source_url(entries: tuple[SourceURL, ...], seen: SourceURL) -> tuple[SourceURL, ...]:
    """Update the URL's entry in place, or add it. An observation older than the entry changes nothing."""
    known = next((entry for entry in entries if entry.url == seen.url), None)
    if known is None:
        return (*entries, seen)
    if known.observed_at > seen.observed_at:
        return entries
    return tuple(seen if entry.url == seen.url else entry for entry in entries)
