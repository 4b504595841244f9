"""The closed sets of words of the funding context, and what its ids look like. Pure."""

from __future__ import annotations

from enum import StrEnum

PROPERTY_ID_PATTERN = "^[A-Za-z0-9_-]{1,64}$"


class PublishStatus(StrEnum):
    """Whether a property is shown to investors."""

    DRAFT = "draft"
    PUBLISHED = "published"


class PurchaseStatus(StrEnum):
    """Where a purchase stands.

        reserved -> waiting_for_confirmation -> waiting_for_assignation -> assigned
           |                  |                          |                    |
           v                  v                          v                    v
        declined           declined              declined, refunded       refunded

    A direct purchase begins with `waiting_for_assignation`: it is paid, and bricks are yet to be given to it.
    """

    RESERVED = "reserved"
    WAITING_FOR_CONFIRMATION = "waiting_for_confirmation"
    WAITING_FOR_ASSIGNATION = "waiting_for_assignation"
    ASSIGNED = "assigned"
    DECLINED = "declined"
    REFUNDED = "refunded"


# These count for nothing; every other purchase takes up its bricks.
DEAD_STATUSES = frozenset({PurchaseStatus.DECLINED, PurchaseStatus.REFUNDED})


class DeclineReason(StrEnum):
    """Why a purchase was declined."""

    EXPIRED = "expired"
    NOT_ENOUGH_BALANCE = "not-enough-balance"
    NO_BRICKS_LEFT = "no-bricks-left"


class BlockReason(StrEnum):
    """Why a funding sells nothing for the time being."""

    # There were fewer free bricks than bought ones; set when bricks are assigned.
    BRICKS_OVERSELL = "bricks-oversell"
    # Its counters are being compared with the truth, or could not be repaired.
    COUNTER_RECONCILIATION = "counter-reconciliation"


class AlertReason(StrEnum):
    """What an alert is about."""

    FIXED = "fixed"
    WOULD_FIX = "would-fix"
    COUNTER_UNSTABLE = "counter-unstable"
    ASSIGNATION_DRAIN_TIMEOUT = "assignation-drain-timeout"
    PG_OVERSELL_AFTER_DRAIN = "pg-oversell-after-drain"
    COUNTER_NEGATIVE = "counter-negative"
    COUNTER_NOT_A_NUMBER = "counter-not-a-number"
    UNEXPECTED = "unexpected"
