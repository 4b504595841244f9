"""Asking for backfills of Solana transactions."""

from __future__ import annotations

from flask import Response
from flask_openapi import APIBlueprint, Tag
from pydantic import ConfigDict

from app import documents
from app.api.rendering import accepted
from app.api.social_recording import SubmitHeaders
from app.process import this_process
from app.specification import NEEDS_KEY, SUBMIT_ANSWERS, json_body, problem
from workers.solana_backfill.job_kinds import BACKFILL, BACKFILL_NOT_CONFIGURED, RULES, BackfillRequest

blueprint = APIBlueprint(
    "solana_backfill",
    __name__,
    url_prefix="/api/v1/internal/solana-backfill",
    abp_tags=[Tag(name="solana backfill")],
    abp_security=NEEDS_KEY,
)


class BackfillBody(BackfillRequest):
    __doc__ = BackfillRequest.__doc__
    model_config = ConfigDict(
        populate_by_name=False,
        json_schema_extra={
            **RULES,
            "examples": [
                {"mode": "program", "address": documents.EXAMPLE_ADDRESS, "limit": 500},
                {
                    "mode": "pool",
                    "address": documents.EXAMPLE_ADDRESS,
                    "direction": "after",
                    "anchor": documents.EXAMPLE_SIGNATURE,
                    "limit": 50,
                },
                {"mode": "signatures", "signatures": [documents.EXAMPLE_SIGNATURE]},
            ],
        },
    )


@blueprint.post(
    "/campaigns",
    summary="Fetch and store transactions of the past",
    operation_id="backfillTransactions",
    request_body=json_body(BackfillBody, is_required=True),
    responses={
        **SUBMIT_ANSWERS,
        404: problem(404, code="ENDPOINT_NOT_FOUND", meaning="No endpoint has this role; `errors` names it."),
        422: problem(
            422,
            code="ANCHOR_NOT_FOUND",
            meaning="The job that was waited for failed: the endpoint does not know the anchor, or (with the"
            " code MAX_PAGES_REACHED) the allowed pages do not reach it. Or the idempotency key was used with"
            " another body.",
        ),
        501: problem(501, code=BACKFILL_NOT_CONFIGURED, meaning="SOLANA_ENDPOINTS is not set here."),
        502: problem(502, code="UPSTREAM_FAILED", meaning="The job failed, because the endpoint did."),
    },
)
def backfill(body: BackfillBody, header: SubmitHeaders) -> Response:
    """Put a backfill on its queue. One runs at a time; a second one ends with `meta.skipped`."""
    access = this_process().access
    complete = body.with_defaults(access.settings)
    job = access.jobs.submit(BACKFILL, complete, idempotency_key=header.idempotency_key)
    return accepted(job, header.prefer)
