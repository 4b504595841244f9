"""The statements of the selling side, each inside its caller's transaction.

Decides nothing about counters, and opens and ends no transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from workers.funding.errors import PropertyNotFound, PurchaseNotFound, PurchaseRefused, Refusal
from workers.funding.evaluate import BrickCounts
from workers.funding.tables import FUNDINGS, IS_ALIVE, PROPERTIES, PURCHASES, WALLET_TRANSACTIONS, WALLETS
from workers.funding.vocabulary import PublishStatus, PurchaseStatus


class Ledger:
    """See the module docstring. `now` is the time that everything in the transaction carries."""

    def __init__(self, connection: Connection, now: datetime) -> None:
        self._connection = connection
        self._now = now

    def funding_on_sale(self, property_id: str) -> Row[Any]:
        """The funding, when it sells.

        Raises `PropertyNotFound`, and `PurchaseRefused` when it does not. Investors hear of a block that no
        bricks are left.
        """
        funding = self.funding(property_id)
        is_started = funding.started_at is not None and funding.started_at <= self._now
        is_published = funding.publish_status == PublishStatus.PUBLISHED.value
        if not is_published or not is_started or funding.ended_at is not None:
            raise PurchaseRefused(Refusal.FUNDING_NOT_OPEN, f"property {property_id} is not on sale")
        if funding.blocked is not None:
            raise PurchaseRefused(Refusal.NOT_ENOUGH_BRICKS_LEFT, f"property {property_id} sells nothing now")
        return funding

    def refuse_if_blocked(self, property_id: str) -> None:
        """Raise `PurchaseRefused` when the funding is blocked."""
        if self.is_blocked(property_id):
            raise PurchaseRefused(
                Refusal.FUNDING_BLOCKED, f"the funding of property {property_id} is blocked"
            )

    def is_blocked(self, property_id: str) -> bool:
        """Whether the funding is blocked, for whatever reason."""
        return self.funding(property_id).blocked is not None

    def funding(self, property_id: str, *, is_locked: bool = False) -> Row[Any]:
        """The funding with its property; locked against others that lock it. Raises `PropertyNotFound`."""
        wanted = (
            select(FUNDINGS, PROPERTIES.c.publish_status, PROPERTIES.c.total_brick_count)
            .join(PROPERTIES)
            .where(FUNDINGS.c.property_id == property_id)
        )
        if is_locked:
            # Purchases that are being made refer to the funding, and need not wait.
            wanted = wanted.with_for_update(of=FUNDINGS, key_share=True)
        found = self._connection.execute(wanted).one_or_none()
        if found is None:
            raise PropertyNotFound([property_id])
        return found

    def block(self, property_id: str, block: dict[str, object]) -> None:
        """Block the funding, unless it is."""
        unblocked = (FUNDINGS.c.property_id == property_id, FUNDINGS.c.blocked.is_(None))
        self._connection.execute(update(FUNDINGS).where(*unblocked).values(blocked=block))

    def truth_of(self, property_id: str) -> BrickCounts:
        """The sums over the live purchases."""
        bricks = func.sum(PURCHASES.c.brick_count)
        row = self._connection.execute(
            select(
                func.coalesce(bricks, 0).label("purchased"),
                func.coalesce(bricks.filter(PURCHASES.c.is_auto_invest), 0).label("auto_invest"),
            ).where(PURCHASES.c.property_id == property_id, IS_ALIVE)
        ).one()
        return BrickCounts(purchased=int(row.purchased), auto_invest=int(row.auto_invest))

    def assigned_bricks(self, property_id: str) -> int:
        """How many bricks have an owner."""
        is_assigned = PURCHASES.c.status == PurchaseStatus.ASSIGNED.value
        wanted = select(func.coalesce(func.sum(PURCHASES.c.brick_count), 0))
        found = self._connection.scalar(wanted.where(PURCHASES.c.property_id == property_id, is_assigned))
        return int(found or 0)

    def waiting_for_assignation(self, property_id: str) -> list[Row[Any]]:
        """The purchases that wait for their bricks, oldest first, locked."""
        is_waiting = PURCHASES.c.status == PurchaseStatus.WAITING_FOR_ASSIGNATION.value
        wanted = select(PURCHASES).where(PURCHASES.c.property_id == property_id, is_waiting)
        ordered = wanted.order_by(PURCHASES.c.created_at, PURCHASES.c.id)
        return list(self._connection.execute(ordered.with_for_update()))

    def insert(
        self,
        purchase_id: uuid.UUID,
        *,
        property_id: str,
        investor_id: str,
        bricks: int,
        is_auto_invest: bool,
        price_cents: int,
        status: PurchaseStatus,
        expires_at: datetime | None,
    ) -> None:
        """Write a new purchase."""
        self._connection.execute(
            insert(PURCHASES).values(
                id=purchase_id,
                property_id=property_id,
                investor_id=investor_id,
                brick_count=bricks,
                price_cents=price_cents,
                is_auto_invest=is_auto_invest,
                status=status.value,
                created_at=self._now,
                updated_at=self._now,
                expires_at=expires_at,
            )
        )

    def purchase(self, purchase_id: uuid.UUID) -> Row[Any]:
        """One purchase, locked. Raises `PurchaseNotFound`."""
        wanted = select(PURCHASES).where(PURCHASES.c.id == purchase_id).with_for_update()
        found = self._connection.execute(wanted).one_or_none()
        if found is None:
            raise PurchaseNotFound(f"there is no purchase {purchase_id}")
        return found

    def change(self, purchase: Row[Any], allowed: Collection[PurchaseStatus], **values: object) -> None:
        """Change a locked purchase. Raises `PurchaseRefused` unless its status is an allowed one."""
        if purchase.status not in {status.value for status in allowed}:
            raise PurchaseRefused(Refusal.WRONG_STATUS, f"purchase {purchase.id} is {purchase.status}")
        this = PURCHASES.c.id == purchase.id
        self._connection.execute(update(PURCHASES).where(this).values(updated_at=self._now, **values))

    def take_payment(self, investor_id: str, purchase_id: uuid.UUID, cents: int) -> bool:
        """Take the price from the wallet; False when there is not as much."""
        has_enough = (WALLETS.c.investor_id == investor_id, WALLETS.c.balance_cents >= cents)
        taken = self._connection.execute(
            update(WALLETS).where(*has_enough).values(balance_cents=WALLETS.c.balance_cents - cents)
        )
        if taken.rowcount:
            self._note_payment(investor_id, purchase_id, -cents)
        return bool(taken.rowcount)

    def pay_back(self, purchase: Row[Any]) -> None:
        """Return what was paid to the wallet."""
        self._connection.execute(
            update(WALLETS)
            .where(WALLETS.c.investor_id == purchase.investor_id)
            .values(balance_cents=WALLETS.c.balance_cents + purchase.price_cents)
        )
        self._note_payment(purchase.investor_id, purchase.id, purchase.price_cents)

    def _note_payment(self, investor_id: str, purchase_id: uuid.UUID, cents: int) -> None:
        self._connection.execute(
            insert(WALLET_TRANSACTIONS).values(
                id=uuid.uuid4(),
                investor_id=investor_id,
                purchase_id=purchase_id,
                amount_cents=cents,
                created_at=self._now,
            )
        )
