"""How often each source may be asked, and how many calls to it may be open at once: the limits as data. Pure.

It owns the defaults and the grammar of the setting `SOURCE_LIMITS`; who counts is `workers.http.limiter`. A
source is what `Request.source` names. The grammar:

    limits  = entry {"," entry}
    entry   = (source | "*") "=" ("none" | limit {";" limit})
    limit   = rate | number " at once"
    rate    = number "/" [number] ("second" | "minute" | "hour" | "day")

    github=900/minute;50 at once, telegram=1/second, twitterapiio=1/5second, *=none

An entry replaces all limits of its source, and `*` those of every source that has no entry of its own.
`none` means that nobody counts: no rate, no bound on open calls, and no shared pause after a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import limits

CALLS_MAX = 100_000
OPEN_MAX = 10_000
EVERY_OTHER = "*"
_DAY_MS = 86_400_000
_AT_ONCE = re.compile(r"([0-9]{1,9})\s*at\s*once", re.IGNORECASE)
_UNITS = re.compile(r"[0-9]{1,9}\s*/\s*(?:[1-9][0-9]{0,8}\s*)?(?:second|minute|hour|day)s?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """At most `calls` in every stretch of time that is `window_ms` long, wherever it begins."""

    calls: int
    window_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLimit:
    """What one source bears: all `rates` at the same time, and `open_max` calls at once (None: any number).

    With `is_per_host` each registrable domain is counted by itself.
    """

    rates: tuple[Rate, ...] = ()
    open_max: int | None = None
    is_per_host: bool = False

    @property
    def is_none(self) -> bool:
        """Whether there is nothing to count."""
        return not self.rates and self.open_max is None


# These stand for many hosts of different owners, and politeness is due to each of them.
_PER_HOST = frozenset({"web", "rdap"})
_GITHUB_WITHOUT_TOKEN = "60/hour"
_DEFAULTS = {
    # The operator's own service; nothing is known of a limit.
    "tracker": "none",
    # https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api: 5,000 an hour with a
    # token, 900 points a minute (a GET is one), 100 open requests. Half of those are left to others who use
    # the same token.
    "github": "5000/hour;900/minute;50 at once",
    # Embedding endpoints without a published limit. What a busy page of embedded posts would cause.
    "x": "5/second;5 at once",
    "x_oembed": "5/second;5 at once",
    # https://docs.x.com/x-api/fundamentals/rate-limits: 300 users by name, 450 single posts, 3,500 lists of
    # posts in 15 minutes for one app. The counts are kept apart there, so the smallest is safe for all.
    "x_api": "300/15minute;10 at once",
    # https://docs.twitterapi.io: one call in 5 s before anything was paid in, then 3 to 20 a second, growing
    # with the balance, which we cannot see.
    "twitterapiio": "1/5second;3 at once",
    # The quota of 10,000 units a day starts anew at midnight Pacific time, which no window of ours can
    # follow; the API itself says when it is used up. Here is only a pace.
    "youtube": "10/second;10 at once",
    "youtube_site": "5/second;5 at once",
    # https://support.reddithelp.com/hc/en-us/articles/16160319875092: 100 a minute for one client, averaged
    # over ten.
    "reddit": "100/minute;10 at once",
    # An access token lives for an hour at least, so this is far above what is needed.
    "reddit_login": "10/minute;2 at once",
    # Nothing is published about the pages; one a second for an address is what others report to be borne.
    "telegram": "1/second;2 at once",
    # Only sending has published limits (https://core.telegram.org/bots/faq); reading is held well below them.
    "telegram_bot": "5/second;5 at once",
    # Pages for people, of which only redirects are read.
    "tiktok": "1/second;2 at once",
    "instagram": "1/second;2 at once",
    # https://docs.apify.com/api/v2#rate-limiting: 60 a second for one resource. How many runs may go on at
    # once depends on the plan; each holds a call.
    "apify": "60/second;10 at once",
    # https://docs.slack.dev/apis/web-api/rate-limits: one message a second, with short bursts of more. What
    # is said at once is said by one run, so a minute's worth may come in a burst.
    "alert_webhook": "60/minute;5 at once",
    # Each endpoint has limits of its own in SOLANA_ENDPOINTS, and a schedule that keeps its requests apart.
    "solana_rpc": "none",
    # Registries publish no figures. rdap.org, which stands in front of all of them, allows 10 in 10 s.
    "rdap": "10/10second;2 at once",
    # Politeness: about what a person with a browser causes.
    "web": "3/second;2 at once",
}
SOURCES = frozenset(_DEFAULTS)


def limits_by_source(text: str | None, *, has_github_token: bool) -> Mapping[str, SourceLimit]:
    """The limit of every source: the defaults, as changed by `text` in the grammar above.

    Raises `ValueError`, which quotes the part that cannot be read.
    """
    defaults = _DEFAULTS if has_github_token else {**_DEFAULTS, "github": _GITHUB_WITHOUT_TOKEN}
    given = read_entries(text or "")
    found = {source: given.get(source, given.get(EVERY_OTHER)) for source in defaults}
    return {
        source: _read_limit(source, defaults[source]) if limit is None else _as_counted(source, limit)
        for source, limit in found.items()
    }


def read_entries(text: str) -> dict[str, SourceLimit]:
    """The entries of `text` by their source, `*` among them.

    Raises `ValueError`, which quotes the part that cannot be read.
    """
    found: dict[str, SourceLimit] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        source, equals, limit = (part.strip() for part in entry.partition("="))
        if not equals or not source:
            raise ValueError(f"`{entry}` must look like github=900/minute;50 at once")
        if source not in SOURCES and source != EVERY_OTHER:
            raise ValueError(f"`{source}` is no source; there are {', '.join(sorted(SOURCES))} and *")
        if source in found:
            raise ValueError(f"`{source}` is there twice; join its limits with `;`")
        found[source] = _read_limit(source, limit)
    return found


def _read_limit(source: str, text: str) -> SourceLimit:
    if text.lower() == "none":
        return SourceLimit()
    rates: dict[int, Rate] = {}
    open_max: int | None = None
    for part in (each.strip() for each in text.split(";")):
        at_once = _AT_ONCE.fullmatch(part)
        if at_once is None:
            rate = _read_rate(source, part)
            if rate.window_ms in rates:
                raise ValueError(f"`{source}={text}` has two rates for the same time")
            rates[rate.window_ms] = rate
        elif open_max is None:
            open_max = _within(source, part, int(at_once[1]), OPEN_MAX)
        else:
            raise ValueError(f"`{source}={text}` says twice how many calls may be open at once")
    return _as_counted(source, SourceLimit(rates=tuple(rates.values()), open_max=open_max))


def _read_rate(source: str, text: str) -> Rate:
    if not _UNITS.fullmatch(text):
        raise ValueError(
            f"`{text}` of `{source}` is neither a rate such as `900/minute` or `1/5second`,"
            " nor such as `2 at once`, nor `none`"
        )
    read = limits.parse(text)
    window_ms = read.get_expiry() * 1000
    if not 0 < window_ms <= _DAY_MS:
        raise ValueError(f"`{text}` of `{source}` must span at least a second and at most a day")
    return Rate(calls=_within(source, text, read.amount, CALLS_MAX), window_ms=window_ms)


def _within(source: str, text: str, number: int, number_max: int) -> int:
    if not 1 <= number <= number_max:
        raise ValueError(f"`{text}` of `{source}` must allow 1 to {number_max}")
    return number


def _as_counted(source: str, limit: SourceLimit) -> SourceLimit:
    return SourceLimit(rates=limit.rates, open_max=limit.open_max, is_per_host=source in _PER_HOST)
