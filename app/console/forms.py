"""The forms that start a job: their fields as data, and the request that a filled-in form makes. Pure.

A form knows no rule of its own: what was typed goes to the request model of the API, whose errors are shown
at the fields. Whatever is left empty is left out, so the defaults are those of the API as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel, ValidationError

from workers.funding.job_kinds import FUNDING_RECONCILE, FundingReconcileRequest
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.job_kinds import RECONCILE, RETRY, ReconcileRequest, RetryRequest
from workers.solana_backfill.campaign_words import Direction, Mode
from workers.solana_backfill.job_kinds import BACKFILL, BackfillRequest
from workers.solana_backfill.vocabulary import Commitment


class Control(StrEnum):
    """How a field is filled in."""

    NUMBER = "number"
    MOMENT = "moment"
    TEXT = "text"
    LINES = "lines"
    ONE_OF = "one_of"
    SOME_OF = "some_of"


@dataclass(frozen=True, kw_only=True, slots=True)
class FormField:
    """One field; `name` is the API's. A choice of `''` leaves the field out."""

    name: str
    label: str
    control: Control = Control.TEXT
    hint: str = ""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    is_required: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class JobForm:
    """One form: the kind of job that it starts, and the model that reads it."""

    slug: str
    kind: str
    title: str
    about: str
    request: type[BaseModel]
    fields: tuple[FormField, ...]


class Filled(Protocol):
    """What a browser sends, as far as it is used here."""

    def get(self, name: str) -> str | None:
        """The first value of a field."""

    def getlist(self, name: str) -> list[str]:
        """All values of a field."""


class Refused(Exception):
    """What was typed is not acceptable: words by the name of the field."""

    def __init__(self, by_field: Mapping[str, str]) -> None:
        super().__init__(f"not acceptable: {', '.join(sorted(by_field))}")
        self.by_field = by_field


_DEADLINE = FormField(
    name="deadlineMs",
    label="Deadline, ms",
    control=Control.NUMBER,
    hint="after which nothing new is begun",
    minimum=1000,
    maximum=300_000,
)

