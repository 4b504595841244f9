"""Whatever was killed or told nonsense: run jobs until nothing changes, then look at the whole store.

What must hold at the end: every token has one document and every object one row, the links of a token's URL
are one set, no URL was charged for more attempts than calls were seen, the counts of every job add up, and
nobody holds a lease.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from devstack.sandbox.tokens import Token
from tests.faults.crew import leases_of
from tests.operator import Operator
from tests.waiting import wait_until

ENOUGH_RUNS = 12
OBJECT_COLLECTIONS = ("contents", "accounts", "venues")


def run_until_nothing_changes(operator: Operator, *, timeout_s: float = 60) -> None:
    """Reconcile and retry, as an operator does who sees that something remains."""
    for _ in range(ENOUGH_RUNS):
        # A job that goes on, or whose worker has died a moment ago, would make this one skip its work.
        wait_until(lambda: is_quiet(operator), "no job runs", timeout_s=timeout_s)
        reconciled = operator.ended(operator.start("reconcile", {"limit": 100}), timeout_s=timeout_s)
        retried = operator.ended(
            operator.start("retry", {"minIntervalMinutes": 0, "limit": 200}), timeout_s=timeout_s
        )
        if _is_idle(reconciled, "remaining", "failed") and _is_idle(retried, "remaining", "processed"):
            return
    raise AssertionError(f"not converged after {ENOUGH_RUNS} runs: {reconciled} {retried}")


def is_quiet(operator: Operator) -> bool:
    """Whether no job waits or runs, and nobody holds a lease any more."""
    jobs = _listed_jobs(operator)
    return not leases_of(operator) and all(job["state"] not in ("queued", "running") for job in jobs)


def is_anything_running(operator: Operator) -> bool:
    """Whether a worker is at a job. One that waits may have died with the worker that had taken it up."""
    return any(job["state"] == "running" for job in _listed_jobs(operator))


def _listed_jobs(operator: Operator) -> list[dict[str, Any]]:
    url = f"{operator.stack.api_url}/api/v1/jobs"
    found: list[dict[str, Any]] = operator.session.get(url, params={"limit": 200}, timeout=10).json()["data"]
    return found


def _is_idle(job: Mapping[str, Any], *counts: str) -> bool:
    if job["state"] != "succeeded" or "skipped" in job["result"]["meta"]:
        return False
    return not any(job["result"]["meta"][name] for name in counts)


def assert_converged(operator: Operator, tokens: Sequence[Token], *, deaths: int = 0) -> None:
    """Check what must hold; each of the `deaths` may have charged an attempt whose call was never made."""
    documents = operator.documents(tokens)
    assert len(documents) == len(tokens), "every token has its document"
    addresses = [token["tokenAddress"] for token in tokens]
    assert operator.database.tokens.count_documents({"address": {"$in": addresses}}) == len(tokens)
    _assert_one_row_per_object(operator)
    _assert_one_set_of_links(operator, documents)
    _assert_attempts_were_calls(operator, documents, deaths)
    assert_counts_add_up(operator)
    wait_until(lambda: leases_of(operator) == [], "no lease is left", timeout_s=10)


def _assert_one_row_per_object(operator: Operator) -> None:
    for name in OBJECT_COLLECTIONS:
        rows = list(
            operator.database[name].find(
                {}, {"platform": 1, "subtype": 1, "platform_key": 1, "source_urls": 1}
            )
        )
        keys = Counter(
            (row["platform"], row.get("subtype"), row["platform_key"])
            for row in rows
            if "platform_key" in row
        )
        urls = Counter(entry["url"] for row in rows for entry in row["source_urls"])
        assert set(keys.values()) <= {1}, name
        assert set(urls.values()) <= {1}, name


def _assert_one_set_of_links(operator: Operator, documents: Mapping[str, Mapping[str, Any]]) -> None:
    links = list(operator.database.token_links.find({"token_address": {"$in": list(documents)}}))
    each = Counter((link["token_address"], link["entry_url"], link["object_id"]) for link in links)
    assert set(each.values()) <= {1}
    for address, document in documents.items():
        linked = {link["entry_url"] for link in links if link["token_address"] == address}
        done = {element["url"] for element in document["social_urls"] if element["status"] == "ok"}
        assert done <= linked, "what is ok is linked"


def _assert_attempts_were_calls(
    operator: Operator, documents: Mapping[str, Mapping[str, Any]], deaths: int
) -> None:
    calls = operator.calls()
    charged: Counter[str] = Counter()
    for document in documents.values():
        for element in document["social_urls"]:
            charged[element["url"]] += element["attempts"]
    unseen = sum(max(0, count - calls.matching(_pattern(url))) for url, count in charged.items())
    assert unseen <= deaths, charged


def _pattern(url: str) -> str:
    parts = urlsplit(url)
    return (parts.hostname or "") if parts.path in ("", "/") else parts.path.rpartition("/")[2]


def assert_counts_add_up(operator: Operator) -> None:
    """The counts of every ended job are sums of each other."""
    for job in _listed_jobs(operator):
        meta = (job.get("result") or {}).get("meta") or {}
        if "targeted" in meta:
            assert meta["filtered"] == meta["alreadySeen"] + meta["targeted"], job
            assert meta["targeted"] == meta["processed"] + meta["remaining"], job
            assert meta["processed"] == meta["recorded"] + meta["failed"] + meta["unresolved"], job
        if "candidateUrls" in meta:
            parts = ("skippedByInterval", "notProcessable", "processed", "remaining")
            assert meta["candidateUrls"] == sum(meta[part] for part in parts), job
