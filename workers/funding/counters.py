"""The fast counters of bricks sold, in Redis.

Two keys per property, which the selling side reads and moves as well; their names are a contract with it. A
purchase adds to them while its transaction is open and takes back what it added when that is rolled back;
whatever ends a purchase takes its bricks off after the commit. So whoever dies in between leaves a counter
that says too much, never too little.

Every script may run twice, because the client repeats a command whose answer got lost: a move is marked with
the name of its operation, and a marked operation moves nothing. A counter that is not there, or is no number,
is never counted on from.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from workers.errors import RetryableError
from workers.funding.evaluate import BrickCounts, Counter, Counters, Holding
from workers.leases import KEY_PREFIX as LEASE_PREFIX
from workers.leases import Lease

log = logging.getLogger(__name__)

# Commands are repeated within seconds; a mark must only outlive that.
MARK_TTL_S = 3600

# KEYS: the operation's mark, both counters. ARGV: bricks for each, seconds to keep the mark. Returns how many
# bricks are counted now; 'undone' when the operation was taken back before, 'unusable' when there is nothing
# to count on from.
_ADD = """
local mark = redis.call('GET', KEYS[1])
if mark then return mark end
for i = 2, 3 do
  if redis.call('EXISTS', KEYS[i]) == 0 then return 'unusable' end
  if type(redis.pcall('INCRBY', KEYS[i], 0)) == 'table' then return 'unusable' end
end
local counted = redis.call('INCRBY', KEYS[2], ARGV[1])
redis.call('INCRBY', KEYS[3], ARGV[2])
redis.call('SET', KEYS[1], string.format('%.0f', counted), 'EX', ARGV[3])
return redis.call('GET', KEYS[1])
"""
# KEYS and ARGV as above; the mark is that of the addition. An addition that has not arrived yet finds itself
# undone. Returns how many bricks are counted now, nothing where there is no counter.
_TAKE_BACK = """
local mark = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], 'undone', 'EX', ARGV[3])
if mark and mark ~= 'undone' then
  for i = 2, 3 do
    if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('DECRBY', KEYS[i], ARGV[i - 1]) end
  end
end
return redis.call('GET', KEYS[2])
"""
# The same for what ends a purchase: once per operation, whether or not the addition is known.
_TAKE_OFF = """
if redis.call('SET', KEYS[1], 'done', 'NX', 'EX', ARGV[3]) then
  for i = 2, 3 do
    if redis.call('EXISTS', KEYS[i]) == 1 then redis.call('DECRBY', KEYS[i], ARGV[i - 1]) end
  end
