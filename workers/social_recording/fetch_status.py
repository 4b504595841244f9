"""The status machine of one URL. Pure: no clock, no store, no network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.errors import (
    BudgetExceeded,
    ContractViolation,
    FetchFailed,
    LockUnavailable,
    RetryableError,
    TargetBlocked,
    TargetGone,
)
from workers.social_graph.token import TokenWeb
from workers.social_graph.vocabulary import FetchStatus

# What an answer is called that may mean "gone" or may be a mood of the source.
WEAK_NOT_FOUND = "weak_not_found"
SECOND_LOOK_AFTER = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchOutcome:
    """What came of one URL. `attempted` says whether an outside call was made.

    `web` is what a site told of its domain.
    """

    status: FetchStatus
    attempted: bool
    reason: str | None = None
    web: TokenWeb | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierTry:
    """How the last try of a URL ended, and when it began."""

    reason: str | None
    at: datetime | None


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


def is_out_of_attempts(status: FetchStatus, attempts: int, max_attempts: int) -> bool:
    """Whether a stored URL has no attempt left although none of them has ended it.

    Its last attempts were counted and cut off, by the death of a worker for instance. They leave the status
    as it was before them, so it need not be `error`.
    """
    return not status.is_absorbing and attempts >= max_attempts


def confirm_absence(outcome: FetchOutcome, earlier: EarlierTry | None, now: datetime) -> FetchOutcome:
    """Turn a weak sign that the target is gone into a verdict, when a try an hour or more ago saw it too.

    Anything between the two tries that was no such sign starts the wait anew, because its reason is the
    stored one.
    """
    is_weak = outcome.status is FetchStatus.ERROR and outcome.reason == WEAK_NOT_FOUND
    if not is_weak or earlier is None or earlier.reason != WEAK_NOT_FOUND or earlier.at is None:
        return outcome
    if now - earlier.at < SECOND_LOOK_AFTER:
        return outcome
    return replace(outcome, status=FetchStatus.NOT_FOUND, reason="not_found_twice")


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
