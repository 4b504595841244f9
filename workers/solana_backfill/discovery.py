"""Finds the signatures of a campaign: pages of `getSignaturesForAddress`, in either direction from an anchor.

It relies on the order of the answers (newest first) and on nothing else about a page: a short page is no end,
a full one may have an entry too many, and neighbouring pages may overlap. Each signature is selected once, at
its first occurrence. A bound that the node does not know is an error and never an empty history; nodes that
keep silent about it are found out by the slots that they list.

There is no "after" in the RPC: `until` cuts off the old end only, so the newest come first and those next to
the anchor last. Hence all of them are walked through, and only the last `limit` are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import TypeVar

from workers.clock import Clock
from workers.errors import ConvergeError, UpstreamFailed
from workers.solana_backfill.campaign_words import Direction, HistoryEnd
from workers.solana_backfill.pacer import Halted
from workers.solana_backfill.patience import Patience
from workers.solana_backfill.rpc import PAGE_SIZE_MAX, RPCFailed, RPCSession
from workers.solana_backfill.rpc_failures import UNSUPPORTED_VERSION, FailureKind
from workers.solana_backfill.signature_page import ListedSignature
from workers.solana_backfill.transactions import TransactionRepository

T = TypeVar("T")

NO_OLDER_SIGNATURES = "anchor returned no older signatures"
LAST_PAGE_WAS_SHORT = "the last allowed page was short, which is taken for the end"


class UnknownBound(ConvergeError):
    """The endpoint does not know the anchor, or a page's last signature any more."""


class TooManyPages(ConvergeError):
    """The pages that were allowed do not reach the anchor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What to look for. `anchor` is exclusive; `after` needs one. Selected are `limit` signatures at most."""

    address: str
    direction: Direction
    anchor: str | None
    limit: int
    pages_max: int
    include_failed: bool


@dataclass(kw_only=True, slots=True)
class Found:
    """How far a search has come; its thread changes it while others look.

    `inspected` counts listed entries, `repeated` those among them that had been listed before, `left_out`
    failed transactions that were not wanted. `is_limited` says that there were more than the limit, or may
    be; `is_finished`, that nothing but its own rules ended the search.
    """

    pages: int = 0
    inspected: int = 0
    repeated: int = 0
    left_out: int = 0
    is_limited: bool = False
    is_finished: bool = False
    end: HistoryEnd = HistoryEnd.NOT_REACHED
    note: str | None = None