end
return redis.call('GET', KEYS[2])
"""
# KEYS: the property's lease, both counters. ARGV: who has to hold the lease, then for each counter what it
# was read as and what it is to hold. Returns 1 when the counters hold that now, 0 when they have moved since
# they were read, -1 when the lease is somebody else's. Writes all that is to change, or nothing.
_COMPARE_AND_SET = """
local function state_of(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'none' then return '-' end
  if kind ~= 'string' then return '!' end
  return '=' .. redis.call('GET', key)
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
local is_as_read, is_as_wanted = true, true
for i = 2, 3 do
  local state = state_of(KEYS[i])
  if state ~= ARGV[2 * i - 2] then is_as_read = false end
  if state ~= '=' .. ARGV[2 * i - 1] then is_as_wanted = false end
end
if is_as_wanted then return 1 end
if not is_as_read then return 0 end
for i = 2, 3 do
  if ARGV[2 * i - 2] ~= '=' .. ARGV[2 * i - 1] then redis.call('SET', KEYS[i], ARGV[2 * i - 1]) end
end
return 1
"""


def purchased_key(property_id: str) -> str:
    """The counter of all bricks sold of a property."""
    return f"property_{property_id}_purchased_brick_count"


def auto_invest_key(property_id: str) -> str:
    """The counter of those that auto-invest bought."""
    return f"property_{property_id}_auto_invest_purchased_brick_count"


class CounterUnusable(RetryableError):
    """There is no counter to count on from. It is made anew from the truth before the next purchase."""


class Written(StrEnum):
    """What came of a compare-and-set."""

    DONE = "done"
    MOVED = "moved"
    NOT_OURS = "not-ours"


_VERDICTS = {1: Written.DONE, 0: Written.MOVED, -1: Written.NOT_OURS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """Bricks of one purchase that are counted once, under a name that nothing else has."""

    property_id: str
    operation: str
    bricks: int
    is_auto_invest: bool


class FundingCounters:
    """Reads and moves the counters. Raises `RetryableError` when Redis does not answer."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._add = redis.register_script(_ADD)
        self._take_back = redis.register_script(_TAKE_BACK)
        self._take_off = redis.register_script(_TAKE_OFF)
        self._compare_and_set = redis.register_script(_COMPARE_AND_SET)

    def read(self, property_id: str) -> Counters:
        """Both counters of one property, in one round trip."""
        [found] = self.read_many([property_id])
        return found

    def read_many(self, property_ids: Sequence[str]) -> list[Counters]:
        """The counters of these properties, in their order, all in one round trip."""
        if not property_ids:
            return []
        with _reachable(), self._redis.pipeline(transaction=False) as pipe:
            for property_id in property_ids:
                pipe.get(purchased_key(property_id))
                pipe.get(auto_invest_key(property_id))
            # A key that holds something else than text is an answer, too.
            answers = [_counter(answer) for answer in pipe.execute(raise_on_error=False)]
        pairs = zip(answers[::2], answers[1::2], strict=True)
        return [Counters(purchased=purchased, auto_invest=auto) for purchased, auto in pairs]

    def open(self, property_id: str, truth: BrickCounts) -> None:
        """Make the counters that are missing. Only for whoever knows that nobody moves them meanwhile."""
        with _reachable(), self._redis.pipeline() as pipe:
            pipe.set(purchased_key(property_id), truth.purchased, nx=True)
            pipe.set(auto_invest_key(property_id), truth.auto_invest, nx=True)
            pipe.execute()

    def add(self, move: Move) -> int:
        """Count the bricks of a purchase; return how many are counted now, these included.

        Raises `CounterUnusable` when a counter is missing or no number. After any other error it is open
        whether they were counted; `take_back` settles that.
        """
        with _reachable():
            answer = self._add(*_arguments(move))
        text = answer.decode() if isinstance(answer, bytes) else str(answer)
        if text == "unusable":
            raise CounterUnusable(f"the counter of property {move.property_id} is missing or no number")
        if text == "undone":
            raise RetryableError(f"the purchase {move.operation} was taken back")
        return int(text)

    def take_back(self, move: Move) -> None:
        """Take back what `add` may have counted, and keep it from being counted later."""
        with _reachable():
            self._alarm_below_zero(move, self._take_back(*_arguments(move)))

    def take_off(self, move: Move) -> None:
        """Take off the bricks of a purchase that was ended; once per operation."""
        with _reachable():
            self._alarm_below_zero(move, self._take_off(*_arguments(move)))

    def compare_and_set(
        self, property_id: str, *, expected: Counters, targets: BrickCounts, lease: Lease
    ) -> Written:
        """Write the targets if the counters are as they were read, and the lease is ours, in one step."""
        pairs = ((expected.purchased, targets.purchased), (expected.auto_invest, targets.auto_invest))
        args: list[bytes | str | int] = [lease.owner]
        for counter, target in pairs:
            args += [_state(counter), target]
        keys = [LEASE_PREFIX + lease.name, purchased_key(property_id), auto_invest_key(property_id)]
        with _reachable():
            return _VERDICTS[int(self._compare_and_set(keys=keys, args=args))]

    @staticmethod
    def _alarm_below_zero(move: Move, answer: object) -> None:
        """A counter below zero has lost sales; it is left as it is, for somebody to see."""
        if isinstance(answer, bytes) and answer.startswith(b"-"):
            log.error(
                "a counter is below zero",
                extra={"property": move.property_id, "operation": move.operation, "counter": answer.decode()},
            )


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except ResponseError as exc:
        raise RetryableError(f"a counter in Redis cannot be used: {exc}") from exc
    except (RedisError, OSError) as exc:
        raise RetryableError("the counters in Redis cannot be reached") from exc


def _arguments(move: Move) -> tuple[list[str], list[str | int]]:
    mark = f"converge:funding:operation:{move.operation}"
    keys = [mark, purchased_key(move.property_id), auto_invest_key(move.property_id)]
    return keys, [move.bricks, move.bricks if move.is_auto_invest else 0, MARK_TTL_S]


def _counter(answer: object) -> Counter:
    """Read the answer of a GET. Only the complaint about the key's type says what is there."""
    if isinstance(answer, ResponseError):
        if "WRONGTYPE" in str(answer):
            return Counter(holding=Holding.OTHER)
        raise answer
    if isinstance(answer, bytes):
        return Counter(holding=Holding.TEXT, text=answer.decode("latin-1"))
    if answer is not None:
        raise RetryableError(f"Redis answered {type(answer).__name__} for a counter")
    return Counter(holding=Holding.NOTHING)


def _state(counter: Counter) -> bytes:
    """The counter as the script compares it."""
    marks = {Holding.NOTHING: b"-", Holding.OTHER: b"!"}
    return marks.get(counter.holding) or b"=" + counter.text.encode("latin-1")
