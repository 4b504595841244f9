"""Blocked fundings with both sides of their counters."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from app.documents.words import Document, PageLinks, PageMeta, Time
from workers.funding.vocabulary import BlockReason


class BrickCounters(Document):
    """Both counters of a property as Redis has them: a text that is no number, or null for a missing one."""

    purchased: int | str | None
    auto_invest: int | str | None


class BrickTruth(Document):
    """The bricks of all live purchases of a property; those of auto-invest are among them."""

    purchased: Annotated[int, Field(ge=0)]
    auto_invest: Annotated[int, Field(ge=0)]


class BlockedFunding(Document):
    """A funding that sells nothing, with both sides as they are now; `blockedAt` is when that began."""

    property_id: Annotated[str, Field(examples=["harbour-quay-12"])]
    reason: BlockReason
    blocked_at: Time | None
    capacity: Annotated[int, Field(ge=1, description="bricks on sale in all")]
    waiting: Annotated[int, Field(ge=0, description="purchases that wait for their bricks")]
    counters: BrickCounters
    truth: BrickTruth


class BlockedFundings(Document):
    """A page of blocked fundings, by property; `links` is there unless it is the last one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "data": [
                        {
                            "propertyId": "harbour-quay-12",
                            "reason": "counter-reconciliation",
                            "blockedAt": "2026-01-31T02:30:04.120Z",
                            "capacity": 5000,
                            "waiting": 0,
                            "counters": {"purchased": 4999, "autoInvest": 1200},
                            "truth": {"purchased": 5001, "autoInvest": 1200},
                        }
                    ],
                    "meta": {"cursor": None},
                }
            ]
        }
    )

    data: list[BlockedFunding]
    meta: PageMeta
    links: PageLinks | SkipJsonSchema[None] = None
