"""Collecting one URL: what the recording of a token, the retry and the stream share."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from datetime import datetime

from workers.clock import Budget, Clock
from workers.errors import Busy, CreditExhausted, LeaseLost
from workers.leases import Lease, LeaseStore
from workers.logs import about
from workers.social_graph.account import Account
from workers.social_graph.content import Content
from workers.social_graph.token import TokenWeb
from workers.social_graph.token_link import TokenLink
from workers.social_graph.vocabulary import ContentSubtype, FetchStatus, Platform
from workers.social_recording.credit import CreditFlags
from workers.social_recording.detours import Detours, is_detour
from workers.social_recording.fetch_status import (
    EarlierTry,
    FetchOutcome,
    confirm_absence,
    status_of_error,
)
from workers.social_recording.generators.generator import CallCounter, FetchContext, Generator
from workers.social_recording.generators.registry import Generators, is_metered
from workers.social_recording.graph_writer import GraphWriter, LinkContext, StoredObjects
from workers.social_recording.object_graph import ContentDraft, ObjectGroup, SocialObjectGraph
from workers.social_recording.observed_rows import StoredObject
from workers.social_recording.routing import Route, leads_inside, route

log = logging.getLogger(__name__)

URL_LEASE_TTL_MS = 30_000
# They wait for a source, so nothing that was done counts as an attempt.
WAITING = frozenset({FetchStatus.UNSUPPORTED, FetchStatus.SKIPPED_PAID})


@dataclass(frozen=True, kw_only=True, slots=True)
class URLOrder:
    """One URL of one token, and what is known of the token.

    `pending_links` takes the links of a token that has none yet; see `LinkContext`. `earlier` is how the last
    try of the URL ended, `job_id` the job that asks, if one does.
    """

    token_address: str
    token_name: str | None
    first_transfer_at: datetime | None
    url: str
    pending_links: list[TokenLink] | None = None
    earlier: EarlierTry | None = None
    job_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingLimits:
    """How long a target may take, how long leases live and are waited for, how many attempts a URL has."""

    budget_s: float
    token_lease_ttl_ms: int
    url_lease_wait_s: float
    max_attempts: int
    is_paid_enabled: bool


def url_lease(url: str) -> str:
    """Name of the lease under which a URL is fetched, so that tokens sharing it pay once."""
    return f"social-url:{hashlib.sha256(url.encode()).hexdigest()}"


def obstacle_to(url: str, generators: Generators, *, is_paid_enabled: bool) -> FetchStatus | None:
    """`unsupported` or `skipped_paid` when nobody can be asked about the URL now; else None. Asks nobody."""
    if leads_inside(url):
        return None
    way = route(url)
    if (
        way.needs_no_call
        or is_detour(way)
        or generators.for_route(way, is_paid_enabled=is_paid_enabled) is not None
    ):
        return None
    if not is_paid_enabled and generators.costs_money(way):
        return FetchStatus.SKIPPED_PAID
    return FetchStatus.UNSUPPORTED


class URLCollector:
    """Collects one URL: finds it stored, or asks its platform and writes the graph."""

    def __init__(
        self,
        *,
        leases: LeaseStore,
        generators: Generators,
        detours: Detours,
        stored: StoredObjects,
        writer: GraphWriter,
        credit: CreditFlags,
        clock: Clock,
        limits: RecordingLimits,
    ) -> None:
        self._leases = leases
        self._generators = generators
        self._detours = detours
        self._stored = stored
        self._writer = writer
        self._credit = credit
        self._clock = clock
        self._limits = limits

    def obstacle_to(self, url: str) -> FetchStatus | None:
        """`unsupported` or `skipped_paid` when the URL cannot be processed now, at no cost; else None."""
        way = route(url)
        if is_detour(way) and (target := self._detours.remembered(way)) is not None:
            url = target.url
        return obstacle_to(url, self._generators, is_paid_enabled=self._limits.is_paid_enabled)

    def collect(self, order: URLOrder, lease: Lease, budget: Budget) -> FetchOutcome:
        """Bring one URL as far as it gets now. Raises `LeaseLost` when the token is no longer ours."""
        with about(url=order.url, platform=route(order.url).platform.value):
            return self._collect_guarded(order, lease, budget)

    def _collect_guarded(self, order: URLOrder, lease: Lease, budget: Budget) -> FetchOutcome:
        if leads_inside(order.url):
            return FetchOutcome(status=FetchStatus.BLOCKED, attempted=False, reason="unsafe_address")
        impossible = self.obstacle_to(order.url)
        if impossible is not None:
            return FetchOutcome(status=impossible, attempted=False, reason=None)
        calls = CallCounter()
        try:
            with self._leases.hold(
                url_lease(order.url),
                ttl_ms=URL_LEASE_TTL_MS,
                wait_s=self._limits.url_lease_wait_s,
                is_released_behind=True,
            ):
                context = FetchContext(
                    budget=budget,
                    calls=calls,
                    token_name=order.token_name,
                    is_paid_enabled=self._limits.is_paid_enabled,
                )
                found = self._collect_alone(order, lease, context)
        except LeaseLost:
            raise
        except Busy:
            return FetchOutcome(status=FetchStatus.ERROR, attempted=False, reason="url_locked")
        except Exception as exc:  # noqa: BLE001 - the per-URL guard: one URL never ends its token
            outcome = self._failed(order, exc, attempted=calls.calls > 0)
            return confirm_absence(outcome, order.earlier, self._clock.now())
        # To have asked where a short link leads is no attempt at a place that nobody can be asked about.
        is_attempt = calls.calls > 0 and found.status not in WAITING
        return replace(found, attempted=is_attempt)

    def _collect_alone(self, order: URLOrder, lease: Lease, context: FetchContext) -> FetchOutcome:
        way = route(order.url)
        link_context = LinkContext(
            token_address=order.token_address,
            entry_url=order.url,
            token_name=order.token_name,
            first_transfer_at=order.first_transfer_at,
            linked_at=self._clock.now(),
            lease=lease,
            pending_links=order.pending_links,
        )
        stored = self._stored.find(way)
        if stored is None and is_detour(way):
            way = self._detours.target_of(way, context)
            stored = self._stored.find(way)
        if stored is not None:
            self._writer.link_stored(stored, link_context)
            return outcome_of_stored(stored)
        obstacle = self.obstacle_to(way.url)
        if obstacle is not None:
            return FetchOutcome(status=obstacle, attempted=False)
        generator = self._generator_for(way)
        if way.needs_no_call or generator is None:
            graph = graph_of_route(way, self._clock.now())
        elif self._is_out_of_credit(generator, order):
            return FetchOutcome(status=FetchStatus.SKIPPED_PAID, attempted=False, reason="credit_exhausted")
        else:
            graph = self._ask(generator, way, order, context)
        self._writer.write(graph, link_context, known_absent=True)
        return outcome_of_graph(graph)

    def _is_out_of_credit(self, generator: Generator, order: URLOrder) -> bool:
        return is_metered(generator) and self._credit.is_out(order.job_id, generator.source)

    def _ask(
        self, generator: Generator, way: Route, order: URLOrder, context: FetchContext
    ) -> SocialObjectGraph:
        try:
            return generator.generate(way, context)
        except CreditExhausted as exc:
            # Not always the generator's own source: a free one may have turned to one that costs money.
            self._credit.mark(order.job_id, exc.source)
            raise

    def _generator_for(self, way: Route) -> Generator | None:
        return self._generators.for_route(way, is_paid_enabled=self._limits.is_paid_enabled)

    def _failed(self, order: URLOrder, exc: Exception, *, attempted: bool) -> FetchOutcome:
        status, reason = status_of_error(exc)
        facts = {"token": order.token_address, "url": order.url, "status": status.value, "reason": reason}
        if reason == "internal":
            log.exception("a URL failed in our own code", extra=facts)
        else:
            log.info("a URL was not collected", extra={**facts, "detail": str(exc)})
        return FetchOutcome(status=status, attempted=attempted, reason=reason)


def outcome_of_graph(graph: SocialObjectGraph) -> FetchOutcome:
    """What a graph that was written says of its URL."""
    if graph.blocked_reason is not None:
        return FetchOutcome(status=FetchStatus.BLOCKED, attempted=True, reason=graph.blocked_reason)
    content = graph.groups[0].content
    web = None if content is None else web_of_site(content, graph.observed_at)
    return FetchOutcome(status=FetchStatus.OK, attempted=True, web=web)


def outcome_of_stored(stored: StoredObject) -> FetchOutcome:
    """What an object that was stored before says of a URL that leads to it."""
    if isinstance(stored, Account) and stored.unavailable:
        return FetchOutcome(status=FetchStatus.BLOCKED, attempted=False, reason="account_unavailable")
    web = web_of_site(stored, stored.observed_at) if isinstance(stored, Content) else None
    return FetchOutcome(status=FetchStatus.OK, attempted=False, web=web)


def web_of_site(content: Content | ContentDraft, seen_at: datetime) -> TokenWeb | None:
    """What a site's content says of its domain; None for any other content."""
    domain = content.data.get("domain")
    if content.platform is not Platform.WEB or not isinstance(domain, str):
        return None
    return TokenWeb(domain=domain, domain_created_at=content.published_at, scan_time=seen_at)


def graph_of_route(way: Route, observed_at: datetime) -> SocialObjectGraph:
    """The graph of a URL that says everything itself: a search, an intent, an unknown place."""
    content = ContentDraft(
        platform=way.platform,
        subtype=ContentSubtype(way.subtype or ContentSubtype.UNKNOWN),
        url=way.url,
        platform_key=way.key,
        text_primary=way.key if way.subtype is ContentSubtype.SEARCH else None,
    )
    return SocialObjectGraph(groups=(ObjectGroup(content=content),), observed_at=observed_at)
