"""The status machine of one URL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from workers.errors import (
    BudgetExceeded,
    ContractViolation,
    CreditExhausted,
    FetchFailed,
    LockUnavailable,
    RetryableError,
    TargetBlocked,
    TargetGone,
    UnsafeAddress,
)
from workers.social_graph.vocabulary import RETRYABLE_STATUSES, FetchStatus
from workers.social_recording.fetch_status import (
    WEAK_NOT_FOUND,
    EarlierTry,
    FetchOutcome,
    confirm_absence,
    is_out_of_attempts,
    resolve_final_status,
    status_of_error,
)

ABSORBING = ["ok", "not_found", "blocked", "invalid", "exhausted"]


def test_five_statuses_absorb_and_three_are_retryable() -> None:
    assert sorted(status for status in FetchStatus if status.is_absorbing) == sorted(ABSORBING)
    assert sorted(RETRYABLE_STATUSES) == ["error", "skipped_paid", "unsupported"]
    assert len(FetchStatus) == 8


@pytest.mark.parametrize("status", [status for status in FetchStatus if status.is_absorbing])
def test_an_absorbing_result_stands_however_many_attempts_there_were(status: FetchStatus) -> None:
    assert resolve_final_status(99, status, attempted=True, max_attempts=5) is status


@pytest.mark.parametrize("status", sorted(RETRYABLE_STATUSES))
def test_a_result_without_a_call_never_exhausts(status: FetchStatus) -> None:
    assert resolve_final_status(99, status, attempted=False, max_attempts=5) is status


@pytest.mark.parametrize(
    ("attempts", "max_attempts", "expected"),
    [(0, 5, "error"), (3, 5, "error"), (4, 5, "exhausted"), (7, 5, "exhausted"), (0, 1, "exhausted")],
)
def test_the_last_allowed_attempt_exhausts(attempts: int, max_attempts: int, expected: str) -> None:
    final = resolve_final_status(attempts, FetchStatus.ERROR, attempted=True, max_attempts=max_attempts)
    assert final == expected


@pytest.mark.parametrize("status", list(FetchStatus))
@pytest.mark.parametrize(("attempts", "is_over"), [(0, False), (4, False), (5, True), (9, True)])
def test_a_url_that_is_open_has_no_attempt_left_once_all_were_counted(
    status: FetchStatus, attempts: int, is_over: bool
) -> None:
    expected = is_over and status in RETRYABLE_STATUSES
    assert is_out_of_attempts(status, attempts, max_attempts=5) is expected


class ContractAndFetch(ContractViolation, FetchFailed):
    """A broken graph found while handling a failed fetch."""

    def __init__(self) -> None:
        Exception.__init__(self, "broken")
        self.rule, self.reason = "empty", "http_503"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ContractViolation("x", rule="cyclic", entry_url="u"), ("invalid", "contract:cyclic")),
        (ContractAndFetch(), ("invalid", "contract:empty")),
        (TargetBlocked("x", reason="http_403"), ("blocked", "http_403")),
        (UnsafeAddress("x"), ("blocked", "unsafe_address")),
        (TargetGone("x", reason="http_404"), ("not_found", "http_404")),
        (FetchFailed("x", reason="http_503"), ("error", "http_503")),
        (CreditExhausted("x", source="apify"), ("error", "credit_exhausted")),
        (BudgetExceeded("x"), ("error", "timeout")),
        (LockUnavailable("x"), ("error", "lock_unavailable")),
        (RetryableError("x"), ("error", "store_unavailable")),
        (ValueError("x"), ("error", "internal")),
    ],
)
def test_every_error_has_its_status_and_a_broken_contract_comes_first(
    error: Exception, expected: tuple[str, str]
) -> None:
    assert status_of_error(error) == expected


WEAK = FetchOutcome(status=FetchStatus.ERROR, attempted=True, reason=WEAK_NOT_FOUND)
AN_HOUR_AGO = datetime(2026, 1, 1, 11, tzinfo=UTC)
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("earlier", "status"),
    [
        (None, FetchStatus.ERROR),
        (EarlierTry(reason=WEAK_NOT_FOUND, at=None), FetchStatus.ERROR),
        (EarlierTry(reason=WEAK_NOT_FOUND, at=AN_HOUR_AGO + timedelta(seconds=1)), FetchStatus.ERROR),
        (EarlierTry(reason="http_503", at=AN_HOUR_AGO), FetchStatus.ERROR),
        (EarlierTry(reason=WEAK_NOT_FOUND, at=AN_HOUR_AGO), FetchStatus.NOT_FOUND),
    ],
)
def test_a_weak_sign_of_absence_is_a_verdict_when_it_comes_again_an_hour_later(
    earlier: EarlierTry | None, status: FetchStatus
) -> None:
    assert confirm_absence(WEAK, earlier, NOW).status is status


def test_nothing_but_the_weak_sign_is_made_a_verdict() -> None:
    earlier = EarlierTry(reason=WEAK_NOT_FOUND, at=AN_HOUR_AGO)
    for outcome in (
        FetchOutcome(status=FetchStatus.ERROR, attempted=True, reason="http_503"),
        FetchOutcome(status=FetchStatus.OK, attempted=True),
    ):
        assert confirm_absence(outcome, earlier, NOW) is outcome
