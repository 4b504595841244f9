"""The tables' history as plain SQL, what of it a database has, and bringing it to the end.

A migration is applied once, as a whole, and never changed afterwards: the next change is a new one. Nothing
is ever dropped or rebuilt here. What differs from the written tables is reported, and a person decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy
from sqlalchemy import Column, Connection, DateTime, Engine, Integer, MetaData, Table, Text, text
from sqlalchemy.dialects import postgresql

from workers.funding.database import translated
from workers.funding.tables import METADATA

# One migration at a time, whoever starts it; any number that nobody else uses will do.
_LOCK = 6_004_002_030
_HISTORY = Table(
    "funding_migration",
    MetaData(),
    Column("version", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("applied_at", DateTime(timezone=True), nullable=False),
)
_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_CREATE_HISTORY = """
CREATE TABLE IF NOT EXISTS funding_migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""
_FIRST = """
CREATE TABLE property (
    id text PRIMARY KEY CONSTRAINT property_id_form CHECK (id ~ '^[A-Za-z0-9_-]{1,64}$'),
    publish_status text NOT NULL
        CONSTRAINT property_publish_status CHECK (publish_status IN ('draft', 'published')),
    total_brick_count integer NOT NULL CONSTRAINT property_total_brick_count CHECK (total_brick_count > 0)
);
CREATE TABLE funding (
    property_id text PRIMARY KEY REFERENCES property,
    capacity_brick_count integer NOT NULL
        CONSTRAINT funding_capacity_brick_count CHECK (capacity_brick_count > 0),
    brick_price_cents bigint NOT NULL CONSTRAINT funding_brick_price_cents CHECK (brick_price_cents >= 0),
    started_at timestamptz,
    ended_at timestamptz,
    blocked jsonb CONSTRAINT funding_blocked CHECK (
        blocked IS NULL
        OR (blocked ->> 'reason' IN ('bricks-oversell', 'counter-reconciliation')) IS TRUE
    )
);
CREATE TABLE primary_purchase (
    id uuid PRIMARY KEY,
    property_id text NOT NULL REFERENCES funding,
    investor_id text NOT NULL,
    brick_count integer NOT NULL CONSTRAINT primary_purchase_brick_count CHECK (brick_count > 0),
    price_cents bigint NOT NULL CONSTRAINT primary_purchase_price_cents CHECK (price_cents >= 0),
    is_auto_invest boolean NOT NULL,
    status text NOT NULL CONSTRAINT primary_purchase_status CHECK (
        status IN (
            'reserved', 'waiting_for_confirmation', 'waiting_for_assignation', 'assigned',
            'declined', 'refunded'
        )
    ),
    decline_reason text CONSTRAINT primary_purchase_decline_reason CHECK (
        (status = 'declined')
        = ((decline_reason IN ('expired', 'not-enough-balance', 'no-bricks-left')) IS TRUE)
    ),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    expires_at timestamptz
        CONSTRAINT primary_purchase_expires_at CHECK (status <> 'reserved' OR expires_at IS NOT NULL)
);
CREATE INDEX primary_purchase_alive ON primary_purchase (property_id)
    INCLUDE (brick_count, is_auto_invest, status)
    WHERE status NOT IN ('declined', 'refunded');
CREATE INDEX primary_purchase_waiting ON primary_purchase (status, property_id, created_at)
    WHERE status IN ('waiting_for_confirmation', 'waiting_for_assignation');
CREATE INDEX primary_purchase_expiring ON primary_purchase (expires_at) WHERE status = 'reserved';
CREATE TABLE wallet (
    investor_id text PRIMARY KEY,
    balance_cents bigint NOT NULL CONSTRAINT wallet_balance_cents CHECK (balance_cents >= 0)
);
CREATE TABLE wallet_transaction (
    id uuid PRIMARY KEY,
    investor_id text NOT NULL REFERENCES wallet,
    purchase_id uuid NOT NULL REFERENCES primary_purchase,
    amount_cents bigint NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX wallet_transaction_purchase ON wallet_transaction (purchase_id);
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """One step of the history; `sql` is one transaction's worth of statements."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What tells whether the step is still the one that was applied."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def title(self) -> str:
        """How people see it."""
        return f"{self.version:04d}_{self.name}"


