"""The job kinds of social recording and what their callers may ask for.

A body names only what differs from the defaults; `with_defaults` fills in the settings, so that a job's
record says what really ran.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from workers.errors import InvalidInput
from workers.jobs.kinds import JobKind
from workers.jobs.request_fields import WHOLE, DeadlineMs, DryRun, JobBody
from workers.settings import Settings
from workers.social_graph.vocabulary import RETRYABLE_STATUSES, FetchStatus

TOKEN_ADDRESS_PATTERN = r"^[1-9A-HJ-NP-Za-km-z]{32,44}$"


def _must_be_written_out(value: object) -> object:
    """Refuse the unix times that pydantic would take for a date."""
    if isinstance(value, datetime) or (isinstance(value, str) and re.match(r"\d{4}-\d{2}-\d{2}[Tt ]", value)):
        return value
    raise ValueError("must be a date and time with a zone, such as 2026-01-31T00:00:00Z")


def _to_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie between the years 1 and 9999 in UTC") from None


ZonedTime = Annotated[AwareDatetime, BeforeValidator(_must_be_written_out), AfterValidator(_to_utc)]
# The schema tells callers not to ask for `ok`; those who do get an error of its own.
ReopenedStatus = Annotated[
    FetchStatus,
    WithJsonSchema({"type": "string", "enum": [status.value for status in FetchStatus if status != "ok"]}),
]


class ReconcileRequest(JobBody):
    """Record the tokens of a range of last trades that were missed.

    The range `[startDate, endDate)` is measured on the tracker's `lastTransferAt`. The tracker itself shows
    only tokens with more than one investor and more than 1000 dollars used, so a floor of 1 finds no more
    than a floor of 2.
    """

    start_date: ZonedTime
    end_date: ZonedTime
    min_af_count: Annotated[int, Field(ge=1, le=1_000_000, strict=True), WHOLE] | None = None
    limit: Annotated[int, Field(ge=1, le=100, strict=True), WHOLE] | None = None
    deadline_ms: DeadlineMs | None = None
    dry_run: DryRun = False

    @field_validator("end_date")
    @classmethod
    def _check_range(cls, end_date: datetime, info: ValidationInfo) -> datetime:
        start_date = info.data.get("start_date")
        if start_date is not None and start_date >= end_date:
            raise ValueError("must be after startDate")
        return end_date

    def with_defaults(self, settings: Settings) -> CompleteReconcileRequest:
        """Fill in what the caller left out."""
        return CompleteReconcileRequest(
            start_date=self.start_date,
            end_date=self.end_date,
            min_af_count=self.min_af_count or settings.social_record_af_investor_threshold,
            limit=self.limit or settings.social_record_reconcile_limit,
            deadline_ms=self.deadline_ms or settings.social_record_deadline_ms,
            dry_run=self.dry_run,
        )


class CompleteReconcileRequest(ReconcileRequest):
    """A reconcile request with nothing left open."""

    min_af_count: int
    limit: int
    deadline_ms: int


class StatusNotRetryable(InvalidInput):
    """Reopening a success would break the promise that what is finished is never touched again."""


class RetryRequest(JobBody):
    """Try again the URLs that have not converged. An empty body is what the hourly sweep does."""

    statuses: Annotated[list[ReopenedStatus], Field(min_length=1, max_length=8)] | None = None
    token_addresses: (
        Annotated[
            list[Annotated[str, Field(pattern=TOKEN_ADDRESS_PATTERN)]], Field(min_length=1, max_length=1000)
        ]
        | None
    ) = None
    limit: Annotated[int, Field(ge=1, le=200, strict=True), WHOLE] | None = None
    deadline_ms: DeadlineMs | None = None
    min_interval_minutes: Annotated[int, Field(ge=0, le=525_600, strict=True), WHOLE] | None = None
    dry_run: DryRun = False

    def with_defaults(self, settings: Settings) -> CompleteRetryRequest:
        """Fill in what the caller left out. Raises `StatusNotRetryable` when `ok` is asked for."""
        if FetchStatus.OK in (self.statuses or ()):
            raise StatusNotRetryable("a URL that is ok is never fetched again by a retry", field="statuses")
        interval = self.min_interval_minutes
        return CompleteRetryRequest(
            statuses=self.statuses or sorted(RETRYABLE_STATUSES),
            token_addresses=self.token_addresses,
            limit=self.limit or settings.social_record_retry_limit,
            deadline_ms=self.deadline_ms or settings.social_record_deadline_ms,
            min_interval_minutes=(
                settings.social_record_retry_min_interval_minutes if interval is None else interval
            ),
            dry_run=self.dry_run,
        )


class CompleteRetryRequest(RetryRequest):
    """A retry request with nothing left open; no addresses means every token."""

    statuses: list[FetchStatus]
    limit: int
    deadline_ms: int
    min_interval_minutes: int


RECONCILE = JobKind(
    name="social.reconcile",
    task="converge.social_recording.reconcile",
    queue="jobs",
    lease="social-reconcile:reconcile",
    request_model=CompleteReconcileRequest,
)
RETRY = JobKind(
    name="social.retry",
    task="converge.social_recording.retry",
    queue="jobs",
    lease="social-reconcile:retry",
    request_model=CompleteRetryRequest,
)
