"""Fundings with everything real but time: PostgreSQL, Redis, and a channel that hears of the alerts.

The clock stands still until somebody waits; what a test puts into `while_waiting` happens in the next waits,
one after the other.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import Engine, insert, select, text, update

from tests.conftest import FakeClock, make_settings
from workers.clock import Clock
from workers.funding.alerts import FundingAlerts
from workers.funding.counters import FundingCounters, auto_invest_key, purchased_key
from workers.funding.database import open_database
from workers.funding.evaluate import BrickCounts
from workers.funding.fundings import Block, Fundings
from workers.funding.passes import PurchasePasses
from workers.funding.purchases import Order, Purchases
from workers.funding.reconciliation import PropertyOutcome, PropertyReconciler, ReconciliationLimits
from workers.funding.tables import FUNDINGS, PROPERTIES, PURCHASES, WALLETS
from workers.funding.vocabulary import BlockReason, DeclineReason, PurchaseStatus
from workers.http.client import OutboundClient
from workers.leases import LeaseStore

LIMITS = ReconciliationLimits(delay_s=5.0, budget_s=300.0, lease_ttl_ms=5000)
PRICE_CENTS = 1000
RICH_CENTS = 1_000_000_000
DB_TIMEOUT_MS = 5000
_numbers = itertools.count(1)


class WaitingClock(FakeClock):
    """A clock whose waits are the moments in which others act."""

    def __init__(self) -> None:
        super().__init__()
        self.while_waiting: list[Callable[[], object]] = []
        self.since_the_last_act_s = 0.0

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Let the next one act at the end of each delay between two reads."""
        is_set = super().wait(event, timeout_s)
        self.since_the_last_act_s += timeout_s
        if self.since_the_last_act_s >= LIMITS.delay_s:
            self.since_the_last_act_s = 0.0
            if self.while_waiting:
                self.while_waiting.pop(0)()
        return is_set


@dataclass
class Channel:
    """What a webhook has heard. It answers `status`."""

    url: str = ""
    status: int = 200
    heard: list[dict[str, Any]] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [message["text"] for message in self.heard]

    def fields_of(self, number: int = -1) -> dict[str, str]:
        """The fields of one message."""
        [attachment] = self.heard[number]["attachments"]
        return {each["title"]: each["value"] for each in attachment["fields"]}


