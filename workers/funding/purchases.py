"""The selling side: buying, reserving, and what investors do with a purchase, each with both writes.

PostgreSQL decides, Redis counts along. The order of the two writes makes every crash an over-count, which
costs a sale at worst, and never an under-count, which would sell a brick twice:

- what sells bricks counts them while its transaction is open, refuses above the capacity, and takes them back
  after a rollback;
- what ends a purchase takes its bricks off after the commit.

Everything that moves a counter, or must not happen during a reconciliation, happens behind the property's
gate (`gate.py`) and looks at the block there.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, select
from sqlalchemy.exc import DBAPIError

from workers.clock import Clock
from workers.errors import RetryableError
from workers.funding import gate
from workers.funding.counters import FundingCounters, Move
from workers.funding.database import translated
from workers.funding.errors import OutcomeUnknown, PurchaseNotFound, PurchaseRefused, Refusal
from workers.funding.evaluate import CounterFault
from workers.funding.ledger import Ledger
from workers.funding.tables import PURCHASES
from workers.funding.vocabulary import PurchaseStatus

log = logging.getLogger(__name__)

# What may be refunded is what has been paid.
_PAID = (PurchaseStatus.WAITING_FOR_ASSIGNATION, PurchaseStatus.ASSIGNED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What an investor wants. `bricks` is at least 1."""

    property_id: str
    investor_id: str
    bricks: int
    is_auto_invest: bool = False


