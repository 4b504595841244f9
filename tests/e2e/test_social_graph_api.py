"""What has been recorded, over HTTP: pages and cuts, what is refused, and a store that is away or hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from bson import ObjectId
from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator

from app import create_app
from devstack.mongo import MongoServer
from devstack.sandbox.tokens import address_of
from tests.conftest import make_settings
from tests.operator import Operator, sites
from tests.pausing import paused
from tests.waiting import wait_until
from workers.clock import Clock
from workers.mongo import MongoDatabase
from workers.services import open_job_access
from workers.settings import Settings
from workers.social_graph.account import Account, AccountRepository
from workers.social_graph.indexes import migrate
from workers.social_graph.source_url import SourceURL
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL, TokenWeb
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.vocabulary import FetchStatus, LinkStatus, ObjectKind, Platform

ROOT = "/api/v1/internal/social-recording"
KEY = {"x-api-key": "test-key"}
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
PROFILE = "https://x.com/nightharbor"
ADDRESS = address_of("a token with everything")
SOME_ID = "65a1b2c3d4e5f60718293a4b"


@contextmanager
def client_of(settings: Settings) -> Iterator[FlaskClient]:
    access = open_job_access(settings)
    with closing(access):
        yield create_app(access).test_client()


@pytest.fixture
def graph(database: MongoDatabase) -> MongoDatabase:
    migrate(database)
    return database


@pytest.fixture
def client(graph: MongoDatabase, mongo: MongoServer) -> Iterator[FlaskClient]:
    with client_of(make_settings(mongo_url=mongo.url, mongo_database=graph.name)) as client:
        yield client


@pytest.fixture
def account(graph: MongoDatabase) -> Account:
    """An account to which tokens lead."""
    account = Account.of(
        platform=Platform.X,
        source_urls=[SourceURL.of(PROFILE, FetchStatus.OK, AT)],
        observed_at=AT,
        platform_key="44196397",
        handle="nightharbor",
    )
    AccountRepository(graph, Clock()).create(account)
    return account


def store_token(graph: MongoDatabase, address: str, **fields: Any) -> None:
    url = TokenSocialURL(url=PROFILE, status=FetchStatus.OK, attempts=1, attempted_at=AT)
    token = Token.of(address=address, created_at=AT, social_urls=[url], **fields)
    TokenRepository(graph, Clock()).insert(token)


def store_link(
    graph: MongoDatabase,
    account_id: ObjectId,
    address: str,
    *,
    seconds: float = 0,
    through: ObjectId | None = None,
) -> None:
    link = TokenLink.of(
        token_address=address,
        object=ObjectKind.ACCOUNTS,
        object_id=account_id,
        entry_url=PROFILE,
        created_at=AT + timedelta(seconds=seconds),
        observed_at=AT,
        status=LinkStatus.OK,
        platform=Platform.X,
        ancestor_ids=() if through is None else (through,),
    )
    TokenLinkRepository(graph, Clock()).append_many([link])


def get(client: FlaskClient, path: str, **query: object) -> dict[str, Any]:
    response = client.get(path, query_string=query or None, headers=KEY)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.get_json()
    return body


def problem_of(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.content_type == "application/problem+json"
    body: dict[str, Any] = response.get_json()
    return body


def all_rows(client: FlaskClient, path: str, **query: object) -> list[dict[str, Any]]:
    """The rows of all pages, as a caller follows them."""
    body = get(client, path, **query)
    rows: list[dict[str, Any]] = body["data"]
    while body["meta"]["cursor"] is not None:
        body = get(client, body["links"]["next"])
        rows += body["data"]
    assert "links" not in body
    return rows


def test_a_token_is_shown_with_its_urls_and_the_objects_they_lead_to(
    client: FlaskClient, graph: MongoDatabase, account: Account
) -> None:
    store_token(
        graph,
        ADDRESS,
        symbol="HARBOR",
        first_transfer_at=AT - timedelta(days=1),
        web=TokenWeb(domain="harbor.org", domain_created_at=AT - timedelta(days=9)),
        fingerprints=["domain:harbor.org"],
    )
    store_link(graph, account.id, ADDRESS)
    body = get(client, f"{ROOT}/tokens/{ADDRESS}", asOf="2026-01-15T13:00:00+01:00")
    assert body["token"].pop("updatedAt") > "2026"
    assert body == {
        "token": {
            "address": ADDRESS,
            "symbol": "HARBOR",
            "firstTransferAt": "2026-01-14T12:00:00.000Z",
            "createdAt": "2026-01-15T12:00:00.000Z",
            "urls": [
                {
                    "url": PROFILE,
                    "status": "ok",
                    "reason": None,
                    "attempts": 1,
                    "attemptedAt": "2026-01-15T12:00:00.000Z",
                }
            ],
            "web": {
                "domain": "harbor.org",
                "domainCreatedAt": "2026-01-06T12:00:00.000Z",
                "scanTime": None,
            },
            "fingerprints": ["domain:harbor.org"],
        },
        "data": [
            {
                "kind": "accounts",
                "id": str(account.id),
                "platform": "x",
                "subtype": None,
                "platformKey": "44196397",
                "label": "nightharbor",
                "status": "ok",
                "entryUrl": PROFILE,
                "depth": 0,
                "nameMatch": None,
                "linkedAt": "2026-01-15T12:00:00.000Z",
            }
        ],
        "meta": {"asOf": "2026-01-15T12:00:00.000Z", "cursor": None},
    }


def test_a_token_without_a_domain_or_fingerprints_says_nothing_about_them(
    client: FlaskClient, graph: MongoDatabase
) -> None:
    store_token(graph, ADDRESS)
    body = get(client, f"{ROOT}/tokens/{ADDRESS}")
    assert {"web", "fingerprints"}.isdisjoint(body["token"])
    assert (body["token"]["symbol"], body["token"]["firstTransferAt"], body["data"]) == (None, None, [])


def test_an_object_is_shown_with_the_tokens_that_lead_to_it(
    client: FlaskClient, graph: MongoDatabase, account: Account
) -> None:
    other = address_of("another")
    store_token(graph, ADDRESS, symbol="HARBOR")
    store_link(graph, account.id, ADDRESS)
    store_link(graph, account.id, other, seconds=1, through=ObjectId())
    path = f"{ROOT}/objects/accounts/{str(account.id).upper()}/tokens"
    body = get(client, path, asOf="2026-01-15T12:00:01Z")
    assert body == {
        "object": {
            "kind": "accounts",
            "id": str(account.id),
            "platform": "x",
            "subtype": None,
            "platformKey": "44196397",
            "label": "nightharbor",
        },
        "data": [
            {
                "address": ADDRESS,
                "symbol": "HARBOR",
                "entryUrl": PROFILE,
                "depth": 0,
                "linkedAt": "2026-01-15T12:00:00.000Z",
                "firstTransferAt": None,
            },
            {
                "address": other,
                "symbol": None,
                "entryUrl": PROFILE,
                "depth": 1,
                "linkedAt": "2026-01-15T12:00:01.000Z",
                "firstTransferAt": None,
            },
        ],
        "meta": {"asOf": "2026-01-15T12:00:01.000Z", "countDirect": 1, "countAll": 2, "cursor": None},
    }


def test_the_cut_includes_its_own_instant(
    client: FlaskClient, graph: MongoDatabase, account: Account
) -> None:
    store_token(graph, ADDRESS)
    store_link(graph, account.id, ADDRESS)
    for as_of, count in (("2026-01-15T12:00:00.000Z", 1), ("2026-01-15T11:59:59.999Z", 0)):
        assert len(get(client, f"{ROOT}/tokens/{ADDRESS}", asOf=as_of)["data"]) == count
        body = get(client, f"{ROOT}/objects/accounts/{account.id}/tokens", asOf=as_of)
        meta = body["meta"]
        assert (len(body["data"]), meta["countDirect"], meta["countAll"]) == (count, count, count)


@pytest.mark.parametrize(("count", "limit"), [(0, 2), (1, 2), (2, 2), (3, 2), (7, 2), (7, 200)])
def test_links_next_leads_through_all_pages(
    client: FlaskClient, graph: MongoDatabase, account: Account, count: int, limit: int
) -> None:
    store_token(graph, ADDRESS)
    addresses = [address_of("token", str(number)) for number in range(count)]
    for number, address in enumerate(addresses):
        store_link(graph, account.id, address, seconds=number)
        store_link(graph, ObjectId(), ADDRESS, seconds=number)
    references = all_rows(client, f"{ROOT}/objects/accounts/{account.id}/tokens", limit=limit)
    assert [row["address"] for row in references] == addresses
    linked = all_rows(client, f"{ROOT}/tokens/{ADDRESS}", limit=limit)
    assert len({row["id"] for row in linked}) == len(linked) == count


def test_the_next_page_keeps_the_cut_of_the_first(
    client: FlaskClient, graph: MongoDatabase, account: Account
) -> None:
    for number in range(3):
        store_link(graph, account.id, address_of("token", str(number)))
    path = f"{ROOT}/objects/accounts/{account.id}/tokens"
    first = get(client, path, limit=2)
    asked = parse_qs(urlsplit(first["links"]["next"]).query)
    assert asked == {"asOf": [first["meta"]["asOf"]], "limit": ["2"], "cursor": [first["meta"]["cursor"]]}
    store_link(graph, account.id, address_of("late"), seconds=10 * 365 * 86_400)
    second = get(client, first["links"]["next"])
    assert second["meta"]["asOf"] == first["meta"]["asOf"]
    assert (len(second["data"]), second["meta"]["countAll"]) == (1, 3)


def test_what_is_not_there_is_not_found_by_its_own_code(client: FlaskClient, account: Account) -> None:
    unknown = client.get(f"{ROOT}/tokens/{ADDRESS}", headers=KEY)
    assert problem_of(unknown, 404)["code"] == "TOKEN_NOT_FOUND"
    for kind, object_id in (("accounts", ObjectId()), ("venues", account.id)):
        unknown = client.get(f"{ROOT}/objects/{kind}/{object_id}/tokens", headers=KEY)
        assert problem_of(unknown, 404)["code"] == "OBJECT_NOT_FOUND"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("tokens/nope", "address"),
        (f"tokens/{'1' * 44}", "address"),
        (f"tokens/{ADDRESS[:-1]}0", "address"),
        (f"tokens/{ADDRESS}%0A", "address"),
        ("tokens/0x0Ae024D3C20b8Ff2aD4A5c9cB1f0aB2C3d4E5f60", "address"),
        (f"objects/tokens/{SOME_ID}/tokens", "kind"),
        (f"objects/Accounts/{SOME_ID}/tokens", "kind"),
        ("objects/accounts/7/tokens", "id"),
        (f"objects/accounts/{SOME_ID}0/tokens", "id"),
        (f"objects/accounts/{'g' * 24}/tokens", "id"),
        (f"objects/accounts/{SOME_ID}%0A/tokens", "id"),
    ],
)
def test_a_malformed_path_names_its_part(client: FlaskClient, path: str, field: str) -> None:
    problem = problem_of(client.get(f"{ROOT}/{path}", headers=KEY), 400)
    assert problem["code"] == "VALIDATION"
    assert [error["parameter"] for error in problem["errors"]] == [field]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("asOf=2026-01-15T12:00:00", "asOf"),
        ("asOf=2026-01-15", "asOf"),
        ("asOf=1768478400", "asOf"),
        ("asOf=yesterday", "asOf"),
        ("asOf=0001-01-01T00:00:00%2B14:00", "asOf"),
        ("asOf=", "asOf"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=x", "limit"),
        ("cursor=", "cursor"),
        ("cursor=!", "cursor"),
        (f"cursor={'0' * 27}", "cursor"),
        (f"cursor={'0' * 29}", "cursor"),
        (f"cursor={'G' * 28}", "cursor"),
        ("as_of=2026-01-15T12:00:00Z", "as_of"),
        ("offset=1", "offset"),
    ],
)
def test_a_malformed_query_names_its_parameter(
    client: FlaskClient, graph: MongoDatabase, account: Account, query: str, field: str
) -> None:
    store_token(graph, ADDRESS)
    for path in (f"tokens/{ADDRESS}", f"objects/accounts/{account.id}/tokens"):
        problem = problem_of(client.get(f"{ROOT}/{path}?{query}", headers=KEY), 400)
        assert [error["parameter"] for error in problem["errors"]] == [field]


def test_without_the_key_nothing_is_told(client: FlaskClient) -> None:
    for path in (f"tokens/{ADDRESS}", "tokens/nope", f"objects/accounts/{ObjectId()}/tokens"):
        assert problem_of(client.get(f"{ROOT}/{path}"), 401)["code"] == "UNAUTHORIZED"


def assert_unavailable_at_once(client: FlaskClient) -> None:
    for path in (f"tokens/{ADDRESS}", f"objects/accounts/{ObjectId()}/tokens"):
        started = time.monotonic()
        response = client.get(f"{ROOT}/{path}", headers=KEY)
        assert time.monotonic() - started < 5
        assert problem_of(response, 503)["code"] == "STORE_UNAVAILABLE"
        assert int(response.headers["Retry-After"]) > 0
        assert "127.0.0.1" not in response.text


def test_a_store_that_is_down_is_said_at_once() -> None:
    with client_of(make_settings(mongo_url="mongodb://127.0.0.1:9")) as client:
        assert_unavailable_at_once(client)


def test_a_store_that_hangs_is_said_at_once_and_asked_again_when_it_is_back(tmp_path: Path) -> None:
    with MongoServer(tmp_path / "data") as server, client_of(make_settings(mongo_url=server.url)) as client:
        path = f"{ROOT}/tokens/{ADDRESS}"
        problem_of(client.get(path, headers=KEY), 404)
        with paused(server.pid):
            assert_unavailable_at_once(client)
        problem_of(client.get(path, headers=KEY), 404)


def test_building_the_app_connects_nowhere() -> None:
    before = set(threading.enumerate())
    with client_of(make_settings(mongo_url="mongodb://127.0.0.1:9")):
        # A driver that connects watches the store in a thread that stays; what counts attempts to sign in
        # has one that ends at once.
        wait_until(lambda: set(threading.enumerate()) <= before, "no thread is left", timeout_s=1)


def test_the_examples_of_the_specification_have_the_specified_shape(client: FlaskClient) -> None:
    spec = get(client, "/api/v1/openapi.json")
    schemas = spec["components"]["schemas"]
    for name in ("TokenObjects", "ObjectTokens"):
        shape = Draft202012Validator(
            {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}},
            validate_formats=True,
        )
        (example,) = schemas[name]["examples"]
        shape.validate(example)
        assert not shape.is_valid({**example, "other": 1})
    for path, code in (("tokens/{address}", "TOKEN"), ("objects/{kind}/{id}/tokens", "OBJECT")):
        answers = spec["paths"][f"{ROOT}/{path}"]["get"]["responses"]
        assert answers.keys() == {"200", "400", "401", "404", "500", "503"}
        codes = {
            status: response["content"]["application/problem+json"]["example"]["code"]
            for status, response in answers.items()
            if status != "200"
        }
        assert (codes["404"], codes["503"]) == (f"{code}_NOT_FOUND", "STORE_UNAVAILABLE")


def test_what_a_reconcile_has_recorded_can_be_read_from_both_ends(operator: Operator) -> None:
    repository = "https://github.com/both-ends-owner/both-ends"
    tokens = operator.set_tokens([{"website": repository}, {"website": repository}, *sites(1)])
    operator.run("reconcile")
    root = f"{operator.stack.api_url}{ROOT}"

    def read(path: str) -> Any:
        response = operator.session.get(f"{root}/{path}", timeout=10)
        assert response.status_code == 200, response.text
        return response.json()

    first, second, other = (read(f"tokens/{token['tokenAddress']}") for token in tokens)
    assert [row["depth"] for row in first["data"]] == [0, 1]
    repo, owner = first["data"]
    assert (repo["kind"], repo["subtype"], owner["kind"]) == ("contents", "repo", "accounts")
    assert [row["id"] for row in second["data"]] == [repo["id"], owner["id"]]
    assert {repo["id"], owner["id"]}.isdisjoint(row["id"] for row in other["data"])
    for row, direct in ((repo, 2), (owner, 0)):
        found = read(f"objects/{row['kind']}/{row['id']}/tokens")
        assert (found["meta"]["countDirect"], found["meta"]["countAll"]) == (direct, 2)
        shown = {each["address"]: each["symbol"] for each in found["data"]}
        assert shown == {token["tokenAddress"]: token["tokenSymbol"] for token in tokens[:2]}
        assert found["object"]["label"] == row["label"]