MIGRATIONS = (Migration(version=1, name="fundings_and_purchases", sql=_FIRST),)


@dataclass(frozen=True, kw_only=True, slots=True)
class FundingMigrationReport:
    """Titles of migrations: applied now, found applied, missing, found changed since, and not on the list.

    `differing` also names tables and columns that are not as written, whatever the history says.
    """

    created: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_as_written(self) -> bool:
        """Whether the database now has the whole history and the written tables."""
        return not (self.missing or self.differing or self.unknown)


def migrate(engine: Engine, migrations: Sequence[Migration] = MIGRATIONS) -> FundingMigrationReport:
    """Apply what is missing, in order. Running it again changes nothing.

    Each migration is one transaction, together with its entry in the history. Where the history is not the
    written one, nothing is applied. Raises `RetryableError`.
    """
    with translated(), engine.connect() as connection:
        with connection.begin():
            connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _LOCK})
            connection.execute(text(_CREATE_HISTORY))
        try:
            before = _compare(connection, migrations)
            wanted = [each for each in migrations if each.title in before.missing]
            if before.differing or before.unknown:
                wanted = []
            for each in wanted:
                _apply(connection, each)
            after = _compare(connection, migrations)
        finally:
            # A connection that broke has let go of the lock by that.
            if not connection.invalidated:
                connection.rollback()
                connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": _LOCK})
    created = tuple(each.title for each in wanted)
    return FundingMigrationReport(
        created=created,
        present=tuple(title for title in after.present if title not in created),
        missing=after.missing,
        differing=(*after.differing, *_differing_tables(engine)),
        unknown=after.unknown,
    )


def _apply(connection: Connection, migration: Migration) -> None:
    with connection.begin():
        connection.exec_driver_sql(migration.sql)
        entry = {"version": migration.version, "name": migration.name, "checksum": migration.checksum}
        connection.execute(_HISTORY.insert().values(applied_at=sqlalchemy.func.now(), **entry))


def _compare(connection: Connection, migrations: Sequence[Migration]) -> FundingMigrationReport:
    with connection.begin():
        rows = connection.execute(sqlalchemy.select(_HISTORY).order_by(_HISTORY.c.version)).all()
    applied = {row.version: row for row in rows}
    known = {each.version for each in migrations}
    found = [each for each in migrations if each.version in applied]
    return FundingMigrationReport(
        present=tuple(each.title for each in found if applied[each.version].checksum == each.checksum),
        missing=tuple(each.title for each in migrations if each.version not in applied),
        differing=tuple(each.title for each in found if applied[each.version].checksum != each.checksum),
        unknown=tuple(f"{row.version:04d}_{row.name}" for row in rows if row.version not in known),
    )


def _differing_tables(engine: Engine) -> list[str]:
    """The written tables that are not there, and their columns and indexes that are not as written."""
    with translated(), engine.connect() as connection:
        inspector = sqlalchemy.inspect(connection)
        there = set(inspector.get_table_names())
        differing = [name for name in METADATA.tables if name not in there]
        for table in (each for each in METADATA.sorted_tables if each.name in there):
            found = {
                column["name"]: (_type_name(column["type"]), column["nullable"])
                for column in inspector.get_columns(table.name)
            }
            differing += [
                f"{table.name}.{column.name}"
                for column in table.columns
                if found.get(column.name) != (_type_name(column.type), column.nullable)
            ]
            keys = {each["name"]: each["column_names"] for each in inspector.get_indexes(table.name)}
            differing += [
                str(index.name)
                for index in table.indexes
                if keys.get(str(index.name)) != [column.name for column in index.columns]
            ]
    return differing


def _type_name(kind: sqlalchemy.types.TypeEngine[object]) -> str:
    return kind.compile(dialect=_DIALECT)
