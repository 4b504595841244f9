"""The tracker: which tokens were traded in a range, and what is known of one token.

It owns the two calls and the shape of their answers; it decides nothing. The invariant: an answer that is not
wholly understood is a failure and never an empty list, because "no tokens" would look like a finished job.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)
from pydantic.alias_generators import to_camel

from workers.clock import Budget, to_iso
from workers.errors import FetchFailed, TargetBlocked, TargetGone, UpstreamFailed
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.http.retry import TRACKER
from workers.settings import Settings

log = logging.getLogger(__name__)

# A range of a busy month has tens of thousands of tokens at about a kilobyte each.
_BODY_MAX_BYTES = 64 * 1_048_576


@dataclass(frozen=True, kw_only=True, slots=True)
class TrackedToken:
    """One token of the tracker's list; everything else that the list says is left out on purpose."""

    address: str
    symbol: str | None
    investor_count: int
    first_transfer_at: datetime | None
    last_transfer_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenInfo:
    """What the tracker knows of one token. `total_supply` is as given, beyond 53 bits too."""

    address: str
    symbol: str | None
    name: str | None
    decimals: int | None
    total_supply: int | str | None
    creator_address: str | None
    first_transfer_at: datetime | None
    last_transfer_at: datetime | None
    investor_count: int | None
    total_used_in_dollar: float | None
    alpha_score: float | None
    ath_market_cap: float | None
    rug_score: float | None
    image_url: str | None
    website: str | None
    twitter: str | None
    telegram: str | None
    tiktok: str | None

    def url_slots(self) -> dict[str, str]:
        """The four fields that may hold links, by name, in a fixed order, without the empty ones."""
        slots = {
            "website": self.website,
            "twitter": self.twitter,
            "telegram": self.telegram,
            "tiktok": self.tiktok,
        }
        return {name: text for name, text in slots.items() if text and text.strip()}


def _exact(value: object) -> object:
    """A fraction keeps its digits as text; a float would lose some."""
    return format(value, "f") if isinstance(value, Decimal) else value


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=moment.microsecond // 1000 * 1000)


_Time = Annotated[AwareDatetime, AfterValidator(_in_utc)]
_ExactNumber = Annotated[StrictInt | StrictStr | None, BeforeValidator(_exact)]


class _Row(BaseModel):
    """The fields that both answers share."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=False, extra="ignore", frozen=True)

    token_address: str = Field(min_length=1)
    token_symbol: str | None = None
    first_transfer_at: _Time | None = None
    last_transfer_at: _Time | None = None


class _ListRow(_Row):
    investor_count: int

    def to_token(self) -> TrackedToken:
        return TrackedToken(
            address=self.token_address,
            symbol=self.token_symbol,
            investor_count=self.investor_count,
            first_transfer_at=self.first_transfer_at,
            last_transfer_at=self.last_transfer_at,
        )


class _InfoRow(_Row):
    token_name: str | None = None
    decimals: int | None = None
    total_supply: _ExactNumber = None
    creator_address: str | None = None
    investor_count: int | None = None
    total_used_in_dollar: float | None = None
    alpha_score: float | None = None
    ath_market_cap: float | None = None
    rug_score: float | None = None
    image_url: str | None = None
    website: str | None = None
    twitter: str | None = None
    telegram: str | None = None
    tiktok: str | None = None

    def to_info(self) -> TokenInfo:
        renamed = {"token_address": "address", "token_symbol": "symbol", "token_name": "name"}
        facts = {renamed.get(name, name): getattr(self, name) for name in type(self).model_fields}
        return TokenInfo(**facts)


class _Meta(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    total: int | None = None


class _Envelope(BaseModel):
    """`{"data": [...], "meta": {"total": n}}`; the rows are read apart, each as what it should be."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    data: list[object]
    meta: _Meta = _Meta()


_RowT = TypeVar("_RowT", bound=_Row)
_LIST_ROWS = TypeAdapter(list[_ListRow])
_INFO_ROWS = TypeAdapter(list[_InfoRow])


