"""The collection of tokens.

After its creation every write touches single fields of a document or one element of `social_urls`, so that
writers with different aims never undo each other's work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from pymongo import UpdateOne

from workers.clock import Clock
from workers.mongo import Document, Filter, MongoDatabase
from workers.social_graph.stored_time import stored_time
from workers.social_graph.token.model import RetryableURL, Token, TokenSocialURL
from workers.social_graph.token.url_rows import IN_TURN, rows_in, url_of
from workers.social_graph.vocabulary import FetchStatus
from workers.social_graph.write_batch import write_in_order
from workers.store_errors import DuplicateKey, translated

COLLECTION = "tokens"
URLS_PER_BATCH = 200

# What is `ok` is finished for ever; everything else may be written again.
_UNFINISHED = [status.value for status in FetchStatus if status is not FetchStatus.OK]

# What a later look at the tracker may replace on a stored token.
_REPLACEABLE = ("symbol", "first_transfer_at", "web")


class TokenRepository:
    """The collection `tokens`."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        self._database = database
        self._collection = database[COLLECTION]
        self._clock = clock

    def insert(self, token: Token) -> None:
        """Store a new token. Raises `DuplicateKey` when its address is stored already."""
        with translated(COLLECTION):
            self._collection.insert_one({**token.to_document(), "updated_at": self._clock.now()})

    def upsert_by_address(self, token: Token) -> None:
        """Store the token, or update the symbol, first transfer, fingerprints and web of a stored one.

        What `token` does not know is left alone, and so are `created_at` and `social_urls`.
        """
        document = token.to_document()
        fingerprints = document.pop("fingerprints")
        known = {name: document.pop(name) for name in _REPLACEABLE if name in document}
        update: Document = {
            "$set": {**known, "updated_at": self._clock.now()},
            "$setOnInsert": {name: value for name, value in document.items() if name != "address"},
            "$addToSet": {"fingerprints": {"$each": fingerprints}},
        }
        try:
            self._upsert(token.address, update)
        except DuplicateKey:
            # Two upserts of a new address met; the row is there now.
            self._upsert(token.address, update)

    def _upsert(self, address: str, update: Document) -> None:
        with translated(COLLECTION):
            self._collection.update_one({"address": address}, update, upsert=True)

    def exists(self, address: str) -> bool:
        """Whether the token has been seen."""
        with translated(COLLECTION):
            return self._collection.find_one({"address": address}, {"_id": 1}) is not None

    def has_social_url(self, address: str, url: str) -> bool:
        """Whether the token is there and has the URL."""
        token = self.find_by_address(address)
        return token is not None and any(element.url == url for element in token.social_urls)

    def find_existing_addresses(self, addresses: Collection[str]) -> set[str]:
        """Those of `addresses` that have been seen; one query."""
        if not addresses:
            return set()
        wanted = sorted(set(addresses))
        with translated(COLLECTION):
            # The batch size keeps the answer in one piece; the default is cut after 101 documents.
            found = self._collection.find(
                {"address": {"$in": wanted}}, {"_id": 0, "address": 1}, batch_size=len(wanted) + 1
            )
            return {document["address"] for document in found}

    def find_by_address(self, address: str) -> Token | None:
        """The token."""
        with translated(COLLECTION):
            document = self._collection.find_one({"address": address})
        return None if document is None else Token.from_document(document)

    def find_symbols(self, addresses: Collection[str]) -> dict[str, str | None]:
        """The symbols of those tokens that have been seen, by address; one query."""
        if not addresses:
            return {}
        wanted = sorted(set(addresses))
        with translated(COLLECTION):
            found = self._collection.find(
                {"address": {"$in": wanted}},
                {"_id": 0, "address": 1, "symbol": 1},
                batch_size=len(wanted) + 1,
            )
            return {document["address"]: document.get("symbol") for document in found}

    def find_by_fingerprint(self, fingerprint: str) -> list[Token]:
        """The tokens that share the fingerprint, oldest first."""
        return self._find({"fingerprints": fingerprint}, sort=[("created_at", 1)])

    def find_recently_discovered(self, limit: int) -> list[Token]:
        """The tokens first seen last, newest first."""
        return self._find({}, sort=[("created_at", -1)], limit=limit)

    def add_social_urls(self, address: str, urls: Sequence[TokenSocialURL]) -> int:
        """Add the URLs that the token does not have yet, touching nothing else; return how many."""
        if not urls:
            return 0
        now = self._clock.now()
        operations = [
            UpdateOne(
                {"address": address, "social_urls.url": {"$ne": each.url}},
                {"$push": {"social_urls": each.to_document()}, "$set": {"updated_at": now}},
                namespace=self._collection.full_name,
            )
            for each in urls
        ]
        return len(operations) - write_in_order(self._database, operations).missed

    def record_social_url_result(
        self,
        address: str,
        url: str,
        *,
        status: FetchStatus,
        reason: str | None,
        attempted_at: datetime | None = None,
    ) -> bool:
        """Write the outcome of one URL that was not claimed; `attempted_at` says that a call was made.

        Returns False when the token has no such URL any more, or it is `ok`; then nothing is written.
        """
        values: Document = {"status": status.value, "reason": reason}
        if attempted_at is not None:
            values["attempted_at"] = stored_time(attempted_at, "attempted_at")
        condition = {"url": url, "status": {"$in": _UNFINISHED}}
        return self._update_element(address, condition, values, attempts_added=int(attempted_at is not None))

    def claim_social_url(
        self,
        address: str,
        url: str,
        *,
        expected_status: FetchStatus,
        expected_attempts: int,
        attempted_at: datetime,
    ) -> bool:
        """Count an attempt before it is made, if the URL is still as expected; one of several callers wins.

        An attempt that kills its process is counted this way as well.
        """
        return self._update_element(
            address,
            {"url": url, "status": expected_status.value, "attempts": expected_attempts},
            {"attempted_at": stored_time(attempted_at, "attempted_at")},
            attempts_added=1,
        )

    def finish_claimed_url(
        self,
        address: str,
        url: str,
        *,
        claimed_attempts: int,
        claimed_at: datetime,
        status: FetchStatus,
        reason: str | None,
    ) -> bool:
        """Write the outcome of a claimed URL; False when somebody else has claimed it since."""
        return self._update_element(
            address,
            _claim(url, claimed_attempts, claimed_at),
            {"status": status.value, "reason": reason},
        )

    def give_back_claim(
        self,
        address: str,
        url: str,
        *,
        claimed_attempts: int,
        claimed_at: datetime,
        attempts: int,
        attempted_at: datetime | None,
        status: FetchStatus,
        reason: str | None,
    ) -> bool:
        """Undo a claim under which no call was made; False when somebody else has claimed the URL since."""
        return self._update_element(
            address,
            _claim(url, claimed_attempts, claimed_at),
            {
                "status": status.value,
                "reason": reason,
                "attempts": attempts,
                "attempted_at": stored_time(attempted_at, "attempted_at"),
            },
        )

    def iterate_retryable_urls(
        self, statuses: Iterable[FetchStatus], addresses: Collection[str] | None = None
    ) -> Iterator[RetryableURL]:
        """The URLs in one of `statuses`, never tried ones first, then the longest untried.

        They are streamed: the store sorts, on its disk when it must, and one batch is in memory. Tokens that
        `addresses` names are found by these, however many others wait.
        """
        named: list[Document] = []
        if addresses is not None:
            named.append({"$match": {"address": {"$in": sorted(set(addresses))}}})
        pipeline = [*named, *rows_in(statuses), {"$sort": IN_TURN}]
        with (
            translated(COLLECTION),
            self._collection.aggregate(pipeline, allowDiskUse=True, batchSize=URLS_PER_BATCH) as cursor,
        ):
            for document in cursor:
                yield url_of(document)

    def count_urls_by_status(self) -> dict[FetchStatus, int]:
        """How many URLs are in each status; every status is there. Reads the whole collection."""
        pipeline: list[Document] = [
            {"$unwind": "$social_urls"},
            {"$group": {"_id": "$social_urls.status", "urls": {"$sum": 1}}},
        ]
        with translated(COLLECTION):
            counted = {row["_id"]: int(row["urls"]) for row in self._collection.aggregate(pipeline)}
        return {status: counted.get(status.value, 0) for status in FetchStatus}

    def _find(self, condition: Filter, *, sort: Sequence[tuple[str, int]], limit: int = 0) -> list[Token]:
        with translated(COLLECTION):
            documents = list(self._collection.find(condition, limit=limit).sort(list(sort)))
        return [Token.from_document(document) for document in documents]

    def _update_element(
        self, address: str, condition: Document, values: Document, *, attempts_added: int = 0
    ) -> bool:
        """Change the one element that meets `condition`, in one conditional update."""
        update: Document = {
            "$set": {
                **{f"social_urls.$[element].{name}": value for name, value in values.items()},
                "updated_at": self._clock.now(),
            }
        }
        if attempts_added:
            update["$inc"] = {"social_urls.$[element].attempts": attempts_added}
        with translated(COLLECTION):
            result = self._collection.update_one(
                {"address": address, "social_urls": {"$elemMatch": condition}},
                update,
                # The condition is in the query; the URL alone says which element it was. A filter on what the
                # update changes is evaluated anew for each field by the embedded server (ADR 0002).
                array_filters=[{"element.url": condition["url"]}],
            )
        return result.matched_count == 1


def _claim(url: str, attempts: int, at: datetime) -> Document:
    return {"url": url, "attempts": attempts, "attempted_at": stored_time(at, "claimed_at")}
