"""When a URL is due for its next try. Pure.

With a back-off factor of 1 the wait is the interval, always the same. With a larger one it grows with each
attempt, and URLs that failed together are spread, so that the outage of a host does not come back as a burst.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from workers.social_graph.token import RetryableURL

WAIT_MAX = timedelta(hours=24)
# How much later than the interval the last of many URLs comes, as a share of the wait.
SPREAD = 0.25
# After so many attempts the wait is a day by any factor, and the number still fits into a float.
GROWTH_STEPS_MAX = 64
_SHARES = 2**32


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryInterval:
    """How long a URL rests between two tries: at least `shortest`; `factor` (1 or more) is the growth."""

    shortest: timedelta
    factor: float = 1.0

    def due_at(self, candidate: RetryableURL) -> datetime | None:
        """When the URL may be tried again; None for one that was never tried, which is due at any time.

        A wait is never below the interval and, where the interval leaves room for it, never above a day.
        """
        if candidate.attempted_at is None:
            return None
        return candidate.attempted_at + self.wait(candidate)

    def is_due(self, candidate: RetryableURL, now: datetime) -> bool:
        """Whether the URL may be tried now; one whose wait ends this moment may."""
        due_at = self.due_at(candidate)
        return due_at is None or due_at <= now

    def wait(self, candidate: RetryableURL) -> timedelta:
        """How long the URL rests after its last attempt; the same for the same URL and number of attempts."""
        if self.factor <= 1:
            return self.shortest
        shortest_s = self.shortest.total_seconds()
        growth = self.factor ** min(max(candidate.attempts - 1, 0), GROWTH_STEPS_MAX)
        grown_s = min(shortest_s * growth, WAIT_MAX.total_seconds() / (1 + SPREAD))
        return timedelta(seconds=max(shortest_s, grown_s) * (1 + SPREAD * _share(candidate)))


def _share(candidate: RetryableURL) -> float:
    """A number in [0, 1) that depends on the URL, its token and its attempts alone."""
    words = f"{candidate.address} {candidate.url} {candidate.attempts}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=4).digest(), "big") / _SHARES
