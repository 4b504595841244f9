"""Counts as of a time over one object's links: among others' links, and among ten times as many of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId

from bench.graph_recording import CommandLog, Recording
from devstack.stack import Stack
from workers.mongo import Document, MongoDatabase
from workers.social_graph.indexes import INDEXES
from workers.social_graph.token_link import ReferenceCounts, TokenLink
from workers.social_graph.vocabulary import ContentSubtype, LinkStatus, ObjectKind, Platform

COUNTS = 15
LINKS_PER_INSERT = 2000
LINKS_PER_TOKEN, LINKS_PER_OTHER = 4, 50
FIRST_LINK_AT = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
COUNT_METHODS = ("count_by_object_as_of", "count_by_lineage_as_of", "count_references_as_of")
COUNTED_FIELDS = ("object_id", "lineage")


def measure_as_of(stack: Stack, log: CommandLog, total: int) -> dict[str, Any]:
    """Count one object's links among others' and among ten times as many others, in turn."""
    measured, own = ObjectId(), total // 100
    sizes = (total // 10, total)
    few, many = (Recording(stack, f"links_{size}") for size in sizes)
    load_s = [
        load_links(each.database, measured, own=own, total=size)
        for each, size in zip((few, many), sizes, strict=True)
    ]
    as_of = FIRST_LINK_AT + DAY / 2
    report: dict[str, Any] = {"links": sizes, "links_of_object": own, "load_s": load_s}
    for name in COUNT_METHODS:
        counts = [getattr(each.links, name) for each in (few, many)]
        with log.noted() as commands:
            counted = [count(measured, as_of) for count in counts]
        times = [[_time(count, measured, as_of) for count in counts] for _ in range(COUNTS)]
        report[name] = {
            "counted": [asdict(each) if isinstance(each, ReferenceCounts) else each for each in counted],
            "ms_median": [round(statistics.median(each) * 1000, 2) for each in zip(*times, strict=True)],
            "ratio_median": round(statistics.median(after / before for before, after in times), 3),
            "explained": explain(many.database, commands[-1].pipeline),
        }
    return report


def load_links(database: MongoDatabase, measured: ObjectId, *, own: int, total: int) -> float:
    """Spread `total` links over a day, `own` of them the measured object's; return the time in seconds.

    The indexes are made afterwards, which is faster, and only those that begin with what a count asks for: no
    other one could serve it.
    """
    started = time.monotonic()
    links = database["token_links"]
    links.drop_indexes()
    others = [ObjectId() for _ in range(total // LINKS_PER_OTHER)]
    for first in range(0, total, LINKS_PER_INSERT):
        numbers = range(first, min(first + LINKS_PER_INSERT, total))
        links.insert_many(
            [_document(number, measured, others, every=total // own, total=total) for number in numbers],
            ordered=False,
        )
    for spec in INDEXES:
        if spec.collection == "token_links" and spec.keys[0][0] in COUNTED_FIELDS:
            links.create_index(list(spec.keys), name=spec.name)
    return round(time.monotonic() - started, 1)


def _document(
    number: int, measured: ObjectId, others: Sequence[ObjectId], *, every: int, total: int
) -> Document:
    other, another = others[number % len(others)], others[number * 7 % len(others)]
    if number % every == 0:
        target, ancestors = _own_link(number // every, measured, other)
    else:
        target, ancestors = other, [another] if number % 3 == 0 else []
    at = FIRST_LINK_AT + DAY * number / total
    return TokenLink.of(
        token_address=f"token-{number // LINKS_PER_TOKEN}",
        object=ObjectKind.CONTENTS,
        object_id=target,
        entry_url=f"https://x.com/i/status/{number}",
        created_at=at,
        observed_at=at,
        status=LinkStatus.OK,
        platform=Platform.X,
        subtype=ContentSubtype.TWEET,
        ancestor_ids=ancestors,
    ).to_document()


def _own_link(nth: int, measured: ObjectId, other: ObjectId) -> tuple[ObjectId, list[ObjectId]]:
    """Of ten, six are direct, two lead to the object through another one, and two through it to that."""
    if nth % 10 < 6:
        return measured, []
    return (measured, [other]) if nth % 10 < 8 else (other, [measured])


def explain(database: MongoDatabase, pipeline: Sequence[Document]) -> dict[str, Any]:
    """How the store finds the rows that the pipeline asks for first.

    Only the fields that an index has are explained: the embedded server says "scan" as soon as there is one
    more, though it answers through the index all the same (docs/adr/0002); the times show that.
    """
    condition = pipeline[0]["$match"]
    indexed = {name for spec in INDEXES if spec.collection == "token_links" for name, _ in spec.keys}
    asked = {name: test for name, test in condition.items() if name in indexed}
    explained = database.command(
        "explain", {"find": "token_links", "filter": asked}, verbosity="executionStats"
    )
    stats = explained["executionStats"]
    return {
        "fields": sorted(asked),
        "fields_without_index": sorted(set(condition) - set(asked)),
        "keys_examined": stats["totalKeysExamined"],
        "documents_examined": stats["totalDocsExamined"],
        "returned": stats["nReturned"],
    }


def _time(count: Callable[[ObjectId, datetime], object], measured: ObjectId, as_of: datetime) -> float:
    started = time.monotonic()
    count(measured, as_of)
    return time.monotonic() - started