def _read(rows_of: TypeAdapter[list[_RowT]], rows: list[object]) -> list[_RowT]:
    try:
        return rows_of.validate_python(rows)
    except ValidationError as exc:
        raise _misshapen(exc) from exc


def _misshapen(error: ValidationError) -> UpstreamFailed:
    """Name the first wrong place; its value stays out of the message."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the answer"
    return UpstreamFailed(f"the tracker's answer has another shape: {place}: {first['msg']}")


def _unusable(error: FetchFailed | TargetBlocked | TargetGone, url: str) -> UpstreamFailed:
    """What callers are told: the reason. The address and the groups in it stay on our side, in the log."""
    log.warning("the tracker did not answer usably", extra={"url": url, "reason": error.reason})
    return UpstreamFailed(
        f"the tracker did not answer usably: {error.reason}", retry_in_s=getattr(error, "retry_in_s", None)
    )


class TrackerClient:
    """The tracker's two calls."""

    def __init__(self, http: OutboundClient, settings: Settings) -> None:
        self._http = http
        self._tokens_url = f"{settings.tracker_base_url}/api/v1/tokens"
        self._headers = {
            "X-API-Key": settings.tracker_api_key.get_secret_value(),
            "Accept": "application/json",
        }
        self._group_ids = ",".join(settings.social_record_af_group_ids)
        self._timeout_s = settings.tracker_timeout_ms / 1000

    def tokens_in_range(self, start: datetime, end: datetime, budget: Budget) -> list[TrackedToken]:
        """All tokens whose last transfer lies in `[start, end)`, in the tracker's order.

        Raises `UpstreamFailed`, or `BudgetExceeded` when there was no time left to begin.
        """
        query = {"startDate": to_iso(start), "endDate": to_iso(end), "groupIds": self._group_ids}
        rows = self._rows(self._ask(self._request("GET", self._tokens_url, query=query), budget))
        return [row.to_token() for row in _read(_LIST_ROWS, rows)]

    def token_by_address(self, address: str, budget: Budget) -> TokenInfo | None:
        """What the tracker knows of the token with exactly this address; None when it does not know it.

        Raises `UpstreamFailed`, or `BudgetExceeded` when there was no time left to begin.
        """
        url = f"{self._tokens_url}/by-addresses"
        rows = self._rows(self._ask(self._request("POST", url, json_body={"addresses": [address]}), budget))
        found = (row for row in _read(_INFO_ROWS, rows) if row.token_address == address)
        row = next(found, None)
        return None if row is None else row.to_info()

    def _request(
        self, method: str, url: str, *, query: dict[str, str] | None = None, json_body: object = None
    ) -> Request:
        return Request(
            source="tracker",
            destination=Destination.SERVICE,
            method=method,
            url=url,
            query=query or {},
            headers=self._headers,
            json_body=json_body,
            retry=TRACKER,
            timeout_s=self._timeout_s,
            body_max_bytes=_BODY_MAX_BYTES,
        )

    def _ask(self, request: Request, budget: Budget) -> Response:
        try:
            response = self._http.fetch(request, budget)
        except (FetchFailed, TargetBlocked, TargetGone) as exc:
            raise _unusable(exc, request.url) from exc
        if response.status != 200:
            raise UpstreamFailed(f"the tracker answered {response.status}", retry_in_s=response.wait_hint_s)
        return response

    def _rows(self, response: Response) -> list[object]:
        """The rows of an answer that is whole. A bare list has no total to be compared with."""
        try:
            payload = response.json(exact_numbers=True)
        except FetchFailed as exc:
            raise _unusable(exc, response.url.partition("?")[0]) from exc
        if isinstance(payload, list):
            return payload
        try:
            envelope = _Envelope.model_validate(payload)
        except ValidationError as exc:
            raise _misshapen(exc) from exc
        total = envelope.meta.total
        if total is not None and len(envelope.data) < total:
            raise UpstreamFailed(f"the tracker sent {len(envelope.data)} rows and says there are {total}")
        return envelope.data
