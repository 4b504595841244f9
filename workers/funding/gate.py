"""The gate of a property: whoever moves its counters passes it, and a block closes it.

Those who pass hold a shared lock of the database from before their transaction until the counters are moved
as well, after the commit or the rollback. Closing takes the same lock alone for a moment. So once a block has
been set behind a closed gate, nobody is between the two writes any more, and whoever passes next sees it.

The locks belong to sessions: they end with the connection when a process dies, and they need real sessions,
not a pooler that hands out single transactions. The queue for them is fair, so a stream of buyers does not
keep the gate open for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

_NAME = "converge:funding:gate:"
# Locks have numbers. Two properties may get the same one, which costs a wait and nothing else.
_ENTER = text("SELECT pg_advisory_lock_shared(hashtextextended(:name, 0))")
_LEAVE = text("SELECT pg_advisory_unlock_shared(hashtextextended(:name, 0))")
_CLOSE = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")


@contextmanager
def passed(engine: Engine, property_id: str) -> Iterator[Connection]:
    """A connection on the other side of the gate, in no transaction.

    Waits as long as locks may be waited for; then the driver's exception is raised.
    """
    name = {"name": _NAME + property_id}
    with engine.connect() as connection:
        with connection.begin():
            connection.execute(_ENTER, name)
        try:
            yield connection
        finally:
            _leave(connection, name)


def close(connection: Connection, property_id: str) -> None:
    """Wait until nobody is inside, and let nobody pass before the end of this transaction."""
    connection.execute(_CLOSE, {"name": _NAME + property_id})


def _leave(connection: Connection, name: dict[str, str]) -> None:
    """Give the lock back. Where that is not certain the connection goes, and the lock with it."""
    if connection.closed or connection.invalidated:
        return
    try:
        if connection.in_transaction():
            connection.rollback()
        with connection.begin():
            connection.execute(_LEAVE, name)
    except SQLAlchemyError:
        connection.invalidate()
