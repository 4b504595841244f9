"""Permits to ask a source, counted in Redis for all workers together.

A permit is given when the source's rates, the bound on its open calls and its pause allow one more call. One
script decides all of that, so a call that is refused uses up nothing. Times are those of the Redis server.
The invariant: however many workers there are, no stretch of a rate's window holds more permits than the rate
allows, and no more than `open_max` calls are open at once, as long as Redis keeps its data and no process
sleeps through the end of its own call.

Redis being away means that nobody may ask: calls to sources with a limit are refused, never let through
uncounted. After a refusal with a wait all workers leave the source alone until then.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Budget
from workers.errors import FetchFailed
from workers.http.retry import PERMIT_WAIT_MAX_S
from workers.settings import Settings
from workers.source_limits import SourceLimit, limits_by_source
from workers.write_behind import WriteBehind

log = logging.getLogger(__name__)

KEY_PREFIX = "converge:limit:"
STORE_AWAY = (RedisError, OSError)
# How often a place among the open calls is looked for. Nobody can tell when one becomes free.
POLL_S = 0.1
# A call ends within its own time, but for a send that hangs and what is left to be unpacked.
GRACE_S = 10.0
_NOBODY: Mapping[str, str] = MappingProxyType({})

# The key that each source is asked with, in the settings. Who changes a key starts with a fresh count.
_ACCOUNT_SETTINGS = {
    "apify": "apify_token",
    "github": "github_token",
    "reddit": "reddit_client_id",
    "reddit_login": "reddit_client_id",
    "telegram_bot": "telegram_bot_token",
    "tracker": "tracker_api_key",
    "twitterapiio": "twitterapiio_api_key",
    "x_api": "x_api_bearer_token",
    "youtube": "youtube_api_key",
}

# KEYS: the pause, the open calls (sorted by when they expire), then one log of times, newest first, per rate.
# ARGV: owner, most open calls (0: any number), how long one may stay open in ms, then calls and window in ms
# of each rate. Returns 0 for a permit, else in how many ms to ask again, or -1 when it is a matter of open
# calls. Times are kept in microseconds. A log whose newest entry lies more than its window ahead was written
# before the server's clock was set back, and says nothing any more. The client repeats a command whose answer
# got lost: an owner has one place among the open calls then, and counts twice in the logs.
_TAKE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local wait = math.max(redis.call('PTTL', KEYS[1]), 0) * 1000
for i = 3, #KEYS do
  local calls, window = tonumber(ARGV[2 * i - 2]), tonumber(ARGV[2 * i - 1]) * 1000
  local newest = redis.call('LINDEX', KEYS[i], 0)
  if newest and tonumber(newest) > now + window then redis.call('DEL', KEYS[i]) end
  local oldest = redis.call('LINDEX', KEYS[i], -1)
  while oldest and tonumber(oldest) + window <= now do
    redis.call('RPOP', KEYS[i])
    oldest = redis.call('LINDEX', KEYS[i], -1)
  end
  local in_the_way = redis.call('LINDEX', KEYS[i], calls - 1)
  if in_the_way then wait = math.max(wait, tonumber(in_the_way) + window - now) end
end
if wait > 0 then return math.ceil(wait / 1000) end
local open_max, open_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
if open_max > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  local is_full = redis.call('ZCARD', KEYS[2]) >= open_max
  if is_full and not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return -1 end
  redis.call('ZADD', KEYS[2], string.format('%.0f', now + open_ms * 1000), ARGV[1])
  redis.call('PEXPIRE', KEYS[2], math.max(open_ms, redis.call('PTTL', KEYS[2])))
end
for i = 3, #KEYS do
  redis.call('LPUSH', KEYS[i], string.format('%.0f', now))
  redis.call('PEXPIRE', KEYS[i], ARGV[2 * i - 1])
end
return 0
"""
# KEYS: the pause. ARGV: its length in ms. A pause is never made shorter.
_PAUSE = """
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], '1', 'PX', ARGV[1]) end
return 1
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """What is counted together, and how: a source with its key, or one host of a source that is many."""

    source: str
    name: str
    limit: SourceLimit

    @property
    def pause_key(self) -> str:
        return f"{self._prefix}:pause"

    @property
    def open_key(self) -> str:
        return f"{self._prefix}:open"

    @property
    def log_keys(self) -> list[str]:
        return [f"{self._prefix}:log:{rate.window_ms}" for rate in self.limit.rates]

    @property
    def _prefix(self) -> str:
        # The braces keep all keys of a place in one part of a cluster.
        return f"{KEY_PREFIX}{{{self.name}}}"


class SourceLimiter:
    """Gives permits. One for a process; safe for any number of threads.

    `domain_of` names the registrable domain of a host, or None when it has none. `accounts` tells, by source,
    on whose account calls are made. `grace_s` is how much longer than its call a place among the open ones is
    kept for somebody who does not give it back. With `write_behind` nobody waits for the giving back.
    """

    def __init__(
        self,
        redis: Redis,
        limits: Mapping[str, SourceLimit],
        *,
        domain_of: Callable[[str], str | None],
        accounts: Mapping[str, str] = _NOBODY,
        grace_s: float = GRACE_S,
        write_behind: WriteBehind | None = None,
    ) -> None:
        self._redis = redis
        self._write_behind = write_behind
        self._limits = limits
        self._domain_of = domain_of
        self._accounts = accounts
        self._grace_s = grace_s
        self._take_script = redis.register_script(_TAKE)
        self._pause_script = redis.register_script(_PAUSE)

    @classmethod
    def of(
        cls,
        settings: Settings,
        redis: Redis,
        *,
        domain_of: Callable[[str], str | None],
        write_behind: WriteBehind | None = None,
    ) -> SourceLimiter:
        """The limiter that the settings describe."""
        limits = limits_by_source(settings.source_limits, has_github_token=settings.github_token is not None)
        return cls(
            redis, limits, domain_of=domain_of, accounts=accounts_of(settings), write_behind=write_behind
        )

    @contextmanager
    def permit(
        self, source: str, url: str, budget: Budget, *, open_s: float, wait_max_s: float = PERMIT_WAIT_MAX_S
    ) -> Iterator[None]:
        """Hold a permit to ask `url` of `source` for the body, which must end within `open_s` seconds.

        One command to Redis, and where open calls are bounded one more afterwards, which nobody waits for;
        none for a source without a limit. Who dies with a permit blocks a place among the open calls until
        `open_s` and a grace have passed.

        Raises `FetchFailed` with reason `rate_limited` when there is no permit within `wait_max_s` and the
        budget (`retry_in_s` says when there may be one, None when that cannot be told) and
        `lock_unavailable` when Redis cannot be asked, or `BudgetExceeded` when a stop ends the wait.
        """
        place = self._place_of(source, url)
        if place.limit.is_none:
            yield
            return
        owner = secrets.token_hex(8)
        give_up_at = budget.clock.monotonic() + wait_max_s
        while (wait_s := self._take(place, owner, open_s)) != 0:
            left_s = min(give_up_at - budget.clock.monotonic(), budget.remaining_s)
            if (wait_s or POLL_S) > left_s:
                raise FetchFailed(
                    f"{source} is asked as often as its limit allows",
                    reason="rate_limited",
                    retry_in_s=wait_s,
                )
            budget.sleep(wait_s or POLL_S)
        try:
            yield
        finally:
            self._give_back(place, owner)

    def pause(self, source: str, url: str, wait_s: float) -> None:
        """Have everybody leave the source alone for `wait_s` seconds; a longer pause stands."""
        place = self._place_of(source, url)
        if place.limit.is_none or wait_s <= 0:
            return
        log.warning("a source is left alone", extra={"source": place.name, "wait_s": round(wait_s, 3)})
        try:
            self._pause_script(keys=[place.pause_key], args=[int(wait_s * 1000) + 1])
        except STORE_AWAY as exc:
            # Without the store nobody gets a permit anyway.
            log.warning("a pause could not be noted", extra={"source": place.name, "error": repr(exc)})

    def _take(self, place: _Place, owner: str, open_s: float) -> float | None:
        """0 for a permit, else the seconds after which to ask again; None when that cannot be told."""
        rates = [number for rate in place.limit.rates for number in (rate.calls, rate.window_ms)]
        open_ms = int((open_s + self._grace_s) * 1000)
        try:
            wait_ms = self._take_script(
                keys=[place.pause_key, place.open_key, *place.log_keys],
                args=[owner, place.limit.open_max or 0, open_ms, *rates],
            )
        except STORE_AWAY as exc:
            raise FetchFailed(
                f"{place.source} is not asked, because its limit cannot be counted", reason="lock_unavailable"
            ) from exc
        return None if wait_ms < 0 else wait_ms / 1000

    def _give_back(self, place: _Place, owner: str) -> None:
        if place.limit.open_max is None:
            return

        def done(is_carried_out: bool) -> None:
            if not is_carried_out:
                log.warning("a permit is left to expiry", extra={"source": place.name})

        if self._write_behind is not None:
            self._write_behind.add(("ZREM", place.open_key, owner), done=done)
            return
        try:
            self._redis.zrem(place.open_key, owner)
        except STORE_AWAY:
            done(False)

    def _place_of(self, source: str, url: str) -> _Place:
        # A source without a row is a mistake of ours, and must not go unnoticed as one without a limit.
        limit = self._limits[source]
        if limit.is_per_host:
            host = urlsplit(url).hostname or ""
            name = f"{source}:{self._domain_of(host) or host}"
        else:
            name = ":".join(filter(None, (source, self._accounts.get(source))))
        return _Place(source=source, name=name, limit=limit)


def accounts_of(settings: Settings) -> dict[str, str]:
    """A short mark, by source, of the key that the settings hold for it; the key cannot be told from it."""
    found = {source: getattr(settings, name) for source, name in _ACCOUNT_SETTINGS.items()}
    return {
        source: hashlib.sha256(key.get_secret_value().encode()).hexdigest()[:8]
        for source, key in found.items()
        if key is not None
    }