@contextmanager
def open_channel() -> Iterator[Channel]:
    """A server that takes messages."""
    channel = Channel()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if channel.status == 200:
                channel.heard.append(json.loads(body))
            self.send_response(channel.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    channel.url = f"http://127.0.0.1:{server.server_port}/services/T0/B0/a-very-secret-path"
    yield channel
    server.shutdown()
    server.server_close()
    thread.join()


class FundingPlace:
    """See the module docstring. `rebuild` changes parts of it."""

    def __init__(self, engine: Engine, redis: Redis, channel: Channel, clock: Clock | None = None) -> None:
        self.engine, self.redis, self.channel = engine, redis, channel
        self.clock = clock or WaitingClock()
        self.leases = LeaseStore(redis, Clock())
        self.counters = FundingCounters(redis)
        self.fundings = Fundings(engine)
        settings = make_settings(funding_alert_webhook_url=channel.url or None)
        self.http = OutboundClient(settings, self.clock)
        self.rebuild()

    def rebuild(
        self,
        *,
        counters: FundingCounters | None = None,
        fundings: Fundings | None = None,
        leases: LeaseStore | None = None,
        **limits: Any,
    ) -> None:
        """Build the parts anew with what the test wants otherwise."""
        counters = counters or self.counters
        self.purchases = Purchases(self.engine, counters, self.clock)
        self.passes = PurchasePasses(self.engine, counters, self.clock)
        self.alerts = FundingAlerts(
            redis=self.redis, http=self.http, clock=self.clock, webhook_url=self.channel.url or None
        )
        self.reconciler = PropertyReconciler(
            fundings=fundings or self.fundings,
            counters=counters,
            leases=leases or self.leases,
            alerts=self.alerts,
            clock=self.clock,
            limits=replace(LIMITS, **limits),
        )

    @property
    def waiting_clock(self) -> WaitingClock:
        assert isinstance(self.clock, WaitingClock)
        return self.clock

    def add_property(
        self,
        capacity: int = 10,
        *,
        sold: int = 0,
        auto_invest: int = 0,
        counters: tuple[int | None, int | None] | None = None,
        **columns: Any,
    ) -> str:
        """A property on sale with `sold` bricks assigned, `auto_invest` of them by auto-invest.

        `counters` is what Redis says, by default the truth.
        """
        property_id = str(columns.pop("property_id", f"property-{next(_numbers)}"))
        started_at = self.clock.now() - timedelta(days=30)
        values: dict[str, Any] = {"started_at": started_at, "ended_at": None, "blocked": None, **columns}
        published = {"publish_status": values.pop("publish_status", "published")}
        bricks = {"total_brick_count": values.pop("total_bricks", capacity)}
        with self.engine.begin() as connection:
            connection.execute(insert(PROPERTIES).values(id=property_id, **published, **bricks))
            connection.execute(
                insert(FUNDINGS).values(
                    property_id=property_id,
                    capacity_brick_count=capacity,
                    brick_price_cents=PRICE_CENTS,
                    **values,
                )
            )
        if sold - auto_invest:
            self.add_purchase(property_id, sold - auto_invest)
        if auto_invest:
            self.add_purchase(property_id, auto_invest, is_auto_invest=True)
        self.set_counters(property_id, *(counters or (sold, auto_invest)))
        return property_id

    def add_purchase(
        self,
        property_id: str,
        bricks: int = 1,
        status: PurchaseStatus = PurchaseStatus.ASSIGNED,
        *,
        investor_id: str | None = None,
        is_auto_invest: bool = False,
        expires_at: datetime | None = None,
    ) -> uuid.UUID:
        """A purchase that nobody counts."""
        purchase_id = uuid.uuid4()
        now = self.clock.now()
        is_reserved = status is PurchaseStatus.RESERVED
        declined = DeclineReason.NO_BRICKS_LEFT.value if status is PurchaseStatus.DECLINED else None
        with self.engine.begin() as connection:
            connection.execute(
                insert(PURCHASES).values(
                    id=purchase_id,
                    property_id=property_id,
                    investor_id=investor_id or self.add_investor(),
                    brick_count=bricks,
                    price_cents=bricks * PRICE_CENTS,
                    is_auto_invest=is_auto_invest,
                    status=status.value,
                    decline_reason=declined,
                    created_at=now,
                    updated_at=now,
                    expires_at=expires_at or (now + timedelta(days=1) if is_reserved else None),
                )
            )
        return purchase_id

    def add_investor(self, balance_cents: int = RICH_CENTS, *, investor_id: str = "") -> str:
        """An investor with so much in the wallet."""
        investor_id = investor_id or f"investor-{next(_numbers)}"
        with self.engine.begin() as connection:
            connection.execute(insert(WALLETS).values(investor_id=investor_id, balance_cents=balance_cents))
        return investor_id

    def order(self, property_id: str, bricks: int = 1, **changes: Any) -> Order:
        """An order of a new, rich investor."""
        investor_id = changes.pop("investor_id", None) or self.add_investor()
        return Order(property_id=property_id, investor_id=investor_id, bricks=bricks, **changes)

    def set_counters(self, property_id: str, purchased: Any, auto_invest: Any = 0) -> None:
        """What Redis says; None removes the key."""
        for key, value in (
            (purchased_key(property_id), purchased),
            (auto_invest_key(property_id), auto_invest),
        ):
            if value is None:
                self.redis.delete(key)
            else:
                self.redis.set(key, value)

    def counted(self, property_id: str) -> tuple[Any, Any]:
        """Both counters as they are now."""
        found = self.counters.read(property_id).to_json()
        return found["purchased"], found["autoInvest"]

    def truth(self, property_id: str) -> BrickCounts:
        return self.fundings.state_of(property_id).truth

    def block_of(self, property_id: str) -> Block | None:
        return self.fundings.state_of(property_id).block

    def reason_of(self, property_id: str) -> BlockReason | None:
        block = self.block_of(property_id)
        return None if block is None else block.reason

    def set_block(self, property_id: str, reason: BlockReason | None, run: str = "") -> None:
        """Block or unblock a funding, whatever its reason."""
        block = None if reason is None else Block(reason=reason, at=self.clock.now(), run=run).to_json()
        self.set_funding(property_id, blocked=block)

    def set_funding(self, property_id: str, **values: Any) -> None:
        this = FUNDINGS.c.property_id == property_id
        with self.engine.begin() as connection:
            connection.execute(update(FUNDINGS).where(this).values(**values))

    def set_status(self, purchase_id: uuid.UUID, status: PurchaseStatus) -> None:
        """Change a purchase without counting."""
        this = PURCHASES.c.id == purchase_id
        with self.engine.begin() as connection:
            connection.execute(update(PURCHASES).where(this).values(status=status.value))

    def purchase(self, purchase_id: uuid.UUID) -> Any:
        """The row of a purchase."""
        with self.engine.connect() as connection:
            return connection.execute(select(PURCHASES).where(PURCHASES.c.id == purchase_id)).one()

    def balance_of(self, investor_id: str) -> int:
        with self.engine.connect() as connection:
            wanted = select(WALLETS.c.balance_cents).where(WALLETS.c.investor_id == investor_id)
            return int(connection.scalar(wanted) or 0)

    def ledger_hash(self) -> str:
        """A hash over every row of the truth and of the wallets, with PostgreSQL's own row versions."""
        digest = hashlib.sha256()
        with self.engine.connect() as connection:
            for table in ("primary_purchase", "property", "wallet", "wallet_transaction"):
                rows = connection.execute(text(f"SELECT xmin, ctid, t.* FROM {table} t ORDER BY 3"))  # noqa: S608
                digest.update(repr([tuple(row) for row in rows]).encode())
        return digest.hexdigest()

    def reconcile(self, property_id: str, **how: Any) -> PropertyOutcome:
        """Reconcile one property."""
        return self.reconciler.reconcile(property_id, **how)


@pytest.fixture
def channel() -> Iterator[Channel]:
    with open_channel() as channel:
        yield channel


def empty(engine: Engine) -> None:
    """Forget all fundings."""
    with engine.begin() as connection:
        connection.execute(text("TRUNCATE property, wallet CASCADE"))


@contextmanager
def emptied_engine(url: str) -> Iterator[Engine]:
    """The tables of fundings, empty, for as many threads as a test has."""
    engine = open_database(url, timeout_ms=DB_TIMEOUT_MS, connections_max=40)
    empty(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(funding_database: str) -> Iterator[Engine]:
    with emptied_engine(funding_database) as engine:
        yield engine


@pytest.fixture
def place(engine: Engine, redis: Redis, channel: Channel) -> FundingPlace:
    return FundingPlace(engine, redis, channel)


def alerts_in(caplog: pytest.LogCaptureFixture) -> list[Mapping[str, Any]]:
    """The facts of the alerts in the log."""
    records = [record for record in caplog.records if record.name == "workers.funding.alerts"]
    found = [getattr(record, "alert", None) for record in records if record.levelno >= logging.WARNING]
    return [facts for facts in found if isinstance(facts, Mapping)]
