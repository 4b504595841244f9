"""What an endpoint's refusals mean: one table from status, code and text to what a caller does next. Pure.

Codes collide: -32005 is a node that lags or a rate limit, -32007 a skipped slot or a rate limit, -32429 a
rate limit or a plan that is used up, -32602 bad parameters or a node's trouble with its ledger. So the text
counts as well. The order of the decision is: a plan that is used up, a rate limit, the HTTP status, the
error's code. The codes are those of https://docs.rs/solana-rpc-client-api (custom_error) and of JSON-RPC 2.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum, unique

# How much of a page that is no JSON is looked through for the words of a rate limit.
TEXT_CHARS_MAX = 2000


@unique
class FailureKind(StrEnum):
    """What a caller does next."""

    RATE_LIMITED = "rate_limited"  # everybody leaves the endpoint alone for a while
    PLAN_USED_UP = "plan_used_up"  # waiting does not help: the session ends
    REFUSED = "refused"  # wrong key, plan, method or URL: the session ends
    TRANSIENT = "transient"  # the node lags, or something on the way is down: ask again
    DOUBTFUL = "doubtful"  # bad parameters, or the node's own trouble in the same words: ask once more
    BOUND_NOT_FOUND = (
        "bound_not_found"  # the node does not know `before` or `until`; once more, of a pool of nodes
    )
    NO_HISTORY = "no_history"  # the endpoint keeps no history at all, or does not have this transaction
    FINAL = "final"  # asking again gives the same


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One failed call. `reason` is the stable code that is stored; it holds nothing that the endpoint
    wrote.
    """

    kind: FailureKind
    reason: str


UNSUPPORTED_VERSION = "unsupported_version"

_USED_UP = re.compile(r"max usage reached|\bcredits?\b|\bquota\b", re.IGNORECASE)
_RATE_LIMIT = re.compile(
    r"rate.?limit|request limit reached|too many requests|requests per second|\bRPS\b", re.IGNORECASE
)
# With these words -32602 is about what we sent; with any other it may be the node's trouble with its ledger.
_OUR_PARAMETERS = re.compile(
    r"\s*(invalid param|invalid limit|method does not support)|.*\bparams\b", re.IGNORECASE
)

_BY_STATUS = {
    401: Failure(kind=FailureKind.REFUSED, reason="http_401"),
    402: Failure(kind=FailureKind.PLAN_USED_UP, reason="plan_used_up"),
    403: Failure(kind=FailureKind.REFUSED, reason="http_403"),
    404: Failure(kind=FailureKind.REFUSED, reason="http_404"),
    408: Failure(kind=FailureKind.TRANSIENT, reason="http_408"),
    410: Failure(kind=FailureKind.REFUSED, reason="http_410"),
    413: Failure(kind=FailureKind.REFUSED, reason="http_413"),
}
# Below 500 these alone may be something else the next time; the rest is about how the endpoint is asked.
_LATER_STATUSES = frozenset({409, 421, 423, 425})
_BY_CODE = {
    -32004: Failure(kind=FailureKind.TRANSIENT, reason="block_not_available"),
    -32005: Failure(kind=FailureKind.TRANSIENT, reason="node_behind"),
    -32007: Failure(kind=FailureKind.FINAL, reason="slot_skipped"),
    -32009: Failure(kind=FailureKind.FINAL, reason="slot_skipped"),
    -32011: Failure(kind=FailureKind.NO_HISTORY, reason="history_not_available"),
    -32014: Failure(kind=FailureKind.TRANSIENT, reason="block_not_available"),
    -32015: Failure(kind=FailureKind.FINAL, reason=UNSUPPORTED_VERSION),
    -32016: Failure(kind=FailureKind.TRANSIENT, reason="node_behind"),
    -32019: Failure(kind=FailureKind.TRANSIENT, reason="storage_unreachable"),
    -32020: Failure(kind=FailureKind.BOUND_NOT_FOUND, reason="bound_not_found"),
    -32600: Failure(kind=FailureKind.REFUSED, reason="rpc_32600"),
    -32601: Failure(kind=FailureKind.REFUSED, reason="method_not_found"),
}
RATE_LIMITED = Failure(kind=FailureKind.RATE_LIMITED, reason="rate_limited")
PLAN_USED_UP = Failure(kind=FailureKind.PLAN_USED_UP, reason="plan_used_up")


def of_answer(status: int, code: int | None, text: str) -> Failure | None:
    """What a complete answer means; None when it is no refusal.

    `code` is that of the JSON-RPC error, 0 for an error without a number, None for no error. `text` is the
    message of that error or, for a failing status, the beginning of the body.
    """
    if code is None and 200 <= status < 300:
        return None
    if status < 500 and (status == 402 or _USED_UP.search(text)):
        return PLAN_USED_UP
    if 429 in (status, code) or code == -32429 or _RATE_LIMIT.search(text):
        return RATE_LIMITED
    if status >= 500:
        return Failure(kind=FailureKind.TRANSIENT, reason=f"http_{status}")
    return _BY_STATUS.get(status) or (_of_status(status) if code is None else _of_code(code, text))


def of_transport(reason: str) -> Failure:
    """What a call means that brought no answer; `reason` is the HTTP client's."""
    if reason == "body_too_large":
        return Failure(kind=FailureKind.FINAL, reason=reason)
    is_ours = reason in ("misconfigured", "bad_url", "tls_failed")
    return Failure(kind=FailureKind.REFUSED if is_ours else FailureKind.TRANSIENT, reason=reason)


def of_odd_body(reason: str) -> Failure:
    """A body that is no JSON-RPC answer: something stands in front of the node, or the answer was cut."""
    return Failure(kind=FailureKind.TRANSIENT, reason=reason)


def _of_status(status: int) -> Failure:
    kind = FailureKind.TRANSIENT if status in _LATER_STATUSES else FailureKind.REFUSED
    return Failure(kind=kind, reason=f"http_{status}")


def _of_code(code: int, text: str) -> Failure:
    if code == -32602:
        kind = FailureKind.FINAL if _OUR_PARAMETERS.match(text) else FailureKind.DOUBTFUL
        return Failure(kind=kind, reason="invalid_params")
    if code in _BY_CODE:
        return _BY_CODE[code]
    # The provider's own codes, and -32603. Most are an outage; what is not ends with its tries.
    if code in (401, 403, 404, 410):
        return _BY_STATUS[code]
    return Failure(kind=FailureKind.TRANSIENT, reason=f"rpc_{abs(code)}")