FORMS: Mapping[str, JobForm] = {
    form.slug: form
    for form in (
        JobForm(
            slug="retry",
            kind=RETRY.name,
            title="Retry URLs",
            about="Tries again the URLs that have not converged. Left empty, it does what the sweep does.",
            request=RetryRequest,
            fields=(
                FormField(
                    name="statuses",
                    label="Statuses",
                    control=Control.SOME_OF,
                    hint="none: error, unsupported and skipped_paid; a final one is opened again when named",
                    choices=tuple(status.value for status in FetchStatus if status is not FetchStatus.OK),
                ),
                FormField(
                    name="tokenAddresses",
                    label="Only these tokens",
                    control=Control.LINES,
                    hint="one address a line; empty: all",
                ),
                FormField(
                    name="limit",
                    label="URLs at most",
                    control=Control.NUMBER,
                    minimum=1,
                    maximum=200,
                ),
                FormField(
                    name="minIntervalMinutes",
                    label="Rest between tries, minutes",
                    control=Control.NUMBER,
                    hint="0 takes URLs that were tried a moment ago",
                    minimum=0,
                    maximum=525_600,
                ),
                _DEADLINE,
            ),
        ),
        JobForm(
            slug="reconcile",
            kind=RECONCILE.name,
            title="Reconcile tokens",
            about="Records the tokens whose last trade lies in the range and that were missed.",
            request=ReconcileRequest,
            fields=(
                FormField(name="startDate", label="From, UTC", control=Control.MOMENT, is_required=True),
                FormField(
                    name="endDate",
                    label="To, UTC",
                    control=Control.MOMENT,
                    hint="not included",
                    is_required=True,
                ),
                FormField(
                    name="minAfCount",
                    label="Investors at least",
                    control=Control.NUMBER,
                    minimum=1,
                    maximum=1_000_000,
                ),
                FormField(
                    name="limit",
                    label="Tokens at most",
                    control=Control.NUMBER,
                    minimum=1,
                    maximum=100,
                ),
                _DEADLINE,
            ),
        ),
        JobForm(
            slug="backfill",
            kind=BACKFILL.name,
            title="Backfill transactions",
            about="Fetches and stores Solana transactions of the past, except those that are stored already.",
            request=BackfillRequest,
            fields=(
                FormField(
                    name="mode",
                    label="Mode",
                    control=Control.ONE_OF,
                    choices=tuple(mode.value for mode in Mode),
                    is_required=True,
                ),
                FormField(name="address", label="Address", hint="of a program, a token or a pool"),
                FormField(
                    name="signatures",
                    label="Signatures",
                    control=Control.LINES,
                    hint="one a line, for the mode signatures",
                ),
                FormField(
                    name="direction",
                    label="Direction",
                    control=Control.ONE_OF,
                    choices=("", *(direction.value for direction in Direction)),
                ),
                FormField(name="anchor", label="Anchor", hint="the signature to start from"),
                FormField(name="limit", label="Transactions at most", control=Control.NUMBER, minimum=1),
                FormField(
                    name="maxPages",
                    label="Pages at most",
                    control=Control.NUMBER,
                    hint="of up to 1,000 signatures",
                    minimum=1,
                    maximum=100,
                ),
                FormField(
                    name="commitment",
                    label="Commitment",
                    control=Control.ONE_OF,
                    choices=("", *(commitment.value for commitment in Commitment)),
                ),
                FormField(name="role", label="Endpoint, by its role"),
            ),
        ),
        JobForm(
            slug="funding",
            kind=FUNDING_RECONCILE.name,
            title="Reconcile funding counters",
            about="Brings the counters of nearly sold fundings to the truth. Left empty, it does what the"
            " nightly schedule does. A funding sells nothing while it is looked at.",
            request=FundingReconcileRequest,
            fields=(
                FormField(
                    name="propertyIds",
                    label="Only these properties",
                    control=Control.LINES,
                    hint="one id a line; empty: all that need it",
                ),
                _DEADLINE,
            ),
        ),
    )
}


def body_of(form: JobForm, filled: Filled, *, dry_run: bool) -> dict[str, object]:
    """The request's body, with what was left empty left out."""
    body: dict[str, object] = {}
    for each in form.fields:
        value = _value_of(each, filled)
        if value not in (None, "", []):
            body[each.name] = value
    if dry_run:
        body["dryRun"] = True
    return body


def request_of(form: JobForm, body: Mapping[str, object]) -> BaseModel:
    """The request. Raises `Refused` with words for each field that is not acceptable."""
    try:
        return form.request.model_validate(body)
    except ValidationError as exc:
        raise Refused(_words_of(exc)) from exc


def key_of(ticket: str, body: Mapping[str, object]) -> str:
    """The idempotency key: the same page sent twice is one job, changed values are another."""
    words = json.dumps(body, sort_keys=True).encode()
    return f"console-{ticket}-{hashlib.blake2b(words, digest_size=8).hexdigest()}"


def _value_of(each: FormField, filled: Filled) -> object:
    text = (filled.get(each.name) or "").strip()
    match each.control:
        case Control.NUMBER:
            return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else text
        case Control.MOMENT:
            return f"{text}Z" if text else None
        case Control.LINES:
            return text.split()
        case Control.SOME_OF:
            return filled.getlist(each.name)
        case Control.TEXT | Control.ONE_OF:
            return text


def _words_of(error: ValidationError) -> dict[str, str]:
    """The first complaint about each field, in the API's names; of a list it says which one is meant."""
    found: dict[str, str] = {}
    for row in error.errors(include_url=False, include_context=False, include_input=False):
        name, *place = row["loc"] or ("",)
        words = row["msg"].removeprefix("Value error, ")
        number = next((step + 1 for step in place if isinstance(step, int)), None)
        found.setdefault(str(name), words if number is None else f"number {number}: {words}")
    return found
