"""Which candidates have started and what came of them. Pure but for a lock; it waits for nobody.

The invariants hold at every moment: `selected = started + not_started` and, once it is closed, `started =
completed + cancelled`. Candidates start in their order. Nothing starts and nothing is settled after the end,
so the counts of a closed ledger stand.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workers.solana_backfill.campaign_words import CandidateOutcome
from workers.solana_backfill.signature_page import ListedSignature


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """What came of one candidate; `reason` is a stable code, None where nothing went wrong."""

    outcome: CandidateOutcome
    reason: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """A candidate that has started; `place` is its position in the order."""

    place: int
    listed: ListedSignature


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerCounts:
    """The counts of one moment; `cancelled` is 0 until the end."""

    selected: int
    started: int
    completed: int
    cancelled: int
    by_outcome: Counter[CandidateOutcome]

    @property
    def not_started(self) -> int:
        """Those that were never admitted."""
        return self.selected - self.started


_CANCELLED = Settled(outcome=CandidateOutcome.CANCELLED)


class Ledger:
    """See the module docstring. Safe for any number of threads."""

    def __init__(self, candidates: Sequence[ListedSignature]) -> None:
        self._candidates = candidates
        self._settled: dict[int, Settled] = {}
        self._by_outcome: Counter[CandidateOutcome] = Counter()
        self._started = 0
        self._prefix = 0
        self._is_closed = False
        self._guard = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether something may still be written for a candidate."""
        return not self._is_closed

    def admit(self) -> Admitted | None:
        """Start the next candidate; None when there is none or nothing may start any more."""
        with self._guard:
            if self._is_closed or self._started == len(self._candidates):
                return None
            place = self._started
            self._started += 1
            return Admitted(place=place, listed=self._candidates[place])

    def settle(self, place: int, settled: Settled) -> bool:
        """Note what came of a candidate; False when the end came first, and nothing is noted."""
        with self._guard:
            if self._is_closed:
                return False
            self._settled[place] = settled
            self._by_outcome[settled.outcome] += 1
            while self._prefix in self._settled:
                self._prefix += 1
            return True

    def close(self, reopened: Iterable[int] = ()) -> None:
        """End it: what has started and is not settled is cancelled. Repeatable.

        `reopened` are candidates whose outcome is taken back, because it says more about the endpoint than
        about them.
        """
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            for place in reopened:
                if (settled := self._settled.pop(place, None)) is not None:
                    self._by_outcome[settled.outcome] -= 1
                    self._prefix = min(self._prefix, place)
            for place in range(self._started):
                if place not in self._settled:
                    self._settled[place] = _CANCELLED
                    self._by_outcome[CandidateOutcome.CANCELLED] += 1

    def resume_point(self, anchor: str | None) -> str | None:
        """The last signature of the part from the start on in which everything is completed, else `anchor`.

        Stored before, missing and failed count as completed: they are listed and can be asked for again, and
        one that fails for ever must not hold up the rest.
        """
        with self._guard:
            return self._candidates[self._prefix - 1].signature if self._prefix else anchor

    def counts(self) -> LedgerCounts:
        """The counts of this moment."""
        with self._guard:
            by_outcome = self._by_outcome.copy()
            cancelled = by_outcome.pop(CandidateOutcome.CANCELLED, 0)
            return LedgerCounts(
                selected=len(self._candidates),
                started=self._started,
                completed=len(self._settled) - cancelled,
                cancelled=cancelled,
                by_outcome=by_outcome,
            )

    def started(self) -> Iterator[tuple[ListedSignature, Settled]]:
        """Every candidate that has started with what came of it, in their order; of a closed ledger."""
        for place in range(self._started):
            yield self._candidates[place], self._settled.get(place, _CANCELLED)
