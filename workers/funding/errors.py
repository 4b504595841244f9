"""Errors of the funding context.

    ConvergeError
    ├── RetryableError
    │   ├── CounterUnusable          there is no counter to count on from (counters)
    │   └── OutcomeUnknown           a commit may have happened or not
    └── PermanentError
        ├── FundingNotConfigured     there is no FUNDING_DATABASE_URL
        ├── PurchaseRefused(code)    the selling side's own refusals
        └── NotFound
            ├── PropertyNotFound(property_ids)
            └── PurchaseNotFound

A store that does not answer is a plain `RetryableError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from workers.errors import NotFound, PermanentError, RetryableError


class FundingNotConfigured(PermanentError):
    """This process knows no database of purchases."""

    def __init__(self) -> None:
        super().__init__("FUNDING_DATABASE_URL is not set, so there are no fundings here")


class PropertyNotFound(NotFound):
    """These properties are not in the database."""

    def __init__(self, property_ids: Sequence[str]) -> None:
        super().__init__(f"there is no property {', '.join(property_ids)}")
        self.property_ids = tuple(property_ids)


class PurchaseNotFound(NotFound):
    """There is no such purchase."""


class Refusal(StrEnum):
    """Why the selling side refuses; the words are a contract with its callers."""

    # Also the answer while a funding is blocked: investors are not told of the block.
    NOT_ENOUGH_BRICKS_LEFT = "primary-purchase.not-enough-bricks-left"
    FUNDING_BLOCKED = "primary-purchase.funding-blocked"
    FUNDING_NOT_OPEN = "primary-purchase.funding-not-open"
    NOT_ENOUGH_BALANCE = "primary-purchase.not-enough-balance"
    WRONG_STATUS = "primary-purchase.wrong-status"


class PurchaseRefused(PermanentError):
    """The purchase, or the change to it, is refused; nothing was changed. `code` says why."""

    def __init__(self, code: Refusal, detail: str) -> None:
        super().__init__(f"{code.value}: {detail}")
        self.code = code


class OutcomeUnknown(RetryableError):
    """The database did not say whether it committed. The counters say the larger of what is possible."""
