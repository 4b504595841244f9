"""The written indexes of every context, for those that prepare or check a whole database."""

from __future__ import annotations

from workers.mongo import MongoDatabase
from workers.mongo_indexes import IndexSpec, MigrationReport
from workers.mongo_indexes import migrate as migrate_indexes
from workers.social_graph.indexes import INDEXES as SOCIAL_GRAPH
from workers.solana_backfill.indexes import INDEXES as SOLANA_BACKFILL

INDEXES: tuple[IndexSpec, ...] = (*SOCIAL_GRAPH, *SOLANA_BACKFILL)


def migrate(database: MongoDatabase) -> MigrationReport:
    """Create what is missing; see `workers.mongo_indexes.migrate`."""
    return migrate_indexes(database, INDEXES)
