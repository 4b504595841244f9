"""The HTTP face on a real broker, without a worker: what it refuses, what it takes, what it answers."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from redis import Redis
from werkzeug.datastructures import Headers
from werkzeug.routing import Rule

from app import create_app
from devstack.mongo import MongoServer
from devstack.valkey import ValkeyServer
from tests.conftest import make_settings
from workers.celery_app import create_celery
from workers.errors import BrokerUnavailable
from workers.jobs.record import JobState
from workers.jobs.service import Job, JobService
from workers.services import open_job_access
from workers.settings import Settings

RECONCILE = "/api/v1/internal/social-recording/reconcile"
RETRY = "/api/v1/internal/social-recording/retry"
RANGE = {"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-01-02T00:00:00Z"}
KEY = {"x-api-key": "test-key"}
ADDRESS = "So11111111111111111111111111111111111111112"


@pytest.fixture
def settings(redis: Redis, valkey: ValkeyServer, mongo: MongoServer) -> Settings:
    return make_settings(
        broker_url=valkey.url_of(0),
        result_backend_url=valkey.url_of(1),
        redis_url=valkey.url_of(2),
        mongo_url=mongo.url,
    )


@contextmanager
def client_of(settings: Settings) -> Iterator[FlaskClient]:
    access = open_job_access(settings)
    yield create_app(access).test_client()
    access.close()


@pytest.fixture
def client(settings: Settings) -> Iterator[FlaskClient]:
    with client_of(settings) as client:
        yield client


@contextmanager
def ended(settings: Settings, job_id: str, result: dict[str, Any]) -> Iterator[None]:
    """Inside, the job has run and left its result, as a worker would."""
    access = open_job_access(settings)
    celery = create_celery(lambda: settings, polls_only=True)
    assert access.store.begin(job_id, "test")
    access.store.finish(job_id, JobState.SUCCEEDED)
    celery.backend.store_result(job_id, result, "SUCCESS")
    yield
    celery.close()
    access.close()


@pytest.fixture
def queue(redis: Redis) -> list[bytes]:
    """The messages on the jobs queue, as they are when looked at."""

    class Queue(list[bytes]):
        def __len__(self) -> int:
            return int(redis.llen("converge:jobs"))

    return Queue()


def problem_of(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.content_type == "application/problem+json"
    body: dict[str, Any] = response.get_json()
    assert body["status"] == status
    assert {"type", "title", "code", "detail"} <= body.keys()
    return body


def test_a_reconcile_is_accepted_with_its_job_and_a_place_to_poll(
    client: FlaskClient, queue: list[bytes]
) -> None:
    response = client.post(RECONCILE, json=RANGE, headers=KEY)
    assert response.status_code == 202
    job = response.get_json()
    assert response.headers["Location"] == f"/api/v1/jobs/{job['id']}"
    assert int(response.headers["Retry-After"]) > 0
    assert (job["kind"], job["state"]) == ("social.reconcile", "queued")
    assert job["request"] == {
        "startDate": "2026-01-01T00:00:00Z",
        "endDate": "2026-01-02T00:00:00Z",
        "minAfCount": 3,
        "limit": 20,
        "deadlineMs": 45000,
        "dryRun": False,
    }
    assert len(queue) == 1
    polled = client.get(response.headers["Location"], headers=KEY)
    assert polled.status_code == 200
    assert polled.get_json()["state"] == "queued"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"startDate": None}, "startDate"),
        ({"endDate": None}, "endDate"),
        ({"startDate": "yesterday"}, "startDate"),
        ({"startDate": 1767225600}, "startDate"),
        ({"startDate": "1767225600"}, "startDate"),
        ({"startDate": "2026-01-01T00:00:00"}, "startDate"),
        ({"startDate": "2026-01-01"}, "startDate"),
        ({"startDate": "0001-01-01T00:00:00+14:00"}, "startDate"),
        ({"endDate": RANGE["startDate"]}, "endDate"),
        ({"endDate": "2025-12-31T00:00:00Z"}, "endDate"),
        ({"minAfCount": 0}, "minAfCount"),
        ({"minAfCount": True}, "minAfCount"),
        ({"minAfCount": 1_000_001}, "minAfCount"),
        ({"minAfCount": 10**400}, "minAfCount"),
        ({"endDate": "10000-01-01T00:00:00Z"}, "endDate"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"limit": "20"}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"deadlineMs": 999}, "deadlineMs"),
        ({"deadlineMs": 300001}, "deadlineMs"),
        ({"dryRun": 1}, "dryRun"),
        ({"dryRun": "true"}, "dryRun"),
        ({"afGroupIds": ["1"]}, "afGroupIds"),
        ({"reconcile_limit": 1}, "reconcile_limit"),
        ({"min_af_count": 1}, "min_af_count"),
    ],
)
def test_an_invalid_reconcile_names_the_field_and_queues_nothing(
    client: FlaskClient, queue: list[bytes], changes: dict[str, Any], field: str
) -> None:
    body = {key: value for key, value in {**RANGE, **changes}.items() if value is not None}
    problem = problem_of(client.post(RECONCILE, json=body, headers=KEY), 400)
    assert problem["code"] == "VALIDATION"
    assert [error["pointer"] for error in problem["errors"]] == [f"/{field}"]
    assert len(queue) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"startDate": NaN}',
        b'"{\\"startDate\\": 1}"',
        b"1",
        b"",
        b"[" * 100_000,
        b'{"limit":' * 100_000,
        b'{"limit": ' + b"1" * 5000 + b"}",
    ],
)
def test_a_body_that_is_no_object_is_refused(client: FlaskClient, queue: list[bytes], body: bytes) -> None:
    headers = {**KEY, "content-type": "application/json"}
    assert problem_of(client.post(RECONCILE, data=body, headers=headers), 400)["code"] == "VALIDATION"
    assert len(queue) == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"statuses": ["foo"]}, "statuses/0"),
        ({"statuses": []}, "statuses"),
        ({"statuses": "error"}, "statuses"),
        ({"limit": 201}, "limit"),
        ({"limit": 0}, "limit"),
        ({"minIntervalMinutes": -1}, "minIntervalMinutes"),
        ({"minIntervalMinutes": 525_601}, "minIntervalMinutes"),
        ({"tokenAddresses": ["not base58 0OIl"]}, "tokenAddresses/0"),
        ({"tokenAddresses": [ADDRESS] * 1001}, "tokenAddresses"),
    ],
)
def test_an_invalid_retry_names_the_field(
    client: FlaskClient, queue: list[bytes], body: dict[str, Any], field: str
) -> None:
    problem = problem_of(client.post(RETRY, json=body, headers=KEY), 400)
    assert [error["pointer"] for error in problem["errors"]] == [f"/{field}"]
    assert len(queue) == 0


@pytest.mark.parametrize("statuses", [["ok"], ["error", "ok"]])
def test_reopening_a_success_is_refused(client: FlaskClient, queue: list[bytes], statuses: list[str]) -> None:
    problem = problem_of(client.post(RETRY, json={"statuses": statuses}, headers=KEY), 422)
    assert problem["code"] == "STATUS_NOT_RETRYABLE"
    assert len(queue) == 0


def test_a_retry_without_a_body_equals_one_with_all_defaults(client: FlaskClient) -> None:
    bare = client.post(RETRY, headers=KEY).get_json()["request"]
    full = client.post(
        RETRY,
        json={
            "statuses": ["error", "skipped_paid", "unsupported"],
            "limit": 50,
            "deadlineMs": 45000,
            "minIntervalMinutes": 60,
            "dryRun": False,
        },
        headers=KEY,
    ).get_json()["request"]
    assert bare == full


def test_settings_change_the_defaults_and_the_body_wins(settings: Settings) -> None:
    changed = settings.model_copy(
        update={
            "social_record_reconcile_limit": 7,
            "social_record_deadline_ms": 5000,
            "social_record_af_investor_threshold": 9,
        }
    )
    with client_of(changed) as client:
        asked = client.post(RECONCILE, json={**RANGE, "limit": 8}, headers=KEY).get_json()["request"]
    assert (asked["limit"], asked["deadlineMs"], asked["minAfCount"]) == (8, 5000, 9)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "wrong"},
        {"x-api-key": "test-key "},
        {"x-api-key": "tést-key"},
        {"Authorization": "Bearer test-key"},
    ],
)
@pytest.mark.parametrize("path", [RECONCILE, RETRY, "/api/v1/jobs/x/cancel"])
def test_without_the_key_nothing_is_done(
    client: FlaskClient, queue: list[bytes], headers: dict[str, str], path: str
) -> None:
    assert problem_of(client.post(path, json=RANGE, headers=headers), 401)["code"] == "UNAUTHORIZED"
    assert len(queue) == 0


@pytest.mark.parametrize("values", [["test-key", "wrong"], ["wrong", "test-key"], ["test-key", "test-key"]])
def test_a_doubled_key_is_refused(client: FlaskClient, queue: list[bytes], values: list[str]) -> None:
    headers = Headers([("x-api-key", value) for value in values])
    problem_of(client.post(RECONCILE, json=RANGE, headers=headers), 401)
    assert len(queue) == 0


def api_rules(client: FlaskClient) -> list[Rule]:
    """The routes of the API. The console, for people, has tests of its own (`test_console_pages.py`)."""
    return [
        rule
        for rule in client.application.url_map.iter_rules()
        if rule.endpoint != "static" and not rule.endpoint.startswith("console.")
    ]


def test_every_route_but_health_needs_the_key(client: FlaskClient) -> None:
    open_routes = set()
    for rule in api_rules(client):
        path = rule.rule.replace("<jobId>", "x")
        for method in sorted((rule.methods or set()) & {"GET", "POST"}):
            if client.open(path, method=method).status_code != 401:
                open_routes.add(path)
    assert open_routes == {"/healthz", "/readyz"}


def test_the_routes_are_exactly_the_documented_ones(client: FlaskClient) -> None:
    """No endpoint exists for the schedule alone."""
    assert {rule.rule for rule in api_rules(client)} == {
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/openapi.json",
        "/api/v1/docs",
        "/api/v1/jobs",
        "/api/v1/jobs/<jobId>",
        "/api/v1/jobs/<jobId>/cancel",
        RECONCILE,
        RETRY,
        "/api/v1/internal/solana-backfill/campaigns",
        "/api/v1/internal/funding/reconcile",
        "/api/v1/internal/funding/blocked",
        "/api/v1/internal/social-recording/tokens/<address>",
        "/api/v1/internal/social-recording/objects/<kind>/<id>/tokens",
        "/api/v1/internal/social-recording/urls/explain",
    }


def test_the_guard_can_be_dropped_behind_a_closed_network(settings: Settings) -> None:
    with client_of(settings.model_copy(update={"auth_disabled": True})) as client:
        assert client.post(RETRY).status_code == 202


@pytest.mark.parametrize(
    "job_id",
    [
        "nope",
        "00000000-0000-4000-8000-000000000000",
        "00000000000040008000000000000000",
        "{00000000-0000-4000-8000-000000000000}",
        "00000000-0000-4000-8000-000000000000%0A",
        "x:events",
        "00000000-0000-4000-8000-000000000000:events",
    ],
)
def test_an_unknown_job_is_not_found(
    client: FlaskClient, redis: Redis, settings: Settings, job_id: str
) -> None:
    with Redis.from_url(settings.redis_url) as store:
        store.rpush("converge:job:x:events", "not a record")
    for response in (
        client.get(f"/api/v1/jobs/{job_id}", headers=KEY),
        client.post(f"/api/v1/jobs/{job_id}/cancel", headers=KEY),
    ):
        assert problem_of(response, 404)["code"] == "JOB_NOT_FOUND"


def test_the_letters_of_an_id_may_be_large(client: FlaskClient) -> None:
    job_id = client.post(RETRY, headers=KEY).get_json()["id"]
    assert client.get(f"/api/v1/jobs/{job_id.upper()}", headers=KEY).get_json()["id"] == job_id


def test_a_doubled_slash_is_not_found_and_no_redirect(client: FlaskClient) -> None:
    problem_of(client.post("/api/v1/jobs//cancel", headers=KEY), 404)


def test_an_unknown_path_and_a_wrong_method_are_problems(client: FlaskClient) -> None:
    problem_of(client.post("/internal/social-recording/reconcile", json=RANGE, headers=KEY), 404)
    response = client.get(RECONCILE, headers=KEY)
    problem_of(response, 405)
    assert "POST" in response.headers["Allow"]


def test_a_body_beyond_the_limit_is_refused(client: FlaskClient, queue: list[bytes]) -> None:
    problem_of(client.post(RECONCILE, data=b" " * 2_000_000, headers=KEY), 413)
    assert len(queue) == 0


def test_the_same_idempotency_key_gives_the_same_job(client: FlaskClient, queue: list[bytes]) -> None:
    headers = {**KEY, "Idempotency-Key": "night-1"}
    first = client.post(RECONCILE, json=RANGE, headers=headers).get_json()
    second = client.post(RECONCILE, json=RANGE, headers=headers).get_json()
    assert first["id"] == second["id"]
    assert len(queue) == 1
    other = client.post(RECONCILE, json={**RANGE, "limit": 1}, headers=headers)
    assert problem_of(other, 422)["code"] == "IDEMPOTENCY_KEY_REUSED"
    for key in ("x" * 201, "", " ", "n\u00fc", " x"):
        bad = client.post(RECONCILE, json=RANGE, headers={**KEY, "Idempotency-Key": key})
        (error,) = problem_of(bad, 400)["errors"]
        assert (error["header"], error.keys()) == ("Idempotency-Key", {"header", "detail", "code"})


def test_jobs_are_listed_a_page_at_a_time(client: FlaskClient) -> None:
    ids = [client.post(RETRY, headers=KEY).get_json()["id"] for _ in range(5)]
    first = client.get("/api/v1/jobs?limit=3&kind=social.retry&state=queued", headers=KEY).get_json()
    rest = client.get(first["links"]["next"], headers=KEY).get_json()
    assert [job["id"] for job in first["data"] + rest["data"]] == ids[::-1]
    assert rest["meta"]["cursor"] is None
    for query, field in (
        ("kind=x", "kind"),
        ("state=x", "state"),
        ("cursor=!", "cursor"),
        ("limit=0", "limit"),
    ):
        problem = problem_of(client.get(f"/api/v1/jobs?{query}", headers=KEY), 400)
        assert [error["parameter"] for error in problem["errors"]] == [field]
        assert "pointer" not in problem["errors"][0]


# Celery's own way to store a result, which redis-py has deprecated.
@pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")
def test_a_list_shows_the_counts_of_a_job_without_its_rows(client: FlaskClient, settings: Settings) -> None:
    job_id = client.post(RETRY, headers=KEY).get_json()["id"]
    result = {"data": [{"url": "https://example.com"}], "meta": {"processed": 1}}
    with ended(settings, job_id, result):
        (listed,) = client.get("/api/v1/jobs", headers=KEY).get_json()["data"]
        whole = client.get(f"/api/v1/jobs/{job_id}", headers=KEY).get_json()
    assert (listed["state"], listed["result"]) == ("succeeded", {"meta": {"processed": 1}})
    assert whole["result"] == result
    assert whole["links"] == {"self": f"/api/v1/jobs/{job_id}"}


def test_a_queued_job_can_be_cancelled(client: FlaskClient) -> None:
    job_id = client.post(RETRY, headers=KEY).get_json()["id"]
    response = client.post(f"/api/v1/jobs/{job_id}/cancel", headers=KEY)
    assert response.status_code == 202
    assert response.get_json()["state"] == "cancelled"
    again = client.post(f"/api/v1/jobs/{job_id}/cancel", headers=KEY)
    assert problem_of(again, 409)["code"] == "JOB_ALREADY_FINISHED"


def test_a_caller_that_waits_gets_the_queued_job_when_its_time_is_over(client: FlaskClient) -> None:
    started = time.monotonic()
    response = client.post(RECONCILE, json=RANGE, headers={**KEY, "Prefer": "wait=1"})
    assert response.status_code == 202
    assert response.headers["Preference-Applied"] == "wait=1"
    assert 0.9 < time.monotonic() - started < 3


def test_an_unchanged_job_is_answered_with_304(client: FlaskClient) -> None:
    location = client.post(RETRY, headers=KEY).headers["Location"]
    etag = client.get(location, headers=KEY).headers["ETag"]
    assert client.get(location, headers={**KEY, "If-None-Match": etag}).status_code == 304


def test_a_broker_that_is_down_is_said_at_once_and_nothing_remains(settings: Settings, redis: Redis) -> None:
    away = settings.model_copy(update={"broker_url": "redis://127.0.0.1:9/0"})
    with client_of(away) as client:
        for _ in range(2):
            started = time.monotonic()
            response = client.post(RECONCILE, json=RANGE, headers=KEY)
            assert problem_of(response, 503)["code"] == "BROKER_UNAVAILABLE"
            assert int(response.headers["Retry-After"]) > 0
            assert time.monotonic() - started < 5
    assert Redis.from_url(settings.redis_url).keys("converge:job*") == []


def test_health_tells_what_is_missing(client: FlaskClient, settings: Settings) -> None:
    assert client.get("/healthz").get_json() == {"status": "ok"}
    not_ready = client.get("/readyz")
    assert not_ready.status_code == 503
    checks = not_ready.get_json()["checks"]
    assert (checks["redis"], checks["mongodb"]) == ("ok", "ok")
    assert checks["workers"] == "no worker answers on jobs, records"
    away = settings.model_copy(
        update={"redis_url": "redis://127.0.0.1:9/0", "mongo_url": "mongodb://127.0.0.1:9"}
    )
    assert problem_of(not_ready, 503)["code"] == "NOT_READY"
    assert int(not_ready.headers["Retry-After"]) > 0
    with client_of(away) as impatient:
        checks = impatient.get("/readyz").get_json()["checks"]
    assert checks == {"redis": "not reachable", "workers": "unknown", "mongodb": "not reachable"}


@pytest.mark.parametrize(
    ("send", "status", "title"),
    [
        (lambda client: client.post(RECONCILE, json={}, headers=KEY), 400, "Bad Request"),
        (lambda client: client.post(RECONCILE), 401, "Unauthorized"),
        (lambda client: client.get("/api/v1/jobs/x", headers=KEY), 404, "Not Found"),
        (lambda client: client.get(RECONCILE, headers=KEY), 405, "Method Not Allowed"),
        (lambda client: client.get("/readyz"), 503, "Service Unavailable"),
    ],
)
def test_a_problem_without_a_type_of_its_own_has_the_phrase_of_its_status_as_title(
    client: FlaskClient, send: Callable[[FlaskClient], Any], status: int, title: str
) -> None:
    problem = problem_of(send(client), status)
    assert (problem["type"], problem["title"]) == ("about:blank", title)


class Waits:
    """The job service of an app, of which a test decides what a wait gives."""

    def __init__(self, real: JobService, wait: Callable[[str], Job]) -> None:
        self.submit = real.submit
        self.get = real.get
        self._wait = wait

    def wait(self, job_id: str, _: float) -> Job:
        return self._wait(job_id)


@contextmanager
def waiting_client(settings: Settings, wait: Callable[[JobService, str], Job]) -> Iterator[FlaskClient]:
    access = open_job_access(settings)
    real = access.jobs
    access.jobs = Waits(real, lambda job_id: wait(real, job_id))  # type: ignore[assignment]
    yield create_app(access).test_client()
    access.close()


def broken_off(_: JobService, __: str) -> Job:
    raise BrokerUnavailable("the store of job records cannot be reached")


def test_a_store_that_goes_away_during_a_wait_does_not_hide_the_queued_job(
    settings: Settings, queue: list[bytes]
) -> None:
    with waiting_client(settings.model_copy(update={"api_waiters_max": 1}), broken_off) as client:
        for count in (1, 2):
            response = client.post(RETRY, headers={**KEY, "Prefer": "wait=30"})
            assert response.status_code == 202
            assert response.headers["Location"] == f"/api/v1/jobs/{response.get_json()['id']}"
            assert "Preference-Applied" not in response.headers
            assert len(queue) == count


def test_callers_that_wait_leave_threads_to_the_others(settings: Settings) -> None:
    waits, may_end = threading.Event(), threading.Event()

    def held(real: JobService, job_id: str) -> Job:
        waits.set()
        assert may_end.wait(30)
        return real.get(job_id)

    headers = {**KEY, "Prefer": "wait=60"}
    with waiting_client(settings.model_copy(update={"api_waiters_max": 1}), held) as client:
        other = client.application.test_client()
        answers: list[Any] = []
        first = threading.Thread(target=lambda: answers.append(client.post(RETRY, headers=headers)))
        first.start()
        assert waits.wait(30)
        refused = other.post(RETRY, headers=headers)
        assert refused.status_code == 202
        assert "Preference-Applied" not in refused.headers
        may_end.set()
        first.join(30)
        again = other.post(RETRY, headers=headers)
    for kept in (answers[0], again):
        assert (kept.status_code, kept.headers["Preference-Applied"]) == (202, "wait=60")


@pytest.mark.parametrize(
    ("error", "status", "code", "detail"),
    [
        ({"code": "LOCK_UNAVAILABLE", "detail": "away"}, 503, "LOCK_UNAVAILABLE", "away"),
        ({"code": "STORE_UNAVAILABLE", "detail": "away"}, 503, "STORE_UNAVAILABLE", "away"),
        ({"code": "UPSTREAM_FAILED", "detail": "no"}, 502, "UPSTREAM_FAILED", "no"),
        ({"code": "KeyError('x", "detail": "/home')"}, 500, "INTERNAL", "the job failed in our own code"),
        ({"code": "", "detail": "x"}, 500, "INTERNAL", "the job failed in our own code"),
    ],
)
def test_a_job_that_failed_is_answered_with_its_code_to_those_who_waited(
    settings: Settings, error: dict[str, str], status: int, code: str, detail: str
) -> None:
    def failed(real: JobService, job_id: str) -> Job:
        return replace(real.get(job_id), state=JobState.FAILED, error=error)

    with waiting_client(settings, failed) as client:
        response = client.post(RETRY, headers={**KEY, "Prefer": "wait=30"})
    problem = problem_of(response, status)
    assert (problem["code"], problem["detail"]) == (code, detail)
    assert problem["job"]["error"] == {"code": code, "detail": detail}
    assert ("Retry-After" in response.headers) is (status == 503)


def test_the_specification_is_served(client: FlaskClient) -> None:
    spec = client.get("/api/v1/openapi.json", headers=KEY).get_json()
    assert spec["openapi"].startswith("3.1")
    routes = {re.sub(r"<(\w+)>", r"{\1}", rule.rule) for rule in api_rules(client)}
    assert spec["paths"].keys() == routes


def test_the_specification_says_where_the_key_is_needed_and_how_problems_look(client: FlaskClient) -> None:
    spec = client.get("/api/v1/openapi.json", headers=KEY).get_json()
    scheme = spec["components"]["securitySchemes"]["key"]
    assert (scheme["type"], scheme["in"], scheme["name"]) == ("apiKey", "header", "x-api-key")
    for path, methods in spec["paths"].items():
        for operation in methods.values():
            assert bool(operation.get("security")) is ("401" in operation["responses"])
            assert bool(operation.get("security")) is (path not in ("/healthz", "/readyz"))
            for status, response in operation["responses"].items():
                # A request line that is too long is refused by the server in front of the app.
                is_problem = int(status) >= 400 and status != "414"
                assert ("application/problem+json" in response.get("content", {})) is is_problem
    assert spec["paths"][RECONCILE]["post"]["requestBody"]["required"] is True
    assert spec["paths"][RETRY]["post"].get("requestBody", {}).get("required", False) is False
    assert "ValidationErrorModel" not in spec["components"]["schemas"]


def test_the_specification_can_be_read_as_a_page_without_anything_from_elsewhere(client: FlaskClient) -> None:
    problem_of(client.get("/api/v1/docs"), 401)
    page = client.get("/api/v1/docs", headers=KEY)
    assert page.mimetype == "text/html"
    spec = client.get("/api/v1/openapi.json", headers=KEY).get_json()
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in page.text
            assert operation["summary"] in page.text
    for word in ("minIntervalMinutes", "Idempotency-Key", "IDEMPOTENCY", "Retry-After", "to 525600"):
        assert word.lower() in page.text.lower()
    assert not re.search(r"<script|<link|src=|href=\"(?!#)|&lt;br", page.text)
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
