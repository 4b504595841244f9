"""Leases: locks that expire and know their owner, kept in Redis.

A lease is one key whose value is its owner. It is taken only when free, renewed and released only by
comparing the owner, and never deleted by name. One thread per process renews all leases at a third of
their time to live, so the time to live decides only how long a crashed process blocks others.

The invariant: while `lease.is_held` is true nobody else holds the key, as long as Redis keeps its data.
After a loss of Redis data two holders are possible; writers therefore also compare what they change.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Clock
from workers.errors import Busy, LeaseLost, LockUnavailable
from workers.telemetry import Meter
from workers.telemetry_table import LEASE_WAIT_SECONDS, LEASE_WAITS, LEASES, lease_family
from workers.write_behind import WriteBehind

log = logging.getLogger(__name__)

KEY_PREFIX = "converge:lease:"
STORE_AWAY = (RedisError, OSError)
POLL_S = 0.05
IDLE_S = 60.0
# How long somebody who wants a lease waits for its release by this same process to be on its way.
RELEASE_WAIT_S = 1.0

# For the beginning of any script that takes a lease: whether it is ours now. It may be ours already: the
# client repeats a command whose answer got lost, and no two calls use the same owner.
TAKE_IN_LUA = """
local function take(lease, owner, ttl_ms)
  local holder = redis.call('GET', lease)
  if holder and holder ~= owner then return false end
  redis.call('SET', lease, owner, 'PX', ttl_ms)
  return true
end
"""
# KEYS: the lease. ARGV: owner, ttl in ms. Returns 1 when it is ours.
_ACQUIRE = TAKE_IN_LUA + "return take(KEYS[1], ARGV[1], ARGV[2]) and 1 or 0"
_RENEW = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


@dataclass(eq=False, kw_only=True, slots=True)
class Lease:
    """A lease that we took. `owner` is a name that no other call to take a lease uses."""

    name: str
    owner: str
    ttl_ms: int
    valid_until: float
    clock: Clock = field(repr=False)
    lost: threading.Event = field(default_factory=threading.Event)

    @property
    def renew_at(self) -> float:
        """When a third of the time to live has passed, on the monotonic clock."""
        return self.valid_until - self.ttl_ms / 1000 * 2 / 3

    @property
    def is_held(self) -> bool:
        """Whether it is still ours, as far as this process knows.

        The time counts as well: a process that was paused knows of its loss before its renewal thread does.
        """
        return not self.lost.is_set() and self.clock.monotonic() < self.valid_until

    def check(self) -> None:
        """Raise `LeaseLost` when it is no longer ours; call it before each write."""
        if not self.is_held:
            raise LeaseLost(f"the lease {self.name} was lost")


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseBid:
    """What somebody else's script needs to take a lease for us: `take(key, owner, ttl_ms)`."""

    name: str
    key: str
    owner: str
    ttl_ms: int
    asked_at: float


