"""What the reconciliation reads of fundings, and the one thing it writes: the block.

Never writes to a purchase. A block says which run holds it, and only that run lifts it; a run takes a block
over from an earlier one, but never from one that is at work, because both need the property's lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Engine, Row, Select, and_, func, select, update

from workers.clock import from_iso, to_iso
from workers.errors import LeaseLost
from workers.funding import gate
from workers.funding.database import translated
from workers.funding.errors import PropertyNotFound
from workers.funding.evaluate import BrickCounts
from workers.funding.tables import FUNDINGS, IS_ALIVE, PROPERTIES, PURCHASES
from workers.funding.vocabulary import BlockReason, PublishStatus, PurchaseStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Why and since when a funding is blocked; `run` may lift it, and nobody where it is empty."""

    reason: BlockReason
    at: datetime | None = None
    run: str = ""

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Block:
        """Read what is stored. Blocks of the selling side may say no more than their reason."""
        at: datetime | None = None
        with suppress(ValueError):
            at = from_iso(str(stored.get("at")))
        return cls(reason=BlockReason(stored["reason"]), at=at, run=str(stored.get("run") or ""))

    def to_json(self) -> dict[str, object]:
        """The form that is stored."""
        at = None if self.at is None else to_iso(self.at)
        return {"reason": self.reason.value, "at": at, "run": self.run}


@dataclass(frozen=True, kw_only=True, slots=True)
class FundingState:
    """A funding and the sums of its purchases, as one query saw them.

    `waiting` is the number of purchases that wait for their bricks.
    """

    property_id: str
    capacity: int
    truth: BrickCounts
    waiting: int
    block: Block | None


class Fundings:
    """See the module docstring. Raises `RetryableError` when the database does not answer."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def active(self, now: datetime, property_ids: Sequence[str] | None = None) -> list[FundingState]:
        """Every funding that is published, has started and has not ended, by property; in one query.

        `property_ids` leaves out all others.
        """
        wanted = _states().where(_is_active(now))
        if property_ids is not None:
            wanted = wanted.where(FUNDINGS.c.property_id.in_(property_ids))
        return self._read(wanted.order_by(FUNDINGS.c.property_id))

    def state_of(self, property_id: str) -> FundingState:
        """One funding, active or not. Raises `PropertyNotFound`."""
        found = self._read(_states().where(FUNDINGS.c.property_id == property_id))
        if not found:
            raise PropertyNotFound([property_id])
        return found[0]

    def blocked(self, *, limit: int, after: str = "") -> list[FundingState]:
        """Blocked fundings that have not ended, by property, from behind `after` on."""
        wanted = _states().where(
            FUNDINGS.c.blocked.is_not(None), FUNDINGS.c.ended_at.is_(None), FUNDINGS.c.property_id > after
        )
        return self._read(wanted.order_by(FUNDINGS.c.property_id).limit(limit))

    def unknown_of(self, property_ids: Sequence[str]) -> list[str]:
        """Those of the ids that no funding has, in their order."""
        with translated(), self._engine.connect() as connection, connection.begin():
            wanted = select(FUNDINGS.c.property_id).where(FUNDINGS.c.property_id.in_(property_ids))
            known = set(connection.scalars(wanted))
        return [each for each in property_ids if each not in known]

    def block(self, property_id: str, *, run: str, now: datetime) -> tuple[int, Block | None] | None:
        """Block the funding for `run`; return its capacity and the block that was there before, if any.

        A block that is there keeps its reason and its time. When this returns, every purchase that was begun
        before has moved the counters and has been committed or rolled back. None when the funding is not
        active: nothing was written.
        """
        with translated(), self._engine.connect() as connection, connection.begin():
            gate.close(connection, property_id)
            wanted = select(FUNDINGS.c.capacity_brick_count, FUNDINGS.c.blocked).join(PROPERTIES)
            row = connection.execute(
                wanted.where(FUNDINGS.c.property_id == property_id, _is_active(now)).with_for_update(
                    of=FUNDINGS, key_share=True
                )
            ).one_or_none()
            if row is None:
                return None
            before = None if row.blocked is None else Block.of_json(row.blocked)
            reason = BlockReason.COUNTER_RECONCILIATION if before is None else before.reason
            at = now if before is None else before.at
            connection.execute(
                update(FUNDINGS)
                .where(FUNDINGS.c.property_id == property_id)
                .values(blocked=Block(reason=reason, at=at, run=run).to_json())
            )
        return row.capacity_brick_count, before

    def unblock(self, property_id: str, *, run: str) -> None:
        """Lift the block that `run` holds; a block that is gone already is as good.

        Raises `LeaseLost` when the block is not this run's.
        """
        with translated(), self._engine.connect() as connection, connection.begin():
            lifted = connection.execute(
                update(FUNDINGS)
                .where(FUNDINGS.c.property_id == property_id, _is_held_by(run))
                .values(blocked=None)
            )
            if lifted.rowcount:
                return
            wanted = select(FUNDINGS.c.blocked).where(FUNDINGS.c.property_id == property_id)
            if connection.scalar(wanted) is not None:
                raise LeaseLost(f"the block of property {property_id} belongs to another run")

    def _read(self, wanted: Select[Any]) -> list[FundingState]:
        with translated(), self._engine.connect() as connection, connection.begin():
            return [_state_of_row(row) for row in connection.execute(wanted)]


def _states() -> Select[Any]:
    """Fundings with the sums of their live purchases."""
    is_auto_invest = PURCHASES.c.is_auto_invest
    is_waiting = PURCHASES.c.status == PurchaseStatus.WAITING_FOR_ASSIGNATION.value
    bricks = func.sum(PURCHASES.c.brick_count)
    return (
        select(
            FUNDINGS.c.property_id,
            FUNDINGS.c.capacity_brick_count,
            FUNDINGS.c.blocked,
            func.coalesce(bricks, 0).label("purchased"),
            func.coalesce(bricks.filter(is_auto_invest), 0).label("auto_invest"),
            func.count(PURCHASES.c.id).filter(is_waiting).label("waiting"),
        )
        .select_from(FUNDINGS)
        .join(PROPERTIES)
        .outerjoin(PURCHASES, and_(PURCHASES.c.property_id == FUNDINGS.c.property_id, IS_ALIVE))
        .group_by(FUNDINGS.c.property_id)
    )


def _is_active(now: datetime) -> ColumnElement[bool]:
    return and_(
        PROPERTIES.c.publish_status == PublishStatus.PUBLISHED.value,
        FUNDINGS.c.started_at <= now,
        FUNDINGS.c.ended_at.is_(None),
    )


def _is_held_by(run: str) -> ColumnElement[bool]:
    holder: ColumnElement[str] = FUNDINGS.c.blocked["run"].astext
    return holder == run


def _state_of_row(row: Row[Any]) -> FundingState:
    return FundingState(
        property_id=row.property_id,
        capacity=row.capacity_brick_count,
        truth=BrickCounts(purchased=int(row.purchased), auto_invest=int(row.auto_invest)),
        waiting=row.waiting,
        block=None if row.blocked is None else Block.of_json(row.blocked),
    )
