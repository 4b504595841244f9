"""Recording in a process that kills itself right before or after one of its writes, and graphs to compare.

The child is a real process with its own connections; it dies by SIGKILL, so nothing is cleaned up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from bson import ObjectId
from pymongo import MongoClient
from pymongo.errors import ClientBulkWriteException
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)
from redis import Redis

from tests.conftest import make_settings
from tests.forks import FORKS
from workers.clock import Clock
from workers.http.client import OutboundClient
from workers.leases import LeaseStore
from workers.mongo import Document, MongoDatabase
from workers.social_graph.token import TokenRepository
from workers.social_graph.token_link import TokenLinkRepository
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.credit import CreditFlags
from workers.social_recording.detours import Detours
from workers.social_recording.generators.registry import Generators
from workers.social_recording.graph_writer import GraphWriter, StoredObjects
from workers.social_recording.recording import TokenRecorder
from workers.social_recording.retry import URLRetrier
from workers.social_recording.tracker import TrackerClient
from workers.social_recording.url_collection import RecordingLimits, URLCollector

WRITES = ("insert", "update", "delete", "findAndModify", "bulkWrite")
CHILD_TIMEOUT_S = 30


class When(StrEnum):
    """On which side of its write the child dies."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where a child finds the stores and the outside world."""

    mongo_url: str
    database: str
    redis_url: str
    outside: Mapping[str, str]


@dataclass
class KillAtWrite(CommandListener):
    """Ends this process at its `number`-th write command, as a crash would."""

    number: int
    when: When
    seen: int = 0

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name in WRITES:
            self.seen += 1
            self._die(When.BEFORE)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if event.command_name in WRITES:
            self._die(When.AFTER)

    def failed(self, event: CommandFailedEvent) -> None:
        """A write that was refused is no crash point of its own."""

    def _die(self, when: When) -> None:
        if self.seen == self.number and when is self.when:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What the caller of a command with several writes asks its result."""

    matched_count: int
    upserted_count: int


def split_commands(client: MongoClient[dict[str, Any]]) -> None:
    """Let each write of a command be a command of its own, so that a child can die between any two.

    This is what a store that dies in the middle of a command leaves.
    """
    whole = client.bulk_write

    def one_by_one(writes: Sequence[Any], *, ordered: bool) -> Counts:
        results = []
        for place, write in enumerate(writes):
            try:
                results.append(whole([write], ordered=ordered))
            except ClientBulkWriteException as exc:
                for error in exc.details["writeErrors"]:
                    error["idx"] = place
                raise
        return Counts(
            matched_count=sum(each.matched_count for each in results),
            upserted_count=sum(each.upserted_count for each in results),
        )

    client.bulk_write = one_by_one  # type: ignore[method-assign,assignment]


@dataclass
class Desk:
    """What records and retries, over one database."""

    database: MongoDatabase
    redis: Redis
    outside: Mapping[str, str]
    tokens: TokenRepository = field(init=False)
    recorder: TokenRecorder = field(init=False)
    retrier: URLRetrier = field(init=False)

    def __post_init__(self) -> None:
        clock, leases = Clock(), LeaseStore(self.redis, Clock())
        settings = make_settings(**{name.lower(): value for name, value in self.outside.items()})
        http = OutboundClient(settings, clock)
        limits = RecordingLimits(
            budget_s=20, token_lease_ttl_ms=60_000, url_lease_wait_s=0, max_attempts=5, is_paid_enabled=False
        )
        collector = URLCollector(
            leases=leases,
            generators=Generators(http, settings),
            detours=Detours(http, self.redis),
            stored=StoredObjects(self.database, clock),
            writer=GraphWriter(self.database, clock),
            credit=CreditFlags(self.redis),
            clock=clock,
            limits=limits,
        )
        self.tokens = TokenRepository(self.database, clock)
        self.recorder = TokenRecorder(
            leases=leases,
            tracker=TrackerClient(http, settings),
            tokens=self.tokens,
            links=TokenLinkRepository(self.database, clock),
            collector=collector,
            clock=clock,
            limits=limits,
        )
        self.retrier = URLRetrier(
            leases=leases, tokens=self.tokens, collector=collector, clock=clock, limits=limits
        )

    def retry(self, address: str) -> dict[str, object] | None:
        """Try the token's failed URL again; None when there is none."""
        for candidate in self.tokens.iterate_retryable_urls([FetchStatus.ERROR], [address]):
            return self.retrier.retry(candidate)
        return None


def _act(site: Site, address: str, what: str, number: int, when: When) -> None:
    client: MongoClient[dict[str, Any]] = MongoClient(
        site.mongo_url, tz_aware=True, event_listeners=[KillAtWrite(number, when)]
    )
    split_commands(client)
    with Redis.from_url(site.redis_url) as redis:
        desk = Desk(client[site.database], redis, site.outside)
        if what == "record":
            desk.recorder.record(address)
        else:
            desk.retry(address)
    client.close()


def survives(site: Site, address: str, what: str, number: int, when: When) -> bool:
    """Let a child `record` or `retry`; whether it has come to its end instead of dying at that write."""
    child = FORKS.Process(target=_act, args=(site, address, what, number, when))
    child.start()
    child.join(CHILD_TIMEOUT_S)
    status = child.exitcode
    if status is None:
        child.kill()
        child.join()
    child.close()
    assert status in (0, -signal.SIGKILL), f"the child ended with {status}"
    return status == 0


def normalised(database: MongoDatabase) -> dict[str, list[object]]:
    """All documents with names for ids and without times, in an order of their own.

    What is left is what has to be the same however often the recording was cut off.
    """
    documents = {name: list(database[name].find()) for name in sorted(database.list_collection_names())}
    names: dict[ObjectId, str] = {}
    for collection, rows in documents.items():
        for row in rows:
            urls = sorted(each["url"] for each in row.get("source_urls", ()))
            names[row["_id"]] = f"{collection}: {' '.join(urls) or row.get('address', 'row')}"
    plain = {
        collection: sorted((_plain(row, names) for row in rows), key=repr)
        for collection, rows in documents.items()
    }
    return {collection: rows for collection, rows in plain.items() if rows}


def _plain(value: Any, names: Mapping[ObjectId, str]) -> Any:
    match value:
        case ObjectId():
            return names[value]
        case datetime():
            return "a time"
        case dict():
            return {key: _plain(each, names) for key, each in value.items()}
        case list():
            return [_plain(each, names) for each in value]
        case _:
            return value


def lasting(graph: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """What a crash must not change: all but how often each URL was tried, and the measured points.

    A worker that dies between an object and its point takes the point with it: the object is there, so nobody
    measures again before it is due.
    """
    tokens = [
        {
            **token,
            "social_urls": [
                {name: each for name, each in url.items() if name not in ("attempts", "attempted_at")}
                for url in token["social_urls"]
            ],
        }
        for token in graph["tokens"]
    ]
    return {**{name: rows for name, rows in graph.items() if name != "metric_series"}, "tokens": tokens}


def token_document(database: MongoDatabase, address: str) -> Document | None:
    """The token's document, if there is one."""
    return database["tokens"].find_one({"address": address})
