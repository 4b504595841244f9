"""The processes as an operator starts them: what they refuse, the commands, the dashboard, the schedule."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
from celery.schedules import crontab

from devstack.nursery import the_nursery
from devstack.sandbox.tokens import address_of
from devstack.server import plain_environ
from devstack.stack import FLOWER_USER, Stack
from tests.conftest import make_settings
from tests.e2e.conftest import PARTS, QUICK
from tests.operator import Operator, sites
from tests.waiting import wait_until
from workers.celery_app import create_celery

PYTHON = (sys.executable, "-m")
NOBODYS = address_of("never recorded")
PROCESSES = {
    "api": (*PYTHON, "gunicorn", "app.wsgi:app", "-b", "127.0.0.1:0", "--no-control-socket"),
    "worker": (*PYTHON, "celery", "-A", "workers", "worker", "-P", "threads"),
    "beat": (*PYTHON, "celery", "-A", "workers", "beat", "--schedule", "schedule-of-nobody"),
    "migrate": (*PYTHON, "workers.cli", "migrate"),
    "reconcile": (
        *(*PYTHON, "workers.cli", "reconcile"),
        *("--start", "2026-01-01T00:00:00Z", "--end", "2026-01-02T00:00:00Z"),
    ),
    "tokens": (*PYTHON, "workers.cli", "tokens", NOBODYS),
    "stream": (*PYTHON, "workers.cli", "stream"),
    "stream --check": (*PYTHON, "workers.cli", "stream", "--check"),
}
GOOD = {
    "APP_SECRET_KEY": "a-key",
    "TRACKER_BASE_URL": "http://127.0.0.1:9",
    "TRACKER_API_KEY": "tracker-key",
    "SOCIAL_RECORD_AF_GROUP_IDS": "1",
    # Nobody listens here: a process that starts all the same does no harm.
    "BROKER_URL": "redis://127.0.0.1:9/0",
    "REDIS_URL": "redis://127.0.0.1:9/0",
    "RESULT_BACKEND_URL": "redis://127.0.0.1:9/0",
}
RANGE = ("--start", "2026-01-10T00:00:00Z", "--end", "2026-01-11T00:00:00Z")


def run(
    argv: tuple[str, ...], environ: Mapping[str, str], checkout: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={**plain_environ(), **environ},
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    environ = {**QUICK, "SCHEDULE_ENABLED": "1"}
    with Stack(parts=(*PARTS, "beat", "flower"), worker_threads=8, environ=environ) as stack:
        yield stack


def converge(stack: Stack, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the command line against the stack. That it starts from nothing is shown by `PROCESSES`."""
    argv = (*PYTHON, "workers.cli", *args)
    return the_nursery().run(argv, env={**plain_environ(), **stack.environ}, cwd=Path(__file__).parents[2])


