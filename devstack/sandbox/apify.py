"""Apify: runs of actors are started, looked at and read, each by calls of its own.

Owns runs and their states. A run starts as READY and is over the first time somebody waits for it. Never
takes one run for another: how often something was paid for is what `/_sandbox/calls` shows as
`POST /apify/acts/{actor}/runs?...`.

Reserved words choose an answer. A question in which something is called like a case of
`data/apify/errors.json` (`no_credit`, `monthly_limit`, `bad_token`, ...) is refused in that way. One in which
something is called

- `run_is_slow` needs to be asked about twice more than others, `run_goes_on` never ends;
- `run_ends_failed`, `run_ends_aborted`, `run_ends_timed_out` ends so, with an empty dataset;
- `run_ends_late` ends as TIMED-OUT, with everything in its dataset.

A call without a key gets `bad_token`. Any record of a key-value store but INPUT holds subtitles.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from devstack.sandbox.actors import ACTORS, Items
from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, error_answers, json_answer, payload_of

RUN: dict[str, Any] = payload_of("apify/run.json")["data"]
ERRORS = error_answers("apify/errors.json")
NOT_FOUND = json_answer(
    {"error": {"type": "record-not-found", "message": "The requested resource was not found"}}, status=404
)
ENDS = {
    "run_ends_failed": "FAILED",
    "run_ends_aborted": "ABORTED",
    "run_ends_timed_out": "TIMED-OUT",
    "run_ends_late": "TIMED-OUT",
}
SLOW, ENDLESS, LATE = "run_is_slow", "run_goes_on", "run_ends_late"
WORD = re.compile(r"[\w-]+", re.ASCII)
START_ROUTE = re.compile(r"/acts/([\w~-]+)/runs", re.ASCII)
RUN_ROUTE = re.compile(r"/actor-runs/(\w+)", re.ASCII)
ITEMS_ROUTE = re.compile(r"/datasets/(\w+)/items", re.ASCII)
RECORD_ROUTE = re.compile(r"/key-value-stores/(\w+)/records/([\w.-]+)", re.ASCII)
SUBTITLES = "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\nspoken in the harbor\n"


@dataclass(kw_only=True)
class Run:
    """One run; `asked` is how often somebody has waited for it."""

    id: str
    actor: str
    input: Mapping[str, Any]
    items: Items
    started_at: datetime
    asked: int = 0
    finished_at: datetime | None = None
    status: str = "READY"

    def advance(self) -> None:
        """Somebody waits for it."""
        words = _words_of(self.input)
        self.asked += 1
        if self.finished_at is not None:
            return
        if ENDLESS in words or (SLOW in words and self.asked < 3):
            self.status = "RUNNING"
            return
        end = next((word for word in ENDS if word in words), None)
        self.status = "SUCCEEDED" if end is None else ENDS[end]
        self.finished_at = datetime.now(UTC)

    def shown(self) -> dict[str, Any]:
        """The run as the API shows it."""
        return {
            **RUN,
            "id": self.id,
            "status": self.status,
            "startedAt": _iso(self.started_at),
            "finishedAt": None if self.finished_at is None else _iso(self.finished_at),
            "defaultDatasetId": f"{self.id}d",
            "defaultKeyValueStoreId": f"{self.id}k",
        }


class Apify:
    """Answers the routes; remembers the runs it has started."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._routes: tuple[tuple[str, re.Pattern[str], Callable[..., Answer]], ...] = (
            ("POST", START_ROUTE, self._start),
            ("GET", START_ROUTE, self._listed),
            ("GET", RUN_ROUTE, self._run),
            ("GET", ITEMS_ROUTE, self._items),
            ("GET", RECORD_ROUTE, self._record),
        )

    def answer(self, request: Request, path: str) -> Answer:
        """Answer one call; `path` starts after the base URL."""
        if not request.headers.get("authorization", "").removeprefix("Bearer ").strip():
            return ERRORS["bad-token"]
        for method, pattern, respond in self._routes:
            found = pattern.fullmatch(path)
            if found and method == request.method:
                return respond(request, *found.groups())
        return NOT_FOUND

    def _start(self, request: Request, actor: str) -> Answer:
        find = ACTORS.get(actor)
        if find is None:
            return ERRORS["actor-missing"]
        try:
            asked = json.loads(request.body)
        except ValueError:
            asked = None
        if not isinstance(asked, dict):
            return ERRORS["invalid-input"]
        words = _words_of(asked)
        refusal = next((ERRORS[case] for case in ERRORS if {case, _underscored(case)} & words), None)
        if refusal is not None:
            return refusal
        items_max = int(parse_qs(request.query).get("maxItems", ["1000"])[0])
        now = datetime.now(UTC)
        is_silent = any(word in words for word in ENDS if word != LATE)
        run = Run(
            id=f"run{secrets.token_hex(7)}",
            actor=actor,
            input=asked,
            items=[] if is_silent else find(asked, now)[:items_max],
            started_at=now,
        )
        self._runs[run.id] = run
        return json_answer({"data": run.shown()}, status=201)

    def _listed(self, request: Request, actor: str) -> Answer:
        query = parse_qs(request.query)
        after = query.get("startedAfter", [""])[0]
        runs = [run for run in self._runs.values() if run.actor == actor and _iso(run.started_at) >= after]
        if query.get("desc", ["0"])[0] in ("1", "true"):
            runs.reverse()
        shown = [run.shown() for run in runs[: int(query.get("limit", ["1000"])[0])]]
        return json_answer({"data": {"total": len(runs), "count": len(shown), "items": shown}})

    def _run(self, request: Request, run_id: str) -> Answer:
        run = self._runs.get(run_id)
        if run is None:
            return NOT_FOUND
        if "waitForFinish" in parse_qs(request.query):
            run.advance()
        return json_answer({"data": run.shown()})

    def _items(self, request: Request, dataset: str) -> Answer:
        del request
        run = self._runs.get(dataset.removesuffix("d"))
        return NOT_FOUND if run is None else json_answer(run.items)

    def _record(self, request: Request, store: str, key: str) -> Answer:
        del request
        if key != "INPUT":
            return Answer(headers={"content-type": "text/vtt; charset=utf-8"}, body=SUBTITLES.encode())
        run = self._runs.get(store.removesuffix("k"))
        return NOT_FOUND if run is None else json_answer({**run.input, "proxy": {"useApifyProxy": True}})


def _words_of(asked: Mapping[str, Any]) -> set[str]:
    return set(WORD.findall(json.dumps(asked)))


def _underscored(case: str) -> str:
    return case.replace("-", "_")


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
