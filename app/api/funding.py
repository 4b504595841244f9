"""The counters of fundings: asking for a reconciliation, and which fundings are blocked."""

from __future__ import annotations

from typing import Annotated

from flask import Response, jsonify, url_for
from flask_openapi import APIBlueprint, Tag
from pydantic import ConfigDict, Field

from app import documents
from app.api.rendering import accepted
from app.api.social_recording import SubmitHeaders
from app.process import this_process
from app.request_part import RequestPart
from app.specification import NEEDS_KEY, SUBMIT_ANSWERS, answer, json_body, problem, problems
from workers.funding.assembly import NOT_CONFIGURED, BlockedFunding
from workers.funding.job_kinds import FUNDING_RECONCILE, FundingReconcileRequest
from workers.funding.vocabulary import PROPERTY_ID_PATTERN

PAGE_SIZE_MAX = 200
_NOT_CONFIGURED = problem(501, code=NOT_CONFIGURED, meaning="FUNDING_DATABASE_URL is not set here.")

blueprint = APIBlueprint(
    "funding",
    __name__,
    url_prefix="/api/v1/internal/funding",
    abp_tags=[Tag(name="funding")],
    abp_security=NEEDS_KEY,
)


class FundingReconcileBody(FundingReconcileRequest):
    __doc__ = FundingReconcileRequest.__doc__
    model_config = ConfigDict(
        populate_by_name=False,
        json_schema_extra={"examples": [{"propertyIds": ["harbour-quay-12"], "dryRun": True}]},
    )


class BlockedQuery(RequestPart):
    """Which blocked fundings."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=PAGE_SIZE_MAX)] = 50
    cursor: (
        Annotated[str, Field(pattern=PROPERTY_ID_PATTERN, description="`meta.cursor` of the page before")]
        | None
    ) = None


@blueprint.post(
    "/reconcile",
    summary="Bring the counters of nearly sold fundings to the truth",
    operation_id="reconcileFundings",
    request_body=json_body(FundingReconcileBody, is_required=False),
    responses={
        **SUBMIT_ANSWERS,
        404: problem(
            404, code="PROPERTY_NOT_FOUND", meaning="No funding has one of these ids; `errors` names it."
        ),
        501: _NOT_CONFIGURED,
    },
)
def reconcile(body: FundingReconcileBody, header: SubmitHeaders) -> Response:
    """Put a reconciliation job on its queue; no body is what the nightly schedule does."""
    access = this_process().access
    complete = access.funding.complete(body)
    job = access.jobs.submit(FUNDING_RECONCILE, complete, idempotency_key=header.idempotency_key)
    return accepted(job, header.prefer)


@blueprint.get(
    "/blocked",
    summary="The fundings that sell nothing for the time being, and why",
    operation_id="listBlockedFundings",
    responses={
        200: answer(documents.BlockedFundings, "A page of blocked fundings, by property."),
        **problems(400, 401, 500),
        501: _NOT_CONFIGURED,
        503: problem(503, code="STORE_UNAVAILABLE", meaning="A store of the fundings does not answer."),
    },
)
def list_blocked(query: BlockedQuery) -> Response:
    """List the blocked fundings that have not ended, with the counters and the truth as they are now."""
    found = this_process().access.funding.blocked(limit=query.limit + 1, after=query.cursor or "")
    shown = found[: query.limit]
    is_last = len(found) == len(shown)
    cursor = None if is_last else shown[-1].state.property_id
    page = documents.BlockedFundings(
        data=[_row(each) for each in shown], meta=documents.PageMeta(cursor=cursor)
    )
    if cursor is not None:
        page.links = documents.PageLinks(
            next=url_for("funding.list_blocked", limit=query.limit, cursor=cursor)
        )
    return jsonify(page.to_json())


def _row(found: BlockedFunding) -> documents.BlockedFunding:
    return documents.BlockedFunding.model_validate(found.to_json())
