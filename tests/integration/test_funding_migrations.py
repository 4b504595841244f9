"""The tables of fundings: made once, checked always, never changed behind somebody's back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import pytest
import sqlalchemy
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from workers.errors import RetryableError
from workers.funding.database import open_database
from workers.funding.migrations import MIGRATIONS, FundingMigrationReport, Migration, migrate
from workers.funding.tables import IS_ALIVE, METADATA
from workers.funding.vocabulary import (
    DEAD_STATUSES,
    BlockReason,
    DeclineReason,
    PublishStatus,
    PurchaseStatus,
)

TITLES = tuple(each.title for each in MIGRATIONS)
SECOND = Migration(version=2, name="a_note", sql="CREATE TABLE note (id integer PRIMARY KEY)")


@pytest.fixture
def database(funding_url: str) -> Iterator[Engine]:
    """An empty database."""
    engine = open_database(funding_url, timeout_ms=5000)
    yield engine
    engine.dispose()


def tables(engine: Engine) -> set[str]:
    return set(sqlalchemy.inspect(engine).get_table_names())


def execute(engine: Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(statement))


def test_an_empty_database_gets_every_table_and_the_second_time_changes_nothing(database: Engine) -> None:
    first = migrate(database)
    assert first == FundingMigrationReport(created=TITLES)
    assert first.is_as_written
    assert tables(database) == {*METADATA.tables, "funding_migration"}
    assert migrate(database) == FundingMigrationReport(present=TITLES)


def test_a_new_migration_is_applied_to_a_database_that_has_the_old_ones(database: Engine) -> None:
    migrate(database)
    report = migrate(database, [*MIGRATIONS, SECOND])
    assert report == FundingMigrationReport(present=TITLES, created=("0002_a_note",))
    assert "note" in tables(database)


def test_processes_that_start_at_once_apply_each_migration_once(database: Engine) -> None:
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: migrate(database), range(4)))
    assert [report.created for report in reports].count(TITLES) == 1
    assert all(report.is_as_written for report in reports)


def test_a_migration_that_fails_leaves_nothing_of_itself_and_the_next_run_goes_on(database: Engine) -> None:
    broken = replace(SECOND, sql=f"{SECOND.sql}; SELECT nonsense")
    with pytest.raises(RetryableError):
        migrate(database, [*MIGRATIONS, broken])
    assert "note" not in tables(database)
    assert migrate(database, [*MIGRATIONS, SECOND]).created == ("0002_a_note",)


def test_a_migration_that_was_changed_after_it_was_applied_is_reported_and_nothing_is_applied(
    database: Engine,
) -> None:
    migrate(database)
    changed = replace(MIGRATIONS[0], sql=MIGRATIONS[0].sql + "-- another word")
    report = migrate(database, [changed, SECOND])
    assert (report.differing, report.missing, report.created) == (TITLES, ("0002_a_note",), ())
    assert not report.is_as_written
    assert "note" not in tables(database)


def test_a_migration_of_a_later_release_is_reported(database: Engine) -> None:
    migrate(database, [*MIGRATIONS, SECOND])
    report = migrate(database)
    assert report.unknown == ("0002_a_note",)
    assert not report.is_as_written


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("ALTER TABLE funding DROP COLUMN blocked", "funding.blocked"),
        ("ALTER TABLE primary_purchase ALTER COLUMN brick_count TYPE bigint", "primary_purchase.brick_count"),
        ("ALTER TABLE wallet ALTER COLUMN balance_cents DROP NOT NULL", "wallet.balance_cents"),
        ("DROP TABLE wallet_transaction", "wallet_transaction"),
        ("DROP INDEX primary_purchase_alive", "primary_purchase_alive"),
    ],
)
def test_tables_that_somebody_has_changed_are_reported_and_left(
    database: Engine, statement: str, named: str
) -> None:
    migrate(database)
    execute(database, statement)
    report = migrate(database)
    assert report == FundingMigrationReport(present=TITLES, differing=(named,))
    assert not report.is_as_written


def test_the_report_has_the_words_of_the_report_on_indexes() -> None:
    assert list(asdict(FundingMigrationReport())) == ["created", "present", "missing", "differing", "unknown"]


def test_the_words_in_sql_are_those_of_the_vocabulary() -> None:
    [first] = MIGRATIONS
    for words in (PublishStatus, PurchaseStatus, DeclineReason, BlockReason):
        assert all(f"'{word.value}'" in first.sql for word in words)
    assert str(IS_ALIVE) == "primary_purchase.status NOT IN ('declined', 'refunded')"
    assert {"declined", "refunded"} == {status.value for status in DEAD_STATUSES}


PROPERTY = "INSERT INTO property VALUES ('p', 'published', 10)"
FUNDING = "INSERT INTO funding (property_id, capacity_brick_count, brick_price_cents{}) VALUES ('p', 10, 1{})"
PURCHASE = (
    "INSERT INTO primary_purchase (id, property_id, investor_id, brick_count, price_cents, is_auto_invest,"
    " status, decline_reason, created_at, updated_at, expires_at)"
    " VALUES (gen_random_uuid(), 'p', 'i', {bricks}, 1, false, {status}, {reason}, now(), now(), {expires})"
)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO property VALUES ('a b', 'published', 10)",
        "INSERT INTO property VALUES ('', 'published', 10)",
        "INSERT INTO property VALUES ('q', 'hidden', 10)",
        "INSERT INTO property VALUES ('q', 'draft', 0)",
        "INSERT INTO funding VALUES ('nobody', 10, 1)",
        "UPDATE funding SET capacity_brick_count = 0",
        'UPDATE funding SET blocked = \'{"reason": "whim"}\'',
        "UPDATE funding SET blocked = '{}'",
        "UPDATE funding SET blocked = '[]'",
        PURCHASE.format(bricks=0, status="'assigned'", reason="NULL", expires="NULL"),
        PURCHASE.format(bricks=1, status="'lost'", reason="NULL", expires="NULL"),
        PURCHASE.format(bricks=1, status="'declined'", reason="NULL", expires="NULL"),
        PURCHASE.format(bricks=1, status="'declined'", reason="'whim'", expires="NULL"),
        PURCHASE.format(bricks=1, status="'assigned'", reason="'expired'", expires="NULL"),
        PURCHASE.format(bricks=1, status="'reserved'", reason="NULL", expires="NULL"),
        "INSERT INTO wallet VALUES ('i', -1)",
    ],
)
def test_the_database_refuses_what_cannot_be(database: Engine, statement: str) -> None:
    migrate(database)
    execute(database, PROPERTY)
    execute(database, FUNDING.format("", ""))
    with pytest.raises(IntegrityError):
        execute(database, statement)


def test_the_database_takes_what_can_be(database: Engine) -> None:
    migrate(database)
    execute(database, PROPERTY)
    execute(database, FUNDING.format(", blocked", ', \'{"reason": "bricks-oversell"}\''))
    execute(database, PURCHASE.format(bricks=1, status="'declined'", reason="'expired'", expires="now()"))
    execute(database, PURCHASE.format(bricks=1, status="'reserved'", reason="NULL", expires="now()"))
    execute(database, PURCHASE.format(bricks=1, status="'assigned'", reason="NULL", expires="NULL"))
