"""When a call is made again and after which wait: the policies as data, and hints of the other side. Pure.

A hint is what an answer says about when to come back. A short one is waited for inside the attempt; a long
one ends the attempt, because a slot of a worker is no place to wait.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

HINT_CAP_S = 86_400.0
HINT_WAITED_FOR_MAX_S = 30.0
# A worker's thread is no place to wait for long here either; the next run takes what was refused.
PERMIT_WAIT_MAX_S = 30.0
# For how long everybody leaves a source alone that refuses without saying for how long.
PAUSE_WITHOUT_HINT_S = 5.0
# A reset above this is a moment (GitHub, X); below it is a number of seconds from now (Reddit).
_UNIX_TIMES_START_AT = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryPolicy:
    """How often one call is tried and what is worth another try.

    `statuses_once` are worth one more try and no third. `failures` are the reasons of `FetchFailed`. Wait `i`
    (from 0) lasts `first_wait_s * 2**i`, unless the answer gives a hint and the policy heeds hints.
    """

    tries: int
    first_wait_s: float
    statuses: frozenset[int]
    failures: frozenset[str]
    statuses_once: frozenset[int] = frozenset()
    heeds_hints: bool = True

    def wait_s(self, tries_made: int) -> float:
        """The wait after `tries_made` tries, when nobody gave a hint."""
        return self.first_wait_s * 2.0 ** (tries_made - 1)

    def repeats(self, status: int, tries_made: int, *, has_hint: bool) -> bool:
        """Whether an answer with `status` is worth another try, the number of tries aside.

        A 403 that says when to come back is a rate limit in other words.
        """
        if status in self.statuses:
            return True
        if self.heeds_hints and has_hint and status == 403:
            return True
        return tries_made == 1 and status in self.statuses_once


FREE = RetryPolicy(
    tries=3,
    first_wait_s=0.8,
    statuses=frozenset({408, 425, 429, 500, 502, 503, 504}),
    failures=frozenset({"connection_failed", "dns_temporary"}),
)
# A web site that refuses our first call sometimes lets the second one in; a refusal is final, so ask twice.
SITE = replace(FREE, statuses_once=frozenset({403}))
# For a second way to a target, after the first way had all its tries.
ONCE = replace(FREE, tries=1)
# Every try costs money, and an answer that got lost was paid for as well.
PAID = RetryPolicy(tries=1, first_wait_s=0.0, statuses=frozenset(), failures=frozenset(), heeds_hints=False)
# The waits are fixed, because callers count on the worst case of about 18 seconds.
TRACKER = RetryPolicy(
    tries=3,
    first_wait_s=1.0,
    statuses=frozenset({429, *range(500, 600)}),
    failures=frozenset({"connection_failed", "timeout"}),
    heeds_hints=False,
)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """The wait that a `Retry-After` header asks for, in seconds, at most `HINT_CAP_S`.

    0 for a moment in the past, None when there is no such header or nobody can read it.
    """
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return _capped(float(text))
    return _until(_read_date(text), now)


def wait_hint_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Any hint of an answer: `Retry-After`, else the reset of a rate limit that is used up."""
    hint = retry_after_s(headers, now)
    return _used_up_s(headers, now) if hint is None else hint


def pause_s(status: int, headers: Mapping[str, str], now: datetime, *, heeds_used_up: bool) -> float:
    """For how long an answer asks to leave its source alone, in seconds; 0 when it does not.

    With `heeds_used_up` a good answer counts as well that says that it was the last one for a while.
    """
    if status in (403, 429, 503):
        hint = wait_hint_s(headers, now)
        if hint is None and status == 429:
            return PAUSE_WITHOUT_HINT_S
    else:
        hint = _used_up_s(headers, now) if heeds_used_up else None
    return hint or 0.0


def _used_up_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """How long a rate limit still lasts of which nothing is left; None when there is none."""
    for prefix in ("x-ratelimit-", "x-rate-limit-"):
        remaining = _read_number(headers.get(f"{prefix}remaining", ""))
        reset = _read_number(headers.get(f"{prefix}reset", ""))
        if remaining is None or remaining >= 1 or reset is None:
            continue
        return _capped(reset - now.timestamp() if reset > _UNIX_TIMES_START_AT else reset)
    return None


def _read_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _until(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else _capped((moment - now).total_seconds())


def _read_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _capped(seconds: float) -> float:
    return min(max(0.0, seconds), HINT_CAP_S)
