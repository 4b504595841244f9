"""The connection to MongoDB and the translation of its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pymongo import MongoClient
from pymongo.database import Database

from workers.settings import Settings

Document: TypeAlias = dict[str, Any]
Filter: TypeAlias = Mapping[str, Any]
MongoDatabase: TypeAlias = Database[Document]


# Somebody waits for the answer and holds a thread: a store that is down is told within two seconds, one that
# does not answer within three.
IMPATIENT_SELECTION_MS = 2000
IMPATIENT_OPERATION_MS = 3000


def connect(settings: Settings, *, is_impatient: bool = False) -> MongoDatabase:
    """Open the database; it connects with the first operation, not before.

    Times come back aware, in UTC. Every operation ends within the time limit, counted from its start.
    """
    timeout_ms = selection_ms = settings.mongo_timeout_ms
    if is_impatient:
        timeout_ms = min(timeout_ms, IMPATIENT_OPERATION_MS)
        selection_ms = min(timeout_ms, IMPATIENT_SELECTION_MS)
    client: MongoClient[Document] = MongoClient(
        settings.mongo_url,
        tz_aware=True,
        connect=False,
        timeoutMS=timeout_ms,
        serverSelectionTimeoutMS=selection_ms,
        appname="converge",
    )
    return client[settings.mongo_database]
