"""The served specification against the running app: what it promises is kept, what it forbids is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
import schemathesis
from flask.testing import FlaskClient
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from jsonschema_rs import Draft202012Validator
from redis import Redis
from schemathesis import Case, GenerationMode
from schemathesis.core.errors import SchemathesisError

from app import create_app
from devstack.mongo import MongoServer
from devstack.valkey import ValkeyServer
from tests.conftest import make_settings
from workers.jobs.probe import note_canary
from workers.services import open_job_access

KEY = {"x-api-key": "test-key"}
OPERATIONS = (
    "getHealth",
    "getReadiness",
    "getJob",
    "listJobs",
    "cancelJob",
    "reconcileTokens",
    "retryURLs",
    "getDocs",
)
# The generator leaves out the address from which it has read the specification.
NOT_TRIED = {"getSpecification"}
BODIES = {
    "/api/v1/internal/social-recording/reconcile": (
        "ReconcileBody",
        {
            "startDate": "2026-01-01T00:00:00Z",
            "endDate": "2026-01-02T00:00:00Z",
            "minAfCount": 3,
            "limit": 20,
            "deadlineMs": 45000,
        },
    ),
    "/api/v1/internal/social-recording/retry": (
        "RetryBody",
        {
            "statuses": ["error"],
            "tokenAddresses": ["So11111111111111111111111111111111111111112"],
            "limit": 50,
            "deadlineMs": 45000,
            "minIntervalMinutes": 60,
        },
    ),
}
bounded = settings(
    max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["error", "ok", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", 0, 1, 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@dataclass(frozen=True)
class API:
    """The app as clients see it, a specification of it for the generator, and a job that exists."""

    client: FlaskClient
    schema: Any
    redis: Redis
    job_id: str

    @property
    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.schema.raw_schema
        return found


@pytest.fixture
def api(redis: Redis, valkey: ValkeyServer, mongo: MongoServer) -> Iterator[API]:
    settings = make_settings(
        broker_url=valkey.url_of(0),
        result_backend_url=valkey.url_of(1),
        redis_url=valkey.url_of(2),
        mongo_url=mongo.url,
        api_waiters_max=0,  # a generated `Prefer: wait=60` is answered at once
    )
    access = open_job_access(settings)
    store = Redis.from_url(settings.redis_url)
    for queue in ("jobs", "records"):
        note_canary(store, queue)
    app = create_app(access)
    client = app.test_client()
    job_id = client.post("/api/v1/internal/social-recording/retry", headers=KEY).get_json()["id"]
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app, headers=KEY)
    yield API(client=client, schema=schema, redis=store, job_id=job_id)
    store.close()
    access.close()


def in_order(case: Case) -> Case:
    """A schema cannot say that one date lies before another, so the generated ones are put in order."""
    body = case.body
    if not isinstance(body, dict):
        return case
    try:
        start, end = (datetime.fromisoformat(body[name]) for name in ("startDate", "endDate"))
        is_in_order = start < end
    except (KeyError, TypeError, ValueError):
        return case
    if not is_in_order:
        body["startDate"], body["endDate"] = body["endDate"], body["startDate"]
    if start == end:
        body["endDate"] = "9999-12-31T00:00:00Z"
    return case


@pytest.mark.parametrize("operation_id", OPERATIONS)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_answer_is_one_that_the_specification_promises(
    api: API, operation_id: str, mode: GenerationMode
) -> None:
    operation = next(
        found.ok()
        for found in api.schema.get_all_operations()
        if found.ok().definition.raw["operationId"] == operation_id
    )
    calls = 0

    @bounded
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.booleans())
    def check(case: Case, is_known: bool) -> None:
        nonlocal calls
        calls += 1
        if is_known and "jobId" in case.path_parameters and mode is GenerationMode.POSITIVE:
            case.path_parameters["jobId"] = api.job_id
        if old := api.redis.keys("converge:idempotency:*"):
            api.redis.delete(*old)  # a key that was drawn twice with two bodies is a conflict, rightly
        assume([] not in (case.query or {}).values())  # it would not be written into the URL at all
        in_order(case).call_and_validate(headers=KEY)

    try:
        check()
    except (Unsatisfiable, SchemathesisError):
        takes_nothing = not (operation.definition.raw.get("parameters") or operation.body)
        assert takes_nothing, "only an operation without input has nothing to get wrong"
        assert mode is GenerationMode.NEGATIVE
    else:
        assert calls > 0


def test_every_operation_is_tried(api: API) -> None:
    described = {
        operation["operationId"] for methods in api.spec["paths"].values() for operation in methods.values()
    }
    assert described == {*OPERATIONS, *NOT_TRIED}


@pytest.mark.parametrize("path", sorted(BODIES))
def test_a_body_is_taken_exactly_when_the_specification_allows_it(api: API, path: str) -> None:
    name, whole = BODIES[path]
    schemas = json.loads(json.dumps(api.spec["components"]["schemas"]))
    allowed = Draft202012Validator(
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}, validate_formats=True
    )
    changed = st.builds(
        lambda name, value: {**whole, name: value},
        st.sampled_from(sorted(whole)) | st.text(max_size=12),
        json_values,
    )
    seen: set[int] = set()

    @settings(bounded, max_examples=200)
    @given(body=changed | json_values)
    def check(body: Any) -> None:
        answer = api.client.post(path, data=json.dumps(body), headers=KEY)
        seen.add(answer.status_code)
        if allowed.is_valid(body) and answer.status_code == 202:
            return
        problem = answer.get_json()
        assert answer.content_type == "application/problem+json"
        assert problem["errors"], "an error names its place"
        assert all("pointer" in error for error in problem["errors"])
        if allowed.is_valid(body):
            assert [error["pointer"] for error in problem["errors"]] == ["/endDate"], problem
        elif problem["code"] != "STATUS_NOT_RETRYABLE":
            assert (answer.status_code, problem["code"]) == (400, "VALIDATION")

    check()
    assert {202, 400} <= seen