class LeaseStore:
    """Takes, renews and releases leases. One per process: it owns the renewal thread."""

    def __init__(
        self,
        redis: Redis,
        clock: Clock,
        *,
        meter: Meter | None = None,
        write_behind: WriteBehind | None = None,
    ) -> None:
        self._redis = redis
        self._clock = clock
        self._meter = meter or Meter(clock)
        self.write_behind = write_behind or WriteBehind(redis)
        self._acquire = redis.register_script(_ACQUIRE)
        self._renew = redis.register_script(_RENEW)
        self._release = redis.register_script(_RELEASE)
        self._guard = threading.Lock()
        self._held: set[Lease] = set()
        self._leaving: set[str] = set()
        self._local = threading.local()
        self._changed = threading.Event()
        self._renewer: threading.Thread | None = None

    @contextmanager
    def hold(
        self,
        name: str,
        *,
        ttl_ms: int,
        owner: str | None = None,
        wait_s: float = 0.0,
        is_released_behind: bool = False,
    ) -> Iterator[Lease]:
        """Hold the lease `name` for the body; try once, or for `wait_s` seconds.

        With `is_released_behind` it is given back as `release_behind` does. Raises `Busy` when somebody else
        holds it and `LockUnavailable` when Redis cannot be asked.
        """
        lease = self.acquire(name, ttl_ms=ttl_ms, owner=owner, wait_s=wait_s)
        try:
            yield lease
        finally:
            if is_released_behind:
                self.release_behind(lease)
            else:
                self.release(lease)

    def acquire(self, name: str, *, ttl_ms: int, owner: str | None = None, wait_s: float = 0.0) -> Lease:
        """Take the lease and have it renewed until `release`; raises as `hold` does.

        `owner` says who holds it, for people who look; what is compared is longer, and says since when.
        """
        taken_ahead = self._taken_ahead.pop(name, None)
        if taken_ahead is not None:
            self._meter.count(LEASES, lease_family(name), "taken")
            return taken_ahead
        owner = self._owner(owner)
        asked_at = self._take(name, owner, ttl_ms, wait_s)
        return self._held_since(asked_at, name, owner, ttl_ms)

    @contextmanager
    def taken_along(self, name: str, *, ttl_ms: int, take: Callable[[LeaseBid], bool]) -> Iterator[None]:
        """Have `take` take the lease in one round trip with something else.

        In the body, the next `acquire` of that name by this thread finds it taken and asks nobody; when
        `take` says no, it asks as always. What is not acquired in the body is given back.
        """
        if name in self._leaving:
            self.write_behind.flush(RELEASE_WAIT_S)
        bid = LeaseBid(
            name=name,
            key=KEY_PREFIX + name,
            owner=self._owner(None),
            ttl_ms=ttl_ms,
            asked_at=self._clock.monotonic(),
        )
        if take(bid):
            self._taken_ahead[name] = self._held_since(bid.asked_at, name, bid.owner, ttl_ms)
        try:
            yield
        finally:
            unused = self._taken_ahead.pop(name, None)
            if unused is not None:
                self.release_behind(unused)

    @property
    def _taken_ahead(self) -> dict[str, Lease]:
        """The leases that this thread has, and nobody works under yet."""
        if not hasattr(self._local, "taken_ahead"):
            self._local.taken_ahead = {}
        taken_ahead: dict[str, Lease] = self._local.taken_ahead
        return taken_ahead

    def _owner(self, who: str | None) -> str:
        taken_ms = round(self._clock.now().timestamp() * 1000)
        return f"{who or os.getpid()}:{taken_ms}:{secrets.token_hex(8)}"

    def _held_since(self, asked_at: float, name: str, owner: str, ttl_ms: int) -> Lease:
        lease = Lease(
            name=name,
            owner=owner,
            ttl_ms=ttl_ms,
            valid_until=asked_at + ttl_ms / 1000,
            clock=self._clock,
        )
        self._keep(lease)
        return lease

    def release(self, lease: Lease) -> None:
        """Give the lease back. Only our own value is deleted; a store that is down is left to expiry."""
        with self._guard:
            self._held.discard(lease)
        if lease.lost.is_set():
            return
        try:
            self._release(keys=[KEY_PREFIX + lease.name], args=[lease.owner])
        except STORE_AWAY:
            lease.lost.set()

    def release_behind(self, lease: Lease) -> None:
        """Give the lease back without waiting for it, after all that was handed to `write_behind` before.

        For everybody in this process it is free at once. A store that is down is left to expiry.
        """
        with self._guard:
            self._held.discard(lease)
            if lease.lost.is_set():
                return
            self._leaving.add(lease.name)

        def done(is_carried_out: bool) -> None:
            self._leaving.discard(lease.name)
            if not is_carried_out:
                lease.lost.set()

        self.write_behind.add(("EVAL", _RELEASE, 1, KEY_PREFIX + lease.name, lease.owner), done=done)

    def give_back_all(self) -> list[str]:
        """Give back every lease at once, for a process that ends with unfinished work; return their names.

        Each is marked lost first, so that whoever works under it stops writing.
        """
        with self._guard:
            held = sorted(self._held, key=lambda lease: lease.name)
            self._held.clear()
        for lease in held:
            lease.lost.set()
        for lease in held:
            try:
                self._release(keys=[KEY_PREFIX + lease.name], args=[lease.owner])
            except STORE_AWAY:
                log.warning("a lease is left to expire", extra={"lease": lease.name})
        return [lease.name for lease in held]

    def _take(self, name: str, owner: str, ttl_ms: int, wait_s: float) -> float:
        """Take the lease within `wait_s` seconds; return when it was asked for, on the monotonic clock."""
        family, outcome = lease_family(name), "unavailable"
        began_at = asked_at = self._clock.monotonic()
        has_waited = False
        try:
            while not self._try(name, owner, ttl_ms):
                left_s = began_at + wait_s - self._clock.monotonic()
                if left_s <= 0:
                    outcome = "busy"
                    raise Busy(f"the lease {name} is held by somebody else")
                has_waited = True
                self._clock.wait(threading.Event(), min(POLL_S, left_s))
                asked_at = self._clock.monotonic()
            outcome = "taken"
        finally:
            self._meter.count(LEASES, family, outcome)
            if has_waited:
                self._meter.count(LEASE_WAITS, family)
                self._meter.count(LEASE_WAIT_SECONDS, family, amount=self._clock.monotonic() - began_at)
        return asked_at

    def _try(self, name: str, owner: str, ttl_ms: int) -> bool:
        if name in self._leaving:
            self.write_behind.flush(RELEASE_WAIT_S)
        try:
            return bool(self._acquire(keys=[KEY_PREFIX + name], args=[owner, ttl_ms]))
        except STORE_AWAY as exc:
            raise LockUnavailable("the lock store cannot be asked") from exc

    def _keep(self, lease: Lease) -> None:
        with self._guard:
            is_most_urgent = all(lease.ttl_ms < other.ttl_ms for other in self._held)
            self._held.add(lease)
            if self._renewer is None or not self._renewer.is_alive():
                self._renewer = threading.Thread(
                    target=_renew_while_there_is, args=[weakref.ref(self)], name="lease-renewer", daemon=True
                )
                self._renewer.start()
        if is_most_urgent:
            self._changed.set()

    def renew_what_is_due(self) -> tuple[Clock, threading.Event, float]:
        """Renew what is due; return what to wait on until the next turn, and how many seconds."""
        self._changed.clear()
        with self._guard:
            held = list(self._held)
        for lease in held:
            if self._clock.monotonic() >= lease.renew_at:
                self.renew(lease)
        now = self._clock.monotonic()
        wait_s = min((max(lease.renew_at - now, POLL_S) for lease in held), default=IDLE_S)
        return self._clock, self._changed, wait_s

    def renew(self, lease: Lease) -> None:
        """Prolong the lease, or mark it lost when it is not ours any more.

        A store that does not answer is asked again and again until the lease would have run out.
        """
        asked_at = self._clock.monotonic()
        try:
            still_ours = bool(self._renew(keys=[KEY_PREFIX + lease.name], args=[lease.owner, lease.ttl_ms]))
        except Exception as exc:  # noqa: BLE001 - were this thread to die, every lease here would run out
            log.warning("a lease could not be renewed", extra={"lease": lease.name, "error": repr(exc)})
            still_ours = self._clock.monotonic() < lease.valid_until
        else:
            lease.valid_until = asked_at + lease.ttl_ms / 1000
        if not still_ours:
            lease.lost.set()
            with self._guard:
                self._held.discard(lease)


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldLease:
    """A lease as people see it. `ttl_s` is what is left; `age_s` is None when the holder does not say."""

    name: str
    holder: str
    age_s: float | None
    ttl_s: float


