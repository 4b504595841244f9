"""The connection to PostgreSQL when it is slow, frozen, gone, or not prepared."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text

from devstack.postgres import PostgresServer
from tests.pausing import paused
from tests.waiting import wait_until
from workers.errors import RetryableError
from workers.funding.database import open_database, translated
from workers.funding.fundings import Fundings


@pytest.fixture
def engine(postgres: PostgresServer) -> Iterator[Engine]:
    engine = open_database(postgres.url, timeout_ms=500, connections_max=2)
    yield engine
    engine.dispose()


def ask(engine: Engine, statement: str) -> object:
    with translated(), engine.connect() as connection, connection.begin():
        return connection.scalar(text(statement))


def is_gone(engine: Engine, pid: object) -> bool:
    """Whether the server's session has ended."""
    wanted = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
    with engine.connect() as connection:
        return not connection.scalar(wanted, {"pid": pid})


def test_any_spelling_of_the_address_is_taken(postgres: PostgresServer) -> None:
    plain = postgres.url.replace("postgresql+psycopg", "postgresql")
    for url in (postgres.url, plain, plain.replace("postgresql", "postgres", 1)):
        engine = open_database(url, timeout_ms=500)
        assert ask(engine, "SELECT 1") == 1
        engine.dispose()


def test_opening_connects_to_nothing() -> None:
    open_database("postgresql://nobody@127.0.0.1:9/nothing", timeout_ms=500).dispose()


def test_a_statement_that_takes_too_long_is_ended_and_the_connection_is_of_use_again(engine: Engine) -> None:
    with pytest.raises(RetryableError, match="QueryCanceled"):
        ask(engine, "SELECT pg_sleep(30)")
    assert ask(engine, "SELECT 1") == 1


def test_a_database_that_is_away_is_said_with_no_word_about_its_address() -> None:
    engine = open_database("postgresql://me:a-password@127.0.0.1:9/nothing", timeout_ms=500)
    with pytest.raises(RetryableError) as error:
        ask(engine, "SELECT 1")
    engine.dispose()
    assert str(error.value) == "the database of fundings failed: OperationalError"


def test_a_server_that_hangs_is_given_up_in_time(postgres: PostgresServer, engine: Engine) -> None:
    """Its own limits cannot end the statement: the process that would do so is stopped."""
    with engine.connect() as connection:
        pid = connection.scalar(text("SELECT pg_backend_pid()"))
        started = time.monotonic()
        with paused(pid), pytest.raises(RetryableError), translated():
            connection.execute(text("SELECT 1"))
        assert time.monotonic() - started < 10
        connection.invalidate()
    assert ask(engine, "SELECT 1") == 1


def test_a_connection_that_broke_between_two_uses_is_replaced(engine: Engine) -> None:
    pid = ask(engine, "SELECT pg_backend_pid()")
    other = open_database(engine.url.render_as_string(hide_password=False), timeout_ms=500)
    ask(other, f"SELECT pg_terminate_backend({pid})")
    wait_until(lambda: is_gone(other, pid), "it ends")
    other.dispose()
    assert ask(engine, "SELECT 1") == 1


def test_a_transaction_that_nobody_goes_on_with_is_ended_by_the_server(engine: Engine) -> None:
    with engine.connect() as connection:
        pid = connection.scalar(text("SELECT pg_backend_pid()"))
        wait_until(lambda: is_gone(engine, pid), "the server ends it")
        connection.invalidate()


def test_more_askers_than_connections_wait_their_turn_and_no_longer(engine: Engine) -> None:
    with engine.connect(), engine.connect(), pytest.raises(RetryableError, match="TimeoutError"):
        ask(engine, "SELECT 1")
    assert ask(engine, "SELECT 1") == 1


def test_a_database_without_tables_says_what_to_do(funding_url: str) -> None:
    engine = open_database(funding_url, timeout_ms=500)
    with pytest.raises(RetryableError, match="run converge migrate"):
        Fundings(engine).blocked(limit=1)
    engine.dispose()
