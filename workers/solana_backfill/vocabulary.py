"""The closed sets of what may be asked for. Pure."""

from __future__ import annotations

from enum import StrEnum


class Commitment(StrEnum):
    """How settled a transaction has to be; one for all requests of a session."""

    FINALIZED = "finalized"
    CONFIRMED = "confirmed"


class FilterCode(StrEnum):
    """How a signature was found: from a list, or by what kind of address in which direction.

    `..._latest` is `before` without an anchor.
    """

    SIGNATURES = "signatures"
    PROGRAM_BEFORE = "program_before"
    PROGRAM_AFTER = "program_after"
    PROGRAM_LATEST = "program_latest"
    TOKEN_BEFORE = "token_before"
    TOKEN_AFTER = "token_after"
    TOKEN_LATEST = "token_latest"
    POOL_BEFORE = "pool_before"
    POOL_AFTER = "pool_after"
    POOL_LATEST = "pool_latest"
