"""The demo: a day in the life of Converge on sample tokens, from an empty store to converged links.

It acts as a caller does: posts jobs to the API, polls them, and afterwards compares what the jobs said with
what the sandbox was asked and with what the stores hold. A disagreement makes it fail.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import requests
from pymongo import MongoClient
from rich.console import Console
from rich.table import Table

from devstack.demo_fundings import ENVIRON, DemoFundings
from devstack.processes import StartFailed, poll
from devstack.sandbox.client import Calls, SandboxClient
from devstack.stack import PARTS, Stack
from workers.progress_bar import shown_progress

DEMO_PARTS = tuple(part for part in PARTS if part not in ("stream", "flower"))
RECONCILE_BODY = {
    "startDate": "2026-01-01T00:00:00Z",
    "endDate": "2026-02-01T00:00:00Z",
    "limit": 100,
    "deadlineMs": 120_000,
}
RETRY_BODY = {"limit": 200, "deadlineMs": 120_000, "minIntervalMinutes": 0}
RUNS_MAX = 10
JOB_TIMEOUT_S = 300.0
# While the tokens are recorded, X is down for this many calls: something for the retry to repair.
OUTAGE = {"route": r"^GET .*/x/tweet-result", "status": 503, "body": "over capacity", "times": 90}
STATUS_STYLE = {"ok": "green", "error": "red", "exhausted": "red", "invalid": "red", "blocked": "yellow"}


def run_demo(out: Console, err: Console) -> int:
    """Run the demo and return the exit code: 0 when all jobs succeeded and all counts agree."""
    try:
        err.print("starting the stores, the sandbox, a worker, beat and the API ...", style="dim")
        with Stack(parts=DEMO_PARTS, environ=ENVIRON) as stack:
            return _Demo(stack, out, err).run()
    except StartFailed as exc:
        err.print(str(exc), style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130


class JobEnded(Exception):
    """A job of the demo did not succeed."""


class _Demo:
    def __init__(self, stack: Stack, out: Console, err: Console) -> None:
        self._stack = stack
        self._out = out
        self._err = err
        self._sandbox = SandboxClient(stack.sandbox_url)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["x-api-key"] = stack.api_key

    def run(self) -> int:
        try:
            self._sandbox.set_faults(OUTAGE)
            rounds = self._reconcile_until_nothing_remains()
            self._sandbox.clear_faults()
            before_retry = self._sandbox.calls()
            retry = self._run_job("social-recording/retry", RETRY_BODY)
            self._show_meta("retry", retry["meta"])
            funding = self._reconcile_fundings()
        except JobEnded as exc:
            self._err.print(str(exc), style="red", markup=False)
            return 1
        counts = self._counts(rounds, retry["meta"], before_retry, self._sandbox.calls())
        counts["funding"] = {key: funding[key] for key in ("scanned", "fixed", "failed")}
        counts["agree"] = counts["agree"] and funding["agree"]
        # Written past rich, which would fold the line at the width of the terminal.
        self._out.file.write(json.dumps(counts) + "\n")
        self._out.file.flush()
        return 0 if counts["agree"] else 1

    def _reconcile_until_nothing_remains(self) -> list[Mapping[str, Any]]:
        """Call again with the same parameters, as `remaining` asks for."""
        rounds: list[Mapping[str, Any]] = []
        rows: list[Mapping[str, Any]] = []
        for _ in range(RUNS_MAX):
            result = self._run_job("social-recording/reconcile", RECONCILE_BODY)
            rounds.append(result["meta"])
            rows += result["data"]
            if not result["meta"]["remaining"]:
                break
        self._show_tokens(rows)
        for number, meta in enumerate(rounds, start=1):
            self._show_meta(f"reconcile, run {number}", meta)
        return rounds

    def _reconcile_fundings(self) -> dict[str, Any]:
        """Let counters that are off be brought to the purchases; return the job's counts, and `agree`."""
        with closing(DemoFundings(self._stack)) as fundings:
            fundings.fill()
            result = self._run_job("funding/reconcile", {})
            checks = fundings.checks(result["data"])
        table = Table("property", "outcome", "moved by", title="Fundings")
        for row in result["data"]:
            outcome = row["outcome"] if "delta" in row else f"{row['outcome']}: {row['reason']}"
            table.add_row(row["propertyId"], outcome, str(row.get("delta", {}).get("purchased", "")))
        self._out.print(table)
        self._show_meta("funding", result["meta"])
        return {**result["meta"], "agree": self._tell(checks)}

    def _tell(self, checks: Mapping[str, bool]) -> bool:
        """Name what is not as it has to be; return whether everything is."""
        for name in (name for name, is_true in checks.items() if not is_true):
            self._err.print(f"does not agree: {name}", style="red")
        return all(checks.values())

    def _run_job(self, name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Post a job, show its progress while it runs, return its result."""
        url = f"{self._stack.api_url}/api/v1/internal/{name}"
        posted = self._session.post(url, json=body, timeout=10)
        posted.raise_for_status()
        job = posted.json()
        location = self._stack.api_url + posted.headers["Location"]
        with shown_progress(self._err, name) as show_progress:

            def has_ended() -> bool:
                nonlocal job
                job = self._session.get(location, timeout=10).json()
                show_progress(job["progress"]["done"], job["progress"]["total"])
                return job["state"] not in ("queued", "running")

            poll(has_ended, JOB_TIMEOUT_S, interval_s=0.2)
        if job["state"] != "succeeded":
            raise JobEnded(f"the {name} job is {job['state']}: {job['error']}")
        result: Mapping[str, Any] = job["result"]
        return result

    def _show_tokens(self, rows: list[Mapping[str, Any]]) -> None:
        table = Table("token", "symbol", "outcome", "links", title="Tokens")
        for row in rows:
            statuses = Counter(url["status"] for url in row.get("urls", []))
            links = " ".join(
                f"[{STATUS_STYLE.get(status, 'dim')}]{count} {status}[/]"
                for status, count in sorted(statuses.items())
            )
            table.add_row(row["address"], row["symbol"] or "", row["outcome"], links)
        self._out.print(table)

    def _show_meta(self, title: str, meta: Mapping[str, Any]) -> None:
        table = Table("meta", "value", title=title)
        for key, value in meta.items():
            table.add_row(key, json.dumps(value) if isinstance(value, dict) else str(value))
        self._out.print(table)

    def _counts(
        self,
        rounds: list[Mapping[str, Any]],
        retry: Mapping[str, Any],
        before_retry: Calls,
        calls: Calls,
    ) -> dict[str, Any]:
        """The counts of the jobs, of the sandbox and of MongoDB, and whether they tell the same story."""
        client: MongoClient[dict[str, Any]] = MongoClient(self._stack.mongo.url)
        with client:
            database = client[self._stack.environ.get("MONGO_DATABASE", "converge")]
            elements = [
                element
                for token in database.tokens.find({}, {"social_urls": 1})
                for element in token["social_urls"]
            ]
            stored = {
                name: database[name].count_documents({})
                for name in ("tokens", "contents", "accounts", "venues", "token_links", "metric_series")
            }
        total = Counter[str]()
        for meta in rounds:
            total.update({key: meta[key] for key in ("processed", "recorded", "failed", "unresolved")})
        outside = calls.total - calls.matching("/tracker/")
        attempts = sum(element["attempts"] for element in elements)
        checks = {
            "one document per recorded token": stored["tokens"] == total["recorded"],
            "one range call per reconcile": calls.matching(r"^GET .*/api/v1/tokens\?") == len(rounds),
            "one by-addresses call per processed token": sum(calls.by_address.values()) == total["processed"],
            "no tracker call by the retry": calls.matching("/tracker/") == before_retry.matching("/tracker/"),
            "every attempt was a call": attempts <= outside,
            "nothing remains": rounds[-1]["remaining"] == 0 and retry["remaining"] == 0,
        }
        return {
            "reconcile": {"runs": len(rounds), **total, "remaining": rounds[-1]["remaining"]},
            "retry": {key: retry[key] for key in ("processed", "converged", "exhausted", "remaining")},
            "stored": stored,
            "urls": dict(sorted(Counter(element["status"] for element in elements).items())),
            "attempts": attempts,
            "calls": {"tracker": calls.matching("/tracker/"), "outside": outside},
            "agree": self._tell(checks),
        }