class Purchases:
    """See the module docstring.

    Every method raises `RetryableError` when a store does not answer, `PurchaseRefused` with a code when the
    selling side says no, and `PropertyNotFound` or `PurchaseNotFound`.
    """

    def __init__(self, engine: Engine, counters: FundingCounters, clock: Clock) -> None:
        self._engine = engine
        self._counters = counters
        self._clock = clock

    def buy(self, order: Order) -> uuid.UUID:
        """Buy bricks and pay for them from the investor's wallet; return the purchase's id.

        Raises `OutcomeUnknown` when the database did not say whether it committed.
        """
        return self._sell(order, PurchaseStatus.WAITING_FOR_ASSIGNATION, expires_at=None)

    def reserve(self, order: Order, *, valid_for: timedelta) -> uuid.UUID:
        """Put bricks aside without paying; return the purchase's id. Raises as `buy` does."""
        return self._sell(order, PurchaseStatus.RESERVED, expires_at=self._clock.now() + valid_for)

    def cancel(self, purchase_id: uuid.UUID) -> None:
        """Let a reservation expire now; the next expiry pass ends it and frees its bricks."""
        with self._behind_gate(purchase_id) as connection, connection.begin():
            ledger, purchase = self._unblocked(connection, purchase_id)
            ledger.change(purchase, [PurchaseStatus.RESERVED], expires_at=self._clock.now())

    def confirm(self, purchase_id: uuid.UUID) -> None:
        """Note that a reservation is to be paid; the next confirmation pass takes the money."""
        with self._behind_gate(purchase_id) as connection, connection.begin():
            ledger, purchase = self._unblocked(connection, purchase_id)
            if purchase.expires_at is not None and purchase.expires_at <= self._clock.now():
                raise PurchaseRefused(Refusal.WRONG_STATUS, f"reservation {purchase_id} has expired")
            status = PurchaseStatus.WAITING_FOR_CONFIRMATION.value
            ledger.change(purchase, [PurchaseStatus.RESERVED], status=status)

    def refund(self, purchase_id: uuid.UUID) -> bool:
        """Give the money back and the bricks free; False when that had been done before."""
        with self._behind_gate(purchase_id) as connection:
            with connection.begin():
                ledger, purchase = self._unblocked(connection, purchase_id)
                if purchase.status == PurchaseStatus.REFUNDED.value:
                    return False
                ledger.change(purchase, _PAID, status=PurchaseStatus.REFUNDED.value)
                ledger.pay_back(purchase)
            take_off(self._counters, purchase)
        return True

    def _sell(self, order: Order, status: PurchaseStatus, *, expires_at: datetime | None) -> uuid.UUID:
        purchase_id = uuid.uuid4()
        self._open_missing_counters(order.property_id)
        move = Move(
            property_id=order.property_id,
            operation=f"{purchase_id}:sold",
            bricks=order.bricks,
            is_auto_invest=order.is_auto_invest,
        )
        with (
            translated(),
            gate.passed(self._engine, order.property_id) as connection,
            self._counted(connection, move),
        ):
            ledger = Ledger(connection, self._clock.now())
            funding = ledger.funding_on_sale(order.property_id)
            price_cents = order.bricks * funding.brick_price_cents
            ledger.insert(
                purchase_id,
                property_id=order.property_id,
                investor_id=order.investor_id,
                bricks=order.bricks,
                is_auto_invest=order.is_auto_invest,
                price_cents=price_cents,
                status=status,
                expires_at=expires_at,
            )
            is_paid_now = status is PurchaseStatus.WAITING_FOR_ASSIGNATION
            if is_paid_now and not ledger.take_payment(order.investor_id, purchase_id, price_cents):
                raise PurchaseRefused(Refusal.NOT_ENOUGH_BALANCE, "the wallet holds less than the price")
            if self._counters.add(move) > funding.capacity_brick_count:
                raise PurchaseRefused(Refusal.NOT_ENOUGH_BRICKS_LEFT, f"not {order.bricks} bricks are left")
        return purchase_id

    @contextmanager
    def _counted(self, connection: Connection, move: Move) -> Iterator[None]:
        """A transaction whose bricks are taken back when it is certainly rolled back."""
        transaction = connection.begin()
        try:
            yield
        except BaseException:
            try:
                transaction.rollback()
            finally:
                # Without a commit the database never keeps it, whatever the rollback met.
                _settle(self._counters.take_back, move)
            raise
        try:
            transaction.commit()
        except DBAPIError as exc:
            # It may be there. Were its bricks taken back, they could be sold once more.
            raise OutcomeUnknown(f"nobody knows whether {move.operation} was committed") from exc

    def _open_missing_counters(self, property_id: str) -> None:
        """Make counters that are missing from the truth, with nobody between its two writes.

        A counter that began anew at zero, after Redis has lost it, would sell everything twice.
        """
        if CounterFault.MISSING not in self._counters.read(property_id).faults:
            return
        with translated(), self._engine.connect() as connection, connection.begin():
            gate.close(connection, property_id)
            ledger = Ledger(connection, self._clock.now())
            ledger.funding_on_sale(property_id)
            self._counters.open(property_id, ledger.truth_of(property_id))

    @contextmanager
    def _behind_gate(self, purchase_id: uuid.UUID) -> Iterator[Connection]:
        """The gate of the purchase's property."""
        with translated():
            with self._engine.connect() as connection, connection.begin():
                wanted = select(PURCHASES.c.property_id).where(PURCHASES.c.id == purchase_id)
                property_id = connection.scalar(wanted)
            if property_id is None:
                raise PurchaseNotFound(f"there is no purchase {purchase_id}")
            with gate.passed(self._engine, property_id) as connection:
                yield connection

    def _unblocked(self, connection: Connection, purchase_id: uuid.UUID) -> tuple[Ledger, Row[Any]]:
        """The purchase, locked. Raises `PurchaseRefused` when its funding is blocked."""
        ledger = Ledger(connection, self._clock.now())
        purchase = ledger.purchase(purchase_id)
        ledger.refuse_if_blocked(purchase.property_id)
        return ledger, purchase


def take_off(counters: FundingCounters, purchase: Row[Any]) -> None:
    """Take the bricks of a purchase that has been ended off the counters; for after the commit.

    A purchase ends once, so its id names the operation.
    """
    move = Move(
        property_id=purchase.property_id,
        operation=f"{purchase.id}:ended",
        bricks=purchase.brick_count,
        is_auto_invest=purchase.is_auto_invest,
    )
    _settle(counters.take_off, move)


def _settle(settle: Callable[[Move], None], move: Move) -> None:
    """Take bricks off; when Redis does not answer they stay counted, which the reconciliation repairs."""
    try:
        settle(move)
    except RetryableError as exc:
        log.error(  # noqa: TRY400 - the cause is a store that is away
            "bricks stay counted", extra={"operation": move.operation, "cause": str(exc)}
        )
