"""What is stored of a token: thin state, and the outcome of each of its URLs. Pure.

Prices and scores belong to the tracker and are never copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from bson import ObjectId

from workers.errors import InvalidInput
from workers.mongo import Document
from workers.social_graph.stored_data import known_fields, present_fields
from workers.social_graph.stored_text import NAME_MAX, known_word, required_text, stored_text
from workers.social_graph.stored_time import required_time, stored_time
from workers.social_graph.vocabulary import FetchStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenSocialURL:
    """One URL of a token. `url` is canonical and finds the element; `attempts` counts outside calls."""

    url: str
    status: FetchStatus
    attempted_at: datetime | None = None
    attempts: int = 0
    reason: str | None = None

    def to_document(self) -> Document:
        """The stored form. Raises `InvalidInput` for a blank URL, a time without a zone, or a bad count."""
        if self.attempts < 0:
            raise InvalidInput("attempts cannot be negative", field="social_urls.attempts")
        return {
            "url": required_text(self.url, "social_urls.url"),
            "status": known_word(FetchStatus, self.status, "social_urls.status").value,
            "attempted_at": stored_time(self.attempted_at, "social_urls.attempted_at"),
            "attempts": self.attempts,
            "reason": stored_text(self.reason, NAME_MAX),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TokenSocialURL:
        """Read the stored form."""
        return cls(
            url=document["url"],
            status=FetchStatus(document["status"]),
            attempted_at=document.get("attempted_at"),
            attempts=document.get("attempts", 0),
            reason=document.get("reason"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenWeb:
    """What is known of the token's own domain."""

    domain: str | None = None
    domain_created_at: datetime | None = None
    scan_time: datetime | None = None

    def to_document(self) -> Document:
        """The stored form. Raises `InvalidInput` for a time without a zone."""
        return present_fields(
            domain=stored_text(self.domain, NAME_MAX),
            domain_created_at=stored_time(self.domain_created_at, "web.domain_created_at"),
            scan_time=stored_time(self.scan_time, "web.scan_time"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """One token. Build it with `of`; the state changes return a changed copy.

    `created_at` is when we first saw it.
    """

    address: str
    created_at: datetime
    symbol: str | None = None
    first_transfer_at: datetime | None = None
    fingerprints: tuple[str, ...] = ()
    web: TokenWeb | None = None
    social_urls: tuple[TokenSocialURL, ...] = ()
    id: ObjectId = field(default_factory=ObjectId)
    updated_at: datetime | None = None

    @classmethod
    def of(
        cls,
        *,
        address: str,
        created_at: datetime,
        symbol: str | None = None,
        first_transfer_at: datetime | None = None,
        fingerprints: Iterable[str] = (),
        web: TokenWeb | None = None,
        social_urls: Iterable[TokenSocialURL] = (),
    ) -> Token:
        """Check, clean and build. Raises `InvalidInput` naming the field, also for a URL that comes twice."""
        elements = tuple(TokenSocialURL.from_document(each.to_document()) for each in social_urls)
        if len({each.url for each in elements}) != len(elements):
            raise InvalidInput("a URL comes twice", field="social_urls")
        token = cls(
            address=required_text(address, "address"),
            created_at=required_time(created_at, "created_at"),
            symbol=stored_text(symbol, NAME_MAX),
            first_transfer_at=stored_time(first_transfer_at, "first_transfer_at"),
            web=web,
            social_urls=elements,
        )
        return token.add_fingerprints(fingerprints)

    def add_fingerprints(self, values: Iterable[str]) -> Token:
        """Add fingerprints of the form `kind:value`, each once."""
        checked = (_fingerprint(value) for value in values)
        return replace(self, fingerprints=tuple(dict.fromkeys((*self.fingerprints, *checked))))

    def update_web(self, web: TokenWeb) -> Token:
        """Replace what is known of its domain."""
        return replace(self, web=web)

    def to_document(self) -> Document:
        """The stored form; what is unknown is left out."""
        return present_fields(
            _id=self.id,
            address=self.address,
            symbol=self.symbol,
            first_transfer_at=self.first_transfer_at,
            fingerprints=list(self.fingerprints),
            web=self.web and self.web.to_document(),
            social_urls=[each.to_document() for each in self.social_urls],
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Token:
        """Read the stored form."""
        web = document.get("web")
        return cls(
            id=document["_id"],
            address=document["address"],
            symbol=document.get("symbol"),
            first_transfer_at=document.get("first_transfer_at"),
            fingerprints=tuple(document.get("fingerprints", ())),
            web=None if web is None else known_fields(TokenWeb, web),
            social_urls=tuple(TokenSocialURL.from_document(each) for each in document.get("social_urls", ())),
            created_at=document["created_at"],
            updated_at=document.get("updated_at"),
        )


def _fingerprint(value: str) -> str:
    text = required_text(value, "fingerprints")
    kind, colon, rest = text.partition(":")
    if not (kind and colon and rest):
        raise InvalidInput(f"{text!r} is not kind:value", field="fingerprints")
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryableURL:
    """One element of `social_urls` that may be tried again, with what the try needs of its token."""

    address: str
    symbol: str | None
    first_transfer_at: datetime | None
    url: str
    status: FetchStatus
    attempts: int
    attempted_at: datetime | None
    reason: str | None = None
