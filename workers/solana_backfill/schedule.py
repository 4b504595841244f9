"""When the next request to an endpoint may start, kept in Redis for all workers together.

One script looks at the next start, at the pause, at the starts of the last second and at the open requests,
and grants all or nothing. Times are those of the Redis server, so the clocks of hosts do not matter. The
invariant: however many workers there are, starts are spaced evenly, no stretch of a second holds more of them
than the endpoint allows, none lies inside a pause, and no more than the allowed number of requests is open.

Where nobody knows an endpoint's next start (a new Redis), it is now.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError

from workers.errors import LockUnavailable
from workers.solana_endpoints import SolanaEndpoint

KEY_PREFIX = "converge:rpc:"
STORE_AWAY = (RedisError, OSError)
PAUSE_MAX_S = 120.0
# What is left of the allowed rate, so that requests which are held up on their way do not arrive too close to
# the next ones and are counted over the limit there.
HEADROOM = 0.02
# What is held up for a moment, on a busy machine, is made up for: the next starts come sooner, but none
# sooner than this part of the spacing after the one before, and never too many for the rate. Who comes later
# than so many seconds was not held up but had nothing to ask, and has saved nothing.
GAP_MIN = 0.5
LAG_MAX_S = 0.5
# How long a place among the open requests outlives the time that a request may take.
OPEN_GRACE_S = 10.0
_IDLE_TTL_MS = 600_000

# KEYS: the state (`next`, `pause`), the starts of the last window (newest first), the open requests by when
# they expire. ARGV: owner, now or '', spacing, starts per window, window, longest pause, longest lag,
# shortest gap, most open requests, how long one may stay open, time to live of the keys in ms. All other
# times are microseconds. Returns 1 and the time until the next start, 0 and the time after which to ask
# again, or -1 and 0 when it is a matter of open requests. A time that lies further ahead than can be was
# written before the clock was set back. The client repeats a command whose answer got lost: the owner has one
# place among the open requests then, and two starts.
_NOW = """
local function now_us(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local function text(number) return string.format('%.0f', number) end
"""
_TAKE = (
    _NOW
    + """
local now, spacing, count, window = now_us(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local state = redis.call('HMGET', KEYS[1], 'next', 'pause')
local next_at, pause_until = tonumber(state[1] or 0), tonumber(state[2] or 0)
if next_at > now + spacing then next_at = now end
if pause_until > now + tonumber(ARGV[6]) then pause_until = now end
local wait = math.max(next_at, pause_until) - now
local newest = redis.call('LINDEX', KEYS[2], 0)
if newest and tonumber(newest) > now then
  redis.call('DEL', KEYS[2])
elseif newest then
  wait = math.max(wait, tonumber(newest) + tonumber(ARGV[8]) - now)
end
local nth = redis.call('LINDEX', KEYS[2], count - 1)
if nth then wait = math.max(wait, tonumber(nth) + window - now) end
if wait > 0 then return {0, text(wait), ''} end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', text(now))
local is_ours = redis.call('ZSCORE', KEYS[3], ARGV[1])
if not is_ours and redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[9]) then return {-1, '0', ''} end
redis.call('ZADD', KEYS[3], text(now + tonumber(ARGV[10])), ARGV[1])
next_at = (now - next_at > tonumber(ARGV[7]) and now or next_at) + spacing
redis.call('HSET', KEYS[1], 'next', text(next_at))
redis.call('LPUSH', KEYS[2], text(now))
redis.call('LTRIM', KEYS[2], 0, count - 1)
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[11]) end
return {1, text(math.max(next_at - now, tonumber(ARGV[8]))), text(now)}
"""
)
# KEYS: the starts, the open requests. ARGV: owner, the time of a start, its true time. Nothing changes when
# the start is so old that it is not kept any more.
_GIVE_BACK = """
redis.call('ZREM', KEYS[2], ARGV[1])
local place = ARGV[2] ~= ARGV[3] and redis.call('LPOS', KEYS[1], ARGV[2])
if place then redis.call('LSET', KEYS[1], place, ARGV[3]) end
return 1
"""
# KEYS: the state. ARGV: now or '', length in microseconds, time to live in ms. A pause is never made shorter.
_PAUSE = (
    _NOW
    + """
