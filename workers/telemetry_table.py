"""What is counted, as data: names, meanings, labels, and every value that a label may have. Pure.

The invariant: labels have values from closed sets, never a URL, a host, a token or a job, so the number of
series is fixed when the program is written. A value that is not in its set is counted as `other`. The words
of the contexts stand here once more, because what counts lies below them; a test keeps both alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workers.source_limits import SOURCES

OTHER = "other"
# Their calls cost money where the policy of the call says so; to look how a run is getting on does not.
PAID_SOURCES = frozenset({"apify", "twitterapiio", "x_api"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """One label with its values; `other` is always one of them."""

    name: str
    values: frozenset[str]

    def closest(self, value: str) -> str:
        """The value itself where it is one of the set, else `other`."""
        return value if value in self.values else OTHER


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CounterSpec:
    """A number that only grows; shown as `{name}_total`. Hourly ones are also kept by the hour."""

    name: str
    meaning: str
    labels: tuple[Label, ...]
    is_hourly: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HistogramSpec:
    """How long something took, in seconds. `bounds_s` are the upper, closed ends of its buckets."""

    name: str
    meaning: str
    labels: tuple[Label, ...]
    bounds_s: tuple[float, ...]


def _label(name: str, *values: str) -> Label:
    return Label(name=name, values=frozenset({*values, OTHER}))


SOURCE = _label("source", *SOURCES)
CALL_OUTCOME = _label(
    "outcome",
    *("ok", "redirect", "not_found", "blocked", "rate_limited", "payment_required", "client_error"),
    *("server_error", "timeout", "connection_failed", "dns_failed", "tls_failed", "bad_answer"),
    *("unsafe_address", "misconfigured"),
)
PAID = Label(name="paid", values=frozenset({"yes", "no", OTHER}))
REFUSAL = _label("reason", "rate_limited", "lock_unavailable", "out_of_time")
LEASE_FAMILY = _label(
    "family",
    *("social-record", "social-url", "job-alive", "process", "funding"),
    *(
        "social-reconcile:reconcile",
        "social-reconcile:retry",
        "solana-backfill:campaign",
        "funding-reconcile",
    ),
)
LEASE_OUTCOME = _label("outcome", "taken", "busy", "unavailable")
JOB_KIND = _label("kind", "social.reconcile", "social.retry", "solana.backfill", "funding.reconcile")
JOB_END = _label("state", "succeeded", "failed", "cancelled")
AXIS = _label("axis", "recorded", "retried")
PLATFORM = _label("platform", "x", "tt", "ig", "yt", "rd", "gh", "tg", "web")
URL_STATUS = _label(
    "status",
    *("ok", "not_found", "blocked", "invalid", "exhausted", "error", "unsupported", "skipped_paid"),
)
TOKEN_OUTCOME = _label("outcome", "recorded", "alreadySeen", "unresolved", "failed", "lockedOut", "lost")
BACKFILL_OUTCOME = _label("outcome", "persisted", "alreadyPresent", "missing", "failed", "cancelled")
FUNDING_OUTCOME = _label(
    "outcome", "synced", "fixed", "wouldFix", "failed", "ignored", "cancelled", "lockedOut", "lost"
)

CALLS = CounterSpec(
    name="converge_outbound_calls",
    meaning="Calls on the wire, by source, what came back, and whether the call costs money",
    labels=(SOURCE, CALL_OUTCOME, PAID),
    is_hourly=True,
)
CALL_SECONDS = CounterSpec(
    name="converge_outbound_call_seconds",
    meaning="Time that calls on the wire took, body included, in seconds",
    labels=(SOURCE,),
)
PERMIT_WAITS = CounterSpec(
    name="converge_permit_waits",
    meaning="Calls that had to wait for a permit of the limits of their source",
    labels=(SOURCE,),
)
PERMIT_WAIT_SECONDS = CounterSpec(
    name="converge_permit_wait_seconds",
    meaning="Time that calls waited for a permit, in seconds",
    labels=(SOURCE,),
)
PERMIT_REFUSALS = CounterSpec(
    name="converge_permit_refusals",
    meaning="Calls that were not made, because they got no permit",
    labels=(SOURCE, REFUSAL),
)
URLS = CounterSpec(
    name="converge_url_outcomes",
    meaning="What came of URLs, when their token was recorded and when they were retried",
    labels=(AXIS, PLATFORM, URL_STATUS),
)
TOKENS = CounterSpec(
    name="converge_token_outcomes",
    meaning="What came of tokens that were to be recorded",
    labels=(TOKEN_OUTCOME,),
)
LEASES = CounterSpec(
    name="converge_lease_acquisitions",
    meaning="Tries to take a lease, by what the lease is for",
    labels=(LEASE_FAMILY, LEASE_OUTCOME),
)
LEASE_WAITS = CounterSpec(
    name="converge_lease_waits",
    meaning="Tries to take a lease that was not free at once and could be waited for",
    labels=(LEASE_FAMILY,),
)
LEASE_WAIT_SECONDS = CounterSpec(
    name="converge_lease_wait_seconds",
    meaning="Time that was waited for leases, in seconds",
    labels=(LEASE_FAMILY,),
)
JOBS_ENDED = CounterSpec(
    name="converge_jobs_ended",
    meaning="Jobs that have ended, by the state that they noted",
    labels=(JOB_KIND, JOB_END),
)
BACKFILL_SIGNATURES = CounterSpec(
    name="converge_backfill_signatures",
    meaning="What came of the signatures that backfill jobs selected",
    labels=(BACKFILL_OUTCOME,),
)
FUNDING_PROPERTIES = CounterSpec(
    name="converge_funding_properties",
    meaning="What came of the properties that reconciliations of counters looked at",
    labels=(FUNDING_OUTCOME,),
)
JOB_SECONDS = HistogramSpec(
    name="converge_job_duration_seconds",
    meaning="Time from the start of a job to its end, in seconds",
    labels=(JOB_KIND,),
    bounds_s=(0.5, 1, 2.5, 5, 10, 20, 45, 90, 180, 600, 1800, 3600),
)

COUNTERS = (
    CALLS,
    CALL_SECONDS,
    PERMIT_WAITS,
    PERMIT_WAIT_SECONDS,
    PERMIT_REFUSALS,
    URLS,
    TOKENS,
    LEASES,
    LEASE_WAITS,
    LEASE_WAIT_SECONDS,
    JOBS_ENDED,
    BACKFILL_SIGNATURES,
    FUNDING_PROPERTIES,
)
HISTOGRAMS = (JOB_SECONDS,)
# Jobs that count their targets themselves: the numbers of their meta that are counted here.
META_COUNTS: Mapping[str, CounterSpec] = MappingProxyType(
    {"solana.backfill": BACKFILL_SIGNATURES, "funding.reconcile": FUNDING_PROPERTIES}
)


def lease_family(name: str) -> str:
    """What a lease is for: its whole name where there is one such lease, else the part before the colon."""
    family = LEASE_FAMILY.closest(name)
    return LEASE_FAMILY.closest(name.partition(":")[0]) if family == OTHER else family
