"""What an operator sees at a glance: how many URLs are where and why, and when which of them is tried again.

Only reads. What has to look at every token is looked at in a thread of its own, at most twice a minute in one
process and only while somebody asks.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

import pymongo
from bson import ObjectId
from bson.errors import InvalidId

from workers.clock import Clock, from_iso, to_iso
from workers.errors import InvalidInput
from workers.latest_look import LatestLook, Seen
from workers.mongo import MongoDatabase
from workers.social_graph.token import RetryableURL, Token, TokenSocialURL
from workers.social_graph.token.survey import HostChoice, URLCount, URLFilter, URLPage, URLPlace, URLSurvey
from workers.social_graph.vocabulary import RETRYABLE_STATUSES, FetchStatus, ObjectKind, Platform
from workers.social_recording.due import RetryInterval
from workers.social_recording.explain import Rule, decide
from workers.social_recording.graph_writer import StoredObjects
from workers.social_recording.routing import normalize, route
from workers.social_recording.routing.hosts import SITES

COUNTS_GOOD_FOR_S = 30.0
FORECAST_GOOD_FOR_S = 60.0
# How long a store may take for a look at everything; nobody waits for it.
LOOK_TIMEOUT_S = 180.0
# Counting keeps a store busy for a sixth of the time at most.
REST = 5.0
# So many URLs are routed for a forecast; routing this many takes a second or two of a processor.
FORECAST_URLS_MAX = 20_000

PLACE_PARTED_BY = "~"

HOSTS: Mapping[Platform, frozenset[str]] = {
    platform: frozenset(site.host for site in SITES if site.platform is platform)
    for platform in Platform
    if platform is not Platform.WEB
}
_PLATFORM_BY_HOST = {host: platform for platform, hosts in HOSTS.items() for host in hosts}
_ALL_HOSTS = tuple(sorted(_PLATFORM_BY_HOST))

T = TypeVar("T")


def hosts_of(platform: Platform) -> HostChoice:
    """The hosts that stand in canonical URLs of the platform; for the web, those of no other platform."""
    if platform is Platform.WEB:
        return HostChoice(hosts=frozenset(_ALL_HOSTS), is_inverted=True)
    return HostChoice(hosts=HOSTS[platform])


@dataclass(frozen=True, kw_only=True, slots=True)
class URLCounts:
    """How many URLs there are, by platform, status and reason."""

    groups: tuple[tuple[Platform, FetchStatus, str | None, int], ...]

    @classmethod
    def of(cls, counts: Iterable[URLCount]) -> URLCounts:
        """Sum up what was counted by host."""
        sums = Counter[tuple[Platform, FetchStatus, str | None]]()
        for each in counts:
            host, status, reason = each.group
            sums[Platform.WEB if host is None else _PLATFORM_BY_HOST[host], status, reason] += each.urls
        return cls(groups=tuple((*key, urls) for key, urls in sums.items()))

    def number(self, platform: Platform | None = None, *statuses: FetchStatus) -> int:
        """How many URLs of this platform (None: any) are in one of these statuses (none named: any)."""
        return sum(
            urls
            for its_platform, status, _, urls in self.groups
            if platform in (None, its_platform) and (not statuses or status in statuses)
        )

    def reasons(self, *statuses: FetchStatus) -> list[tuple[FetchStatus, str, Platform, int]]:
        """The reasons in these statuses by platform, the most frequent first."""
        found = [
            (status, reason, platform, urls)
            for platform, status, reason, urls in self.groups
            if status in statuses and reason is not None
        ]
        return sorted(found, key=lambda row: (-row[3], row[0], row[1], row[2]))


class DueIn(StrEnum):
    """When a URL that has not converged may be tried again."""

    NOW = "now"
    HOUR = "hour"
    SIX_HOURS = "six_hours"
    DAY = "day"
    LATER = "later"
    NEVER = "never"


_ENDS = (
    (DueIn.HOUR, timedelta(hours=1)),
    (DueIn.SIX_HOURS, timedelta(hours=6)),
    (DueIn.DAY, timedelta(hours=24)),
)


@dataclass(kw_only=True)
class Forecast:
    """How many URLs are due when. `NEVER` is for those that nobody can be asked about as things are.

    With `is_cut_short` there are more, which were not looked at.
    """

    urls: Counter[DueIn] = field(default_factory=Counter)
    looked_at: int = 0
    is_cut_short: bool = False


def _token_place(text: str) -> tuple[datetime, ObjectId]:
    """Read the place in the list of tokens where a page ended. Raises `InvalidInput` for anything else."""
    at, _, token_id = text.partition(PLACE_PARTED_BY)
    try:
        return from_iso(at), ObjectId(token_id)
    except (ValueError, InvalidId) as exc:
        raise InvalidInput("no place in this list", field="before") from exc


def due_in(due_at: datetime | None, now: datetime) -> DueIn:
    """Which stretch of time `due_at` lies in; None, for a URL that was never tried, is now."""
    if due_at is None or due_at <= now:
        return DueIn.NOW
    return next((name for name, length in _ENDS if due_at <= now + length), DueIn.LATER)


def forecast(
    candidates: Iterable[RetryableURL],
    *,
    is_processable: Callable[[str], bool],
    due_at: Callable[[RetryableURL], datetime | None],
    now: datetime,
    urls_max: int = FORECAST_URLS_MAX,
) -> Forecast:
    """Say when each candidate is due, as the retry decides it; looks at `urls_max` of them."""
    found = Forecast()
    for candidate in candidates:
        if found.looked_at == urls_max:
            found.is_cut_short = True
            break
        found.looked_at += 1
        if is_processable(candidate.url):
            found.urls[due_in(due_at(candidate), now)] += 1
        else:
            found.urls[DueIn.NEVER] += 1
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedURL:
    """One URL of one token, with the rule that decides about it and, where there is one, its next time.

    Whether its token is in work right now is not looked at.
    """

    row: RetryableURL
    platform: Platform
    rule: Rule
    due_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class URLList:
    """A page of URLs."""

    rows: tuple[ListedURL, ...]
    next_from: URLPlace | None


class Overview:
    """See the module docstring. Raises `RetryableError` when the store does not answer."""

    def __init__(
        self,
        database: MongoDatabase,
        clock: Clock,
        *,
        obstacle_to: Callable[[str], FetchStatus | None],
        interval: RetryInterval,
        max_attempts: int,
    ) -> None:
        self._survey = URLSurvey(database, clock)
        self._stored = StoredObjects(database, clock)
        self._obstacle_to = obstacle_to
        self._interval = interval
        self._max_attempts = max_attempts
        self._clock = clock
        # What looks at many tokens takes turns, so that short questions always find the store half idle.
        self._counting, self._listing = threading.Lock(), threading.Lock()
        self._counts = LatestLook(
            self._patiently(self._count), clock, good_for_s=COUNTS_GOOD_FOR_S, rest=REST
        )
        self._forecast = LatestLook(
            self._patiently(self._look_ahead), clock, good_for_s=FORECAST_GOOD_FOR_S, rest=REST
        )

    def ping(self) -> None:
        """Ask the store for a sign of life, two seconds at most. Raises `RetryableError` without one."""
        self._survey.ping()

    def begin(self) -> None:
        """Have the long looks made that are due; wait for nothing."""
        self._counts.begin()
        self._forecast.begin()

    def counts(self, *, wait_s: float) -> Seen[URLCounts] | None:
        """How many URLs are where and why, half a minute old at most unless it takes longer to count them.

        None when they are being counted for the first time and `wait_s` seconds were not enough.
        """
        return self._counts.latest(wait_s=wait_s)

    def forecast(self, *, wait_s: float) -> Seen[Forecast] | None:
        """When how many URLs are due, a minute old at most; see `counts` for the rest."""
        return self._forecast.latest(wait_s=wait_s)

    def list_urls(
        self,
        status: FetchStatus,
        *,
        platform: Platform | None = None,
        reason: str | None = None,
        limit: int,
        after: URLPlace | None = None,
    ) -> URLList:
        """A page of URLs in a status: in the order of the retry where it takes them up, else by token."""
        hosts = None if platform is None else hosts_of(platform)
        wanted = URLFilter(status=status, hosts=hosts, reason=reason)
        list_page = self._survey.list_waiting if status in RETRYABLE_STATUSES else self._survey.list_by_token
        with self._listing, self._time(LOOK_TIMEOUT_S):
            page: URLPage = list_page(wanted, limit=limit, after=after)
        return URLList(rows=tuple(map(self._listed, page.rows)), next_from=page.next_from)

    def newest_tokens(self, limit: int, *, before: str | None = None) -> tuple[Sequence[Token], str | None]:
        """The tokens that were recorded last, and the `before` of the next page; None at the end.

        Raises `InvalidInput` for a `before` that is none.
        """
        place = None if before is None else _token_place(before)
        with self._listing, self._time(LOOK_TIMEOUT_S):
            found = self._survey.newest_tokens(limit + 1, now=self._clock.now(), before=place)
        page = found[:limit]
        if len(found) <= limit:
            return page, None
        return page, f"{to_iso(page[-1].created_at)}{PLACE_PARTED_BY}{page[-1].id}"

    def find_object(self, url: str) -> tuple[ObjectKind, str] | None:
        """The object that a URL, in any spelling, leads to, if it is stored: its kind and its id."""
        canonical = normalize(url).url
        found = None if canonical is None else self._stored.find(route(canonical))
        return None if found is None else (found.kind, str(found.id))

    @contextmanager
    def _time(self, seconds: float) -> Iterator[None]:
        """A time limit of its own for the body; but a store that is away is known to be as soon as ever."""
        self._survey.ping()
        with pymongo.timeout(seconds):
            yield

    def _patiently(self, look: Callable[[], T]) -> Callable[[], T]:
        """The look with as much time as it needs."""

        def patient() -> T:
            with self._counting, self._time(LOOK_TIMEOUT_S):
                return look()

        return patient

    def _count(self) -> URLCounts:
        return URLCounts.of(self._survey.count(_ALL_HOSTS))

    def _look_ahead(self) -> Forecast:
        return forecast(
            self._survey.iterate_waiting(RETRYABLE_STATUSES),
            is_processable=lambda url: self._obstacle_to(url) is None,
            due_at=self._interval.due_at,
            now=self._clock.now(),
        )

    def _listed(self, row: RetryableURL) -> ListedURL:
        due_at = self._interval.due_at(row)
        rule = decide(
            TokenSocialURL(url=row.url, status=row.status, attempts=row.attempts),
            obstacle=self._obstacle_to(row.url),
            due_at=due_at,
            now=self._clock.now(),
            max_attempts=self._max_attempts,
            is_in_work=False,
        )
        is_waiting = rule in (Rule.RESTING, Rule.DUE, Rule.OUT_OF_ATTEMPTS)
        return ListedURL(
            row=row, platform=route(row.url).platform, rule=rule, due_at=due_at if is_waiting else None
        )
