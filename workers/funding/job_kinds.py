"""The job kind of the funding counters and what its callers may ask for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from workers.funding.vocabulary import PROPERTY_ID_PATTERN
from workers.jobs.kinds import JobKind
from workers.jobs.request_fields import DeadlineMs, DryRun, JobBody
from workers.settings import Settings

PropertyID = Annotated[
    str,
    Field(pattern=PROPERTY_ID_PATTERN, description="the property's id", examples=["harbour-quay-12"]),
]


class FundingReconcileRequest(JobBody):
    """Compare the counters of fundings that are nearly sold out, or blocked, with the purchases.

    Those that differ are repaired; a funding sells nothing meanwhile. With `propertyIds` these properties are
    taken instead, however much of them is sold; those that are not on sale are left alone. An empty body is
    what the nightly schedule does.
    """

    property_ids: Annotated[list[PropertyID], Field(min_length=1, max_length=1000)] | None = None
    deadline_ms: DeadlineMs | None = None
    dry_run: DryRun = False

    def with_defaults(self, settings: Settings) -> CompleteFundingReconcileRequest:
        """Fill in what the caller left out; an id that is there twice counts once."""
        return CompleteFundingReconcileRequest(
            property_ids=None if self.property_ids is None else list(dict.fromkeys(self.property_ids)),
            deadline_ms=self.deadline_ms or settings.funding_deadline_ms,
            dry_run=self.dry_run,
        )


class CompleteFundingReconcileRequest(FundingReconcileRequest):
    """A request with nothing left open; no ids means every funding that needs it."""

    deadline_ms: int


FUNDING_RECONCILE = JobKind(
    name="funding.reconcile",
    task="converge.funding.reconcile",
    queue="jobs",
    lease="funding-reconcile",
    request_model=CompleteFundingReconcileRequest,
)
