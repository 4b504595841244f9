"""Fundings: which of them are blocked, with both sides of their counters; and the way to a reconciliation."""

from __future__ import annotations

import re

from flask import Response, abort, request, url_for

from app.console.blueprint import blueprint, page
from app.console.forms import FORMS
from app.console.jobs import why_not
from app.process import this_process
from workers.funding.vocabulary import PROPERTY_ID_PATTERN

FUNDINGS_PER_PAGE = 50


@blueprint.get("/fundings")
def list_fundings() -> Response:
    """A page of blocked fundings, by property."""
    access, form = this_process().access, FORMS["funding"]
    reason = why_not(access, form)
    after = request.args.get("after", "")
    if after and not re.fullmatch(PROPERTY_ID_PATTERN, after):
        abort(400, "There is no such place in the list.")
    found = [] if reason else access.funding.blocked(limit=FUNDINGS_PER_PAGE + 1, after=after)
    shown = found[:FUNDINGS_PER_PAGE]
    is_last = len(found) == len(shown)
    return page(
        "fundings.html",
        fundings=shown,
        form=form,
        why_not=reason,
        is_first=not after,
        first_page=url_for("console.list_fundings"),
        next_page=None if is_last else url_for("console.list_fundings", after=shown[-1].state.property_id),
    )