local pause_until = now_us(ARGV[1]) + tonumber(ARGV[2])
local known = tonumber(redis.call('HGET', KEYS[1], 'pause') or 0)
if pause_until > known then redis.call('HSET', KEYS[1], 'pause', text(pause_until)) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """The answer to one question. `wait_s` is the time until the next start when `is_granted`, else until it
    is worth to ask again; None when that depends on when somebody's request ends. `start_us` is the start
    that was granted, on the schedule's clock.
    """

    is_granted: bool
    wait_s: float | None
    start_us: int = 0


class EndpointSchedule:
    """The schedule of one endpoint. `open_s` is the longest time that a request may take.

    `now_us` is for tests that move the time by hand: microseconds on a clock of theirs instead of the
    server's.
    """

    def __init__(
        self,
        redis: Redis,
        endpoint: SolanaEndpoint,
        *,
        open_s: float,
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._redis = redis
        self._now_us = now_us
        # The braces keep all keys of an endpoint in one part of a cluster. What is counted together is a URL
        # with its key, of which nobody can tell the key from the hash.
        account = hashlib.sha256(endpoint.url.encode()).hexdigest()[:8]
        prefix = f"{KEY_PREFIX}{{{endpoint.address}:{account}}}"
        self._keys = [f"{prefix}:state", f"{prefix}:starts", f"{prefix}:open"]
        spacing_us = 1_000_000 * (1 + HEADROOM) / endpoint.requests_per_second
        count = max(1, int(endpoint.requests_per_second))
        self._limits = [
            round(spacing_us),
            count,
            round(spacing_us * count),
            round(PAUSE_MAX_S * 1_000_000),
            round(LAG_MAX_S * 1_000_000),
            round(spacing_us * GAP_MIN),
            endpoint.max_concurrent_requests,
            round((open_s + OPEN_GRACE_S) * 1_000_000),
        ]
        self._ttl_ms = max(_IDLE_TTL_MS, round(spacing_us * count / 500))
        self._take_script = redis.register_script(_TAKE)
        self._give_back_script = redis.register_script(_GIVE_BACK)
        self._pause_script = redis.register_script(_PAUSE)

    @staticmethod
    def new_owner() -> str:
        """A name for one request that nobody else uses."""
        return secrets.token_hex(8)

    def take(self, owner: str) -> Turn:
        """Ask to start a request now. Raises `LockUnavailable` when Redis cannot be asked."""
        try:
            verdict, wait_us, start_us = self._take_script(
                keys=self._keys, args=[owner, self._now(), *self._limits, self._ttl_ms]
            )
        except STORE_AWAY as exc:
            raise LockUnavailable("the schedule of the endpoint cannot be asked") from exc
        return Turn(
            is_granted=verdict == 1,
            wait_s=None if verdict < 0 else int(wait_us) / 1_000_000,
            start_us=int(start_us or 0),
        )

    def give_back(self, owner: str, turn: Turn, *, late_s: float = 0.0) -> None:
        """The request has ended. `late_s` is how long after its turn it really started: requests are counted
        by when they start, not by when they were allowed to.

        Raises `LockUnavailable`; its place runs out by itself then.
        """
        true_start_us = turn.start_us + round(late_s * 1_000_000)
        try:
            self._give_back_script(keys=self._keys[1:], args=[owner, turn.start_us, true_start_us])
        except STORE_AWAY as exc:
            raise LockUnavailable("the schedule of the endpoint cannot be asked") from exc

    def pause(self, seconds: float) -> None:
        """Have no request start for so long, at most two minutes; a longer pause stands.

        Raises `LockUnavailable`; without the store nothing starts anyway.
        """
        length_us = round(min(seconds, PAUSE_MAX_S) * 1_000_000)
        try:
            self._pause_script(keys=self._keys[:1], args=[self._now(), length_us, self._ttl_ms])
        except STORE_AWAY as exc:
            raise LockUnavailable("the schedule of the endpoint cannot be asked") from exc

    def _now(self) -> str:
        return "" if self._now_us is None else str(self._now_us())