class Discovery:
    """One search of one session.

    `selected` are the candidates, next to the anchor (or newest) first, which is the order in which they are
    worked off. An unfinished search for what is after the anchor has none: which are next to it is not known
    before its end.
    """

    def __init__(
        self,
        session: RPCSession,
        transactions: TransactionRepository,
        clock: Clock,
        search: Search,
        *,
        random: Callable[[], float],
    ) -> None:
        self.found = Found()
        self.selected: tuple[ListedSignature, ...] = ()
        self._session = session
        self._transactions = transactions
        self._clock = clock
        self._search = search
        self._random = random
        self._seen: set[str] = set()
        self._kept: deque[ListedSignature] = deque(maxlen=search.limit)

    @property
    def remembered(self) -> Set[str]:
        """The signatures that are kept to know repeated ones: 1,000 a page at most, and the anchor."""
        return self._seen

    def run(self) -> None:
        """Search to an end.

        Raises `UnknownBound`, `TooManyPages`, `UpstreamFailed` when the endpoint finally does not answer,
        `Halted` when the session ends first, and what the store raises.
        """
        if self._search.direction is Direction.BEFORE:
            self._search_before()
        else:
            self._search_after()
        self.found.is_finished = True

    def _search_before(self) -> None:
        search, found = self._search, self.found
        cursor = search.anchor
        self._seen |= {cursor} if cursor else set()
        while found.pages < search.pages_max:
            missing = search.limit - len(self._kept)
            size = min(missing, PAGE_SIZE_MAX) if search.include_failed else PAGE_SIZE_MAX
            page = self._page(size, before=cursor)
            if not page:
                self._end_before()
                return
            for entry in page:
                if len(self._kept) < search.limit:
                    self._inspect(entry)
            self.selected = tuple(self._kept)
            cursor = page[-1].signature
            if len(self._kept) == search.limit:
                found.is_limited = True
                return

    def _end_before(self) -> None:
        is_first = self.found.pages == 1
        is_unproven = is_first and self._search.anchor is not None
        self.found.end = HistoryEnd.UNPROVEN if is_unproven else HistoryEnd.REACHED
        self.found.note = NO_OLDER_SIGNATURES if is_unproven else None

    def _search_after(self) -> None:
        search, found = self._search, self.found
        anchor = search.anchor or ""
        anchor_slot = self._slot_of(anchor)
        cursor: str | None = None
        size = 0
        while found.pages < search.pages_max:
            # What a page has too much is at its old end, and comes again as the first of the next one.
            page = self._page(PAGE_SIZE_MAX, before=cursor, until=anchor)[:PAGE_SIZE_MAX]
            if not page:
                self._end_after(HistoryEnd.REACHED)
                return
            _check_bound(page, anchor, anchor_slot)
            for entry in page:
                self._inspect(entry)
            cursor, size = page[-1].signature, len(page)
        if size >= PAGE_SIZE_MAX:
            raise TooManyPages(
                f"{found.inspected} signatures were inspected on {found.pages} pages without reaching the"
                " anchor; raise maxPages or choose a later anchor"
            )
        found.note = LAST_PAGE_WAS_SHORT
        self._end_after(HistoryEnd.UNPROVEN)

    def _end_after(self, end: HistoryEnd) -> None:
        self.found.end = end
        self.selected = tuple(reversed(self._kept))

    def _inspect(self, entry: ListedSignature) -> None:
        self.found.inspected += 1
        if entry.signature in self._seen:
            self.found.repeated += 1
            return
        self._seen.add(entry.signature)
        if entry.has_failed and not self._search.include_failed:
            self.found.left_out += 1
            return
        self.found.is_limited |= len(self._kept) == self._search.limit
        self._kept.append(entry)

    def _page(
        self, size: int, *, before: str | None, until: str | None = None
    ) -> tuple[ListedSignature, ...]:
        session, address = self._session, self._search.address
        try:
            page = self._patiently(
                lambda: session.get_signatures(address, limit=size, before=before, until=until)
            )
        except RPCFailed as exc:
            raise _final(exc) from exc
        if session.halt.is_set():
            raise Halted("the session has ended")
        self.found.pages += 1
        return page

    def _slot_of(self, anchor: str) -> int | None:
        """The anchor's slot; None when the node has the anchor and cannot show it.

        Raises `UnknownBound` when it does not show it, because it would then not stop there either.
        """
        stored = self._transactions.find_by_signature(anchor)
        if stored is not None:
            return stored.transaction.slot
        patience = Patience(self._random)
        try:
            while (result := self._patiently(lambda: self._session.get_transaction(anchor)).result) is None:
                wait_s = patience.after_null()
                if wait_s is None:
                    raise UnknownBound(f"the endpoint does not know {anchor}")
                self._wait(wait_s)
        except RPCFailed as exc:
            if exc.reason == UNSUPPORTED_VERSION:
                return None
            raise _final(exc) from exc
        slot = result.get("slot") if isinstance(result, dict) else None
        return slot if type(slot) is int else None

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask until there is an answer. Raises the last `RPCFailed` when it is not worth to ask again."""
        patience = Patience(self._random)
        while True:
            try:
                return ask()
            except RPCFailed as exc:
                wait_s = patience.after(exc.kind)
                if wait_s is None:
                    raise
            self._wait(wait_s)

    def _wait(self, seconds: float) -> None:
        if self._clock.wait(self._session.halt, seconds):
            raise Halted("the session has ended")


def _check_bound(page: tuple[ListedSignature, ...], anchor: str, anchor_slot: int | None) -> None:
    """Raise `UnknownBound` when the page goes past the anchor: a node that does not know it ignores it."""
    is_past = anchor_slot is not None and any((entry.slot or 0) < anchor_slot for entry in page)
    if is_past or any(entry.signature == anchor for entry in page):
        raise UnknownBound(f"the endpoint lists what is older than {anchor}, so it does not know it")


def _final(error: RPCFailed) -> ConvergeError:
    if error.kind is FailureKind.BOUND_NOT_FOUND:
        return UnknownBound(f"{error}: the endpoint does not know the signature to start or end at")
    return UpstreamFailed(f"the endpoint finally failed: {error}")
