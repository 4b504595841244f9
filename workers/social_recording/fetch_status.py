"""The status machine of one URL. Pure: no clock, no store, no network."""

from __future__ import annotations

from dataclasses import dataclass

from workers.errors import (
    BudgetExceeded,
    ContractViolation,
    FetchFailed,
    LockUnavailable,
    RetryableError,
    TargetBlocked,
    TargetGone,
)
from workers.social_graph.vocabulary import FetchStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchOutcome:
    """What came of one URL. `attempted` says whether an outside call was made."""

    status: FetchStatus
    attempted: bool
    reason: str | None = None


def resolve_final_status(
    current_attempts: int, status: FetchStatus, *, attempted: bool, max_attempts: int
) -> FetchStatus:
    """Decide what is stored, given the attempts before this one.

    An absorbing result stands. A retryable one without a call stands, so it can never exhaust. Otherwise
    this attempt counts, and the last allowed one turns the status to `exhausted`.
    """
    if status.is_absorbing or not attempted:
        return status
    if current_attempts + 1 >= max_attempts:
        return FetchStatus.EXHAUSTED
    return status


def status_of_error(error: BaseException) -> tuple[FetchStatus, str]:
    """Translate an error of a generator or the writer into a status and its stored reason.

    The contract is looked at before everything else: a broken graph may wrap a fetch error, and only
    `invalid` stops it from being fetched again for nothing.
    """
    match error:
        case ContractViolation():
            found = FetchStatus.INVALID, f"contract:{error.rule}"
        case TargetBlocked():
            found = FetchStatus.BLOCKED, error.reason
        case TargetGone():
            found = FetchStatus.NOT_FOUND, error.reason
        case FetchFailed():
            found = FetchStatus.ERROR, error.reason
        case BudgetExceeded():
            found = FetchStatus.ERROR, "timeout"
        case LockUnavailable():
            found = FetchStatus.ERROR, "lock_unavailable"
        case RetryableError():
            found = FetchStatus.ERROR, "store_unavailable"
        case _:
            found = FetchStatus.ERROR, "internal"
    return found
