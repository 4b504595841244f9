"""The endpoints of the Solana RPC as the setting `SOLANA_ENDPOINTS` names them. Pure.

It owns the form of the setting: a JSON array with one object per endpoint.

    [{"role": "history_backfill", "url": "https://rpc.example/?api-key=...", "provider": "example",
      "methods": ["getSignaturesForAddress", "getTransaction"],
      "requestsPerSecond": 50, "maxConcurrentRequests": 16, "pauseAfterRateLimitMs": 1000}]

A role names one endpoint. Providers put their keys into the path or the query of a URL, so a URL is never
shown, logged or stored: what people see is `SolanaEndpoint.address`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

GET_SIGNATURES = "getSignaturesForAddress"
GET_TRANSACTION = "getTransaction"
NEEDED_METHODS = (GET_SIGNATURES, GET_TRANSACTION)
ROLE_PATTERN = r"^[a-z][a-z0-9_-]{0,39}$"
# Shorter parts of a path are words such as `v2`, which are no keys and would be hidden everywhere.
_KEY_LENGTH_MIN = 12
_QUERY_KEY_LENGTH_MIN = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class SolanaEndpoint:
    """One endpoint.

    All workers together start at most `requests_per_second` requests to it and keep at most
    `max_concurrent_requests` open. `pause_after_rate_limit_ms` is for how long all of them leave it alone
    when it refuses without saying for how long.
    """

    role: str
    url: str = field(repr=False)
    provider: str
    requests_per_second: float
    max_concurrent_requests: int
    pause_after_rate_limit_ms: int

    @property
    def address(self) -> str:
        """Scheme, host and port: the part of the URL that holds no key."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The parts of the URL that may be keys."""
        parts = urlsplit(self.url)
        steps = [step for step in parts.path.split("/") if len(step) >= _KEY_LENGTH_MIN]
        values = [value for _, value in parse_qsl(parts.query) if len(value) >= _QUERY_KEY_LENGTH_MIN]
        return tuple(dict.fromkeys([*steps, *map(unquote, steps), *values]))


class _Entry(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", hide_input_in_errors=True)

    role: Annotated[str, Field(pattern=ROLE_PATTERN)]
    url: SecretStr
    provider: Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,58}[!-~])?$")] | None = None
    methods: list[str]
    requests_per_second: Annotated[float, Field(ge=0.01, le=10_000, allow_inf_nan=False)]
    max_concurrent_requests: Annotated[int, Field(ge=1, le=256)] = 8
    pause_after_rate_limit_ms: Annotated[int, Field(ge=0, le=120_000)] = 1000


_ENTRIES = TypeAdapter(list[_Entry])


def read_endpoints(text: str) -> tuple[SolanaEndpoint, ...]:
    """The endpoints that `text` describes, in its order.

    Raises `ValueError`, which names the entry by its place and never quotes a value.
    """
    try:
        entries = _ENTRIES.validate_json(text)
    except ValidationError as exc:
        raise ValueError(_refusal(exc)) from None
    if not entries:
        raise ValueError("names no endpoint")
    found = tuple(_endpoint_of(number, entry) for number, entry in enumerate(entries, start=1))
    roles = [endpoint.role for endpoint in found]
    for role in roles:
        if roles.count(role) > 1:
            raise ValueError(f"the role {role} is there twice; it names one endpoint")
    return found


def endpoint_of(endpoints: Sequence[SolanaEndpoint], role: str) -> SolanaEndpoint | None:
    """The endpoint with this role, or None."""
    return next((endpoint for endpoint in endpoints if endpoint.role == role), None)


def _endpoint_of(number: int, entry: _Entry) -> SolanaEndpoint:
    place = f"entry {number} ({entry.role})"
    missing = [method for method in NEEDED_METHODS if method not in entry.methods]
    if missing:
        raise ValueError(f"{place}: a backfill also needs {' and '.join(missing)} among its methods")
    url = entry.url.get_secret_value().strip()
    host = _host_of(url)
    if host is None:
        raise ValueError(f"{place}: its url must be an http or https URL without user, password and fragment")
    return SolanaEndpoint(
        role=entry.role,
        url=url,
        provider=entry.provider or host,
        requests_per_second=entry.requests_per_second,
        max_concurrent_requests=entry.max_concurrent_requests,
        pause_after_rate_limit_ms=entry.pause_after_rate_limit_ms,
    )


def _host_of(url: str) -> str | None:
    """The host of a URL that can be asked; None for any other text."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or "#" in url or not url.isascii():
        return None
    return parts.hostname


def _refusal(error: ValidationError) -> str:
    """The first problem, without any value; pydantic's own text of bad JSON quotes none either."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = list(first["loc"])
    if not place:
        return "must be a JSON array of endpoints such as the README shows"
    number = int(place[0]) + 1
    return f"entry {number}: {'.'.join(map(str, place[1:])) or 'entry'}: {first['msg']}"
