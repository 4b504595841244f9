"""What operators are told before anything is done: dry runs, explanations, sources out of credit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from typer.testing import CliRunner

from app import create_app
from devstack.mongo import MongoServer
from devstack.valkey import ValkeyServer
from tests.conftest import PLAIN_SETTINGS, make_settings
from tests.integration.recording_place import (
    OwnGenerator,
    RecordingPlace,
    failed_url,
    new_site,
    place,
    sandbox,
)
from workers import cli
from workers.errors import CreditExhausted
from workers.mongo import Document
from workers.services import open_job_access
from workers.settings import Settings
from workers.social_graph.token import TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.recording import token_lease
from workers.social_recording.routing import Route

__all__ = ["place", "sandbox"]

KEY = {"x-api-key": "test-key"}
EXPLAIN = "/api/v1/internal/social-recording/urls/explain"
COUNTED_BY_BOTH = {
    "reconcile": ("scanned", "filtered", "alreadySeen", "targeted"),
    "retry": ("candidateUrls", "skippedByInterval", "notProcessable"),
}


def everything(place: RecordingPlace) -> dict[str, list[Document]]:
    names = sorted(place.database.list_collection_names())
    return {name: sorted(place.database[name].find(), key=repr) for name in names}


def test_a_dry_reconcile_counts_what_the_real_one_then_finds_and_writes_nothing(
    place: RecordingPlace,
) -> None:
    seen, *others = place.list_tokens(*[{"website": new_site()} for _ in range(5)])
    place.recorder.record(seen)
    before, calls = everything(place), place.sandbox.client.calls().total
    dry = place.run_reconcile(limit=3, dryRun=True)
    assert everything(place) == before
    assert place.sandbox.client.calls().total == calls + 1  # the list
    assert place.redis.keys("converge:reconcile:tried") == []
    real = place.run_reconcile(limit=3)
    for name in COUNTED_BY_BOTH["reconcile"]:
        assert dry["meta"][name] == real["meta"][name], name
    assert (dry["meta"]["dryRun"], dry["meta"]["planned"], dry["meta"]["processed"]) == (True, 3, 0)
    assert dry["meta"]["remaining"] == dry["meta"]["targeted"] == 4
    assert {row["outcome"] for row in dry["data"]} == {"planned"}
    planned = {row["address"] for row in dry["data"]}
    assert planned == {row["address"] for row in real["data"]}
    assert planned < set(others)


def test_a_dry_retry_counts_what_the_real_one_then_finds_and_asks_nobody(place: RecordingPlace) -> None:
    place.rebuild(generator=(generator := OwnGenerator(is_paid=True)), is_paid_enabled=True)
    due = [new_site() for _ in range(3)]
    for url in due:
        place.store_token(failed_url(url))
    place.store_token(failed_url(new_site(), attempted_at=place.clock.now()))
    before = everything(place)
    dry = place.retry_result(limit=2, dryRun=True)
    assert everything(place) == before
    assert generator.calls == {}
    real = place.retry_result(limit=2)
    for name in COUNTED_BY_BOTH["retry"]:
        assert dry["meta"][name] == real["meta"][name], name
    assert (dry["meta"]["planned"], dry["meta"]["stoppedBy"]) == (2, "limit")
    planned = {row["url"] for row in dry["data"]}
    assert planned == {row["url"] for row in real["data"]}
    assert planned < set(due)


def test_a_source_that_runs_out_of_credit_is_not_asked_again_by_the_same_job(place: RecordingPlace) -> None:
    """The next job asks again; a free source goes on."""

    def refuse(_: Route) -> SocialObjectGraph:
        raise CreditExhausted("no credit", source="own")

    paid = OwnGenerator(show=refuse, is_paid=True)
    place.rebuild(generator=paid, is_paid_enabled=True, window=1)
    urls = [new_site() for _ in range(3)]
    tokens = [place.store_token(failed_url(url)) for url in urls]
    meta = place.run_retry(minIntervalMinutes=0)
    assert paid.calls.total() == 1
    assert meta["byStatus"] == {"error": 1, "skipped_paid": 2}
    elements = [place.element(address) for address in tokens]
    assert sorted(each["attempts"] for each in elements) == [1, 1, 2]
    assert {each["reason"] for each in elements} == {"credit_exhausted"}
    place.run_retry(minIntervalMinutes=0)
    assert paid.calls.total() == 2
    free = OwnGenerator()
    place.rebuild(generator=free, is_paid_enabled=True)
    assert place.run_retry(minIntervalMinutes=0)["converged"] == 3
    assert free.calls.total() == 3


def test_without_the_flag_of_the_job_every_url_would_ask_in_vain(
    place: RecordingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Route) -> SocialObjectGraph:
        raise CreditExhausted("no credit", source="own")

    monkeypatch.setattr("workers.social_recording.credit.CreditFlags.is_out", lambda *_: False)
    paid = OwnGenerator(show=refuse, is_paid=True)
    place.rebuild(generator=paid, is_paid_enabled=True, window=1)
    for _ in range(3):
        place.store_token(failed_url(new_site()))
    place.run_retry(minIntervalMinutes=0)
    assert paid.calls.total() == 3


def test_a_growing_wait_keeps_a_url_that_failed_often_for_longer(place: RecordingPlace) -> None:
    ago = place.clock.now() - timedelta(minutes=90)
    once, often = new_site(), new_site()
    place.store_token(failed_url(once, attempts=1, attempted_at=ago))
    place.store_token(failed_url(often, attempts=3, attempted_at=ago))
    place.rebuild(backoff_factor=2.0)
    result = place.retry_result()
    assert [row["url"] for row in result["data"]] == [once]
    assert result["meta"]["skippedByInterval"] == 1


@pytest.fixture
def settings(place: RecordingPlace, mongo: MongoServer, valkey: ValkeyServer) -> Settings:
    return make_settings(mongo_url=mongo.url, mongo_database=place.database.name, redis_url=valkey.url)


@pytest.fixture
def client(settings: Settings) -> Iterator[FlaskClient]:
    access = open_job_access(settings)
    yield create_app(access).test_client()
    access.close()


def explained(client: FlaskClient, token: str, url: str) -> Any:
    return client.get(EXPLAIN, query_string={"token": token, "url": url}, headers=KEY)


def test_a_url_that_rests_is_explained_with_the_time_it_is_due(
    place: RecordingPlace, client: FlaskClient
) -> None:
    tried = place.clock.now() - timedelta(minutes=20)
    token = place.store_token(failed_url(url := new_site(), attempted_at=tried))
    found = explained(client, token, url.upper()).get_json()
    assert found["rule"] == "resting"
    assert found["dueAt"] == (tried + timedelta(hours=1)).isoformat(timespec="milliseconds").replace(
        "+00:00", "Z"
    )
    assert (found["url"]["status"], found["url"]["reason"], found["url"]["attempts"]) == (
        "error",
        "http_503",
        1,
    )
    assert found["explanation"]


def test_what_explains_a_url_is_what_the_retry_then_does(place: RecordingPlace, client: FlaskClient) -> None:
    instagram = "https://instagram.com/p/DAbcdefghij"
    urls = {
        "due": failed_url(new_site()),
        "resting": failed_url(new_site(), attempted_at=place.clock.now()),
        "finished": TokenSocialURL(url=new_site(), status=FetchStatus.OK),
        "final": TokenSocialURL(url=new_site(), status=FetchStatus.NOT_FOUND),
        "paid_is_off": TokenSocialURL(url=instagram, status=FetchStatus.SKIPPED_PAID),
    }
    tokens = {rule: place.store_token(element) for rule, element in urls.items()}
    for rule, token in tokens.items():
        assert explained(client, token, urls[rule].url).get_json()["rule"] == rule
    result = place.retry_result()
    assert [row["url"] for row in result["data"]] == [urls["due"].url]
    assert (result["meta"]["skippedByInterval"], result["meta"]["notProcessable"]) == (1, 1)


def test_a_token_in_work_is_explained_with_its_holder(place: RecordingPlace, client: FlaskClient) -> None:
    token = place.store_token(failed_url(url := new_site()))
    with place.leases.hold(token_lease(token), ttl_ms=60_000, owner="worker-7"):
        found = explained(client, token, url).get_json()
    assert found["rule"] == "in_work"
    assert found["holder"].startswith("worker-7:")


def test_an_unknown_token_or_url_cannot_be_explained(place: RecordingPlace, client: FlaskClient) -> None:
    token = place.store_token(failed_url(new_site()))
    unknown = explained(client, "So11111111111111111111111111111111111111112", new_site())
    assert (unknown.status_code, unknown.get_json()["code"]) == (404, "TOKEN_NOT_FOUND")
    missing = explained(client, token, new_site())
    assert (missing.status_code, missing.get_json()["code"]) == (404, "URL_NOT_FOUND")
    for query in ({"token": token}, {"url": "https://a.org/"}, {"token": "no key", "url": "https://a.org/"}):
        refused = client.get(EXPLAIN, query_string=query, headers=KEY)
        assert (refused.status_code, refused.get_json()["code"]) == (400, "VALIDATION")


@pytest.fixture
def environ(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PLAIN_SETTINGS, "mongo_url", "mongo_database", "redis_url"):
        value = getattr(settings, name)
        text = value.get_secret_value() if hasattr(value, "get_secret_value") else value
        monkeypatch.setenv(name.upper(), ",".join(text) if isinstance(text, tuple) else str(text))


@pytest.mark.usefixtures("environ")
def test_the_command_line_explains_a_url_and_shows_and_releases_leases(place: RecordingPlace) -> None:
    run = CliRunner().invoke
    token = place.store_token(failed_url(url := new_site()))
    found = json.loads(run(cli.main, ["explain", url, "--token", token, "--json"]).stdout)
    assert (found["rule"], found["token"]) == ("due", token)
    assert "due" in run(cli.main, ["explain", url, "--token", token]).stdout
    assert run(cli.main, ["explain", new_site(), "--token", token]).exit_code == 1
    name = token_lease(token)
    with place.leases.hold(name, ttl_ms=60_000) as lease:
        [shown] = json.loads(run(cli.main, ["leases", "list", "social-record:", "--json"]).stdout)
        assert (shown["name"], shown["holder"]) == (name, lease.owner)
        assert run(cli.main, ["leases", "release", name, "--holder", "not-me"]).exit_code == 1
        assert run(cli.main, ["leases", "release", name, "--holder", lease.owner]).exit_code == 0
    assert json.loads(run(cli.main, ["leases", "list", "--json"]).stdout) == []
