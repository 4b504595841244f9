"""Fundings from outside: HTTP and commands in, real workers, counters and blocks out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from redis import Redis
from sqlalchemy import text

from devstack.nursery import the_nursery
from devstack.stack import Stack
from tests.conftest import make_settings
from tests.integration.funding_place import Channel, FundingPlace, emptied_engine, open_channel
from tests.operator import ENDED
from tests.pausing import paused
from tests.waiting import wait_until
from workers.celery_app import create_celery
from workers.clock import Clock
from workers.funding.vocabulary import BlockReason, PurchaseStatus

PARTS = ("valkey", "mongo", "postgres", "sandbox", "migrate", "worker", "api")
RECONCILE = "/api/v1/internal/funding/reconcile"
BLOCKED = "/api/v1/internal/funding/blocked"
WAITING = PurchaseStatus.WAITING_FOR_ASSIGNATION


@pytest.fixture(scope="module")
def channel() -> Iterator[Channel]:
    with open_channel() as channel:
        yield channel


@pytest.fixture(scope="module")
def stack(channel: Channel) -> Iterator[Stack]:
    environ = {
        "FUNDING_ALERT_WEBHOOK_URL": channel.url,
        "FUNDING_COUNTER_RECONCILIATION_STABILIZATION_DELAY_MS": "100",
        "FUNDING_PROPERTY_LOCK_TTL_MS": "2000",
        "FUNDING_RECONCILE_LOCK_TTL_MS": "2000",
        "JOB_HEARTBEAT_TTL_MS": "2000",
        "JOB_GRACE_S": "2",
        "SCHEDULE_ENABLED": "1",
    }
    with Stack(parts=PARTS, workers=2, worker_threads=12, environ=environ) as stack:
        yield stack


@dataclass
class Office:
    """Somebody who runs fundings: with a key, a command line, and a look into the stores."""

    stack: Stack
    place: FundingPlace
    session: requests.Session

    def post(self, body: dict[str, Any] | None = None, **headers: str) -> requests.Response:
        return self.session.post(self.stack.api_url + RECONCILE, json=body, headers=headers, timeout=70)

    def get(self, path: str, **query: str) -> requests.Response:
        return self.session.get(self.stack.api_url + path, params=query, timeout=10)

    def run(self, **body: Any) -> dict[str, Any]:
        """Ask for a job and wait for its end."""
        answer = self.post(body or None, Prefer="wait=60")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/api/v1/jobs/{job_id}").json()
        return found

    def ended(self, job_id: str) -> dict[str, Any]:
        wait_until(lambda: self.job(job_id)["state"] in ENDED, f"the job {job_id} ends", timeout_s=60)
        return self.job(job_id)

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        return the_nursery().run(
            (sys.executable, "-m", "workers.cli", *args),
            env={**self.stack.environ, "COLUMNS": "160"},
            cwd=Path(__file__).parents[2],
            timeout_s=90,
        )

    def command_json(self, *args: str, code: int = 0) -> Any:
        done = self.command(*args, "--json")
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    def tasks_done(self, name: str) -> int:
        """How many tasks of this name the workers have taken up, by their logs."""
        logs = [process.log_file.read_text() for process in self.stack.processes.values()]
        return sum(log.count(f"Task {name}[") for log in logs if log)


@pytest.fixture
def office(stack: Stack, channel: Channel) -> Iterator[Office]:
    redis = Redis.from_url(stack.environ["REDIS_URL"])
    for key in redis.scan_iter("converge:funding:*"):
        redis.delete(key)
    channel.heard.clear()
    session = requests.Session()
    session.headers["x-api-key"] = stack.api_key
    with emptied_engine(stack.environ["FUNDING_DATABASE_URL"]) as engine:
        yield Office(stack, FundingPlace(engine, redis, channel, clock=Clock()), session)
    session.close()
    redis.close()


def test_a_job_repairs_what_is_nearly_sold_and_tells_what_it_did(office: Office, channel: Channel) -> None:
    near = office.place.add_property(10, sold=9, auto_invest=2, counters=(10, 2))
    far = office.place.add_property(1000, sold=5, counters=(7, 0))
    job = office.run()
    assert job["kind"] == "funding.reconcile"
    [row] = job["result"]["data"]
    assert (row["propertyId"], row["outcome"], row["reads"]) == (near, "fixed", 2)
    assert row["delta"] == {"purchased": -1, "autoInvest": 0}
    assert row["readings"][-1] == {
        "counters": {"purchased": 10, "autoInvest": 2},
        "truth": {"purchased": 9, "autoInvest": 2},
    }
    meta = job["result"]["meta"]
    assert {name: meta[name] for name in ("scanned", "nearCompletion", "targeted", "processed", "fixed")} == {
        "scanned": 2,
        "nearCompletion": 1,
        "targeted": 1,
        "processed": 1,
        "fixed": 1,
    }
    assert (meta["failed"], meta["remaining"], meta["stoppedBy"]) == (0, 0, "drained")
    assert job["progress"] == {"done": 1, "total": 1}
    assert office.place.counted(near) == (9, 2)
    assert office.place.counted(far) == (7, 0)
    assert channel.texts == [f"funding-counter-reconciliation-fixed: property {near}: fixed"]


def test_a_job_answers_at_once_with_the_envelope_of_every_job(office: Office) -> None:
    answer = office.post({"dryRun": True})
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["Location"] == f"/api/v1/jobs/{job['id']}"
    assert job["request"] == {"propertyIds": None, "deadlineMs": 240_000, "dryRun": True}
    url = office.stack.api_url + "/api/v1/internal/social-recording/retry"
    other = office.session.post(url, json={"dryRun": True}, timeout=10).json()
    assert job.keys() == other.keys()
    ended, other = office.ended(job["id"]), office.ended(other["id"])
    assert ended.keys() == other.keys()
    assert ended["result"].keys() == other["result"].keys() == {"data", "meta"}
    assert answer.elapsed.total_seconds() < 2


def test_each_property_is_a_task_of_its_own(office: Office) -> None:
    for _ in range(6):
        office.place.add_property(10, sold=9, counters=(10, 0))
    before = office.tasks_done("converge.funding.reconcile_property")
    assert office.run()["result"]["meta"]["fixed"] == 6
    done = lambda: office.tasks_done("converge.funding.reconcile_property") - before  # noqa: E731
    wait_until(lambda: done() >= 6, "the workers have logged them")
    assert done() % 6 == 0, "received and succeeded, for each"


def test_an_unknown_property_is_named_and_no_job_is_made(office: Office) -> None:
    known = office.place.add_property(10)
    before = office.get("/api/v1/jobs", kind="funding.reconcile").json()["data"]
    answer = office.post({"propertyIds": [known, "nowhere", "elsewhere"]})
    assert answer.status_code == 404
    problem = answer.json()
    assert problem["code"] == "PROPERTY_NOT_FOUND"
    assert "nowhere, elsewhere" in problem["detail"]
    assert [error["detail"] for error in problem["errors"]] == [
        "there is no property nowhere",
        "there is no property elsewhere",
    ]
    assert known not in answer.text
    assert office.get("/api/v1/jobs", kind="funding.reconcile").json()["data"] == before


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"propertyIds": []}, "/propertyIds"),
        ({"propertyIds": ["a b"]}, "/propertyIds/0"),
        ({"propertyIds": "all"}, "/propertyIds"),
        ({"deadlineMs": 999}, "/deadlineMs"),
        ({"deadlineMs": True}, "/deadlineMs"),
        ({"dryRun": "yes"}, "/dryRun"),
        ({"force": True}, "/force"),
        ({"property_ids": ["a"]}, "/property_ids"),
    ],
)
def test_a_bad_body_names_the_field(office: Office, body: dict[str, Any], pointer: str) -> None:
    answer = office.post(body)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


def test_named_properties_and_a_dry_run(office: Office) -> None:
    named = office.place.add_property(1000, sold=5, counters=(7, 0))
    before = office.place.ledger_hash()
    dry = office.run(propertyIds=[named, named], dryRun=True)
    assert dry["request"]["propertyIds"] == [named]
    [row] = dry["result"]["data"]
    assert (row["outcome"], row["cause"], row["delta"]["purchased"]) == ("planned", "named", -2)
    assert office.place.counted(named) == (7, 0)
    real = office.run(propertyIds=[named])
    assert real["result"]["meta"]["fixed"] == 1
    assert office.place.counted(named) == (5, 0)
    assert office.place.ledger_hash() == before


def test_blocked_fundings_are_listed_with_both_sides(office: Office) -> None:
    ids = [office.place.add_property(10, sold=9, counters=(10, None)) for _ in range(3)]
    ended = office.place.add_property(10, ended_at=office.place.clock.now())
    for each in (*ids, ended):
        office.place.set_block(each, BlockReason.BRICKS_OVERSELL)
    office.place.add_property(10)
    first = office.get(BLOCKED, limit="2").json()
    second = office.session.get(office.stack.api_url + first["links"]["next"], timeout=10).json()
    rows = first["data"] + second["data"]
    assert [row["propertyId"] for row in rows] == sorted(ids)
    assert (len(first["data"]), second["meta"]) == (2, {"cursor": None})
    assert "links" not in second
    assert (
        rows[0].items()
        >= {
            "reason": "bricks-oversell",
            "capacity": 10,
            "waiting": 0,
            "counters": {"purchased": 10, "autoInvest": None},
            "truth": {"purchased": 9, "autoInvest": 0},
        }.items()
    )
    assert rows[0]["blockedAt"].endswith("Z")


def test_a_property_that_cannot_be_repaired_is_listed_until_it_can(office: Office, channel: Channel) -> None:
    stuck = office.place.add_property(10, sold=8, counters=(10, 0))
    office.place.add_purchase(stuck, 1, WAITING)
    job = office.run()
    assert job["state"] == "succeeded"
    assert job["result"]["meta"]["byReason"] == {"assignation-drain-timeout": 1}
    [row] = office.get(BLOCKED).json()["data"]
    assert (row["propertyId"], row["reason"], row["waiting"]) == (stuck, "counter-reconciliation", 1)
    failed = f"funding-counter-reconciliation-failed: property {stuck}: assignation-drain-timeout"
    assert channel.texts == [failed]
    office.place.passes.assign()
    assert office.run()["result"]["meta"]["fixed"] == 1
    assert office.get(BLOCKED).json()["data"] == []


def test_the_same_from_the_command_line(office: Office) -> None:
    property_id = office.place.add_property(10, sold=8, counters=(10, 0))
    office.place.add_purchase(property_id, 1, WAITING)
    assert office.command_json("funding", "reconcile", "--dry-run")["result"]["meta"]["planned"] == 1
    job = office.command_json("funding", "reconcile", "--property", property_id)
    assert job["result"]["meta"]["failed"] == 1
    [row] = office.command_json("funding", "blocked")
    assert row["propertyId"] == property_id
    shown = office.command("funding", "blocked")
    assert shown.returncode == 0
    assert property_id in shown.stdout
    unknown = office.command("funding", "reconcile", "--property", "nowhere")
    assert (unknown.returncode, unknown.stderr.strip()) == (1, "there is no property nowhere")
    misused = office.command("funding", "reconcile", "--property", "a b")
    assert misused.returncode == 2
    assert "propertyIds" in misused.stderr or "property_ids" in misused.stderr


def test_migrating_again_reports_the_tables_as_they_are(office: Office) -> None:
    report = office.command_json("migrate")
    assert report["fundings"]["present"] == ["0001_fundings_and_purchases"]
    with office.place.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE funding RENAME COLUMN blocked TO locked")
    try:
        differing = office.command_json("migrate", code=1)
        assert differing["fundings"]["differing"] == ["funding.blocked"]
        answer = office.get(BLOCKED)
        assert (answer.status_code, answer.json()["code"]) == (503, "STORE_UNAVAILABLE")
        assert "converge migrate" in answer.json()["detail"]
    finally:
        with office.place.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE funding RENAME COLUMN locked TO blocked")


@contextmanager
def somebody_between_two_writes(office: Office, property_id: str) -> Iterator[None]:
    """Inside, a run waits at the gate of the property."""
    enter = text("SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))")
    with office.place.engine.connect() as connection, connection.begin():
        connection.execute(enter, {"name": f"converge:funding:gate:{property_id}"})
        yield


def somebody_waits(office: Office, kind: str) -> bool:
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = :kind AND NOT granted")
    with office.place.engine.connect() as connection:
        return bool(connection.scalar(waiting, {"kind": kind}))


def test_a_worker_that_is_killed_under_its_block_leaves_it_to_the_next_run(
    office: Office, channel: Channel
) -> None:
    property_id = office.place.add_property(10, sold=9, counters=(10, 0))
    with office.place.engine.connect() as reader, reader.begin():
        with somebody_between_two_writes(office, property_id):
            job_id = office.post().json()["id"]
            wait_until(lambda: somebody_waits(office, "advisory"), "the run waits at the gate")
            # From now on nobody reads purchases, so the run gets as far as its block and no further.
            reader.exec_driver_sql("LOCK TABLE primary_purchase IN ACCESS EXCLUSIVE MODE")
        wait_until(lambda: somebody_waits(office, "relation"), "the property is blocked")
        owner = office.place.redis.get(f"converge:lease:funding:{property_id}")
        assert isinstance(owner, bytes)
        pid = int(owner.split(b":")[0])
        worker = next(each for each in office.stack.processes.values() if each.pid == pid)
        worker.kill()
    job = office.ended(job_id)
    assert office.place.reason_of(property_id) is BlockReason.COUNTER_RECONCILIATION
    assert office.place.counted(property_id) == (10, 0)
    if job["state"] == "succeeded":
        assert job["result"]["meta"]["lost"] == 1
        failed = f"funding-counter-reconciliation-failed: property {property_id}: unexpected"
        assert channel.texts == [failed]
    else:
        assert job["state"] == "lost", "the job was in the same process"
    office.stack.start_worker()
    leases = lambda: office.place.redis.keys("converge:lease:funding*")  # noqa: E731
    wait_until(lambda: not leases(), "the leases of the dead run out")
    assert office.run()["result"]["meta"]["fixed"] == 1
    assert office.place.block_of(property_id) is None
    assert office.place.counted(property_id) == (9, 0)


def test_a_cancel_stops_a_run_within_seconds_and_lifts_its_blocks(office: Office) -> None:
    property_id = office.place.add_property(10, sold=8, counters=(10, 0))
    office.place.add_purchase(property_id, 1, WAITING)
    with somebody_between_two_writes(office, property_id):
        job_id = office.post().json()["id"]
        wait_until(lambda: office.job(job_id)["state"] == "running", "it runs")
        url = f"{office.stack.api_url}/api/v1/jobs/{job_id}/cancel"
        assert office.session.post(url, timeout=10).status_code == 202
    job = office.ended(job_id)
    assert job["state"] == "cancelled"
    assert job["result"]["meta"]["stoppedBy"] == "cancelled"
    assert office.place.block_of(property_id) is None
    assert office.place.counted(property_id) == (10, 0)


def test_ticks_of_one_night_ask_for_one_job(office: Office) -> None:
    addresses = {name: office.stack.environ[name.upper()] for name in ("broker_url", "result_backend_url")}
    celery = create_celery(lambda: make_settings(**addresses), polls_only=True)
    before = {job["id"] for job in office.get("/api/v1/jobs", kind="funding.reconcile").json()["data"]}
    name = "converge.schedule.funding_reconciliation"
    done = office.tasks_done(name)
    for _ in range(3):
        celery.send_task(name, queue="jobs")
    celery.close()
    # Each is logged as received and as succeeded.
    wait_until(lambda: office.tasks_done(name) - done == 6, "the ticks are over")
    jobs = office.get("/api/v1/jobs", kind="funding.reconcile").json()["data"]
    [job] = [job for job in jobs if job["id"] not in before]
    assert office.ended(job["id"])["state"] == "succeeded"


def test_jobs_of_different_kinds_run_at_the_same_time(office: Office) -> None:
    property_id = office.place.add_property(10, sold=9, counters=(10, 0))
    with somebody_between_two_writes(office, property_id):
        funding = office.post().json()["id"]
        wait_until(lambda: office.job(funding)["state"] == "running", "it runs")
        url = office.stack.api_url + "/api/v1/internal/social-recording/retry"
        retry = office.session.post(url, timeout=70, headers={"Prefer": "wait=60"}).json()
        assert retry["state"] == "succeeded"
        assert office.job(funding)["state"] == "running"
    assert office.ended(funding)["result"]["meta"]["fixed"] == 1


def test_readiness_tells_of_the_database(office: Office) -> None:
    answer = requests.get(office.stack.api_url + "/readyz", timeout=10)
    assert answer.json()["checks"]["postgresql"] == "ok", answer.text


def test_a_database_that_hangs_is_said_in_time_and_a_job_without_ids_is_still_taken(office: Office) -> None:
    postmaster = office.stack.postgres.pid
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    with paused(postmaster, *map(int, children)):
        taken = office.post({"dryRun": True})
        assert (taken.status_code, taken.elapsed.total_seconds() < 2) == (202, True)
        answer = office.get(BLOCKED)
        assert (answer.status_code, answer.json()["code"]) == (503, "STORE_UNAVAILABLE")
        assert answer.elapsed.total_seconds() < 8
    assert office.ended(taken.json()["id"])["state"] in ("succeeded", "failed")
    assert office.get(BLOCKED).status_code == 200
