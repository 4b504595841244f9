"""Turns candidates into stored transactions: `getTransaction`, the canonical form, one row; each attempt
observed.

What is stored already is never asked for. Every attempt that was made leaves one observation, whatever came
of it. A candidate ends persisted, missing or failed; what says more about the endpoint than about the
candidate (a used-up plan, a wrong key, outages in a row) ends the session instead, and the next one finds
what is missing.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from workers.clock import Clock
from workers.errors import InvalidInput, UpstreamFailed
from workers.solana_backfill.campaign_words import CandidateOutcome
from workers.solana_backfill.canonical import canonical_transaction
from workers.solana_backfill.canonical_model import CanonicalTransaction
from workers.solana_backfill.ledger import Admitted, Ledger, Settled
from workers.solana_backfill.observations import Observation, ObservationRepository, ObservationStatus
from workers.solana_backfill.pacer import Halted
from workers.solana_backfill.patience import Patience
from workers.solana_backfill.rejection import PayloadRejected, malformed
from workers.solana_backfill.rpc import RPCAnswer, RPCFailed, RPCSession
from workers.solana_backfill.rpc_failures import FailureKind
from workers.solana_backfill.transactions import StoreOutcome, TransactionRepository
from workers.solana_backfill.vocabulary import FilterCode

log = logging.getLogger(__name__)

# Signatures in a row for which the endpoint says that it keeps no history.
NO_HISTORY_MAX = 3
# Signatures in a row that used up their tries on outages. More than one session has threads fail at once.
OUTAGES_MAX = 20
CONTENT_DIFFERS = "content_differs"
TOO_LARGE = "too_large_to_store"
_ALREADY_PRESENT = Settled(outcome=CandidateOutcome.ALREADY_PRESENT)
_ENDS_SESSION = frozenset({FailureKind.RATE_LIMITED, FailureKind.PLAN_USED_UP, FailureKind.REFUSED})


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservedAs:
    """What all observations of one session say. `is_listed` is whether the endpoint itself named the
    signatures.
    """

    session_id: str
    filter_code: FilterCode
    is_listed: bool


class Hydration:
    """The hydration of one session's candidates. `work` may run on any number of threads at once."""

    def __init__(
        self,
        *,
        session: RPCSession,
        ledger: Ledger,
        known: Collection[str],
        transactions: TransactionRepository,
        observations: ObservationRepository,
        clock: Clock,
        observed_as: ObservedAs,
        random: Callable[[], float],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._known = known
        self._transactions = transactions
        self._observations = observations
        self._clock = clock
        self._observed_as = observed_as
        self._random = random
        self._row = _FailuresInARow()

    @property
    def doubtful(self) -> Collection[int]:
        """Places of candidates that failed in the row of outages that ended the session."""
        return self._row.outages

    def work(self) -> None:
        """Work off candidates until there are none.

        Raises `Halted`, `UpstreamFailed` when the endpoint is of no use any more, and what the store raises.
        """
        while not self._session.halt.is_set() and (candidate := self._ledger.admit()) is not None:
            is_known = candidate.listed.signature in self._known
            settled = _ALREADY_PRESENT if is_known else self._hydrate(candidate)
            self._ledger.settle(candidate.place, settled)

    def _hydrate(self, candidate: Admitted) -> Settled:
        signature = candidate.listed.signature
        patience = Patience(self._random)
        for attempt in itertools.count(1):
            came_of_it = self._try(_Attempt(candidate=candidate, number=attempt), patience)
            if isinstance(came_of_it, Settled):
                return came_of_it
            if self._clock.wait(self._session.halt, came_of_it):
                break
        raise Halted(f"the session has ended before {signature} was settled")

    def _try(self, attempt: _Attempt, patience: Patience) -> Settled | float:
        """Make one attempt: what came of the candidate, or how many seconds to wait before the next one."""
        try:
            answer = self._session.get_transaction(attempt.signature)
        except RPCFailed as exc:
            self._observe(attempt, exc, ObservationStatus.FAILED, error_code=exc.reason)
            wait_s = patience.after(exc.kind)
            if wait_s is None:
                self._row.note_failure(attempt.candidate.place, exc)
                return Settled(outcome=CandidateOutcome.FAILED, reason=exc.reason)
            return wait_s
        self._row.note_answer()
        if answer.result is None:
            self._observe(attempt, answer, ObservationStatus.MISSING)
            wait_s = patience.after_null() if self._observed_as.is_listed else None
            return Settled(outcome=CandidateOutcome.MISSING) if wait_s is None else wait_s
        return self._keep(attempt, answer)

    def _keep(self, attempt: _Attempt, answer: RPCAnswer) -> Settled:
        """Store what the node tells, unless it is no transaction."""
        try:
            transaction = _canonical(answer.result, attempt.signature)
        except PayloadRejected as exc:
            return self._failed(attempt, answer, exc.reason.value)
        self._check_open()
        try:
            stored = self._transactions.store(transaction)
        except InvalidInput:
            return self._failed(attempt, answer, TOO_LARGE)
        if stored.outcome is StoreOutcome.DIFFERENT:
            log.warning("a node tells a transaction otherwise", extra={"signature": attempt.signature})
            return self._failed(attempt, answer, CONTENT_DIFFERS, content_hash=stored.content_hash)
        self._observe(attempt, answer, ObservationStatus.PERSISTED, content_hash=stored.content_hash)
        return Settled(outcome=CandidateOutcome.PERSISTED)

    def _failed(
        self, attempt: _Attempt, answer: RPCAnswer, reason: str, *, content_hash: str | None = None
    ) -> Settled:
        self._observe(attempt, answer, ObservationStatus.FAILED, error_code=reason, content_hash=content_hash)
        return Settled(outcome=CandidateOutcome.FAILED, reason=reason)

    def _observe(
        self,
        attempt: _Attempt,
        call: RPCAnswer | RPCFailed,
        status: ObservationStatus,
        *,
        error_code: str | None = None,
        content_hash: str | None = None,
    ) -> None:
        self._check_open()
        endpoint = self._session.endpoint
        self._observations.append(
            Observation.of(
                signature=attempt.signature,
                session_id=self._observed_as.session_id,
                attempt=attempt.number,
                filter_code=self._observed_as.filter_code,
                commitment=self._session.commitment,
                provider=endpoint.provider,
                endpoint=endpoint.address,
                started_at=call.started_at,
                ended_at=call.finished_at,
                status=status,
                error_code=error_code,
                content_hash=content_hash,
                body=call.received,
            )
        )

    def _check_open(self) -> None:
        """Raise `Halted` when the session has ended; before each write."""
        if self._session.halt.is_set() or not self._ledger.is_open:
            raise Halted("the session has ended")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    candidate: Admitted
    number: int

    @property
    def signature(self) -> str:
        return self.candidate.listed.signature


class _FailuresInARow:
    """Counts what, in a row, says that the endpoint is of no use. An answer ends the row."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._without_history = 0
        self.outages: list[int] = []

    def note_answer(self) -> None:
        """The endpoint has answered, if only that it does not have the transaction."""
        with self._guard:
            self._without_history = 0
            self.outages.clear()

    def note_failure(self, place: int, error: RPCFailed) -> None:
        """A candidate is given up. Raises `UpstreamFailed` when the endpoint is of no use any more."""
        with self._guard:
            if error.kind is FailureKind.NO_HISTORY:
                self._without_history += 1
                self.outages.clear()
            elif error.kind is FailureKind.TRANSIENT:
                self.outages.append(place)
            elif error.kind not in _ENDS_SESSION:
                self._without_history = 0
                self.outages.clear()
            if (
                error.kind in _ENDS_SESSION
                or self._without_history >= NO_HISTORY_MAX
                or len(self.outages) >= OUTAGES_MAX
            ):
                raise UpstreamFailed(f"the endpoint finally failed: {error}")


def _canonical(result: object, signature: str) -> CanonicalTransaction:
    if not isinstance(result, dict):
        raise malformed("is no object", field="result")
    return canonical_transaction(result, signature)
