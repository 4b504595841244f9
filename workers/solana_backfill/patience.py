"""How often one thing is asked for again, and after which wait: the policy as data. Pure.

Rate limits do not use up the tries: the endpoint was not asked, in effect. They have a bound of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from workers.solana_backfill.rpc_failures import FailureKind

TRIES = 5
NULL_TRIES = 3
# Each of these ends with a pause for everybody, the last ones of two minutes.
RATE_LIMITS_MAX = 10
FIRST_WAIT_S = 0.5
WAIT_MAX_S = 8.0
# A wait is longer by up to this part, so that those who failed together do not come back together.
JITTER = 0.25
_ONCE_MORE = frozenset({FailureKind.DOUBTFUL, FailureKind.BOUND_NOT_FOUND})


class Patience:
    """What one thing has left. `random` gives numbers in [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._tries = 0
        self._nulls = 0
        self._rate_limits = 0
        self._spent_once: set[FailureKind] = set()

    def after(self, kind: FailureKind) -> float | None:
        """The seconds to wait before it is asked for again after such a failure; None to give it up.

        After a rate limit it is 0, because nobody may ask before the endpoint's pause is over.
        """
        if kind is FailureKind.RATE_LIMITED:
            self._rate_limits += 1
            return 0.0 if self._rate_limits <= RATE_LIMITS_MAX else None
        if kind in _ONCE_MORE:
            is_first = kind not in self._spent_once
            self._spent_once.add(kind)
            return self._wait_s(1) if is_first else None
        if kind is not FailureKind.TRANSIENT:
            return None
        self._tries += 1
        return self._wait_s(self._tries) if self._tries < TRIES else None

    def after_null(self) -> float | None:
        """The same after a null for a transaction that the endpoint itself has listed."""
        self._nulls += 1
        return self._wait_s(self._nulls) if self._nulls < NULL_TRIES else None

    def _wait_s(self, number: int) -> float:
        return min(FIRST_WAIT_S * 2.0 ** (number - 1), WAIT_MAX_S) * (1 + JITTER * self._random())
