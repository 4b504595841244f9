"""Each URL of a token as a row of its own, and the order in which a retry takes them."""

from __future__ import annotations

from collections.abc import Iterable

from workers.mongo import Document
from workers.social_graph.token.model import RetryableURL
from workers.social_graph.vocabulary import FetchStatus

# Never tried ones first, then the longest untried.
IN_TURN: Document = {"attempted_at": 1, "attempts": 1, "address": 1, "url": 1}

_FIELDS = {
    "_id": 0,
    "address": 1,
    "symbol": 1,
    "first_transfer_at": 1,
    "url": "$social_urls.url",
    "status": "$social_urls.status",
    "attempts": "$social_urls.attempts",
    "reason": "$social_urls.reason",
    "attempted_at": "$social_urls.attempted_at",
}


def rows_in(statuses: Iterable[FetchStatus]) -> list[Document]:
    """Stages that leave each URL in one of these statuses as a document of its own.

    The statuses are named, never negated, because only so the status index finds the few tokens.
    """
    named = sorted(FetchStatus(status).value for status in statuses)
    condition = {"social_urls.status": {"$in": named}}
    return [{"$match": condition}, {"$unwind": "$social_urls"}, {"$match": condition}, {"$project": _FIELDS}]


def url_of(row: Document) -> RetryableURL:
    """Read what these stages make of a URL."""
    return RetryableURL(
        address=row["address"],
        symbol=row.get("symbol"),
        first_transfer_at=row.get("first_transfer_at"),
        url=row["url"],
        status=FetchStatus(row["status"]),
        attempts=row.get("attempts", 0),
        attempted_at=row.get("attempted_at"),
        reason=row.get("reason"),
    )
