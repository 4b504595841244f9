"""What requests ask for and what settings say, in processes that were started with them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devstack.stack import Stack
from tests.e2e.conftest import PARTS, QUICK
from tests.operator import DAY, Operator, new_token, site
from tests.waiting import wait_until
from workers.leases import KEY_PREFIX

RANGE_CALL = r"^GET /tracker/api/v1/tokens\?"
PAID_CALL = r"^GET /twitterapiio/"
LEASE_TTLS_MS = {"reconcile": 7000, "retry": 8000, "token": 9000}
CHANGED = {
    "SOCIAL_RECORD_MAX_ATTEMPTS": "2",
    "SOCIAL_RECORD_RECONCILE_LIMIT": "4",
    "SOCIAL_RECORD_RETRY_LIMIT": "3",
    "SOCIAL_RECORD_DEADLINE_MS": "30000",
    "SOCIAL_RECORD_RETRY_MIN_INTERVAL_MINUTES": "0",
    "SOCIAL_RECORD_AF_INVESTOR_THRESHOLD": "5",
    "SOCIAL_RECORD_RECONCILE_LOCK_TTL_MS": str(LEASE_TTLS_MS["reconcile"]),
    "SOCIAL_RECORD_RETRY_LOCK_TTL_MS": str(LEASE_TTLS_MS["retry"]),
    "SOCIAL_RECORD_TOKEN_LOCK_TTL_MS": str(LEASE_TTLS_MS["token"]),
    "SOCIAL_RECORD_ENABLE_PAID": "1",
    "TWITTERAPIIO_API_KEY": "reseller-secret-7",
    "JOB_RETENTION_DAYS": "2",
}
DEFAULTS = {
    "reconcile": {"minAfCount": 5, "limit": 4, "deadlineMs": 30_000},
    "retry": {"limit": 3, "deadlineMs": 30_000, "minIntervalMinutes": 0},
}


# A page where JSON is due is an error at once, without further tries.
BROKEN_GITHUB = {"route": "/github/", "body": "<html></html>"}


def repos(count: int) -> list[dict[str, str | None]]:
    """The links of `count` tokens with a repository each."""
    return [{"website": f"https://github.com/{site(number)[8:-5]}/anchor"} for number in range(count)]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(parts=PARTS, worker_threads=8, environ={**QUICK, **CHANGED}) as stack:
        yield stack


@pytest.mark.parametrize("kind", sorted(DEFAULTS))
def test_the_settings_give_the_defaults_of_a_request_and_its_body_wins(operator: Operator, kind: str) -> None:
    defaults = DEFAULTS[kind]
    operator.set_tokens([])
    for asked in ({}, dict.fromkeys(defaults, 1000)):
        allowed = {name: min(value, 100) if name == "limit" else value for name, value in asked.items()}
        request = operator.run(kind, allowed)["request"]
        assert {name: request[name] for name in defaults} == {**defaults, **allowed}


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("reconcile", "afGroupIds"),
        ("reconcile", "lockTtlMs"),
        ("reconcile", "maxAttempts"),
        ("retry", "maxAttempts"),
        ("retry", "lockTtlMs"),
        ("retry", "enablePaid"),
    ],
)
def test_what_only_the_settings_say_is_no_field_of_a_request(
    operator: Operator, kind: str, field: str
) -> None:
    response = operator.post(kind, {field: 1})
    assert response.status_code == 400
    assert [error["pointer"] for error in response.json()["errors"]] == [f"/{field}"]


def test_the_allowed_attempts_and_the_default_limits_hold_in_the_workers(operator: Operator) -> None:
    tokens = operator.set_tokens(repos(6), investors=5)
    operator.sandbox.set_faults(BROKEN_GITHUB)
    first = operator.meta("reconcile")
    assert (first["processed"], first["remaining"], first["stoppedBy"]) == (4, 2, "limit")
    elements = [row["social_urls"][0] for row in operator.documents(tokens).values()]
    assert {(each["status"], each["attempts"]) for each in elements} == {("error", 1)}
    addresses = [token["tokenAddress"] for token in tokens]
    meta = operator.meta("retry", {"tokenAddresses": addresses})
    assert (meta["processed"], meta["exhausted"], meta["stoppedBy"]) == (3, 3, "limit")
    assert operator.meta("retry", {"tokenAddresses": addresses})["exhausted"] == 1
    assert operator.meta("retry", {"tokenAddresses": addresses})["candidateUrls"] == 0


def test_a_floor_that_the_settings_raise_is_the_default_and_one_in_the_body_wins(operator: Operator) -> None:
    operator.sandbox.set_tokens([new_token({}, investors=count) for count in (3, 4, 5, 6)])
    assert operator.meta("reconcile")["filtered"] == 2
    assert operator.meta("reconcile", {"minAfCount": 4})["filtered"] == 3


def left_ms(operator: Operator, lease: str) -> int:
    """What is left of a lease's time to live; 0 when nobody holds it."""
    return max(0, int(operator.redis.pttl(f"{KEY_PREFIX}{lease}")))


