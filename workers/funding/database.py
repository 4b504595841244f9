"""The connection to PostgreSQL: limits of time on both sides, and the translation of its errors.

Nothing connects before the first statement. A server that does not answer is given up by us, and a client
that does not go on is given up by the server, which frees what it has locked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
import sqlalchemy
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from workers.errors import RetryableError

ResultT = TypeVar("ResultT")

APPLICATION = "converge"
DIALECT = "postgresql+psycopg"
CONNECT_TIMEOUT_S = 3
# How much longer than the server we wait ourselves.
GRACE_S = 1.0
WAIT_INTERVAL_S = 0.1
# SQLSTATE of a table or a column that is not there.
UNDEFINED = frozenset({"42P01", "42703"})


class _BoundedConnection(psycopg.Connection[Any]):
    """A connection that waits for its server `limit_s` seconds at most.

    The server's own limits end a statement that takes too long, but not a wait for a server that is frozen or
    behind a broken network.
    """

    limit_s: float = 60.0

    def wait(
        self, gen: PQGen[ResultT], interval: float = WAIT_INTERVAL_S, timeout: float | None = None
    ) -> ResultT:
        """Wait for the end of what the driver does. Raises `psycopg.OperationalError` after the limit."""
        limit_s = self.limit_s if timeout is None else min(timeout, self.limit_s)
        try:
            return super().wait(gen, interval=interval, timeout=limit_s)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status is TransactionStatus.ACTIVE:
                # What is still to come belongs to nobody, so the connection is of no use any more.
                self.pgconn.finish()
            raise


def open_database(url: str, *, timeout_ms: int, connections_max: int = 16) -> Engine:
    """An engine on this database; `timeout_ms` limits each statement and each wait for a lock.

    Any spelling of a PostgreSQL address is taken. A transaction that is left open is ended by the server
    after twice that time.
    """
    options = {
        "statement_timeout": timeout_ms,
        # Less than the statement may take, so that the error says what was waited for.
        "lock_timeout": timeout_ms * 4 // 5,
        "idle_in_transaction_session_timeout": timeout_ms * 2,
    }
    engine = sqlalchemy.create_engine(
        sqlalchemy.make_url(url).set(drivername=DIALECT),
        pool_size=connections_max,
        max_overflow=0,
        pool_timeout=timeout_ms / 1000,
        pool_pre_ping=True,
        connect_args={
            "application_name": APPLICATION,
            "connect_timeout": CONNECT_TIMEOUT_S,
            "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        },
    )

    @event.listens_for(engine, "do_connect")
    def connect(
        _dialect: object, _record: object, _args: object, given: dict[str, Any]
    ) -> _BoundedConnection:
        connection = _BoundedConnection.connect(**given)
        connection.limit_s = timeout_ms / 1000 + GRACE_S
        return connection

    return engine


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's exceptions of the body into `RetryableError`.

    The text names the kind of failure, never a statement with its values.
    """
    try:
        yield
    except DBAPIError as exc:
        state = getattr(exc.orig, "sqlstate", None)
        if state in UNDEFINED:
            raise RetryableError("the database of fundings is not prepared: run converge migrate") from exc
        what = type(exc.orig).__name__
        raise RetryableError(f"the database of fundings failed: {what}") from exc
    except SQLAlchemyError as exc:
        raise RetryableError(f"the database of fundings failed: {type(exc).__name__}") from exc