def converge_json(stack: Stack, *args: str, code: int = 0) -> Any:
    done = converge(stack, *args, "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_refuses_to_start_and_names_each_bad_setting(process: str, checkout: Path) -> None:
    environ = {
        **GOOD,
        "APP_SECRET_KEY": "",
        "MONGO_URL": "http://secret-password@nowhere",
        "SOCIAL_RECORD_MAX_ATTEMPTS": "many",
        "SOCIAL_RECORD_TYPO": "1",
    }
    del environ["SOCIAL_RECORD_AF_GROUP_IDS"]
    done = run(PROCESSES[process], environ, checkout)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    for name in (
        "APP_SECRET_KEY",
        "MONGO_URL",
        "SOCIAL_RECORD_MAX_ATTEMPTS",
        "SOCIAL_RECORD_TYPO",
        "SOCIAL_RECORD_AF_GROUP_IDS",
    ):
        assert name in said
    assert "secret-password" not in said
    assert "Traceback" not in said


def test_the_guard_cannot_be_dropped_in_prod_by_one_setting_alone(checkout: Path) -> None:
    done = run(PROCESSES["api"], {**GOOD, "APP_ENV": "prod", "AUTH_DISABLED": "1"}, checkout)
    assert done.returncode != 0
    assert "AUTH_DISABLED_IN_PROD_ACCEPTED" in done.stdout + done.stderr


def test_a_store_that_is_away_ends_the_command_with_a_sentence(checkout: Path) -> None:
    environ = {**GOOD, "MONGO_URL": "mongodb://127.0.0.1:9", "MONGO_TIMEOUT_MS": "300"}
    for process in ("migrate", "reconcile", "tokens"):
        done = run(PROCESSES[process], environ, checkout)
        assert done.returncode == 1
        assert done.stderr.strip()
        assert "Traceback" not in done.stderr


def test_migrating_again_changes_nothing(stack: Stack, operator: Operator) -> None:
    def indexes() -> dict[str, Any]:
        return {
            name: operator.database[name].index_information()
            for name in operator.database.list_collection_names()
        }

    before = indexes()
    assert sum(len(found) for found in before.values()) > 20
    first, second = converge_json(stack, "migrate"), converge_json(stack, "migrate")
    assert first == second
    assert indexes() == before


def test_a_reconcile_and_a_retry_from_the_command_line(stack: Stack, operator: Operator) -> None:
    tokens = operator.set_tokens([*sites(2), {"website": "https://github.com/cli-owner/broken"}])
    operator.sandbox.set_faults({"route": "/github/", "body": "<html></html>"})
    job = converge_json(stack, "reconcile", *RANGE, "--limit", "3")
    assert (job["kind"], job["state"], job["result"]["meta"]["recorded"]) == (
        "social.reconcile",
        "succeeded",
        3,
    )
    assert len(operator.documents(tokens)) == 3
    operator.sandbox.clear_faults()
    broken = tokens[2]["tokenAddress"]
    job = converge_json(stack, "retry", "--token", broken, "--min-interval-minutes", "0")
    assert (job["state"], job["result"]["meta"]["converged"]) == ("succeeded", 1)

    listed = converge_json(stack, "jobs", "list", "--kind", "social.retry", "--limit", "1")
    assert [each["id"] for each in listed] == [job["id"]]
    assert converge_json(stack, "jobs", "show", job["id"]) == job
    assert converge(stack, "jobs", "cancel", job["id"]).returncode == 1


def test_a_recorded_token_is_shown_on_the_command_line_as_over_http(stack: Stack, operator: Operator) -> None:
    [token] = operator.set_tokens([{"website": "https://github.com/shown-owner/shown"}])
    address = token["tokenAddress"]
    assert converge(stack, "tokens", address).returncode == 1, "not recorded yet"
    operator.run("reconcile")
    shown = converge_json(stack, "tokens", address)
    url = f"{stack.api_url}/api/v1/internal/social-recording/tokens/{address}"
    served = operator.session.get(url, params={"asOf": shown["meta"]["asOf"]}, timeout=10).json()
    assert shown == served
    assert [(row["kind"], row["depth"]) for row in shown["data"]] == [("contents", 0), ("accounts", 1)]
    assert converge_json(stack, "tokens", address, "--as-of", "2026-01-01T00:00:00Z")["data"] == []


def test_the_names_of_strangers_do_not_steer_the_terminal(stack: Stack, operator: Operator) -> None:
    [token] = operator.set_tokens([{"website": "https://github.com/steering-owner/steering"}])
    operator.run("reconcile")
    name = "\x1b[2Jgone [bold red]loud[/]"
    found = operator.database.accounts.update_one(
        {"source_urls.url": "https://github.com/steering-owner"}, {"$set": {"handles.0.value": name}}
    )
    assert found.matched_count == 1
    done = converge(stack, "tokens", token["tokenAddress"])
    assert done.returncode == 0, done.stderr
    assert "\x1b[2J" not in done.stdout
    assert "[bold" in done.stdout, "it is text, no markup"


def test_a_failed_job_fails_its_command_and_says_why(stack: Stack, operator: Operator) -> None:
    operator.set_tokens(sites(1))
    operator.sandbox.set_faults({"route": "/tracker/", "status": 403})
    job = converge_json(stack, "reconcile", *RANGE, code=1)
    assert (job["state"], job["error"]["code"]) == ("failed", "UPSTREAM_FAILED")


@pytest.mark.parametrize(
    ("args", "code", "named"),
    [
        (("reconcile", *RANGE, "--limit", "0"), 2, "limit"),
        (("reconcile", *RANGE[2:], "--start", "2026-01-11T00:00:00Z"), 2, "end"),
        (("retry", "--status", "ok"), 2, "ok"),
        (("retry", "--status", "foo"), 2, "foo"),
        (("retry", "--token", "no address"), 2, "token"),
        (("tokens", "no-address"), 2, "address"),
        (("tokens", NOBODYS, "--as-of", "2026-01-01T00:00:00"), 2, "as-of"),
        (("tokens", NOBODYS), 1, NOBODYS),
        (("jobs", "show", "never-issued"), 1, "never-issued"),
        (("jobs", "list", "--kind", "no.such"), 1, "no.such"),
    ],
)
def test_wrong_use_of_the_command_line_names_what_is_wrong(
    stack: Stack, args: tuple[str, ...], code: int, named: str
) -> None:
    done = converge(stack, *args)
    assert done.returncode == code, done.stderr
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_the_dashboard_shows_nothing_without_its_login(stack: Stack, operator: Operator) -> None:
    operator.set_tokens(sites(1))
    operator.run("reconcile")
    for path in ("/", "/workers", "/tasks", "/api/workers", "/api/tasks"):
        assert requests.get(f"{stack.flower_url}{path}", timeout=10).status_code == 401
    wrong = requests.get(f"{stack.flower_url}/api/tasks", auth=(FLOWER_USER, "wrong"), timeout=10)
    assert wrong.status_code == 401
    login = (FLOWER_USER, stack.flower_password)

    def names() -> set[str]:
        tasks = requests.get(f"{stack.flower_url}/api/tasks", auth=login, timeout=10).json()
        return {task["name"] for task in tasks.values()}

    wait_until(lambda: "converge.social_recording.reconcile" in names(), "the dashboard has seen the job")


def test_ticks_of_one_hour_ask_for_one_retry_job_with_the_defaults(stack: Stack, operator: Operator) -> None:
    """What the scheduler sends, sent twice; the hour may change in between, so the mark decides."""
    addresses = {name: stack.environ[name.upper()] for name in ("broker_url", "result_backend_url")}
    celery = create_celery(lambda: make_settings(**addresses), polls_only=True)
    for key in operator.redis.keys("converge:sweep:*"):
        operator.redis.delete(key)
    before = {job["id"] for job in retry_jobs(operator)}
    worker = stack.processes["worker-1"]
    sent = [celery.send_task("converge.schedule.retry_sweep", queue="jobs").id for _ in range(3)]
    wait_until(lambda: all(worker.logged(f"[{each}] succeeded") for each in sent), "the ticks are over")
    celery.close()
    new = [job for job in retry_jobs(operator) if job["id"] not in before]
    assert len(new) == len(operator.redis.keys("converge:sweep:*"))
    assert len(new) < len(sent)
    job = operator.ended(new[0]["id"])
    assert job["state"] == "succeeded"
    assert job["request"] == operator.job(operator.start("retry"))["request"]


def retry_jobs(operator: Operator) -> list[dict[str, Any]]:
    url = f"{operator.stack.api_url}/api/v1/jobs"
    found: list[dict[str, Any]] = operator.session.get(
        url, params={"kind": "social.retry", "limit": "100"}, timeout=10
    ).json()["data"]
    return found


def test_the_schedule_has_one_hourly_and_one_nightly_run_and_only_where_it_is_on() -> None:
    on = create_celery(lambda: make_settings(app_env="prod")).conf.beat_schedule
    assert {name: entry["task"] for name, entry in on.items()} == {
        "retry-sweep": "converge.schedule.retry_sweep",
        "funding-counter-reconciliation": "converge.schedule.funding_reconciliation",
        "funding-counter-reconciliation-again": "converge.schedule.funding_reconciliation",
    }
    assert on["retry-sweep"]["schedule"] == crontab(minute=7)
    assert on["funding-counter-reconciliation"]["schedule"] == crontab(hour=2, minute=30)
    assert create_celery(lambda: make_settings(app_env="dev")).conf.beat_schedule == {}
