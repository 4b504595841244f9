"""What happens to purchases without anybody asking: the passes over reservations and waiting purchases.

Expiry and confirmation leave blocked fundings alone, because they take bricks off the counters; a block that
comes between the selection and the change is seen behind the gate, and the purchase is left for a later pass.
Assignation goes on under every block, for a reconciliation waits for its end; it moves no counter.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Row, Select, select

from workers.clock import Clock
from workers.funding import gate
from workers.funding.counters import FundingCounters
from workers.funding.database import translated
from workers.funding.fundings import Block
from workers.funding.ledger import Ledger
from workers.funding.purchases import take_off
from workers.funding.tables import FUNDINGS, PURCHASES
from workers.funding.vocabulary import BlockReason, DeclineReason, PurchaseStatus

log = logging.getLogger(__name__)

BATCH_MAX = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Assigned:
    """How many purchases got their bricks, and how many were declined because there were none left."""

    assigned: int = 0
    declined: int = 0

    def __add__(self, other: Assigned) -> Assigned:
        return Assigned(assigned=self.assigned + other.assigned, declined=self.declined + other.declined)


class PurchasePasses:
    """See the module docstring. Each pass takes a batch, oldest first, and says what it did.

    Raises `RetryableError` when a store does not answer; the next pass goes on where this one ended.
    """

    def __init__(self, engine: Engine, counters: FundingCounters, clock: Clock) -> None:
        self._engine = engine
        self._counters = counters
        self._clock = clock

    def expire(self, limit: int = BATCH_MAX) -> int:
        """Decline the reservations whose time is over; return how many were."""
        is_over = PURCHASES.c.expires_at <= self._clock.now()
        due = self._unblocked(PurchaseStatus.RESERVED, limit).where(is_over).order_by(PURCHASES.c.expires_at)
        return sum(self._expire(purchase) for purchase in self._read(due))

    def confirm(self, limit: int = BATCH_MAX) -> int:
        """Take the money for confirmed reservations; return how many were paid.

        Those whose investor has not as much are declined.
        """
        due = self._unblocked(PurchaseStatus.WAITING_FOR_CONFIRMATION, limit)
        return sum(self._confirm(purchase) for purchase in self._read(due.order_by(PURCHASES.c.updated_at)))

    def assign(self, limit: int = BATCH_MAX) -> Assigned:
        """Give bricks to the purchases that wait for them, in `limit` properties at most.

        What does not fit is declined and paid back, and the funding is blocked. Its bricks stay counted: this
        decline is a sign of a drift, which the reconciliation looks into.
        """
        is_waiting = PURCHASES.c.status == PurchaseStatus.WAITING_FOR_ASSIGNATION.value
        waiting = select(PURCHASES.c.property_id).where(is_waiting).distinct().limit(limit)
        total = Assigned()
        for row in self._read(waiting):
            total += self._assign(row.property_id)
        return total

    def _expire(self, found: Row[Any]) -> bool:
        with translated(), gate.passed(self._engine, found.property_id) as connection:
            with connection.begin():
                ledger = Ledger(connection, self._clock.now())
                purchase = ledger.purchase(found.id)
                is_due = purchase.status == PurchaseStatus.RESERVED.value and (
                    purchase.expires_at <= self._clock.now()
                )
                if not is_due or self._is_left_alone(ledger, purchase):
                    return False
                self._decline(ledger, purchase, PurchaseStatus.RESERVED, DeclineReason.EXPIRED)
            take_off(self._counters, purchase)
        return True

    def _confirm(self, found: Row[Any]) -> bool:
        waits = PurchaseStatus.WAITING_FOR_CONFIRMATION
        with translated(), gate.passed(self._engine, found.property_id) as connection:
            with connection.begin():
                ledger = Ledger(connection, self._clock.now())
                purchase = ledger.purchase(found.id)
                if purchase.status != waits.value or self._is_left_alone(ledger, purchase):
                    return False
                if ledger.take_payment(purchase.investor_id, purchase.id, purchase.price_cents):
                    status = PurchaseStatus.WAITING_FOR_ASSIGNATION.value
                    ledger.change(purchase, [waits], status=status)
                    return True
                self._decline(ledger, purchase, waits, DeclineReason.NOT_ENOUGH_BALANCE)
            take_off(self._counters, purchase)
        return False

    def _assign(self, property_id: str) -> Assigned:
        waits = PurchaseStatus.WAITING_FOR_ASSIGNATION
        assigned = 0
        declined: list[Row[Any]] = []
        with translated(), self._engine.connect() as connection, connection.begin():
            ledger = Ledger(connection, self._clock.now())
            free = ledger.funding(property_id, is_locked=True).total_brick_count
            free -= ledger.assigned_bricks(property_id)
            for purchase in ledger.waiting_for_assignation(property_id):
                if purchase.brick_count <= free:
                    free -= purchase.brick_count
                    ledger.change(purchase, [waits], status=PurchaseStatus.ASSIGNED.value)
                    assigned += 1
                else:
                    self._decline(ledger, purchase, waits, DeclineReason.NO_BRICKS_LEFT)
                    declined.append(purchase)
            # In one order, so that passes that pay the same investors do not wait for each other.
            for purchase in sorted(declined, key=lambda each: str(each.investor_id)):
                ledger.pay_back(purchase)
            if declined:
                block = Block(reason=BlockReason.BRICKS_OVERSELL, at=self._clock.now())
                ledger.block(property_id, block.to_json())
        return Assigned(assigned=assigned, declined=len(declined))

    @staticmethod
    def _decline(ledger: Ledger, purchase: Row[Any], status: PurchaseStatus, reason: DeclineReason) -> None:
        declined = PurchaseStatus.DECLINED.value
        ledger.change(purchase, [status], status=declined, decline_reason=reason.value)

    @staticmethod
    def _is_left_alone(ledger: Ledger, purchase: Row[Any]) -> bool:
        """Whether a block came after the purchase was selected."""
        is_blocked = ledger.is_blocked(purchase.property_id)
        if is_blocked:
            log.warning("a purchase of a blocked funding is left alone", extra={"purchase": str(purchase.id)})
        return is_blocked

    @staticmethod
    def _unblocked(status: PurchaseStatus, limit: int) -> Select[tuple[uuid.UUID, str]]:
        wanted = select(PURCHASES.c.id, PURCHASES.c.property_id).join(
            FUNDINGS, FUNDINGS.c.property_id == PURCHASES.c.property_id
        )
        return wanted.where(PURCHASES.c.status == status.value, FUNDINGS.c.blocked.is_(None)).limit(limit)

    def _read(self, wanted: Select[Any]) -> list[Row[Any]]:
        with translated(), self._engine.connect() as connection, connection.begin():
            return list(connection.execute(wanted))