class LeaseBook:
    """What people may see of all leases, and do to one that nobody renews any more."""

    def __init__(self, redis: Redis, clock: Clock) -> None:
        self._redis = redis
        self._clock = clock
        self._release = redis.register_script(_RELEASE)

    def held(self, prefix: str = "") -> list[HeldLease]:
        """The leases whose name starts with `prefix`, by name. Raises `LockUnavailable`."""
        pattern = f"{KEY_PREFIX}{_literally(prefix)}*"
        try:
            keys = sorted({key.decode() for key in self._redis.scan_iter(pattern, count=1000)})
            return [lease for lease in map(self._look, keys) if lease is not None]
        except STORE_AWAY as exc:
            raise LockUnavailable("the lock store cannot be asked") from exc

    def find(self, name: str) -> HeldLease | None:
        """One lease, None when it is free. Raises `LockUnavailable`."""
        try:
            return self._look(KEY_PREFIX + name)
        except STORE_AWAY as exc:
            raise LockUnavailable("the lock store cannot be asked") from exc

    def release(self, name: str, holder: str) -> bool:
        """Take the lease away from exactly this holder; False when it is free or another one's by now.

        A holder that is alive notices at its next renewal and stops writing. Raises `LockUnavailable`.
        """
        try:
            return bool(self._release(keys=[KEY_PREFIX + name], args=[holder]))
        except STORE_AWAY as exc:
            raise LockUnavailable("the lock store cannot be asked") from exc

    def _look(self, key: str) -> HeldLease | None:
        holder, ttl_ms = self._redis.get(key), int(self._redis.pttl(key))
        if not isinstance(holder, bytes) or ttl_ms < 0:
            return None
        name = holder.decode(errors="replace")
        taken_ms = name.split(":")[-2] if name.count(":") >= 2 else ""
        age_s = self._clock.now().timestamp() - int(taken_ms) / 1000 if taken_ms.isdigit() else None
        return HeldLease(name=key.removeprefix(KEY_PREFIX), holder=name, age_s=age_s, ttl_s=ttl_ms / 1000)


def _literally(text: str) -> str:
    """The text as a pattern of Redis that matches nothing else."""
    return re.sub(r"([\\*?\[\]^-])", r"\\\1", text)


def _renew_while_there_is(reference: weakref.ref[LeaseStore]) -> None:
    """The renewal thread. It ends with its store, so that nobody renews for a store that is gone."""
    while True:
        store = reference()
        if store is None:
            return
        clock, changed, wait_s = store.renew_what_is_due()
        del store
        clock.wait(changed, wait_s)
