"""The closed sets of words of a campaign: what is asked for, and what came of it. Pure."""

from __future__ import annotations

from enum import StrEnum, unique

from workers.solana_backfill.vocabulary import FilterCode


@unique
class Mode(StrEnum):
    """Where the signatures of a campaign come from."""

    SIGNATURES = "signatures"
    PROGRAM = "program"
    TOKEN = "token"
    POOL = "pool"


@unique
class Direction(StrEnum):
    """Which side of the anchor is searched. `before` without an anchor starts with the newest."""

    BEFORE = "before"
    AFTER = "after"


@unique
class CandidateOutcome(StrEnum):
    """What came of one selected signature. A candidate that never started has none."""

    PERSISTED = "persisted"
    ALREADY_PRESENT = "alreadyPresent"
    MISSING = "missing"
    FAILED = "failed"
    CANCELLED = "cancelled"


@unique
class HistoryEnd(StrEnum):
    """Whether the search has come to the end of its side of the anchor."""

    REACHED = "reached"
    NOT_REACHED = "notReached"
    # The endpoint says so in a way that proves nothing.
    UNPROVEN = "unproven"


def filter_code_of(mode: Mode, direction: Direction | None, anchor: str | None) -> FilterCode:
    """What the observations of a campaign keep about how its signatures were found."""
    if mode is Mode.SIGNATURES or direction is None:
        return FilterCode.SIGNATURES
    if direction is Direction.BEFORE and anchor is None:
        return FilterCode(f"{mode.value}_latest")
    return FilterCode(f"{mode.value}_{direction.value}")
