"""Threads record tokens that share accounts; what is stored is compared with what must be.

Neighbouring tokens share an account, and reach it, its posts and its repositories through different URLs, so
that no lease keeps them apart. The floor is the same documents, inserted by as many threads with one
`insert_many` for each token and collection.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from bson import ObjectId

from bench.graph_recording import CommandLog, Recording
from bench.graph_world import Identity, Person, Place, World
from devstack.stack import Stack
from workers.mongo import Document, MongoDatabase
from workers.social_graph.indexes import COLLECTIONS, INDEXES
from workers.social_graph.vocabulary import ObjectKind

ACCOUNTS = 40
FLOORS = 3

# Token, URL, object, and the object that it was reached through.
Link: TypeAlias = tuple[str, str, Identity, Identity | None]
NOTHING: Identity = ("", "", "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """Tokens that were recorded: what must be stored now, and how long it took."""

    links: frozenset[Link]
    objects: frozenset[Identity]
    urls: int
    urls_not_ok: int
    wall_s: float


def record_all(recording: Recording, count: int, threads: int) -> Recorded:
    """Record `count` tokens that share accounts."""
    places = shared_places(recording.world, count)
    addresses = recording.world.tokens(*places)
    started = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        reports = list(pool.map(recording.recorder.record, addresses))
    wall_s = time.monotonic() - started
    links = {
        link
        for address, four in zip(addresses, places, strict=True)
        for place in four
        for link in expected_links(address, place)
    }
    urls = sum(len(four) for four in places)
    return Recorded(
        links=frozenset(links),
        objects=frozenset(target for _, _, target, _ in links),
        urls=urls,
        urls_not_ok=urls - sum(url["status"] == "ok" for report in reports for url in report.urls),
        wall_s=wall_s,
    )


def expected_links(address: str, place: Place) -> Iterator[Link]:
    """The links of one URL of one token: to what it shows, and through that to what it refers to."""
    yield address, place.url, place.shows or NOTHING, None
    for each in place.refers_to:
        yield address, place.url, each, place.shows


def shared_places(world: World, count: int) -> list[tuple[Place, ...]]:
    """The links of each token. Half of the accounts are on X, half on GitHub."""
    people = [world.person() for _ in range(ACCOUNTS)]
    common = [
        world.repository(each) if number % 2 else world.post(each) for number, each in enumerate(people)
    ]
    places: list[tuple[Place, ...]] = []
    for number, person in enumerate(people):
        places_of = places_on_github if number % 2 else places_on_x
        tokens = count * (number + 1) // ACCOUNTS - count * number // ACCOUNTS
        places += places_of(world, person, common[number], common[(number + 2) % ACCOUNTS], tokens)
    return places


def places_on_x(
    world: World, author: Person, common: Place, foreign: Place, count: int
) -> Iterator[tuple[Place, ...]]:
    """A site of four tokens, an own post that quotes the common one, a post of two tokens that quotes
    somebody else's in a community, and by turns the profile, the community and the common post."""
    community, profile = world.community(), world.profile(author)
    for number in range(count):
        if number % 4 == 0:
            site = world.site()
        if number % 2 == 0:
            post_of_two = world.post(author, quotes=foreign, community=community)
        fourth = (profile, community, profile, common)[number % 4]
        yield site, world.post(author, quotes=common), post_of_two, fourth


def places_on_github(
    world: World, owner: Person, common: Place, foreign: Place, count: int
) -> Iterator[tuple[Place, ...]]:
    """A site of four tokens, an own fork of the common repository, a fork of somebody else's that two tokens
    know by two names, and by turns the account and the common repository."""
    for number in range(count):
        if number % 4 == 0:
            site = world.site()
        if number % 2 == 0:
            fork_of_two = world.repository(owner, fork_of=foreign)
        named = world.former_name(fork_of_two) if number % 2 else fork_of_two
        fourth = common if number % 2 else world.account(owner)
        yield site, world.repository(owner, fork_of=common), named, fourth


