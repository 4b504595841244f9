"""Recording one token and collecting one URL: what the tasks, the retry and the stream share.

A token is atomic: once begun it is finished, and its document is written last, because the document is the
mark that the token has been seen. Whatever fails before that leaves no mark and is the next run's input.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from workers.clock import Budget, Clock
from workers.errors import BudgetExceeded, Busy, FetchFailed, LeaseLost
from workers.leases import Lease, LeaseStore
from workers.social_graph.store_errors import DuplicateKey
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.vocabulary import ContentSubtype, FetchStatus, Platform
from workers.social_recording.fetch_status import FetchOutcome, resolve_final_status, status_of_error
from workers.social_recording.generators.generator import CallCounter, FetchContext, Generator
from workers.social_recording.generators.registry import Generators
from workers.social_recording.graph_writer import GraphWriter, LinkContext, StoredObjects
from workers.social_recording.object_graph import ContentDraft, ObjectGroup, SocialObjectGraph
from workers.social_recording.routing import Rejection, Route, leads_inside, links_in, route
from workers.social_recording.tracker import TokenInfo, TrackerClient

log = logging.getLogger(__name__)

URL_LEASE_TTL_MS = 30_000
# The fields in which a bare `@name` is meant as a handle of that platform.
HANDLE_SLOTS = {"twitter": Platform.X, "telegram": Platform.TELEGRAM, "tiktok": Platform.TIKTOK}


class TokenOutcome(StrEnum):
    """What came of one token."""

    RECORDED = "recorded"
    ALREADY_SEEN = "alreadySeen"
    UNRESOLVED = "unresolved"
    FAILED = "failed"
    LOCKED_OUT = "lockedOut"
    LOST = "lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenReport:
    """One token's outcome; `urls` lists `{url, status, reason}`, `dropped` field values that are no link."""

    outcome: TokenOutcome
    reason: str | None = None
    urls: list[dict[str, object]] = field(default_factory=list)
    dropped: list[dict[str, object]] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """The form that travels to the job."""
        report: dict[str, object] = {"outcome": self.outcome.value}
        if self.reason is not None:
            report["reason"] = self.reason
        if self.urls:
            report["urls"] = self.urls
        if self.dropped:
            report["dropped"] = self.dropped
        return report


@dataclass(frozen=True, kw_only=True, slots=True)
class URLOrder:
    """One URL of one token, and what is known of the token.

    `pending_links` takes the links of a token that has none yet; see `LinkContext`.
    """

    token_address: str
    token_name: str | None
    first_transfer_at: datetime | None
    url: str
    pending_links: list[TokenLink] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingLimits:
    """How long a target may take, how long leases live and are waited for, how many attempts a URL has."""

    budget_s: float
    token_lease_ttl_ms: int
    url_lease_wait_s: float
    max_attempts: int
    is_paid_enabled: bool


def token_lease(address: str) -> str:
    """Name of the lease that everybody who writes to a token holds."""
    return f"social-record:{address}"


def url_lease(url: str) -> str:
    """Name of the lease under which a URL is fetched, so that tokens sharing it pay once."""
    return f"social-url:{hashlib.sha256(url.encode()).hexdigest()}"


class URLCollector:
    """Collects one URL: finds it stored, or asks its platform and writes the graph."""

    def __init__(
        self,
        *,
        leases: LeaseStore,
        generators: Generators,
        stored: StoredObjects,
        writer: GraphWriter,
        clock: Clock,
        limits: RecordingLimits,
    ) -> None:
        self._leases = leases
        self._generators = generators
        self._stored = stored
        self._writer = writer
        self._clock = clock
        self._limits = limits

    def obstacle_to(self, url: str) -> FetchStatus | None:
        """`unsupported` or `skipped_paid` when the URL cannot be processed now, at no cost; else None."""
        if leads_inside(url):
            return None
        way = route(url)
        if way.needs_no_call or self._generator_for(way) is not None:
            return None
        if not self._limits.is_paid_enabled and self._generators.costs_money(way):
            return FetchStatus.SKIPPED_PAID
        return FetchStatus.UNSUPPORTED

    def collect(self, order: URLOrder, lease: Lease, budget: Budget) -> FetchOutcome:
        """Bring one URL as far as it gets now. Raises `LeaseLost` when the token is no longer ours."""
        if leads_inside(order.url):
            return FetchOutcome(status=FetchStatus.BLOCKED, attempted=False, reason="unsafe_address")
        impossible = self.obstacle_to(order.url)
        if impossible is not None:
            return FetchOutcome(status=impossible, attempted=False, reason=None)
        calls = CallCounter()
        try:
            with self._leases.hold(
                url_lease(order.url), ttl_ms=URL_LEASE_TTL_MS, wait_s=self._limits.url_lease_wait_s
            ):
                self._collect_alone(
                    order, lease, FetchContext(budget=budget, calls=calls, token_name=order.token_name)
                )
        except LeaseLost:
            raise
        except Busy:
            return FetchOutcome(status=FetchStatus.ERROR, attempted=False, reason="url_locked")
        except Exception as exc:  # noqa: BLE001 - the per-URL guard: one URL never ends its token
            return self._failed(order, exc, attempted=calls.calls > 0)
        return FetchOutcome(status=FetchStatus.OK, attempted=calls.calls > 0)

    def _collect_alone(self, order: URLOrder, lease: Lease, context: FetchContext) -> None:
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
        if stored is not None:
            self._writer.link_stored(stored, link_context)
            return
        generator = self._generator_for(way)
        if way.needs_no_call or generator is None:
            graph = graph_of_route(way, self._clock.now())
        else:
            graph = generator.generate(way, context)
        self._writer.write(graph, link_context, known_absent=True)

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


