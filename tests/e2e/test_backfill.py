"""Backfills over HTTP and on the command line: real processes, the sandbox's Solana node, real stores."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app import create_app
from devstack.sandbox.process import SOLANA_KEY
from devstack.sandbox.solana_history import history_of
from devstack.sandbox.solana_names import reserved_address, reserved_signature
from devstack.stack import Stack
from tests.conftest import make_settings
from tests.operator import Operator
from tests.solana_node import ADDRESS, ENDPOINT, signature
from tests.waiting import wait_until
from workers.services import open_job_access

CAMPAIGNS = "/api/v1/internal/solana-backfill/campaigns"
LISTED, FETCHED = "solana getSignaturesForAddress", "solana getTransaction"


def post(operator: Operator, body: dict[str, Any], **headers: str) -> Any:
    url = f"{operator.stack.api_url}{CAMPAIGNS}"
    return operator.session.post(url, json=body, headers=headers, timeout=70)


def started(operator: Operator, **body: Any) -> str:
    answer = post(operator, body)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"/api/v1/jobs/{answer.json()['id']}"
    return str(answer.json()["id"])


def ended(operator: Operator, **body: Any) -> dict[str, Any]:
    job = operator.ended(started(operator, **body))
    assert job["state"] == "succeeded", job
    return job


def newest(address: str, count: int | None = None) -> list[str]:
    """The signatures that the sandbox has of an address, newest first."""
    history = history_of(address)
    return [history.signature(position) for position in reversed(range(len(history.places)))][:count]


def stored(operator: Operator, signatures: list[str]) -> Counter[str]:
    rows = operator.database.raw_transactions.find({"signature": {"$in": signatures}}, {"signature": 1})
    return Counter(row["signature"] for row in rows)


def test_a_campaign_is_a_job_like_any_other_and_stores_each_transaction_once(operator: Operator) -> None:
    address = reserved_address("short", seed="e2e")
    wanted = newest(address, 30)
    job = ended(operator, mode="program", address=address, limit=30)
    meta = job["result"]["meta"]
    assert (job["kind"], job["request"]["commitment"]) == ("solana.backfill", "finalized")
    assert (meta["selected"], meta["persisted"], meta["resumeBeforeSignature"]) == (30, 30, wanted[-1])
    assert job["progress"] == {
        "done": 30,
        "total": 30,
        "counts": {
            "pages": meta["pages"],
            "inspected": meta["inspected"],
            "selected": 30,
            "started": 30,
            "completed": 30,
        },
    }
    assert meta["pages"] > 1, "short pages are no end"
    assert stored(operator, wanted) == Counter(wanted)
    assert [row["signature"] for row in job["result"]["data"]] == wanted
    rows = list(operator.database.transaction_observations.find({"session_id": job["id"]}))
    assert {row["filter_code"] for row in rows} == {"program_latest"}
    before = operator.calls().matching(FETCHED)
    assert (
        ended(operator, mode="program", address=address, limit=30)["result"]["meta"]["alreadyPresent"] == 30
    )
    assert operator.calls().matching(FETCHED) == before


def test_a_search_after_an_anchor_and_a_dry_run_of_it(operator: Operator) -> None:
    address = reserved_address("big", "twice", seed="e2e")
    every = newest(address)
    body = {"mode": "token", "address": address, "direction": "after", "anchor": every[2000], "limit": 20}
    dry = ended(operator, **body, dryRun=True)["result"]
    nearest = every[1980:2000][::-1]
    assert [row["signature"] for row in dry["data"]] == nearest
    assert stored(operator, nearest) == Counter()
    meta = ended(operator, **body)["result"]["meta"]
    assert meta["persisted"] == dry["meta"]["planned"] == 20
    assert meta["resumeAfterSignature"] == every[1980]
    assert stored(operator, nearest) == Counter(nearest)


def test_a_cancelled_campaign_ends_soon_and_is_gone_on_with(operator: Operator) -> None:
    address = reserved_address("big", seed="cancel")
    wanted = newest(address, 600)
    job_id = started(operator, mode="pool", address=address, limit=600)
    wait_until(lambda: operator.job(job_id)["progress"].get("counts", {}).get("completed", 0) > 50, "it runs")
    asked_at = time.monotonic()
    answer = operator.session.post(f"{operator.stack.api_url}/api/v1/jobs/{job_id}/cancel", timeout=10)
    assert answer.status_code == 202
    job = operator.ended(job_id)
    assert time.monotonic() - asked_at < 2
    calls = operator.calls().matching(FETCHED)
    meta = job["result"]["meta"]
    assert (job["state"], meta["stoppedBy"]) == ("cancelled", "cancelled")
    assert meta["selected"] == meta["started"] + meta["notStarted"] == 600
    assert meta["started"] == meta["completed"] + meta["cancelled"] < 600
    anchor = meta["resumeBeforeSignature"]
    place = wanted.index(anchor)
    assert stored(operator, wanted[: place + 1]) == Counter(wanted[: place + 1])
    assert operator.calls().matching(FETCHED) == calls, "nothing was asked after the end"
    ended(operator, mode="pool", address=address, limit=600 - place - 1, anchor=anchor)
    assert stored(operator, wanted) == Counter(wanted)


def test_a_second_campaign_is_skipped_and_other_kinds_run_beside_the_first(operator: Operator) -> None:
    job_id = started(operator, mode="pool", address=reserved_address("big", seed="second"), limit=800)
    wait_until(lambda: operator.job(job_id)["state"] == "running", "the first one runs")
    second = ended(operator, mode="signatures", signatures=[reserved_signature("v0", seed="second")])
    assert second["result"]["meta"] == {"skipped": "already running"}
    assert operator.meta("retry")["stoppedBy"] == "drained"
    assert operator.job(job_id)["state"] == "running"
    operator.session.post(f"{operator.stack.api_url}/api/v1/jobs/{job_id}/cancel", timeout=10)
    operator.ended(job_id)


def test_a_refused_call_makes_everybody_wait_as_long_as_the_node_says(operator: Operator) -> None:
    names = [reserved_signature("token", seed=f"wait {number}") for number in range(20)]
    names[5] = reserved_signature("refused_seconds", times=1)
    job = ended(operator, mode="signatures", signatures=names)
    meta = job["result"]["meta"]
    assert (meta["persisted"], meta["rateLimited"]) == (20, 1)
    assert meta["elapsedMs"] >= 2000


def test_a_caller_that_waits_is_told_why_a_campaign_failed(operator: Operator) -> None:
    unknown = reserved_signature("unknown")
    body = {"mode": "program", "address": reserved_address("few", seed="bound"), "anchor": unknown}
    answer = post(operator, body, Prefer="wait=30")
    assert answer.status_code == 422
    assert answer.json()["code"] == "ANCHOR_NOT_FOUND"
    assert answer.json()["job"]["state"] == "failed"
    quiet = {**body, "address": reserved_address("few", "quiet", seed="bound"), "direction": "after"}
    assert post(operator, quiet, Prefer="wait=30").json()["code"] == "ANCHOR_NOT_FOUND"
    address = reserved_address("big", seed="pages")
    far = {
        "mode": "pool",
        "address": address,
        "direction": "after",
        "anchor": newest(address)[-1],
        "maxPages": 2,
    }
    answer = post(operator, far, Prefer="wait=30")
    assert (answer.status_code, answer.json()["code"]) == (422, "MAX_PAGES_REACHED")
    assert "2000 signatures were inspected" in answer.json()["detail"]
    down = {"mode": "signatures", "signatures": [reserved_signature("plan_exhausted_32429")]}
    answer = post(operator, down, Prefer="wait=30")
    assert (answer.status_code, answer.json()["code"]) == (502, "UPSTREAM_FAILED")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"mode": "program", "address": ADDRESS, "direction": "after"}, "/anchor"),
        ({"mode": "program", "address": "not base58: 0OIl"}, "/address"),
        ({"mode": "program", "address": ADDRESS, "anchor": "1111"}, "/anchor"),
        ({"mode": "signatures", "signatures": [signature(1), "1111"]}, "/signatures/1"),
        ({"mode": "program", "address": ADDRESS, "limit": 0}, "/limit"),
        ({"mode": "program", "address": ADDRESS, "maxPages": 101}, "/maxPages"),
        ({}, "/mode"),
    ],
)
def test_a_bad_request_names_its_field(operator: Operator, body: dict[str, Any], pointer: str) -> None:
    answer = post(operator, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION")
    assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


def test_an_unknown_role_is_named(operator: Operator) -> None:
    answer = post(operator, {"mode": "program", "address": ADDRESS, "role": "archive"})
    assert (answer.status_code, answer.json()["code"]) == (404, "ENDPOINT_NOT_FOUND")
    assert [each["pointer"] for each in answer.json()["errors"]] == ["/role"]


@pytest.mark.parametrize(("endpoints", "status"), [(None, 501), ((ENDPOINT,), 503)])
def test_an_api_without_endpoints_says_so_before_it_asks_any_store(endpoints: Any, status: int) -> None:
    away = "redis://127.0.0.1:9"
    access = open_job_access(
        make_settings(solana_endpoints=endpoints, redis_url=away, broker_url=away, result_backend_url=away)
    )
    client = create_app(access).test_client()
    body = {"mode": "program", "address": ADDRESS}
    answer = client.post(CAMPAIGNS, json=body, headers={"x-api-key": "test-key"})
    assert answer.status_code == status
    access.close()


def run_converge(stack: Stack, *arguments: str, stdin: str | None = None) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "workers.cli", "backfill", *arguments, "--json"],
        env=stack.environ,
        cwd=Path(__file__).parents[2],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_command_line_takes_one_signature_per_line_with_blanks_and_doubles(operator: Operator) -> None:
    address = reserved_address("few", seed="cli")
    first, second = newest(address, 2)
    lines = f"\n{first}\n\n  {second}  \r\n{first}\n\n"
    job = run_converge(operator.stack, "--signatures", "-", stdin=lines)
    assert job["request"]["signatures"] == [first, second]
    assert job["result"]["meta"]["persisted"] == 2
    assert job["result"]["meta"]["filterCode"] == "signatures"


def test_the_command_line_searches_like_the_api(operator: Operator) -> None:
    address = reserved_address("few", seed="cli search")
    every = newest(address)
    options = ("--mode", "pool", "--address", address, "--anchor", every[2], "--without-failed", "--dry-run")
    meta = run_converge(operator.stack, *options)["result"]["meta"]
    history = history_of(address)
    failed = sum(history.error(len(every) - 1 - place) is not None for place in range(3, len(every)))
    assert meta["filterCode"] == "pool_before"
    assert (meta["planned"], meta["leftOut"]) == (len(every) - 3 - failed, failed)


def test_no_key_reaches_a_log_or_a_store(operator: Operator) -> None:
    names = [reserved_signature(word) for word in ("html", "drop", "truncated", "another", "base64")]
    ended(operator, mode="signatures", signatures=names)
    post(operator, {"mode": "signatures", "signatures": [reserved_signature("method")]})
    assert SOLANA_KEY in operator.stack.environ["SOLANA_ENDPOINTS"]
    logs = [path.read_text(errors="replace") for path in sorted(operator.stack.logs.glob("*.log"))]
    assert len(logs) >= 4
    assert [text for text in logs if SOLANA_KEY in text] == []
    for collection in operator.database.list_collection_names():
        assert not any(SOLANA_KEY in str(row) for row in operator.database[collection].find())
    for key in operator.redis.scan_iter("*"):
        assert SOLANA_KEY.encode() not in (operator.redis.dump(key) or b"")
