"""Counts calls on the wire: what came back in one word, how long it took, how long permits were waited for.

It decides nothing and changes no error. Told by `OutboundClient._send`, through which every call goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from workers.clock import Clock
from workers.errors import BudgetExceeded, FetchFailed, TargetGone, UnsafeAddress
from workers.http.failures import reason_of
from workers.http.messages import Request
from workers.http.retry import PAID
from workers.telemetry import Meter
from workers.telemetry_table import (
    CALL_SECONDS,
    CALLS,
    OTHER,
    PAID_SOURCES,
    PERMIT_REFUSALS,
    PERMIT_WAIT_SECONDS,
    PERMIT_WAITS,
)

# To ask for a permit takes a round trip to Redis; only what takes longer than this was a wait.
WAIT_MIN_S = 0.05
_BY_STATUS = MappingProxyType(
    {
        401: "blocked",
        402: "payment_required",
        403: "blocked",
        404: "not_found",
        408: "timeout",
        410: "not_found",
        429: "rate_limited",
        451: "blocked",
    }
)
_BY_HUNDRED = MappingProxyType({2: "ok", 3: "redirect", 4: "client_error", 5: "server_error"})
_BY_REASON = MappingProxyType(
    {
        "timeout": "timeout",
        "connection_failed": "connection_failed",
        "dns_temporary": "dns_failed",
        "dns_failed": "dns_failed",
        "tls_failed": "tls_failed",
        "bad_encoding": "bad_answer",
        "body_too_large": "bad_answer",
        "bad_url": "misconfigured",
        "misconfigured": "misconfigured",
    }
)


def outcome_of_status(status: int) -> str:
    """The class of an answer, by its status alone: what a source says inside a 200 is not looked at."""
    return _BY_STATUS.get(status) or _BY_HUNDRED.get(status // 100, OTHER)


def outcome_of_error(error: Exception) -> str:
    """The class of a call that brought no usable answer."""
    match error:
        case UnsafeAddress():
            return "unsafe_address"
        case TargetGone():
            return "dns_failed"
        case FetchFailed():
            return _BY_REASON.get(error.reason, OTHER)
        case BudgetExceeded():
            return "timeout"
        case _:
            return _BY_REASON.get(reason_of(error)[0], OTHER)


@dataclass(kw_only=True, slots=True)
class Heard:
    """What is known of a call so far."""

    status: int | None = None


class CallTally:
    """See the module docstring. One for a client."""

    def __init__(self, meter: Meter, clock: Clock) -> None:
        self._meter = meter
        self._clock = clock

    @contextmanager
    def permit(self, source: str, permit: AbstractContextManager[None]) -> Iterator[None]:
        """Hold the permit for the body, and count the wait for it or that there was none."""
        asked_at = self._clock.monotonic()
        with ExitStack() as stack:
            try:
                stack.enter_context(permit)
            except FetchFailed as exc:
                self._meter.count(PERMIT_REFUSALS, source, exc.reason)
                raise
            except BudgetExceeded:
                self._meter.count(PERMIT_REFUSALS, source, "out_of_time")
                raise
            waited_s = self._clock.monotonic() - asked_at
            if waited_s >= WAIT_MIN_S:
                self._meter.count(PERMIT_WAITS, source)
                self._meter.count(PERMIT_WAIT_SECONDS, source, amount=waited_s)
            yield

    @contextmanager
    def call(self, request: Request) -> Iterator[Heard]:
        """Count the call that is made in the body, however it ends."""
        heard = Heard()
        started_at = self._clock.monotonic()
        outcome = OTHER
        try:
            yield heard
            outcome = OTHER if heard.status is None else outcome_of_status(heard.status)
        except Exception as exc:
            outcome = outcome_of_error(exc)
            raise
        finally:
            is_paid = request.source in PAID_SOURCES and request.retry == PAID
            self._meter.count(CALLS, request.source, outcome, "yes" if is_paid else "no")
            took_s = self._clock.monotonic() - started_at
            self._meter.count(CALL_SECONDS, request.source, amount=took_s)
