"""The selection of a retry: 50 URLs out of many stored ones, of which one in a hundred is due.

Three stores hold the same due URLs, alone, among ten times and among a hundred times as many in all; the
others have converged. A fourth one holds fewer due ones, a tenth of them in a large run. What the selection
keeps in this process is looked at twice: as Python counts it (`tracemalloc`) and as the kernel does (the peak
of the resident set). The three stores are asked in turns, so that what disturbs one disturbs all.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from devstack.stack import Stack
from workers.clock import Clock
from workers.http.client import OutboundClient
from workers.mongo import Document, MongoDatabase, connect
from workers.settings import Settings
from workers.social_graph.indexes import INDEXES
from workers.social_graph.token import TokenRepository
from workers.social_graph.token.repository import URLS_PER_BATCH
from workers.social_graph.vocabulary import RETRYABLE_STATUSES, FetchStatus
from workers.social_recording.due import RetryInterval
from workers.social_recording.generators.registry import Generators
from workers.social_recording.retry import Selection, select
from workers.social_recording.url_collection import obstacle_to

DUE_SHARE = 100
LIMIT = 50
ROUNDS = 3
# A token of four links, as the tracker has them; more would make the store faster to fill than real.
LINKS_PER_TOKEN = 4
TOKENS_PER_INSERT = 2000
TRIED_AT = datetime(2026, 1, 1, tzinfo=UTC)
STATUS_INDEX = next(spec for spec in INDEXES if spec.name == "idx_tokens_social_url_status")
OWN_STATUS = Path("/proc/self/status")
PEAK_RESET = Path("/proc/self/clear_refs")


@dataclass(frozen=True, kw_only=True, slots=True)
class Store:
    """A filled database of its own, and what the retry asks it through."""

    settings: Settings
    database: MongoDatabase
    tokens: TokenRepository
    urls: int
    due: int
    load_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One selection: its time, and how far the resident set grew beyond what it was before."""

    took_s: float
    resident_kb: int


