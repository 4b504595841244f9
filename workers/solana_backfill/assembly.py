"""Wires the backfill from the settings; `workers.services` calls it. Opens no connection.

Without `SOLANA_ENDPOINTS` there is nobody to ask: whoever wants a backfill is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import SystemRandom

from redis import Redis

from workers.clock import Clock
from workers.http.client import OutboundClient
from workers.mongo import MongoDatabase
from workers.settings import Settings
from workers.solana_backfill.campaign import Backfill, BackfillParts
from workers.solana_backfill.observations import ObservationRepository
from workers.solana_backfill.pacer import Pacer
from workers.solana_backfill.rpc import RPCClient
from workers.solana_backfill.schedule import EndpointSchedule
from workers.solana_backfill.transactions import TransactionRepository
from workers.solana_endpoints import SolanaEndpoint


def build_backfill(
    settings: Settings, *, redis: Redis, database: MongoDatabase, clock: Clock, http: OutboundClient
) -> Backfill:
    """What a worker process needs for backfills. One for a process, because it paces what that asks."""
    random = SystemRandom().random
    return Backfill(
        BackfillParts(
            clients={
                endpoint.role: build_client(
                    endpoint, settings, redis=redis, clock=clock, http=http, random=random
                )
                for endpoint in settings.solana_endpoints or ()
            },
            transactions=TransactionRepository(database, clock),
            observations=ObservationRepository(database),
            clock=clock,
            random=random,
        )
    )


def build_client(
    endpoint: SolanaEndpoint,
    settings: Settings,
    *,
    redis: Redis,
    clock: Clock,
    http: OutboundClient,
    random: Callable[[], float],
) -> RPCClient:
    """The client of one endpoint with its pacer and schedule."""
    timeout_s = settings.solana_rpc_timeout_ms / 1000
    pacer = Pacer(
        EndpointSchedule(redis, endpoint, open_s=timeout_s),
        clock,
        pause_s=endpoint.pause_after_rate_limit_ms / 1000,
        random=random,
    )
    return RPCClient(
        endpoint,
        http,
        pacer,
        clock,
        timeout_s=timeout_s,
        version_max=settings.solana_max_transaction_version,
    )
