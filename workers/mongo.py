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


def connect(settings: Settings) -> MongoDatabase:
    """Open the database; nothing is sent before the first operation.

    Times come back aware, in UTC. Every operation ends within the time limit, counted from its start.
    """
    client: MongoClient[Document] = MongoClient(
        settings.mongo_url,
        tz_aware=True,
        timeoutMS=settings.mongo_timeout_ms,
        serverSelectionTimeoutMS=settings.mongo_timeout_ms,
        appname="converge",
    )
    return client[settings.mongo_database]
