"""Migrating a store that somebody else has been at: what is created, what is reported, what is left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from devstack.mongo import MongoServer
from devstack.server import plain_environ
from tests.conftest import PLAIN_SETTINGS
from tests.integration.social_graph_server import graph_database, run_together
from workers.mongo import MongoDatabase
from workers.mongo_indexes import IndexSpec
from workers.schema import INDEXES as EVERY_INDEX
from workers.schema import migrate as migrate_every_context
from workers.social_graph.indexes import INDEXES, check, migrate
from workers.store_errors import DuplicateKey

__all__ = ["graph_database"]


def stored(database: MongoDatabase) -> dict[str, Any]:
    return {name: database[name].index_information() for name in database.list_collection_names()}


def run_command(
    mongo: MongoServer, database: MongoDatabase, checkout: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    """`converge migrate` against this database, as an operator starts it."""
    environ = {name.upper(): value for name, value in PLAIN_SETTINGS.items() if isinstance(value, str)}
    places = {"MONGO_URL": mongo.url, "MONGO_DATABASE": database.name, "SOCIAL_RECORD_AF_GROUP_IDS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", "migrate", *options],
        env={**plain_environ(), **environ, **places},
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_creates_all_and_a_second_run_changes_nothing(
    mongo: MongoServer, database: MongoDatabase, checkout: Path
) -> None:
    first = run_command(mongo, database, checkout, "--json")
    after_first = stored(database)
    second = run_command(mongo, database, checkout, "--json")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    names = [spec.name for spec in EVERY_INDEX]
    # Without a PostgreSQL nothing is said about the tables of the fundings.
    nothing: dict[str, object] = {"missing": [], "differing": [], "unknown": [], "fundings": None}
    assert json.loads(first.stdout) == {"created": names, "present": [], **nothing}
    assert json.loads(second.stdout) == {"created": [], "present": names, **nothing}
    assert stored(database) == after_first


def test_the_command_fails_and_names_each_index_that_is_not_as_written(
    mongo: MongoServer, graph_database: MongoDatabase, checkout: Path
) -> None:
    migrate_every_context(graph_database)
    tokens = graph_database["tokens"]
    tokens.drop_index("idx_tokens_fingerprints")
    tokens.drop_index("idx_tokens_discovered")
    tokens.create_index([("created_at", 1)], name="idx_tokens_discovered")
    tokens.create_index([("symbol", 1)], name="somebodys_own")
    done = run_command(mongo, graph_database, checkout)
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "created: 1 (idx_tokens_fingerprints)" in said
    assert "differing: 1 (idx_tokens_discovered)" in said
    assert "unknown: 1 (tokens.somebodys_own)" in said
    again = migrate(graph_database)
    assert (again.created, again.is_as_written) == ((), False)
    assert "idx_tokens_fingerprints" in again.present, "what was missing is there since the first run"


@pytest.mark.parametrize(
    "change",
    [
        {"keys": [("platform_key", 1), ("platform", 1)]},
        {"keys": [("platform", 1), ("platform_key", -1)]},
        {"keys": [("platform", 1)]},
        {"unique": False},
        {"partialFilterExpression": {"platform_key": {"$type": "string"}}},
        {"partialFilterExpression": {"platform_key": {"$gt": "a"}}},
        {"partialFilterExpression": None},
        {"collation": {"locale": "en", "strength": 2}},
        {"expireAfterSeconds": 60, "keys": [("observed_at", 1)]},
        {"hidden": True},
    ],
    ids=str,
)
def test_an_index_that_differs_in_anything_is_reported(
    graph_database: MongoDatabase, change: dict[str, Any]
) -> None:
    accounts, name = graph_database["accounts"], "uniq_accounts_platform_key"
    accounts.drop_index(name)
    written = {"unique": True, "partialFilterExpression": {"platform_key": {"$gt": ""}}}
    options = {"keys": [("platform", 1), ("platform_key", 1)], **written, **change}
    given = {option: value for option, value in options.items() if value is not None}
    accounts.create_index(given.pop("keys"), name=name, **given)
    before = stored(graph_database)
    report = migrate(graph_database)
    assert (report.differing, report.created, report.missing, report.unknown) == ((name,), (), (), ())
    assert not report.is_as_written
    assert stored(graph_database) == before, "a person decides"


def test_a_time_to_live_on_the_age_of_tokens_would_delete_them_and_is_reported(
    graph_database: MongoDatabase,
) -> None:
    """It has the fields of the written index and its name: only the option tells them apart."""
    graph_database["tokens"].drop_index("idx_tokens_discovered")
    graph_database["tokens"].create_index(
        [("created_at", -1)], name="idx_tokens_discovered", expireAfterSeconds=86_400
    )
    assert check(graph_database).differing == ("idx_tokens_discovered",)


def test_an_index_of_the_same_fields_under_another_name_does_not_stop_the_others(
    database: MongoDatabase,
) -> None:
    database["tokens"].create_index([("address", 1)], unique=True)
    report = migrate(database)
    assert (report.missing, report.unknown) == (("uniq_tokens_address",), ("tokens.address_1",))
    assert len(report.created) == 22
    assert not report.is_as_written
    database["tokens"].drop_index("address_1")
    assert migrate(database).is_as_written


def test_a_written_name_in_another_collection_is_an_index_of_nobody(graph_database: MongoDatabase) -> None:
    graph_database["contents"].create_index([("address", 1)], name="uniq_tokens_address", unique=True)
    graph_database["tokens"].drop_index("uniq_tokens_address")
    report = migrate(graph_database)
    assert (report.created, report.unknown) == (
        ("uniq_tokens_address",),
        ("contents.uniq_tokens_address",),
    )


def test_a_kind_of_index_that_has_a_word_for_a_direction_can_be_read() -> None:
    """MongoDB shows a text index like this; the embedded server has none."""
    shown = {"v": 2, "key": [("_fts", "text"), ("_ftsx", 1.0)], "weights": {"text.primary": 1}}
    spec = IndexSpec.read("contents", "words", shown)
    assert (spec.keys, spec.options) == ((("_fts", "text"), ("_ftsx", 1)), {"weights": {"text.primary": 1}})


def test_rows_that_contradict_a_unique_index_are_told_by_the_name_of_the_index(
    database: MongoDatabase,
) -> None:
    database["tokens"].insert_many([{"address": "a"}, {"address": "a"}])
    with pytest.raises(DuplicateKey, match="uniq_tokens_address"):
        migrate(database)
    database["tokens"].delete_one({"address": "a"})
    assert migrate(database).is_as_written, "the next run goes on where this one ended"


def test_migrating_from_several_places_at_once_makes_each_index_once(database: MongoDatabase) -> None:
    reports = run_together(lambda _: migrate(database), times=4)
    assert all(report.is_as_written for report in reports)
    assert sorted(spec.name for spec in INDEXES) == sorted(
        name for found in stored(database).values() for name in found if name != "_id_"
    )
