"""The tables of the selling side, as `migrations` makes them.

`primary_purchase` is the truth. Of all this the reconciliation writes one column: `funding.blocked`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

METADATA = MetaData()

PROPERTIES = Table(
    "property",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("publish_status", Text, nullable=False),
    # The physical bricks; a funding may offer fewer of them.
    Column("total_brick_count", Integer, nullable=False),
)
FUNDINGS = Table(
    "funding",
    METADATA,
    Column("property_id", Text, ForeignKey(PROPERTIES.c.id), primary_key=True),
    Column("capacity_brick_count", Integer, nullable=False),
    Column("brick_price_cents", BigInteger, nullable=False),
    Column("started_at", DateTime(timezone=True)),
    Column("ended_at", DateTime(timezone=True)),
    # null, or {reason, at, run}: why and since when nothing is sold, and which run may lift that.
    Column("blocked", JSONB(none_as_null=True)),
)
PURCHASES = Table(
    "primary_purchase",
    METADATA,
    Column("id", Uuid, primary_key=True),
    Column("property_id", Text, ForeignKey(FUNDINGS.c.property_id), nullable=False),
    Column("investor_id", Text, nullable=False),
    Column("brick_count", Integer, nullable=False),
    Column("price_cents", BigInteger, nullable=False),
    Column("is_auto_invest", Boolean, nullable=False),
    Column("status", Text, nullable=False),
    Column("decline_reason", Text),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True)),
)
# In words, so that the planner sees that the partial index holds just these rows. The words are those of
# `vocabulary.DEAD_STATUSES`.
IS_ALIVE = text("primary_purchase.status NOT IN ('declined', 'refunded')")
# Partial; which rows each of them holds is in the migration.
Index("primary_purchase_alive", PURCHASES.c.property_id)
Index("primary_purchase_waiting", PURCHASES.c.status, PURCHASES.c.property_id, PURCHASES.c.created_at)
Index("primary_purchase_expiring", PURCHASES.c.expires_at)
WALLETS = Table(
    "wallet",
    METADATA,
    Column("investor_id", Text, primary_key=True),
    Column("balance_cents", BigInteger, nullable=False),
)
WALLET_TRANSACTIONS = Table(
    "wallet_transaction",
    METADATA,
    Column("id", Uuid, primary_key=True),
    Column("investor_id", Text, ForeignKey(WALLETS.c.investor_id), nullable=False),
    Column("purchase_id", Uuid, ForeignKey(PURCHASES.c.id), nullable=False),
    # Below zero: taken from the wallet.
    Column("amount_cents", BigInteger, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
)
Index("wallet_transaction_purchase", WALLET_TRANSACTIONS.c.purchase_id)
