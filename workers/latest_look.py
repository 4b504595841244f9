"""The last result of a look that takes long, for many callers that cannot wait for it.

A look is made in a thread of its own, one at a time, and only when somebody asks; what it found is good for a
while. So a request never takes longer than it is willing to, however large the store is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from workers.clock import Clock
from workers.errors import ConvergeError, RetryableError

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen(Generic[T]):
    """What a look found, and when it began."""

    value: T
    at: datetime


class LatestLook(Generic[T]):
    """See the module docstring. `look` raises a `ConvergeError` when it cannot be made now.

    What was seen is good for `good_for_s` seconds from the beginning of the look on, or for `rest` times as
    long as the look took from its end on, whichever is later.
    """

    def __init__(self, look: Callable[[], T], clock: Clock, *, good_for_s: float, rest: float = 0.0) -> None:
        self._look = look
        self._clock = clock
        self._good_for_s = good_for_s
        self._rest = rest
        self._took_s = 0.0
        self._guard = threading.Lock()
        self._looking: threading.Event | None = None
        self._seen: Seen[T] | None = None
        self._looked_at_s = 0.0
        self._failure: ConvergeError | None = None

    def begin(self) -> None:
        """Have a look made unless the last one is still good; wait for nothing."""
        self._begin_if_old()

    def latest(self, *, wait_s: float) -> Seen[T] | None:
        """What the last look found, after waiting `wait_s` seconds at most for one that is due.

        While a look is being made it is what the one before found; None when there was none. Raises what the
        last look raised.
        """
        looking = self._begin_if_old()
        if looking is not None:
            looking.wait(wait_s)
        with self._guard:
            if self._failure is not None:
                raise self._failure
            return self._seen

    def _begin_if_old(self) -> threading.Event | None:
        """The end of the look that is being made, if one is or had to be begun."""
        with self._guard:
            if self._looking is not None:
                return self._looking
            is_good = self._seen is not None and self._failure is None
            if is_good and self._clock.monotonic() - self._looked_at_s < self._is_good_for_s():
                return None
            self._looking = threading.Event()
            threading.Thread(target=self._run, args=(self._looking,), name="latest-look", daemon=True).start()
            return self._looking

    def _is_good_for_s(self) -> float:
        return max(self._good_for_s, self._took_s * (1 + self._rest) if self._rest else 0.0)

    def _run(self, looking: threading.Event) -> None:
        began_at, began_at_s = self._clock.now(), self._clock.monotonic()
        seen, failure = None, None
        try:
            seen = Seen(value=self._look(), at=began_at)
        except ConvergeError as exc:
            failure = exc
        except Exception as exc:
            # Were this thread to end without a word, everybody would wait for a look that nobody makes.
            log.exception("a look failed in our own code")
            failure = RetryableError("the look failed in our own code")
            failure.__cause__ = exc
        with self._guard:
            self._seen = seen or self._seen
            self._failure = failure
            self._looked_at_s = began_at_s
            self._took_s = self._clock.monotonic() - began_at_s
            self._looking = None
        looking.set()
