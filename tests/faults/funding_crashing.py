"""Work on fundings in a process that kills itself right before or after one of its steps.

A step is whatever another process could see or wait for: a statement, a commit, a command to Redis. The child
is a real process with its own connections; it dies by SIGKILL, so nothing is compensated or cleaned up.
"""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from redis import Connection, ConnectionPool, Redis
from sqlalchemy import Engine

from tests.faults.crashing import CHILD_TIMEOUT_S, When
from tests.forks import FORKS
from tests.integration.funding_place import DB_TIMEOUT_MS, Channel, FundingPlace
from workers.clock import Clock
from workers.funding.database import open_database
from workers.funding.purchases import Order


class HastyClock(Clock):
    """The real clock, whose waits are a hundredth as long."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        return event.wait(timeout_s / 100)


@dataclass(frozen=True, kw_only=True)
class FundingSite:
    """Where a child finds the stores, and what it is to work on."""

    database_url: str
    redis_url: str
    property_id: str
    investor_id: str = ""
    purchase_id: uuid.UUID | None = None


@dataclass
class KillSwitch:
    """Ends this process at its `number`-th step, as a crash would; with a `kind` only those steps count."""

    number: int
    when: When
    kind: str = ""
    seen: int = 0
    is_armed: bool = False
    thread: int = field(default_factory=threading.get_ident)

    @contextmanager
    def step(self, kind: str) -> Iterator[None]:
        """Around what is one step. Renewals of leases by their own thread are none."""
        counts = self.is_armed and threading.get_ident() == self.thread and self.kind in ("", kind)
        if counts:
            self.seen += 1
            self._die(When.BEFORE)
        yield
        if counts:
            self._die(When.AFTER)

    def _die(self, when: When) -> None:
        if self.seen == self.number and when is self.when:
            os.kill(os.getpid(), signal.SIGKILL)


def watch_database(engine: Engine, switch: KillSwitch) -> None:
    """Make every statement and every commit a step."""
    do_execute, do_commit = engine.dialect.do_execute, engine.dialect.do_commit

    def execute(*args: Any, **kwargs: Any) -> None:
        with switch.step("statement"):
            do_execute(*args, **kwargs)

    def commit(connection: Any) -> None:
        with switch.step("statement"):
            do_commit(connection)

    engine.dialect.do_execute = execute  # type: ignore[method-assign]
    engine.dialect.do_commit = commit  # type: ignore[method-assign]


def watched_redis(url: str, switch: KillSwitch, **options: Any) -> Redis:
    """A client for which everything that is sent is a step."""

    class Watched(Connection):
        def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            with switch.step("command"):
                super().send_packed_command(command, check_health)

    return Redis(connection_pool=ConnectionPool.from_url(url, connection_class=Watched, **options))


def _act(site: FundingSite, what: str, number: int, when: When) -> None:
    switch = KillSwitch(number, when)
    engine = open_database(site.database_url, timeout_ms=DB_TIMEOUT_MS)
    watch_database(engine, switch)
    place = FundingPlace(engine, watched_redis(site.redis_url, switch), Channel(), clock=HastyClock())
    order = Order(property_id=site.property_id, investor_id=site.investor_id, bricks=1)
    switch.is_armed = True
    match what:
        case "reconcile":
            place.reconcile(site.property_id)
        case "buy":
            place.purchases.buy(order)
        case "reserve":
            place.purchases.reserve(order, valid_for=timedelta(hours=1))
        case "refund":
            assert site.purchase_id is not None
            place.purchases.refund(site.purchase_id)
        case "expire":
            place.passes.expire()
        case "confirm":
            place.passes.confirm()
        case "assign":
            place.passes.assign()
    switch.is_armed = False


def survives(site: FundingSite, what: str, number: int, when: When) -> bool:
    """Let a child do `what`; whether it has come to its end instead of dying at that step."""
    child = FORKS.Process(target=_act, args=(site, what, number, when))
    child.start()
    child.join(CHILD_TIMEOUT_S)
    status = child.exitcode
    if status is None:
        child.kill()
        child.join()
    child.close()
    assert status in (0, -signal.SIGKILL), f"the child ended with {status}"
    return status == 0
