"""Canonical transactions and observations in a real store: once, exactly, and found by their indexes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest

from tests.conftest import FakeClock
from tests.integration.social_graph_server import run_together
from tests.solana_samples import SIGNATURE, body_of, key, readable_results, small_result, token_balance
from workers.base58 import encode
from workers.errors import InvalidInput, RetryableError
from workers.mongo import MongoDatabase
from workers.mongo_indexes import MigrationReport, check, migrate
from workers.schema import INDEXES as EVERY_INDEX
from workers.schema import migrate as migrate_every_context
from workers.social_graph.indexes import INDEXES as SOCIAL_GRAPH
from workers.solana_backfill.canonical import canonical_transaction
from workers.solana_backfill.canonical_model import CanonicalTransaction
from workers.solana_backfill.foreign_values import U64_MAX
from workers.solana_backfill.indexes import INDEXES, RAW_TRANSACTIONS, TRANSACTION_OBSERVATIONS
from workers.solana_backfill.observations import (
    Observation,
    ObservationRepository,
    ObservationStatus,
    ReceivedBody,
    origin_of,
)
from workers.solana_backfill.transactions import SIGNATURES_PER_QUERY, StoreOutcome, TransactionRepository
from workers.solana_backfill.vocabulary import Commitment

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)

# The list, written here once more.
WRITTEN: dict[str, dict[str, tuple[list[tuple[str, int]], bool]]] = {
    "raw_transactions": {
        "uniq_raw_transactions_signature": ([("signature", 1)], True),
        "idx_raw_transactions_slot": ([("slot", 1), ("transaction_index", 1)], False),
    },
    "transaction_observations": {
        "idx_observations_signature": ([("signature", 1), ("started_at", 1)], False),
        "idx_observations_session": ([("session_id", 1), ("started_at", 1)], False),
        "idx_observations_session_status": ([("session_id", 1), ("status", 1), ("started_at", 1)], False),
    },
}


@pytest.fixture
def prepared(database: MongoDatabase) -> MongoDatabase:
    migrate(database, INDEXES)
    return database


@pytest.fixture
def transactions(prepared: MongoDatabase, clock: FakeClock) -> TransactionRepository:
    return TransactionRepository(prepared, clock)


@pytest.fixture
def observations(prepared: MongoDatabase) -> ObservationRepository:
    return ObservationRepository(prepared)


def canonical(**changes: Any) -> CanonicalTransaction:
    return canonical_transaction(small_result(**changes), None)


def observed(**changes: Any) -> Observation:
    facts: dict[str, Any] = {
        "signature": SIGNATURE,
        "session_id": "session-1",
        "attempt": 1,
        "filter_code": "program_before",
        "commitment": Commitment.FINALIZED,
        "provider": "acme",
        "endpoint": "https://rpc.acme.example/v2/secret-token?api-key=secret",
        "started_at": AT,
        "ended_at": AT + timedelta(milliseconds=250),
        "status": ObservationStatus.MISSING,
    }
    return Observation.of(**{**facts, **changes})


# --- indexes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collection", sorted(WRITTEN))
def test_the_store_has_exactly_the_written_indexes(prepared: MongoDatabase, collection: str) -> None:
    stored = {
        name: (
            [(field, int(direction)) for field, direction in found["key"]],
            bool(found.get("unique", False)),
        )
        for name, found in prepared[collection].index_information().items()
        if name != "_id_"
    }
    assert stored == WRITTEN[collection]
    assert len(INDEXES) == sum(map(len, WRITTEN.values()))


def test_one_migration_prepares_every_context(database: MongoDatabase) -> None:
    first, second = migrate_every_context(database), migrate_every_context(database)
    names = tuple(spec.name for spec in (*SOCIAL_GRAPH, *INDEXES))
    assert (first.created, second) == (names, MigrationReport(present=names))
    assert check(database, EVERY_INDEX).is_as_written
    assert len(set(names)) == len(names)


def test_a_contexts_own_migration_leaves_the_others_alone(database: MongoDatabase) -> None:
    migrate(database, INDEXES)
    assert sorted(database.list_collection_names()) == sorted(WRITTEN)
    database["raw_transactions"].create_index([("fee", 1)], name="somebodys_own")
    assert check(database, INDEXES).unknown == ("raw_transactions.somebodys_own",)
    assert check(database, SOCIAL_GRAPH).unknown == ()


@pytest.mark.parametrize(
    ("collection", "query", "index"),
    [
        (RAW_TRANSACTIONS, {"signature": SIGNATURE}, "uniq_raw_transactions_signature"),
        (RAW_TRANSACTIONS, {"signature": {"$in": [SIGNATURE, "b"]}}, "uniq_raw_transactions_signature"),
        (RAW_TRANSACTIONS, {"slot": {"$gte": 5, "$lt": 9}}, "idx_raw_transactions_slot"),
        (TRANSACTION_OBSERVATIONS, {"signature": SIGNATURE}, "idx_observations_signature"),
        (TRANSACTION_OBSERVATIONS, {"session_id": "a"}, "idx_observations_session"),
        (
            TRANSACTION_OBSERVATIONS,
            {"session_id": "a", "status": "failed"},
            "idx_observations_session_status",
        ),
    ],
)
def test_a_query_finds_its_rows_through_its_index(
    prepared: MongoDatabase, clock: FakeClock, collection: str, query: dict[str, Any], index: str
) -> None:
    TransactionRepository(prepared, clock).store(canonical())
    ObservationRepository(prepared).append(observed())
    explained = prepared.command("explain", {"find": collection, "filter": query}, verbosity="executionStats")
    found = str(explained["queryPlanner"]["winningPlan"])
    # Both indexes of sessions begin with the session, so a query by it alone may use either.
    assert f"'{index}'" in found or (len(query) == 1 and f"'{index}_status'" in found)


# --- transactions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(readable_results()))
def test_a_recorded_transaction_comes_back_whole(
    transactions: TransactionRepository, clock: FakeClock, name: str
) -> None:
    transaction = canonical_transaction(readable_results()[name], None)
    result = transactions.store(transaction)
    found = transactions.find_by_signature(transaction.signature)
    assert found is not None
    assert (found.transaction, found.content_hash, found.stored_at) == (
        transaction,
        transaction.content_hash(),
        clock.now(),
    )
    assert (result.outcome, result.content_hash) == (StoreOutcome.STORED, found.content_hash)


def test_unsigned_64_bit_amounts_are_stored_exactly(
    transactions: TransactionRepository, prepared: MongoDatabase
) -> None:
    transaction = canonical(
        fee=U64_MAX,
        preBalances=[U64_MAX, 0, 0, 0],
        postBalances=[0, U64_MAX, 0, 0],
        preTokenBalances=[token_balance(2, str(U64_MAX), owner=key(1))],
        postTokenBalances=[],
        slot=2**63 - 1,
    )
    transactions.store(transaction)
    row = prepared[RAW_TRANSACTIONS].find_one({"signature": SIGNATURE})
    assert row is not None
    assert (row["fee"], row["slot"]) == (str(U64_MAX), 2**63 - 1)
    assert row["native_balance_changes"][0]["delta"] == str(-U64_MAX)
    found = transactions.find_by_signature(SIGNATURE)
    assert found is not None
    assert found.transaction == transaction


def test_a_strange_error_is_stored_as_it_was(transactions: TransactionRepository) -> None:
    err = {"$where": [{"a.b": 10**30}, {"": None}]}
    transactions.store(canonical(err=err))
    found = transactions.find_by_signature(SIGNATURE)
    assert found is not None
    assert found.transaction.error is not None
    assert found.transaction.error.raw == '{"$where":[{"a.b":1000000000000000000000000000000},{"":null}]}'


def test_what_is_stored_first_stands(
    transactions: TransactionRepository, prepared: MongoDatabase, clock: FakeClock
) -> None:
    first = transactions.store(canonical())
    before = prepared[RAW_TRANSACTIONS].find_one({})
    clock.advance(60)
    # Another provider: it keeps other things, but tells the same.
    same = transactions.store(canonical(logMessages=None, computeUnitsConsumed=None, blockTime=None))
    other = transactions.store(canonical(fee=4999))
    assert (first.outcome, same.outcome, other.outcome) == (
        StoreOutcome.STORED,
        StoreOutcome.PRESENT,
        StoreOutcome.DIFFERENT,
    )
    assert (same.content_hash, other.stored_hash) == (first.content_hash, first.content_hash)
    assert other.content_hash == canonical(fee=4999).content_hash() != first.content_hash
    assert list(prepared[RAW_TRANSACTIONS].find({})) == [before]


def test_a_row_in_a_form_of_another_version_is_present_and_not_compared(
    transactions: TransactionRepository,
) -> None:
    newer = dataclasses.replace(canonical(), schema_version=2)
    assert newer.content_hash() != canonical().content_hash()
    transactions.store(newer)
    assert transactions.store(canonical()).outcome is StoreOutcome.PRESENT


def store_together(transactions: TransactionRepository) -> Counter[StoreOutcome]:
    return Counter(result.outcome for result in run_together(lambda _: transactions.store(canonical())))


def test_workers_that_hydrate_one_signature_at_once_store_it_once(
    transactions: TransactionRepository, prepared: MongoDatabase
) -> None:
    assert store_together(transactions) == {StoreOutcome.STORED: 1, StoreOutcome.PRESENT: 7}
    assert prepared[RAW_TRANSACTIONS].count_documents({}) == 1


def test_without_the_unique_index_they_would_store_it_several_times(
    database: MongoDatabase, clock: FakeClock
) -> None:
    assert store_together(TransactionRepository(database, clock))[StoreOutcome.STORED] > 1
    assert database[RAW_TRANSACTIONS].count_documents({}) > 1


def test_of_many_signatures_those_that_are_stored_are_known(
    transactions: TransactionRepository, prepared: MongoDatabase
) -> None:
    signatures = [encode(number.to_bytes(64, "big")) for number in range(2 * SIGNATURES_PER_QUERY + 5)]
    stored = signatures[:: SIGNATURES_PER_QUERY - 1]
    prepared[RAW_TRANSACTIONS].insert_many([{"signature": each} for each in stored])
    assert transactions.find_known(signatures) == frozenset(stored)
    assert transactions.find_known(iter(signatures[1:3])) == frozenset()
    assert transactions.find_known([]) == frozenset()
    assert transactions.find_by_signature(SIGNATURE) is None


def test_a_transaction_too_large_for_a_document_is_refused_as_input(
    transactions: TransactionRepository,
) -> None:
    with pytest.raises(InvalidInput):
        transactions.store(canonical(logMessages=["x" * 17_000_000]))


def test_a_store_that_is_away_is_worth_another_try(database: MongoDatabase, clock: FakeClock) -> None:
    away = TransactionRepository(database.client["x" * 70], clock)  # no server takes such a name
    with pytest.raises(RetryableError):
        away.store(canonical())


# --- observations -------------------------------------------------------------------------------------


def test_an_observation_has_every_field_and_none_of_the_answer(
    observations: ObservationRepository, prepared: MongoDatabase
) -> None:
    body = body_of("tx_legacy_logs_truncated")
    observations.append(
        observed(
            status=ObservationStatus.PERSISTED,
            content_hash=canonical().content_hash(),
            body=ReceivedBody.of(body),
        )
    )
    row = prepared[TRANSACTION_OBSERVATIONS].find_one({}, {"_id": 0})
    assert row == {
        "signature": SIGNATURE,
        "session_id": "session-1",
        "attempt": 1,
        "filter_code": "program_before",
        "commitment": "finalized",
        "provider": "acme",
        "endpoint": "https://rpc.acme.example",
        "protocol": "solana_http_json_rpc",
        "method": "getTransaction",
        "origin": "backfill",
        "started_at": AT,
        "ended_at": AT + timedelta(milliseconds=250),
        "status": "persisted",
        "error_code": None,
        "content_hash": canonical().content_hash(),
        "body_bytes": len(body),
        "body_sha256": hashlib.sha256(body).hexdigest(),
    }
    assert len(bson.encode(row)) < 1000, "a row is light, whatever the answer was"


def test_one_signature_at_two_providers_is_one_transaction_and_two_observations(
    transactions: TransactionRepository, observations: ObservationRepository, prepared: MongoDatabase
) -> None:
    for provider in ("acme", "zenith"):
        stored = transactions.store(canonical())
        observations.append(
            observed(provider=provider, status=ObservationStatus.PERSISTED, content_hash=stored.content_hash)
        )
    assert prepared[RAW_TRANSACTIONS].count_documents({}) == 1
    found = observations.find_by_signature(SIGNATURE, limit=10)
    assert {each.provider for each in found} == {"acme", "zenith"}
    assert len({each.content_hash for each in found}) == 1


def test_each_try_leaves_a_row_and_rows_come_back_in_their_order(
    observations: ObservationRepository,
) -> None:
    tries = [
        observed(attempt=1, status=ObservationStatus.FAILED, error_code="http_503"),
        observed(attempt=2, started_at=AT + timedelta(seconds=1)),
        observed(
            attempt=3,
            started_at=AT + timedelta(seconds=2),
            status=ObservationStatus.PERSISTED,
            content_hash="a" * 64,
            body=ReceivedBody.of(b"{}"),
        ),
    ]
    for each in reversed(tries):
        observations.append(each)
    observations.append(observed(session_id="session-2", started_at=AT - timedelta(days=1)))
    assert observations.find_by_session("session-1", limit=10) == tries
    assert observations.find_by_session("session-1", limit=2) == tries[:2]
    assert observations.find_by_session("session-1", limit=9, status=ObservationStatus.MISSING) == [tries[1]]
    assert len(observations.find_by_signature(SIGNATURE, limit=10)) == 4
    assert observations.find_by_session("session-3", limit=10) == []


def test_a_field_that_a_newer_version_has_added_is_left_out(
    observations: ObservationRepository, prepared: MongoDatabase
) -> None:
    prepared[TRANSACTION_OBSERVATIONS].insert_one({**observed().to_document(), "added": 1})
    assert observations.find_by_session("session-1", limit=1) == [observed()]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"signature": key(1)}, "signature"),
        ({"session_id": ""}, "session_id"),
        ({"attempt": 0}, "attempt"),
        ({"filter_code": "Program before"}, "filter_code"),
        ({"provider": "x" * 101}, "provider"),
        ({"endpoint": "rpc.acme.example"}, "endpoint"),
        ({"endpoint": "ftp://rpc.acme.example"}, "endpoint"),
        ({"endpoint": "https://[::1/"}, "endpoint"),
        ({"endpoint": "https://rpc.acme.example:999999"}, "endpoint"),
        ({"started_at": AT.replace(tzinfo=None)}, "started_at"),
        ({"ended_at": AT.replace(tzinfo=None)}, "ended_at"),
        ({"status": ObservationStatus.FAILED}, "error_code"),
        ({"status": ObservationStatus.FAILED, "error_code": "Node says: no"}, "error_code"),
        ({"status": ObservationStatus.MISSING, "error_code": "http_503"}, "error_code"),
        ({"status": ObservationStatus.PERSISTED}, "content_hash"),
        ({"content_hash": "abc"}, "content_hash"),
    ],
    ids=str,
)
def test_an_observation_that_says_nothing_or_contradicts_itself_is_refused(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        observed(**changes)
    assert caught.value.field == field


def test_content_that_differs_from_the_stored_one_can_be_on_record() -> None:
    found = observed(status=ObservationStatus.FAILED, error_code="content_differs", content_hash="b" * 64)
    assert (found.error_code, found.content_hash) == ("content_differs", "b" * 64)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.mainnet-beta.solana.com", "https://api.mainnet-beta.solana.com"),
        ("https://user:secret@rpc.example:8899/key/?token=t#f", "https://rpc.example:8899"),
        ("http://[::1]:8899/secret", "http://[::1]:8899"),
        ("HTTP://RPC.Example/secret", "http://rpc.example"),
    ],
)
def test_of_an_endpoint_only_its_origin_is_kept(url: str, origin: str) -> None:
    assert origin_of(url) == origin
