"""What people ask of the graph: where a token's links lead, and which tokens lead to an object.

Only reads. The links are told as of a time, up to and including it; the token, its URLs and the names of
objects are as they are now, because only links keep their past. Lists are ordered by time, oldest first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from bson import ObjectId

from workers.clock import Clock, to_iso
from workers.errors import InvalidInput, NotFound
from workers.mongo import MongoDatabase
from workers.social_graph.link_cursor import LinkCursor, in_order, take_page
from workers.social_graph.object_card import ObjectCard, ObjectCardRepository
from workers.social_graph.stored_time import stored_time
from workers.social_graph.token import Token, TokenRepository
from workers.social_graph.token_link import ReferenceCounts, TokenLink, TokenLinkRepository
from workers.social_graph.vocabulary import ObjectKind


class TokenNotFound(NotFound):
    """No token with this address has been recorded."""


class ObjectNotFound(NotFound):
    """No object with this id is stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedObject:
    """One object that one URL of a token leads to; `card` is None for an object that is not stored."""

    link: TokenLink
    card: ObjectCard | None

    def to_json(self) -> dict[str, object]:
        """The form in which people get it."""
        link = self.link
        return {
            "kind": link.object.value,
            "id": str(link.object_id),
            "platform": link.platform.value,
            "subtype": link.subtype and link.subtype.value,
            "platformKey": self.card and self.card.platform_key,
            "label": self.card and self.card.label,
            "status": link.status.value,
            "entryUrl": link.entry_url,
            "depth": link.link_depth,
            "nameMatch": link.name_match,
            "linkedAt": to_iso(link.created_at),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenView:
    """A token, and a page of the objects that its URLs led to by `as_of`."""

    token: Token
    as_of: datetime
    objects: tuple[LinkedObject, ...]
    next_from: LinkCursor | None

    def to_json(self) -> dict[str, object]:
        """The form in which people get it."""
        return {
            "token": _token_json(self.token),
            "data": [each.to_json() for each in self.objects],
            "meta": {"asOf": to_iso(self.as_of), "cursor": self.next_from and self.next_from.to_text()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferringToken:
    """A token that leads to an object. `link` is the first that did; of several at once the nearest."""

    link: TokenLink
    symbol: str | None

    def to_json(self) -> dict[str, object]:
        """The form in which people get it."""
        link = self.link
        return {
            "address": link.token_address,
            "symbol": self.symbol,
            "entryUrl": link.entry_url,
            "depth": link.link_depth,
            "linkedAt": to_iso(link.created_at),
            "firstTransferAt": link.first_transfer_at and to_iso(link.first_transfer_at),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferencesView:
    """An object, and a page of the tokens that led to it by `as_of`, each once."""

    target: ObjectCard
    as_of: datetime
    counts: ReferenceCounts
    tokens: tuple[ReferringToken, ...]
    next_from: LinkCursor | None

    def to_json(self) -> dict[str, object]:
        """The form in which people get it."""
        return {
            "object": self.target.to_json(),
            "data": [each.to_json() for each in self.tokens],
            "meta": {
                "asOf": to_iso(self.as_of),
                "countDirect": self.counts.direct,
                "countAll": self.counts.all,
                "cursor": self.next_from and self.next_from.to_text(),
            },
        }


class GraphReader:
    """Answers questions about the graph, a page at a time. `as_of=None` means now.

    Raises `RetryableError` when the store does not answer.
    """

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        self._tokens = TokenRepository(database, clock)
        self._links = TokenLinkRepository(database, clock)
        self._cards = ObjectCardRepository(database)
        self._clock = clock

    def token(
        self, address: str, *, as_of: datetime | None, limit: int, after: LinkCursor | None = None
    ) -> TokenView:
        """The token and where its URLs lead, one row per URL and object. Raises `TokenNotFound`."""
        token = self._tokens.find_by_address(address)
        if token is None:
            raise TokenNotFound(f"no token {address} has been recorded")
        cut = self._cut(as_of)
        with closing(self._links.iterate_by_token(address, cut, since=after.at if after else None)) as links:
            rows = in_order(links, _place_of_link, after=after)
            page, next_from = take_page(rows, _place_of_link, limit)
        cards = self._cards.find_by_ids((link.object, link.object_id) for link in page)
        objects = tuple(LinkedObject(link=link, card=cards.get(link.object_id)) for link in page)
        return TokenView(token=token, as_of=cut, objects=objects, next_from=next_from)

    def tokens_of(
        self,
        kind: ObjectKind,
        object_id: str,
        *,
        as_of: datetime | None,
        limit: int,
        after: LinkCursor | None = None,
    ) -> ReferencesView:
        """The tokens that lead to the object, each once.

        Raises `ObjectNotFound`, and `InvalidInput` for an id that is none.
        """
        if not ObjectId.is_valid(object_id):
            raise InvalidInput("an id has 24 hex digits", field="id")
        target_id = ObjectId(object_id)
        card = self._cards.find_by_id(kind, target_id)
        if card is None:
            raise ObjectNotFound(f"{kind} has no {object_id}")
        cut = self._cut(as_of)
        with closing(
            self._links.iterate_by_lineage(target_id, cut, since=after.at if after else None)
        ) as links:
            rows = self._first_links(target_id, links, after, batch_size=limit + 1)
            page, next_from = take_page(rows, _place_of_token, limit)
        symbols = self._tokens.find_symbols([link.token_address for link in page])
        return ReferencesView(
            target=card,
            as_of=cut,
            counts=self._links.count_references_as_of(target_id, cut),
            tokens=tuple(ReferringToken(link=link, symbol=symbols.get(link.token_address)) for link in page),
            next_from=next_from,
        )

    def _cut(self, as_of: datetime | None) -> datetime:
        return self._clock.now() if as_of is None else stored_time(as_of, "as_of")

    def _first_links(
        self, object_id: ObjectId, links: Iterable[TokenLink], after: LinkCursor | None, *, batch_size: int
    ) -> Iterator[TokenLink]:
        """Each token's first link to the object, without the tokens of the pages before.

        `links` begin at the time of `after`; a token that led to the object before that has had its place.
        """
        rows = in_order(_nearest_of_each_token(links, object_id), _place_of_token, after=after)
        if after is None:
            yield from rows
            return
        while batch := list(itertools.islice(rows, batch_size)):
            addresses = [link.token_address for link in batch]
            shown = self._links.find_tokens_linked_before(object_id, addresses, after.at)
            yield from (link for link in batch if link.token_address not in shown)


def _token_json(token: Token) -> dict[str, object]:
    """What is known of the token; its domain and its fingerprints only when there are any."""
    found: dict[str, object] = {
        "address": token.address,
        "symbol": token.symbol,
        "firstTransferAt": token.first_transfer_at and to_iso(token.first_transfer_at),
        "createdAt": to_iso(token.created_at),
        "updatedAt": token.updated_at and to_iso(token.updated_at),
        "urls": [
            {
                "url": each.url,
                "status": each.status.value,
                "reason": each.reason,
                "attempts": each.attempts,
                "attemptedAt": each.attempted_at and to_iso(each.attempted_at),
            }
            for each in token.social_urls
        ],
    }
    if token.web is not None:
        found["web"] = {
            "domain": token.web.domain,
            "domainCreatedAt": token.web.domain_created_at and to_iso(token.web.domain_created_at),
            "scanTime": token.web.scan_time and to_iso(token.web.scan_time),
        }
    if token.fingerprints:
        found["fingerprints"] = list(token.fingerprints)
    return found


def _nearest_of_each_token(links: Iterable[TokenLink], object_id: ObjectId) -> Iterator[TokenLink]:
    """Of links that come by time the first of each token; of several at once the nearest to the object."""
    met: set[str] = set()
    for _, together in itertools.groupby(links, key=lambda link: link.created_at):
        for link in sorted(together, key=lambda link: _distance(link, object_id)):
            if link.token_address not in met:
                met.add(link.token_address)
                yield link


def _distance(link: TokenLink, object_id: ObjectId) -> tuple[bool, int, str]:
    """A link to the object comes before one that leads through it to another."""
    return link.object_id != object_id, link.link_depth, link.entry_url


def _place_of_link(link: TokenLink) -> LinkCursor:
    """What a URL shows itself stands before what was reached through that."""
    return LinkCursor.of(link.created_at, str(link.object_id), link.entry_url, rank=link.link_depth)


def _place_of_token(link: TokenLink) -> LinkCursor:
    return LinkCursor.of(link.created_at, link.token_address)
