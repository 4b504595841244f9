"""Apify as far as a test of a generator needs it: runs that are over at once, and a memory in a dict."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import responses

from tests.conftest import FakeClock, make_settings
from workers.clock import Budget
from workers.http.client import OutboundClient
from workers.social_recording.generators.apify.runs import RunNote
from workers.social_recording.generators.generator import CallCounter, FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.object_graph import SocialObjectGraph, check
from workers.social_recording.routing import route

API = "https://api.apify.com/v2"
FINISHED_AT = "2026-01-15T11:59:30.000Z"


@dataclass
class DictRunMemory:
    """Keeps notes in this process; `ttls` is how long each was to be kept."""

    notes: dict[str, RunNote] = field(default_factory=dict)
    ttls: dict[str, int] = field(default_factory=dict)

    def recall(self, question: str) -> RunNote | None:
        return self.notes.get(question)

    def keep(self, question: str, note: RunNote, *, ttl_s: int) -> None:
        self.notes[question] = note
        self.ttls[question] = ttl_s

    def forget(self, question: str) -> None:
        self.notes.pop(question, None)


def run_payload(status: str = "SUCCEEDED", run_id: str = "run1", **changes: Any) -> dict[str, Any]:
    """The answer about one run."""
    is_over = status in ("SUCCEEDED", "FAILED", "ABORTED", "TIMED-OUT")
    run = {
        "id": run_id,
        "status": status,
        "startedAt": "2026-01-15T11:59:00.000Z",
        "finishedAt": FINISHED_AT if is_over else None,
        "defaultDatasetId": f"{run_id}-dataset",
        "defaultKeyValueStoreId": f"{run_id}-store",
    }
    return {"data": {**run, **changes}}


def serve_run(actor: str, items: Any, *, status: str = "SUCCEEDED", run_id: str = "run1") -> None:
    """Serve one run of `actor` that ends in `status` with `items` in its dataset."""
    responses.post(f"{API}/acts/{actor}/runs", status=201, json=run_payload("READY", run_id))
    responses.get(f"{API}/actor-runs/{run_id}", json=run_payload(status, run_id))
    responses.get(f"{API}/datasets/{run_id}-dataset/items", json=items)


def ask_paid(
    clock: FakeClock,
    url: str,
    memory: DictRunMemory | None = None,
    calls: CallCounter | None = None,
    **settings: Any,
) -> SocialObjectGraph:
    """What the first generator that may be used makes of `url` while paid calls are on."""
    own = make_settings(**{"apify_token": "apify-secret", **settings})
    way = route(url)
    generator = Generators(OutboundClient(own, clock), own, memory or DictRunMemory()).for_route(
        way, is_paid_enabled=True
    )
    assert generator is not None
    context = FetchContext(budget=Budget.of(clock, 240), calls=calls or CallCounter(), is_paid_enabled=True)
    graph = generator.generate(way, context)
    check(graph, url)
    return graph


def sent_input(nth: int = 0) -> Any:
    """The body of the `nth` call that was made."""
    return json.loads(responses.calls[nth].request.body or "null")


def paid_calls() -> int:
    """How many runs were started."""
    return sum(call.request.method == "POST" for call in responses.calls)