class TokenRecorder:
    """Records one token with all its links."""

    def __init__(
        self,
        *,
        leases: LeaseStore,
        tracker: TrackerClient,
        tokens: TokenRepository,
        links: TokenLinkRepository,
        collector: URLCollector,
        clock: Clock,
        limits: RecordingLimits,
    ) -> None:
        self._leases = leases
        self._tracker = tracker
        self._tokens = tokens
        self._links = links
        self._collector = collector
        self._clock = clock
        self._limits = limits

    def record(self, address: str) -> TokenReport:
        """Record the token unless it is known. A failure is reported and leaves no document."""
        budget = Budget.of(self._clock, self._limits.budget_s)
        try:
            with self._leases.hold(token_lease(address), ttl_ms=self._limits.token_lease_ttl_ms) as lease:
                return self._record_alone(address, lease, budget)
        except Busy:
            return TokenReport(outcome=TokenOutcome.LOCKED_OUT)
        except Exception as exc:
            log.warning("a token was not recorded", extra={"token": address}, exc_info=exc)
            return TokenReport(outcome=TokenOutcome.FAILED, reason=reason_of(exc))

    def _record_alone(self, address: str, lease: Lease, budget: Budget) -> TokenReport:
        if self._tokens.exists(address):
            return TokenReport(outcome=TokenOutcome.ALREADY_SEEN)
        info = self._tracker.token_by_address(address, budget)
        if info is None:
            return TokenReport(outcome=TokenOutcome.UNRESOLVED)
        links, dropped = links_of(info)
        # Only a token whose recording was cut off before has links and no document.
        pending_links: list[TokenLink] | None = None if self._links.has_any(address) else []
        elements = [
            self._collect(
                URLOrder(
                    token_address=info.address,
                    token_name=info.symbol,
                    first_transfer_at=info.first_transfer_at,
                    url=url,
                    pending_links=pending_links,
                ),
                lease,
                budget,
            )
            for url in links
        ]
        token = Token.of(
            address=address,
            symbol=info.symbol,
            first_transfer_at=info.first_transfer_at,
            social_urls=elements,
            created_at=self._clock.now(),
        )
        lease.check()
        try:
            self._tokens.insert(token, after=self._links.insertions(pending_links or ()))
        except DuplicateKey:
            # Only after a loss of Redis data can two workers have held the lease: the other one's stands.
            return TokenReport(outcome=TokenOutcome.ALREADY_SEEN)
        return TokenReport(
            outcome=TokenOutcome.RECORDED,
            urls=[{"url": e.url, "status": e.status.value, "reason": e.reason} for e in elements],
            dropped=dropped,
        )

    def _collect(self, order: URLOrder, lease: Lease, budget: Budget) -> TokenSocialURL:
        started_at = self._clock.now()
        outcome = self._collector.collect(order, lease, budget)
        status = resolve_final_status(
            0, outcome.status, attempted=outcome.attempted, max_attempts=self._limits.max_attempts
        )
        return TokenSocialURL(
            url=order.url,
            status=status,
            reason=outcome.reason,
            attempted_at=started_at if outcome.attempted else None,
            attempts=1 if outcome.attempted else 0,
        )


def reason_of(error: Exception) -> str:
    """A short code for the job's result; the log has the whole story."""
    cause = error.__cause__
    if isinstance(error, BudgetExceeded) or (isinstance(cause, FetchFailed) and cause.reason == "timeout"):
        return "timeout"
    return type(error).__name__


def links_of(info: TokenInfo) -> tuple[list[str], list[dict[str, object]]]:
    """The canonical links of the token's four fields, each once, and the values that are none."""
    links: dict[str, None] = {}
    dropped: list[dict[str, object]] = []
    for slot, text in info.url_slots().items():
        for found in links_in(text, handles_of=HANDLE_SLOTS.get(slot)):
            if found.url is not None:
                links[found.url] = None
            elif found.reason is not Rejection.EMPTY:
                dropped.append({"slot": slot, "text": found.text, "reason": str(found.reason)})
    return list(links), dropped


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