def test_leases_live_as_long_as_the_settings_say(operator: Operator) -> None:
    [token] = operator.set_tokens([{"website": "https://github.com/lease-owner/anchor"}])
    address = token["tokenAddress"]
    operator.sandbox.set_faults({"route": "/github/", "hang": True, "times": 1})
    job_id = operator.start("reconcile")
    for lease, ttl_ms in (
        ("social-reconcile:reconcile", LEASE_TTLS_MS["reconcile"]),
        (f"social-record:{address}", LEASE_TTLS_MS["token"]),
    ):
        seen = wait_until(lambda lease=lease: left_ms(operator, lease), f"{lease} is held")  # type: ignore[misc]
        assert ttl_ms / 2 < seen <= ttl_ms
    operator.ended(job_id)
    operator.sandbox.set_faults({"route": "/github/", "hang": True, "times": 1})
    job_id = operator.start("retry", {"tokenAddresses": [address]})
    seen = wait_until(lambda: left_ms(operator, "social-reconcile:retry"), "the lease is held")
    assert LEASE_TTLS_MS["retry"] / 2 < seen <= LEASE_TTLS_MS["retry"]
    operator.ended(job_id)


def test_with_paid_calls_on_a_place_that_only_money_shows_is_tried_and_its_key_is_nowhere(
    operator: Operator,
) -> None:
    [token] = operator.set_tokens([{"twitter": "https://x.com/paid_for_harbor"}])
    operator.run("reconcile")
    assert operator.url_of(token)["status"] == "ok"
    assert operator.calls().matching(PAID_CALL) == 1

    [refused] = operator.set_tokens([{"twitter": "https://x.com/bad_key"}])
    job = operator.run("reconcile")
    assert operator.url_of(refused)["status"] == "error"
    secret = CHANGED["TWITTERAPIIO_API_KEY"]
    logs = " ".join(each.read_text() for each in operator.stack.logs.glob("*.log"))
    assert refused["tokenAddress"] in logs
    assert secret not in f"{job} {operator.documents([refused])} {logs}"


def test_a_job_is_kept_for_as_long_as_the_settings_say(operator: Operator) -> None:
    operator.set_tokens([])
    job_id = operator.run("reconcile")["id"]
    two_days_s = 2 * 86_400
    assert two_days_s - 60 < int(operator.redis.ttl(f"converge:job:{job_id}")) <= two_days_s


def test_a_retry_without_a_body_does_what_one_with_every_default_written_out_does(operator: Operator) -> None:
    operator.database.tokens.delete_many({})
    tokens = operator.set_tokens(repos(2), investors=5)
    operator.sandbox.set_faults(BROKEN_GITHUB)
    operator.run("reconcile")
    statuses = ["error", "unsupported", "skipped_paid"]
    metas = []
    for body in (None, {"statuses": statuses, **DEFAULTS["retry"]}):
        for token in tokens:
            operator.database.tokens.update_one(
                {"address": token["tokenAddress"]},
                {"$set": {"social_urls.0.attempts": 1, "social_urls.0.status": "error"}},
            )
        meta = operator.ended(operator.start("retry", body))["result"]["meta"]
        metas.append({name: meta[name] for name in meta if name not in ("queuedMs", "elapsedMs")})
    assert metas[0] == metas[1]
    assert (metas[0]["processed"], metas[0]["exhausted"]) == (2, 2)


# --- windows and zones


def windowed(operator: Operator, start: str, end: str) -> dict[str, Any]:
    return operator.run("reconcile", {"startDate": start, "endDate": end, "limit": 100})


def test_each_last_trade_is_in_exactly_one_of_two_adjoining_windows(operator: Operator) -> None:
    moments = [
        DAY,
        DAY + timedelta(hours=23, minutes=59, seconds=59, milliseconds=999),
        DAY + timedelta(days=1),
    ]
    tokens = [new_token({"website": site(0)}, at=moment) for moment in moments]
    operator.sandbox.set_tokens(tokens)
    days = [(DAY + timedelta(days=number)).isoformat() for number in range(3)]
    windows = [windowed(operator, start, end) for start, end in itertools.pairwise(days)]
    found = [[row["address"] for row in window["result"]["data"]] for window in windows]
    addresses = [token["tokenAddress"] for token in tokens]
    assert sorted(found[0]) == sorted(addresses[:2])
    assert found[1] == addresses[2:]


def test_a_token_that_was_first_seen_in_the_window_and_traded_last_outside_is_not_scanned(
    operator: Operator,
) -> None:
    token = new_token({"website": site(0)}, at=DAY + timedelta(days=3))
    first = datetime.fromisoformat(str(token["firstTransferAt"]))
    operator.sandbox.set_tokens([token])
    around_first = [(first + timedelta(hours=hours)).astimezone(UTC).isoformat() for hours in (-1, 0.5)]
    # The sandbox lets an hour at least lie between the first trade and the last.
    assert windowed(operator, *around_first)["result"]["meta"]["scanned"] == 0
    assert operator.documents([token]) == {}


def test_two_spellings_of_one_moment_ask_for_the_same_and_find_the_same(operator: Operator) -> None:
    token = new_token({"website": site(0)}, at=datetime(2026, 3, 1, tzinfo=UTC))
    operator.sandbox.set_tokens([token])
    abroad = windowed(operator, "2026-03-01T09:00:00+09:00", "2026-03-02T09:00:00+09:00")
    at_home = windowed(operator, "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z")
    assert abroad["request"] == at_home["request"]
    assert abroad["result"]["meta"]["scanned"] == at_home["result"]["meta"]["scanned"] == 1
    asked = [call for call in operator.calls().by_call if re.search(RANGE_CALL, call)]
    assert len(asked) == 1, "the tracker was asked the same twice"
    refused = operator.post(
        "reconcile", {"startDate": "2026-03-01T00:00:00", "endDate": "2026-03-02T00:00:00Z"}
    )
    assert refused.status_code == 400