def measure_selection(stack: Stack, urls: int) -> dict[str, Any]:
    """Fill the stores and select from them; see the module docstring."""
    due = urls // DUE_SHARE
    fewer = max(due // 10, 2 * URLS_PER_BATCH)
    stores = [
        fill(stack, f"urls_{size}_due_{each}", urls=size, due=each)
        for size, each in ((fewer, fewer), (due, due), (10 * due, due), (urls, due))
    ]
    # The first looks pay for imports and connections, and fill what remembers hosts, which is bounded.
    looks = {store.database.name: [_look(store)] for store in stores}
    for store in stores[1:] * ROUNDS:
        looks[store.database.name].append(_look(store))
    grown_kb = [min(look.resident_kb for look in each) for each in looks.values()]
    s_median = [
        statistics.median(look.took_s for look in looks[store.database.name][1:]) for store in stores[1:]
    ]
    memory = [_python_peak_kb(store) for store in stores]
    return {
        "limit": LIMIT,
        "load_s": [store.load_s for store in stores],
        "urls": [store.urls for store in stores],
        "due": [store.due for store in stores],
        "python_peak_kb": memory,
        "resident_growth_kb": grown_kb,
        "s_median": [round(each, 3) for each in s_median],
        "to_first": {
            "s": [round(each / s_median[0], 2) for each in s_median],
            "python_peak_kb": [round(each / memory[1], 2) for each in memory[1:]],
        },
        "explained": explain(stores[-1].database),
    }


def fill(stack: Stack, name: str, *, urls: int, due: int) -> Store:
    """Make a database of `urls` URLs of which `due` failed long ago and the others are ok.

    The index that the selection needs is made afterwards, which is faster, and is the only one.
    """
    settings = Settings(
        app_secret_key=SecretStr("unused"),
        tracker_base_url="http://127.0.0.1:9/tracker",
        tracker_api_key=SecretStr("unused"),
        social_record_af_group_ids=("1",),
        mongo_url=stack.mongo.url,
        mongo_database=name,
        mongo_timeout_ms=120_000,
    )
    database = connect(settings)
    started = time.monotonic()
    documents = _documents(urls, due)
    while batch := list(itertools.islice(documents, TOKENS_PER_INSERT)):
        database["tokens"].insert_many(batch, ordered=False)
    database["tokens"].create_index(list(STATUS_INDEX.keys), name=STATUS_INDEX.name)
    load_s = round(time.monotonic() - started, 1)
    print(f"{name}: filled in {load_s} s", file=sys.stderr)
    return Store(
        settings=settings,
        database=database,
        tokens=TokenRepository(database, Clock()),
        urls=urls,
        due=due,
        load_s=load_s,
    )


def _documents(urls: int, due: int) -> Iterator[Document]:
    """The tokens of a store: those with one failed URL each, spread among those whose URLs are all ok."""
    converged = (urls - due) // LINKS_PER_TOKEN
    for number in range(due):
        at = TRIED_AT + timedelta(seconds=number * 7919 % due)
        yield _token(f"failed-{number}", [_element(FetchStatus.ERROR, f"f{number}", at)])
        for nth in range(number * converged // due, (number + 1) * converged // due):
            names = [f"c{nth}-{place}" for place in range(LINKS_PER_TOKEN)]
            yield _token(f"ok-{nth}", [_element(FetchStatus.OK, name, TRIED_AT) for name in names])


def _token(address: str, elements: list[Document]) -> Document:
    return {"address": address, "created_at": TRIED_AT, "social_urls": elements}


def _element(status: FetchStatus, name: str, at: datetime) -> Document:
    url = f"https://{name}.com/" if len(name) % 2 else f"https://x.com/harbor/status/{name}"
    return {"url": url, "status": status.value, "attempts": 1, "attempted_at": at}


def pick(store: Store) -> Selection:
    """Select as the retry job does. Raises `RuntimeError` when the answer is not the known one."""
    generators = Generators(OutboundClient(store.settings, Clock()), store.settings)
    interval = RetryInterval(shortest=timedelta(hours=1))
    now = Clock().now()
    selection = select(
        store.tokens.iterate_retryable_urls(RETRYABLE_STATUSES),
        is_processable=lambda url: obstacle_to(url, generators, is_paid_enabled=False) is None,
        is_due=lambda candidate: interval.is_due(candidate, now),
        limit=LIMIT,
    )
    found = (selection.candidates, len(selection.targets))
    if found != (store.due, LIMIT):
        raise RuntimeError(f"not the selection of {store.due} due URLs: {found}")
    return selection


def _look(store: Store) -> Look:
    """Select once, as fast as it goes."""
    PEAK_RESET.write_text("5")
    before_kb = _resident_kb("VmRSS")
    started = time.monotonic()
    pick(store)
    took_s = time.monotonic() - started
    return Look(took_s=took_s, resident_kb=_resident_kb("VmHWM") - before_kb)


def _python_peak_kb(store: Store) -> int:
    """What a selection allocates at its peak; it takes longer while somebody counts."""
    gc.collect()
    tracemalloc.start()
    pick(store)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak_bytes // 1024


def _resident_kb(name: str) -> int:
    lines = dict(line.split(":", 1) for line in OWN_STATUS.read_text().splitlines())
    return int(lines[name].split()[0])


def explain(database: MongoDatabase) -> dict[str, int]:
    """How many keys and documents the store looks at to find the tokens with such URLs."""
    condition = {"social_urls.status": {"$in": sorted(RETRYABLE_STATUSES)}}
    explained = database.command(
        "explain", {"find": "tokens", "filter": condition}, verbosity="executionStats"
    )
    stats = explained["executionStats"]
    return {
        "keys_examined": stats["totalKeysExamined"],
        "documents_examined": stats["totalDocsExamined"],
        "returned": stats["nReturned"],
    }
