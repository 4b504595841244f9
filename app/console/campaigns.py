"""Campaigns: the backfills of Solana transactions, with what each of them found and stored."""

from __future__ import annotations

from flask import Response, abort, request, url_for

from app.console.blueprint import blueprint, page
from app.console.forms import FORMS
from app.console.job_history import meta_of
from app.console.jobs import JOBS_PER_PAGE, headline, why_not
from app.process import this_process
from workers.solana_backfill.job_kinds import BACKFILL


@blueprint.get("/campaigns")
def list_campaigns() -> Response:
    """A page of backfills, newest first."""
    access = this_process().access
    before = request.args.get("before", "")
    if before and not (before.isascii() and before.isdigit() and len(before) < 20):
        abort(400, "There is no such place in the list.")
    found, following = access.jobs.list_jobs(
        kind=BACKFILL.name, state=None, limit=JOBS_PER_PAGE, before=int(before) if before else None
    )
    form = FORMS["backfill"]
    return page(
        "campaigns.html",
        jobs=found,
        form=form,
        why_not=why_not(access, form),
        headline=headline,
        meta_of=meta_of,
        is_first=not before,
        first_page=url_for("console.list_campaigns"),
        next_page=following and url_for("console.list_campaigns", before=following),
    )
