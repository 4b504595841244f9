"""Recording one token with all its links: what the tasks and the stream share.

A token is atomic: once begun it is finished, and its document is written last, because the document is the
mark that the token has been seen. Whatever fails before that leaves no mark and is the next run's input.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from workers.clock import Budget, Clock
from workers.errors import BudgetExceeded, Busy, FetchFailed
from workers.jobs.fan_out import LeaseWish
from workers.leases import Lease, LeaseStore
from workers.logs import about
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL, TokenWeb
from workers.social_graph.token_link import TokenLink, TokenLinkRepository
from workers.social_graph.vocabulary import ContentSubtype, Platform
from workers.social_recording.fetch_status import resolve_final_status
from workers.social_recording.routing import Rejection, leads_inside, links_in, registrable_domain, route
from workers.social_recording.tracker import TokenInfo, TrackerClient
from workers.social_recording.url_collection import RecordingLimits, URLCollector, URLOrder
from workers.store_errors import DuplicateKey
from workers.telemetry import Meter
from workers.telemetry_table import TOKENS, URLS

log = logging.getLogger(__name__)

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


def token_lease(address: str) -> str:
    """Name of the lease that everybody who writes to a token holds."""
    return f"social-record:{address}"


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
        meter: Meter | None = None,
    ) -> None:
        self._meter = meter or Meter(clock)
        self._leases = leases
        self._tracker = tracker
        self._tokens = tokens
        self._links = links
        self._collector = collector
        self._clock = clock
        self._limits = limits

    def lease_of(self, address: str) -> LeaseWish:
        """The lease that recording the token begins with."""
        return LeaseWish(name=token_lease(address), ttl_ms=self._limits.token_lease_ttl_ms)

    def record(self, address: str, job_id: str | None = None) -> TokenReport:
        """Record the token unless it is known. A failure is reported and leaves no document.

        `job_id` is the job that asks, if one does.
        """
        with about(job=job_id, token=address):
            report = self._record_guarded(address, job_id)
        self._meter.count(TOKENS, report.outcome)
        for row in report.urls:
            self._meter.count(URLS, "recorded", route(str(row["url"])).platform, str(row["status"]))
        return report

    def _record_guarded(self, address: str, job_id: str | None) -> TokenReport:
        budget = Budget.of(self._clock, self._limits.budget_s)
        wish = self.lease_of(address)
        try:
            with self._leases.hold(wish.name, ttl_ms=wish.ttl_ms, is_released_behind=True) as lease:
                return self._record_alone(address, job_id, lease, budget)
        except Busy:
            return TokenReport(outcome=TokenOutcome.LOCKED_OUT)
        except Exception as exc:
            log.warning("a token was not recorded", extra={"token": address}, exc_info=exc)
            return TokenReport(outcome=TokenOutcome.FAILED, reason=reason_of(exc))

    def _record_alone(self, address: str, job_id: str | None, lease: Lease, budget: Budget) -> TokenReport:
        if self._tokens.exists(address):
            return TokenReport(outcome=TokenOutcome.ALREADY_SEEN)
        info = self._tracker.token_by_address(address, budget)
        if info is None:
            return TokenReport(outcome=TokenOutcome.UNRESOLVED)
        links, dropped = links_of(info)
        # Only a token whose recording was cut off before has links and no document.
        pending_links: list[TokenLink] | None = None if self._links.has_any(address) else []
        outcomes = [
            self._collect(
                URLOrder(
                    token_address=info.address,
                    token_name=info.symbol,
                    first_transfer_at=info.first_transfer_at,
                    url=url,
                    pending_links=pending_links,
                    job_id=job_id,
                ),
                lease,
                budget,
            )
            for url in links
        ]
        elements = [element for element, _ in outcomes]
        domains = domains_of(links)
        token = Token.of(
            address=address,
            symbol=info.symbol,
            first_transfer_at=info.first_transfer_at,
            social_urls=elements,
            fingerprints=[f"domain:{domain}" for domain in domains],
            web=next((web for _, web in outcomes if web is not None), None)
            or (TokenWeb(domain=domains[0]) if domains else None),
            created_at=self._clock.now(),
        )
        lease.check()
        self._links.append_many(pending_links or ())
        lease.check()
        try:
            self._tokens.insert(token)
        except DuplicateKey:
            # Only after a loss of Redis data can two workers have held the lease: the other one's stands, and
            # so do its links.
            self._links.delete(pending_links or ())
            return TokenReport(outcome=TokenOutcome.ALREADY_SEEN)
        return TokenReport(
            outcome=TokenOutcome.RECORDED,
            urls=[{"url": e.url, "status": e.status.value, "reason": e.reason} for e in elements],
            dropped=dropped,
        )

    def _collect(
        self, order: URLOrder, lease: Lease, budget: Budget
    ) -> tuple[TokenSocialURL, TokenWeb | None]:
        started_at = self._clock.now()
        outcome = self._collector.collect(order, lease, budget)
        status = resolve_final_status(
            0, outcome.status, attempted=outcome.attempted, max_attempts=self._limits.max_attempts
        )
        element = TokenSocialURL(
            url=order.url,
            status=status,
            reason=outcome.reason,
            attempted_at=started_at if outcome.attempted else None,
            attempts=1 if outcome.attempted else 0,
        )
        return element, outcome.web


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


def domains_of(urls: Iterable[str]) -> list[str]:
    """The registrable domains of the web sites among the URLs, each once, in order."""
    ways = (route(url) for url in urls if not leads_inside(url))
    sites = (way for way in ways if way.platform is Platform.WEB and way.subtype is ContentSubtype.SITE)
    found = (registrable_domain(urlsplit(way.url).hostname or "") for way in sites)
    return list(dict.fromkeys(domain for domain in found if domain))
