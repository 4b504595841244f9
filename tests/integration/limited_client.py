"""A client with limits, and permits taken by hand."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from redis import Redis

from tests.conftest import make_settings
from tests.integration.http_site import Site
from tests.integration.permit_takers import SOURCE, URL
from workers.clock import Budget, Clock
from workers.errors import FetchFailed
from workers.http.client import OutboundClient
from workers.http.limiter import KEY_PREFIX, SourceLimiter
from workers.http.messages import Destination, Request, Response
from workers.http.retry import PAID
from workers.source_limits import Rate, SourceLimit

FIVE_IN_200_MS = SourceLimit(rates=(Rate(calls=5, window_ms=200),))
ONE_AN_HOUR = SourceLimit(rates=(Rate(calls=1, window_ms=3_600_000),))
TWO_AT_ONCE = SourceLimit(open_max=2)
ONE_AT_ONCE = SourceLimit(open_max=1)
PLENTY = SourceLimit(rates=(Rate(calls=1000, window_ms=1000),), open_max=100)


def client_for(site: Site, limiter: SourceLimiter | None, **changes: Any) -> OutboundClient:
    settings = make_settings(
        github_base_url=site.url,
        **{
            "http_connect_timeout_ms": 1000,
            "http_read_timeout_ms": 1000,
            "http_total_timeout_ms": 2000,
            **changes,
        },
    )
    return OutboundClient(settings, Clock(), limiter=limiter)


def ask(
    client: OutboundClient, url: str, *, budget_s: float = 30, calls: list[int] | None = None, **changes: Any
) -> Response:
    counted = [] if calls is None else calls
    facts: dict[str, Any] = {"source": SOURCE, "destination": Destination.SERVICE, "retry": PAID, **changes}
    return client.fetch(Request(url=url, **facts), Budget.of(Clock(), budget_s), lambda: counted.append(1))


def take(
    limiter: SourceLimiter, *, source: str = SOURCE, url: str = URL, budget: Budget | None = None, **how: Any
) -> contextlib.AbstractContextManager[None]:
    """A permit at once or not at all, unless the test says otherwise."""
    return limiter.permit(
        source, url, budget or Budget.of(Clock(), 30), **{"open_s": 5, "wait_max_s": 0.0, **how}
    )


def refusal(limiter: SourceLimiter, **how: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught, take(limiter, **how):
        pass
    return caught.value


def use_up(limiter: SourceLimiter, **how: Any) -> int:
    """How many permits there are at once."""
    taken = 0
    with contextlib.suppress(FetchFailed):
        while taken < 10_000:
            with take(limiter, **how):
                taken += 1
    return taken


def is_free(redis: Redis) -> bool:
    """Whether nobody is among the open calls of any source."""
    return not any(redis.zcard(key) for key in redis.scan_iter(f"{KEY_PREFIX}*:open"))
