"""Reconcile as an operator sees it: HTTP in, stores out, real workers, a sandbox that counts calls."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
import requests

from tests.operator import DAY, Operator, new_token, site, sites
from tests.waiting import wait_until
from workers.clock import Clock
from workers.leases import LeaseStore

RANGE_CALL = r"^GET /tracker/api/v1/tokens\?"
REPO = "https://github.com/harborworks/anchor"


def test_a_caller_that_waits_gets_the_finished_job(operator: Operator) -> None:
    operator.set_tokens(sites(2))
    response = operator.post("reconcile", Prefer="wait=60")
    assert response.status_code == 200
    job = response.json()
    assert job["state"] == "succeeded"
    assert job["result"]["meta"]["recorded"] == 2
    assert job["progress"] == {"done": 2, "total": 2}
    assert job["startedAt"] <= job["finishedAt"]


def test_tokens_are_recorded_with_their_links_and_objects(operator: Operator) -> None:
    tokens = operator.set_tokens(
        [
            {"website": "https://www.harbor-one.com/?utm_source=x", "twitter": REPO},
            {
                # Without a key there is no source for channels.
                "website": "https://www.youtube.com/@harbor",
                "twitter": "https://twitter.com/who/status/2023357708300373429?s=20",
                "telegram": "https://t.me/channel_harbor",
                "tiktok": "no link at all",
            },
        ]
    )
    job = operator.run("reconcile")
    rows = {row["address"]: row for row in job["result"]["data"]}
    first, second = (operator.documents(tokens)[token["tokenAddress"]] for token in tokens)
    assert [(url["url"], url["status"]) for url in first["social_urls"]] == [
        ("https://harbor-one.com/", "ok"),
        ("https://github.com/harborworks/anchor", "ok"),
    ]
    assert [(url["status"], url["attempts"]) for url in second["social_urls"]] == [
        ("unsupported", 0),
        ("ok", 1),
        ("ok", 1),
    ]
    assert second["social_urls"][0]["attempted_at"] is None
    assert first["symbol"] == tokens[0]["tokenSymbol"]
    links = list(operator.database.token_links.find({"token_address": tokens[0]["tokenAddress"]}))
    assert {(link["object"], link["link_depth"]) for link in links} == {("contents", 0), ("accounts", 1)}
    repo = operator.database.contents.find_one({"source_urls.url": "https://github.com/harborworks/anchor"})
    assert repo is not None
    assert (repo["platform"], repo["subtype"]) == ("gh", "repo")
    assert repo["platform_key"].isdigit()
    [dropped] = rows[tokens[1]["tokenAddress"]]["dropped"]
    assert dropped["slot"] == "tiktok"


def test_the_range_is_half_open_and_on_the_last_transfer(operator: Operator) -> None:
    moments = [
        DAY,
        DAY + timedelta(hours=23, minutes=59, seconds=59, milliseconds=999),
        DAY + timedelta(days=1),
    ]
    tokens = [new_token({"website": site(0)}, at=moment) for moment in moments]
    operator.sandbox.set_tokens(tokens)
    assert operator.meta("reconcile")["scanned"] == 2
    seen = operator.documents(tokens)
    assert [token["tokenAddress"] in seen for token in tokens] == [True, True, False]


def test_the_floor_of_investors_is_three_unless_asked_otherwise(operator: Operator) -> None:
    tokens = [new_token({"website": site(0)}, investors=count) for count in (2, 3, 4)]
    operator.sandbox.set_tokens(tokens)
    meta = operator.meta("reconcile")
    assert (meta["scanned"], meta["filtered"], meta["recorded"]) == (3, 2, 2)
    assert operator.meta("reconcile", {"minAfCount": 1})["recorded"] == 1


def test_a_floor_of_one_finds_no_more_than_a_floor_of_two(operator: Operator) -> None:
    operator.sandbox.set_tokens([new_token({}, investors=count) for count in (1, 2, 3)])
    two = operator.meta("reconcile", {"minAfCount": 2, "limit": 1})
    one = operator.meta("reconcile", {"minAfCount": 1, "limit": 1})
    assert one["filtered"] == two["filtered"] == 2


def test_calling_again_until_nothing_remains_records_every_token_once(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(25))
    first = operator.meta("reconcile")
    assert (first["processed"], first["remaining"], first["stoppedBy"]) == (20, 5, "limit")
    assert operator.calls().matching("/tracker/") == 21
    second = operator.meta("reconcile")
    assert (second["alreadySeen"], second["targeted"], second["remaining"]) == (20, 5, 0)
    assert second["stoppedBy"] == "drained"
    assert len(operator.documents(tokens)) == 25
    assert set(operator.calls().by_address.values()) == {1}
    assert operator.meta("reconcile")["targeted"] == 0


def test_what_is_recorded_is_never_touched_again(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(3))
    operator.run("reconcile")
    before = operator.documents(tokens)
    for key in operator.redis.keys("converge:job*"):
        operator.redis.delete(key)
    calls = operator.calls().total
    meta = operator.meta("reconcile")
    assert (meta["alreadySeen"], meta["targeted"]) == (3, 0)
    assert operator.documents(tokens) == before
    assert operator.calls().total == calls + 1, "the list and nothing else"


def test_one_failing_token_does_not_end_the_batch_and_is_the_next_input(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(5))
    broken = tokens[1]["tokenAddress"]
    operator.sandbox.set_faults({"route": f"by-addresses.*{broken}", "status": 500})
    job = operator.run("reconcile")
    outcomes = {row["address"]: row["outcome"] for row in job["result"]["data"]}
    assert len(outcomes) == 5
    assert outcomes.pop(broken) == "failed"
    assert set(outcomes.values()) == {"recorded"}
    assert broken not in operator.documents(tokens)
    operator.sandbox.clear_faults()
    again = operator.run("reconcile")["result"]
    assert [row["address"] for row in again["data"]] == [broken]
    assert again["meta"]["recorded"] == 1


def test_unresolved_tokens_are_reported_and_do_not_starve_a_good_one(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(26), missing=25)
    good = tokens[25]["tokenAddress"]
    unresolved = 0
    for _ in range(3):
        meta = operator.meta("reconcile", {"limit": 10})
        unresolved += meta["unresolved"]
        assert meta["processed"] == meta["recorded"] + meta["failed"] + meta["unresolved"]
    assert list(operator.documents(tokens)) == [good]
    assert unresolved >= 25


def test_counts_add_up_when_outcomes_differ(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(12), missing=2)
    held = tokens[5]["tokenAddress"]
    operator.sandbox.set_faults({"route": f"by-addresses.*{tokens[6]['tokenAddress']}", "status": 400})
    leases = LeaseStore(operator.redis, Clock())
    with leases.hold(f"social-record:{held}", ttl_ms=60_000):
        meta = operator.meta("reconcile", {"limit": 12})
    assert meta["filtered"] == meta["alreadySeen"] + meta["targeted"] == 12
    assert meta["targeted"] == meta["processed"] + meta["remaining"]
    assert meta["processed"] == meta["recorded"] + meta["failed"] + meta["unresolved"]
    assert (meta["lockedOut"], meta["failed"], meta["unresolved"], meta["recorded"]) == (1, 1, 2, 8)
    assert meta["remaining"] == 1, "the one in other hands"
    assert held not in operator.documents(tokens)


def test_a_deadline_lets_a_token_in_work_finish_and_starts_no_other(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(100))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 1200})
    meta = operator.meta("reconcile", {"limit": 100, "deadlineMs": 1000})
    assert meta["stoppedBy"] == "deadline"
    assert 0 < meta["recorded"] < 100
    documents = operator.documents(tokens)
    assert len(documents) == meta["recorded"]
    assert {row["social_urls"][0]["status"] for row in documents.values()} == {"ok"}
    assert meta["remaining"] == 100 - meta["recorded"]


def test_the_range_call_counts_towards_the_deadline(operator: Operator) -> None:
    operator.set_tokens(sites(3))
    operator.sandbox.set_faults(
        {"route": RANGE_CALL, "status": 503, "times": 1}, {"route": RANGE_CALL, "latency_ms": 300}
    )
    meta = operator.meta("reconcile", {"deadlineMs": 1000})
    assert (meta["stoppedBy"], meta["processed"], meta["remaining"]) == ("deadline", 0, 3)
    assert operator.calls().by_address == {}


def test_a_second_job_of_the_kind_is_skipped_with_zero_calls(operator: Operator) -> None:
    operator.set_tokens(sites(2))
    leases = LeaseStore(operator.redis, Clock())
    with leases.hold("social-reconcile:reconcile", ttl_ms=60_000):
        assert operator.meta("reconcile") == {"skipped": "already running"}
        assert operator.calls().total == 0
        assert operator.meta("retry")["processed"] == 0, "another kind is in nobody's way"
    assert operator.meta("reconcile")["recorded"] == 2


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 503},
        {"status": 200, "body": "<html><title>Maintenance</title></html>"},
        {"status": 200, "body": {"data": [], "meta": {"total": 7}}},
        {"status": 401},
        {"drop": True},
        {"hang": True},
    ],
)
def test_a_tracker_that_finally_fails_is_a_502_and_writes_nothing(
    operator: Operator, fault: dict[str, object]
) -> None:
    operator.set_tokens(sites(2))
    operator.sandbox.set_faults({"route": RANGE_CALL, **fault})
    before = operator.database.tokens.count_documents({})
    response = operator.post("reconcile", Prefer="wait=60")
    assert response.status_code == 502
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["code"] == "UPSTREAM_FAILED"
    assert problem["job"]["state"] == "failed"
    assert "tracker-key" not in response.text
    assert operator.database.tokens.count_documents({}) == before
    operator.sandbox.clear_faults()
    assert operator.meta("reconcile")["recorded"] == 2, "the lease is free"


def test_the_answer_comes_at_once_while_the_tracker_hangs(operator: Operator) -> None:
    operator.set_tokens(sites(1))
    operator.sandbox.set_faults({"route": RANGE_CALL, "hang": True})
    first = operator.start("reconcile")
    wait_until(lambda: operator.calls().total, "the tracker hangs")
    started = time.monotonic()
    second = operator.start("reconcile")
    assert time.monotonic() - started < 1, "sooner than even one try at the tracker is given up"
    assert operator.ended(second)["result"]["meta"] == {"skipped": "already running"}
    assert operator.ended(first)["error"]["code"] == "UPSTREAM_FAILED"


def test_progress_grows_while_the_job_runs(operator: Operator) -> None:
    operator.set_tokens(sites(60))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 300})
    job_id = operator.start("reconcile", {"limit": 60})
    seen: list[int] = []

    def look() -> bool:
        job = operator.job(job_id)
        if job["state"] == "running" and job["progress"]["total"]:
            seen.append(job["progress"]["done"])
        return job["state"] == "succeeded"

    wait_until(look, "the job ends", timeout_s=30)
    assert seen == sorted(seen)
    assert len(set(seen)) > 2


def test_a_cancelled_job_ends_soon_with_what_it_has(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(100))
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 500})
    job_id = operator.start("reconcile", {"limit": 100})
    wait_until(lambda: operator.job(job_id)["progress"]["done"], "something is done")
    url = f"{operator.stack.api_url}/api/v1/jobs/{job_id}/cancel"
    assert operator.session.post(url, timeout=10).status_code == 202
    job = operator.ended(job_id, timeout_s=5)
    assert job["state"] == "cancelled"
    meta = job["result"]["meta"]
    assert meta["stoppedBy"] == "cancelled"
    assert len(operator.documents(tokens)) == meta["recorded"] < 100
    assert operator.session.post(url, timeout=10).status_code == 409
    operator.run("retry", {"tokenAddresses": [tokens[0]["tokenAddress"]]})
    started = sum(operator.calls().by_address.values())
    assert started == meta["processed"], "nothing was started after the end"


def test_tokens_that_share_a_link_fetch_it_once(operator: Operator) -> None:
    shared = site(1)
    tokens = operator.set_tokens([{"website": shared} for _ in range(20)])
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 200})
    assert operator.meta("reconcile")["recorded"] == 20
    assert operator.calls().matching("GET https://plain-site") == 1
    assert {row["social_urls"][0]["status"] for row in operator.documents(tokens).values()} == {"ok"}
    assert operator.database.contents.count_documents({"source_urls.url": shared}) == 1


def test_many_tokens_of_one_account_give_one_account(operator: Operator) -> None:
    operator.set_tokens([{"website": f"https://github.com/one-owner/repo-{n}"} for n in range(40)])
    assert operator.meta("reconcile", {"limit": 40})["recorded"] == 40
    owner = operator.database.accounts.find_one({"handles.value": "one-owner"})
    assert owner is not None
    key = {"platform": "gh", "platform_key": owner["platform_key"]}
    assert operator.database.accounts.count_documents(key) == 1
    assert operator.database.contents.count_documents({"creator_id": owner["_id"]}) == 40


def test_inside_addresses_are_blocked_without_a_connection(operator: Operator) -> None:
    [token] = operator.set_tokens(
        [
            {
                "website": "http://169.254.169.254/latest/",
                "twitter": "http://localhost:6379/",
                "telegram": "http://2130706433/",
                "tiktok": "http://[::1]/",
            }
        ]
    )
    operator.run("reconcile")
    elements = operator.documents([token])[token["tokenAddress"]]["social_urls"]
    assert {(url["status"], url["reason"]) for url in elements} == {("blocked", "unsafe_address")}
    assert len(elements) == 4
    assert operator.calls().matching("169.254|localhost|2130706433|127.0.0.1:6379") == 0


def test_the_system_is_ready_when_a_worker_answers(operator: Operator) -> None:
    ready = requests.get(f"{operator.stack.api_url}/readyz", timeout=10)
    assert (ready.status_code, ready.json()["checks"]) == (
        200,
        {"redis": "ok", "workers": "ok", "mongodb": "ok"},
    )


def test_a_retry_repairs_what_an_outage_broke_and_asks_no_tracker(operator: Operator) -> None:
    tokens = operator.set_tokens(sites(10))
    operator.sandbox.set_faults({"route": "plain-site", "status": 503})
    assert operator.meta("reconcile")["recorded"] == 10
    assert {row["social_urls"][0]["reason"] for row in operator.documents(tokens).values()} == {"http_503"}
    operator.sandbox.clear_faults()
    addresses = [token["tokenAddress"] for token in tokens]
    body = {"tokenAddresses": addresses, "minIntervalMinutes": 0}
    assert operator.meta("retry", {**body, "minIntervalMinutes": 60})["skippedByInterval"] == 10
    tracker_calls = operator.calls().matching("/tracker/")
    meta = operator.meta("retry", body)
    assert (meta["candidateUrls"], meta["processed"], meta["converged"]) == (10, 10, 10)
    assert operator.calls().matching("/tracker/") == tracker_calls
    for row in operator.documents(tokens).values():
        [url] = row["social_urls"]
        assert (url["status"], url["attempts"]) == ("ok", 2)
    assert operator.meta("retry", body)["candidateUrls"] == 0


def test_all_urls_of_one_token_are_retried_in_one_job(operator: Operator) -> None:
    links = " ".join(f"https://github.com/{site(n)[8:-5]}" for n in range(12))
    [token] = operator.set_tokens([{"website": links}])
    # A page where JSON is due is an error at once, without further tries.
    operator.sandbox.set_faults({"route": "/github/", "body": "<html></html>"})
    operator.run("reconcile")
    assert {url["reason"] for url in operator.documents([token])[token["tokenAddress"]]["social_urls"]} == {
        "unexpected_html"
    }
    operator.sandbox.clear_faults()
    body = {"tokenAddresses": [token["tokenAddress"]], "minIntervalMinutes": 0, "limit": 10}
    meta = operator.meta("retry", body)
    assert (meta["processed"], meta["remaining"], meta["lockedOut"]) == (10, 2, 0)
    assert meta["stoppedBy"] == "limit"


def test_a_dead_host_is_exhausted_after_five_attempts_and_asked_no_more(operator: Operator) -> None:
    [token] = operator.set_tokens(sites(1))
    operator.sandbox.set_faults({"route": "plain-site", "drop": True})
    operator.run("reconcile")
    body = {"tokenAddresses": [token["tokenAddress"]], "minIntervalMinutes": 0}
    for _ in range(4):
        operator.run("retry", body)
    url = operator.url_of(token)
    assert (url["status"], url["attempts"], url["reason"]) == ("exhausted", 5, "connection_failed")
    calls = operator.calls().total
    assert operator.meta("retry", body)["candidateUrls"] == 0
    assert operator.calls().total == calls
    operator.sandbox.clear_faults()
    assert operator.meta("retry", {**body, "statuses": ["exhausted"]})["converged"] == 1