def measure_concurrency(
    stack: Stack, log: CommandLog, *, count: int, threads: int, is_protected: bool
) -> dict[str, Any]:
    """Record, compare what is stored with what must be, and insert the same documents once more.

    Without protection there are no unique indexes, and no floor, because duplicates could not be inserted.
    """
    recording = Recording(stack, "recorded")
    if not is_protected:
        _drop_unique_indexes(recording.database)
    with log.noted() as commands:
        recorded = record_all(recording, count, threads)
    documents = {name: list(recording.database[name].find()) for name in COLLECTIONS}
    floors = [
        insert_all(Recording(stack, f"floor_{number}").database, documents, count=count, threads=threads)
        for number in range(FLOORS if is_protected else 0)
    ]
    return {
        "tokens": len(documents["tokens"]),
        "threads": threads,
        "accounts": ACCOUNTS,
        "urls": recorded.urls,
        "urls_not_ok": recorded.urls_not_ok,
        **compare(documents, recorded),
        "commands_per_token": round(len(commands) / count, 2),
        "wall_s": round(recorded.wall_s, 3),
        "tokens_per_s": round(count / recorded.wall_s, 2),
        "floor_s": [round(each, 3) for each in floors],
        "wall_to_floor": round(recorded.wall_s / statistics.median(floors), 2) if floors else None,
    }


def _drop_unique_indexes(database: MongoDatabase) -> None:
    for spec in INDEXES:
        if spec.unique:
            database[spec.collection].drop_index(spec.name)


def compare(documents: Mapping[str, Sequence[Document]], recorded: Recorded) -> dict[str, Any]:
    """What is there twice, what is missing, and what nobody asked for."""
    names = {row["_id"]: _identity(kind, row) for kind in ObjectKind for row in documents[kind]}
    objects = set(names.values())
    links = Counter(_link(row, names) for row in documents["token_links"])
    return {
        "objects": len(names),
        "duplicates_by_key": {kind.value: _repeated(_keys(documents[kind])) for kind in ObjectKind},
        "duplicates_by_url": {kind.value: _repeated(_urls(documents[kind])) for kind in ObjectKind},
        "duplicate_series": _repeated(row["object_id"] for row in documents["metric_series"]),
        "lost_objects": len(recorded.objects - objects),
        "unasked_objects": len(objects - recorded.objects),
        "links": links.total(),
        "duplicate_links": _repeated(links.elements()),
        "lost_links": len(recorded.links - set(links)),
        "unasked_links": len(set(links) - recorded.links),
    }


def _identity(kind: ObjectKind, row: Document) -> Identity:
    return (kind.value, row["platform"], row.get("platform_key", ""))


def _link(row: Document, names: Mapping[ObjectId, Identity]) -> Link:
    via = row["lineage"][1:]
    return (
        row["token_address"],
        row["entry_url"],
        names.get(row["object_id"], NOTHING),
        names.get(via[0], NOTHING) if via else None,
    )


def _keys(rows: Iterable[Document]) -> Iterator[object]:
    for row in rows:
        if "platform_key" in row:
            yield row["platform"], row.get("subtype"), row["platform_key"]


def _urls(rows: Iterable[Document]) -> Iterator[object]:
    return (entry["url"] for row in rows for entry in row["source_urls"])


def _repeated(values: Iterable[object]) -> int:
    """How many values are there beyond the first of each."""
    counts = Counter(values)
    return counts.total() - len(counts)


def insert_all(
    database: MongoDatabase, documents: Mapping[str, Sequence[Document]], *, count: int, threads: int
) -> float:
    """Insert the documents, dealt out evenly to `count` tokens; return how long it took, in seconds."""

    def insert(number: int) -> None:
        for name, rows in documents.items():
            if share := rows[number::count]:
                database[name].insert_many(share)

    started = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(insert, range(count)))
    return time.monotonic() - started
