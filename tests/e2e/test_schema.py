"""The served specification against the running app: what it promises is kept, what it forbids is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
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
from app.api.social_graph import ADDRESS_FORMAT
from devstack.mongo import MongoServer
from devstack.sandbox.tokens import address_of, base58
from devstack.valkey import ValkeyServer
from tests.conftest import make_settings
from tests.integration.funding_place import Channel, FundingPlace, emptied_engine
from tests.solana_node import ENDPOINT
from workers.base58 import is_public_key, is_signature
from workers.clock import Clock
from workers.funding.vocabulary import BlockReason
from workers.jobs.probe import note_canary
from workers.mongo import MongoDatabase
from workers.services import open_job_access
from workers.social_graph.account import Account, AccountRepository
from workers.social_graph.source_url import SourceURL
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL, TokenWeb
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.vocabulary import FetchStatus, LinkStatus, Platform
from workers.solana_backfill.job_kinds import SIGNATURE_FORMAT

KEY = {"x-api-key": "test-key"}
OPERATIONS = (
    "getHealth",
    "getReadiness",
    "getMetrics",
    "getJob",
    "listJobs",
    "cancelJob",
    "reconcileTokens",
    "retryURLs",
    "getDocs",
    "getToken",
    "listTokensOfObject",
    "explainURL",
    "backfillTransactions",
    "reconcileFundings",
    "listBlockedFundings",
)
SIGNATURE = base58(bytes(range(1, 65)))
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
            "dryRun": False,
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
            "dryRun": True,
        },
    ),
    "/api/v1/internal/solana-backfill/campaigns": (
        "BackfillBody",
        {
            "mode": "program",
            "address": "So11111111111111111111111111111111111111112",
            "direction": "after",
            "anchor": SIGNATURE,
            "limit": 50,
            "maxPages": 20,
            "commitment": "finalized",
            "includeFailed": True,
            "role": ENDPOINT.role,
            "dryRun": False,
        },
    ),
    "/api/v1/internal/funding/reconcile": (
        "FundingReconcileBody",
        {"propertyIds": ["harbour-quay-12"], "deadlineMs": 45000, "dryRun": False},
    ),
}
ADDRESS = address_of("a token that is stored")
# A pattern cannot say how many bytes a text in base58 has, so the form has a name of its own.
schemathesis.openapi.format(ADDRESS_FORMAT, st.binary(min_size=32, max_size=32).map(base58))
schemathesis.openapi.format(SIGNATURE_FORMAT, st.binary(min_size=64, max_size=64).map(base58))
FORMATS = {ADDRESS_FORMAT: is_public_key, SIGNATURE_FORMAT: is_signature}
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
    """The app as clients see it, a specification of it for the generator, and the paths of what exists."""

    client: FlaskClient
    schema: Any
    redis: Redis
    known: dict[str, str]

    @property
    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.schema.raw_schema
        return found


@pytest.fixture
def api(
    redis: Redis, valkey: ValkeyServer, mongo: MongoServer, database: MongoDatabase, funding_database: str
) -> Iterator[API]:
    settings = make_settings(
        broker_url=valkey.url_of(0),
        result_backend_url=valkey.url_of(1),
        redis_url=valkey.url_of(2),
        mongo_url=mongo.url,
        mongo_database=database.name,
        funding_database_url=funding_database,
        solana_endpoints=(ENDPOINT,),
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
    store_fundings(funding_database, store)
    known = {"jobId": job_id, "address": ADDRESS, "kind": "accounts", "id": store_graph(database)}
    yield API(client=client, schema=schema, redis=store, known=known)
    store.close()
    access.close()


def store_fundings(url: str, redis: Redis) -> None:
    """Store two blocked fundings, one of them with a counter that is no number."""
    with emptied_engine(url) as engine:
        place = FundingPlace(engine, redis, Channel())
        for property_id, counters in (("harbour-quay-12", (9, 0)), ("old-mill", ("many", None))):
            place.add_property(10, sold=10, property_id=property_id, counters=counters)
            place.set_block(property_id, BlockReason.COUNTER_RECONCILIATION)


def store_graph(database: MongoDatabase) -> str:
    """Store a token that leads to an account; return the account's id."""
    at = datetime(2026, 1, 15, 12, tzinfo=UTC)
    url = "https://x.com/nightharbor"
    source = SourceURL.of(url, FetchStatus.OK, at)
    account = Account.of(platform=Platform.X, source_urls=[source], observed_at=at, handle="nightharbor")
    AccountRepository(database, Clock()).create(account)
    links = [
        TokenLink.of(
            token_address=address,
            object=account.kind,
            object_id=account.id,
            entry_url=url,
            created_at=at,
            observed_at=at,
            status=LinkStatus.OK,
            platform=Platform.X,
        )
        for address in (ADDRESS, address_of("another"))
    ]
    TokenLinkRepository(database, Clock()).append_many(links)
    token = Token.of(
        address=ADDRESS,
        created_at=at,
        web=TokenWeb(domain="harbor.org"),
        fingerprints=["domain:harbor.org"],
        social_urls=[TokenSocialURL(url=url, status=FetchStatus.OK)],
    )
    TokenRepository(database, Clock()).insert(token)
    return str(account.id)


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
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.sampled_from([True, True, False]))
    def check(case: Case, is_known: bool) -> None:
        nonlocal calls
        calls += 1
        if is_known and mode is GenerationMode.POSITIVE:
            case.path_parameters.update(
                {name: value for name, value in api.known.items() if name in case.path_parameters}
            )
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
        {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}},
        validate_formats=True,
        formats=FORMATS,
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
            # What no schema can say: that dates are in order, and that a property or an endpoint exists.
            places = {error["pointer"] for error in problem["errors"]}
            assert places in ({"/endDate"}, {"/propertyIds"}, {"/role"})
        elif problem["code"] != "STATUS_NOT_RETRYABLE":
            assert (answer.status_code, problem["code"]) == (400, "VALIDATION")

    check()
    assert {202, 400} <= seen
