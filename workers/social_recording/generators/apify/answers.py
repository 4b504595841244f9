"""What Apify's answers mean: runs, items, refusals. Pure, but for the log line of a refusal.

What an actor says about a target, also that it is gone, are items of its dataset; they name what they are
about, and their position means nothing. What Apify itself refuses says nothing about the target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from workers.errors import CreditExhausted, FetchFailed
from workers.http.messages import Response
from workers.social_recording.generators.foreign_json import (
    ONLY_READABLE,
    Foreign,
    Id,
    MaybeId,
    MaybeTime,
    Text,
    read_as,
)
from workers.social_recording.generators.verdicts import (
    http_error,
    misconfigured,
    rate_limited,
    unexpected_html,
)
from workers.social_recording.object_graph import JSONValue
from workers.social_recording.routing import route

SOURCE = "apify"
Item: TypeAlias = Mapping[str, object]

# The four states in which a run is over, and what it means when its dataset says nothing.
REASONS_OF_ENDS = {
    "SUCCEEDED": "empty_dataset",
    "FAILED": "run_failed",
    "ABORTED": "run_aborted",
    "TIMED-OUT": "run_timed_out",
}
_CREDIT_TYPES = frozenset({"not-enough-usage-to-run-paid-actor", "x402-payment-required"})
_BUSY_TYPES = frozenset({"actor-memory-limit-exceeded", "concurrent-runs-limit-exceeded"})
_RECORD_URL = re.compile(
    r"https://api\.apify\.com/v2(?P<path>/key-value-stores/[\w~-]+/records/[\w.~%-]+)", re.ASCII
)
# Where an item says what it was asked for.
_NAMING_KEYS = ("inputUrl", "input", "url")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What an actor is asked.

    `target` is the canonical URL of what is meant; with the actor it names the question. `names` are the
    spellings under which items may refer to it: URLs in any form, or bare handles. None at all means that
    items cannot say what they were asked for, and that the caller can tell.
    """

    actor: str
    target: str
    input: Mapping[str, JSONValue]
    names: tuple[str, ...]
    items_max: int = 1

    @property
    def name(self) -> str:
        """The question's name in the memory of runs."""
        return f"{self.actor} {self.target}"

    def is_answered_by(self, item: Item) -> bool:
        """Whether the item is about what was asked."""
        if not self.names:
            return True
        asked = {_folded(name) for name in self.names}
        said = (item.get(key) for key in _NAMING_KEYS)
        return any(isinstance(text, str) and _folded(text) in asked for text in said)

    def is_input(self, payload: object) -> bool:
        """Whether `payload` is the input of a run for this question; Apify adds the actor's defaults."""
        if not isinstance(payload, dict):
            return False
        return all(name in payload and payload[name] == value for name, value in self.input.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """What a run found about the question; at least one item. `looked_at` is when the actor looked."""

    items: tuple[Item, ...]
    looked_at: datetime


class ActorItem(Foreign):
    """A part of an answer whose names are written like `defaultDatasetId`; here they have underscores."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Run(ActorItem):
    """A run, as far as it matters."""

    id: Id
    status: Text
    default_dataset_id: MaybeId = None
    default_key_value_store_id: MaybeId = None
    started_at: MaybeTime = None
    finished_at: MaybeTime = None

    @property
    def is_over(self) -> bool:
        """Whether nothing will be added to its dataset any more."""
        return self.status in REASONS_OF_ENDS


class _RunEnvelope(Foreign):
    data: Run


class _RunList(Foreign):
    items: Annotated[tuple[Run, ...], ONLY_READABLE]


class _RunListEnvelope(Foreign):
    data: _RunList


def read_run(payload: object) -> Run:
    """One run. Raises `FetchFailed` (`unexpected_shape`)."""
    return read_as(_RunEnvelope, payload, SOURCE).data


def read_runs(payload: object) -> tuple[Run, ...]:
    """A list of runs, without those that cannot be read. Raises `FetchFailed` (`unexpected_shape`)."""
    return read_as(_RunListEnvelope, payload, SOURCE).data.items


def read_items(payload: object) -> list[Item]:
    """The items of a dataset. Raises `FetchFailed` (`unexpected_shape`)."""
    if not isinstance(payload, list):
        raise FetchFailed("a dataset of apify is no list", reason="unexpected_shape")
    return [item for item in payload if isinstance(item, dict)]


def record_path(url: str) -> str | None:
    """The path of a record that an actor stored, below Apify's base URL; None for any other address."""
    found = _RECORD_URL.fullmatch(url)
    return None if found is None else found["path"]


def judge(response: Response) -> object:
    """The payload of a good answer.

    Raises `CreditExhausted` or `FetchFailed`. Not every 402 is about money: the same status says that too
    much runs at once.
    """
    kind, message = _error_of(response)
    status = response.status
    if kind in _CREDIT_TYPES or (kind == "platform-feature-disabled" and "usage hard limit" in message):
        raise CreditExhausted("the balance at apify is used up", source=SOURCE)
    if status == 429 or kind in _BUSY_TYPES:
        raise rate_limited(response)
    if status == 402:
        raise CreditExhausted("apify wants money", source=SOURCE)
    if status >= 500 or status == 408:
        raise http_error(response)
    if response.is_html:
        raise unexpected_html(response)
    if kind == "run-failed":
        raise FetchFailed("apify says that the run failed", reason="run_failed")
    if status in (401, 403, 404) or kind == "invalid-input":
        raise misconfigured(response)
    if not 200 <= status < 300:
        raise http_error(response)
    return response.json()


def is_unknown_record(response: Response) -> bool:
    """Whether Apify knows no such run or record; they are deleted after a while."""
    return response.status == 404 and _error_of(response)[0] == "record-not-found"


def _error_of(response: Response) -> tuple[str, str]:
    """The type of an error and its text in lower case; two empty texts for any other answer."""
    if response.status < 400:
        return "", ""
    try:
        payload = response.json()
    except FetchFailed:
        return "", ""
    error = payload.get("error") if isinstance(payload, dict) else None
    if not isinstance(error, dict):
        return "", ""
    return str(error.get("type", "")), str(error.get("message", "")).lower()


def _folded(text: str) -> str:
    """One spelling for all that name the same place or handle."""
    return route(text).url if "://" in text else text.strip().lstrip("@").casefold()
