"""What every platform's generator offers to the recording of a URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workers.clock import Budget
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.routing.route import Route


class CallCounter:
    """Remembers whether a generator has asked the outside world, even when it raised afterwards."""

    def __init__(self) -> None:
        self.calls = 0

    def add(self) -> None:
        """Note one call, right before it is made."""
        self.calls += 1


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchContext:
    """What a generator gets beside the route.

    `token_name` is the token's symbol, for platforms that compare names. `calls` is told before each
    outside call. `is_paid_enabled` lets a source that costs nothing turn to one that does for what it lacks.
    """

    budget: Budget
    calls: CallCounter
    token_name: str | None = None
    is_paid_enabled: bool = False


class Generator(Protocol):
    """One platform: asks its source about a route and turns the answer into a graph."""

    source: str
    is_paid: bool

    def supports(self, route: Route) -> bool:
        """Whether this generator has a usable source for `route`."""

    def generate(self, route: Route, context: FetchContext) -> SocialObjectGraph:
        """Ask the source.

        Raises `TargetGone`, `TargetBlocked`, `FetchFailed`, `CreditExhausted` or `BudgetExceeded`.
        """
