"""Why a URL is or is not tried again, and when: the answer that operators ask for most.

It applies the rules of the retry in their order to one URL as it is stored, and names the one that decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from workers.clock import Clock, to_iso
from workers.errors import NotFound
from workers.leases import HeldLease, LeaseBook
from workers.social_graph.graph_reader import TokenNotFound
from workers.social_graph.token import RetryableURL, Token, TokenRepository, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.due import RetryInterval
from workers.social_recording.fetch_status import is_out_of_attempts
from workers.social_recording.recording import token_lease
from workers.social_recording.routing import normalize


class URLNotFound(NotFound):
    """The token has no such URL."""


class Rule(StrEnum):
    """What decides about a URL. The first one that applies, in this order."""

    FINISHED = "finished"
    FINAL = "final"
    UNSUPPORTED = "unsupported"
    PAID_IS_OFF = "paid_is_off"
    OUT_OF_ATTEMPTS = "out_of_attempts"
    IN_WORK = "in_work"
    RESTING = "resting"
    DUE = "due"


_WORDS = {
    Rule.FINISHED: "It is collected; what is ok is never fetched again.",
    Rule.FINAL: "Its status is final. Only a retry that names the status in `statuses` opens it again.",
    Rule.UNSUPPORTED: "No source can be asked about such a place; it costs nothing until there is one.",
    Rule.PAID_IS_OFF: "Only a paid source could be asked, and SOCIAL_RECORD_ENABLE_PAID is off.",
    Rule.OUT_OF_ATTEMPTS: "Its last attempt never ended; the next retry makes it exhausted without a call.",
    Rule.IN_WORK: "Its token is in work right now.",
    Rule.RESTING: "It was tried a short while ago; the next retry after `dueAt` takes it.",
    Rule.DUE: "The next retry takes it, the longest untried URL first.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The answer. `due_at` is the earliest time of a next try; None when there will be none, or any will do.

    `holder` is who has the token in work.
    """

    token: str
    element: TokenSocialURL
    rule: Rule
    due_at: datetime | None = None
    holder: str | None = None

    @property
    def words(self) -> str:
        """The rule in a sentence for people."""
        return _WORDS[self.rule]

    def to_json(self) -> dict[str, object]:
        """The form that the API and the command line show."""
        element = self.element
        return {
            "token": self.token,
            "url": {
                "url": element.url,
                "status": element.status.value,
                "reason": element.reason,
                "attempts": element.attempts,
                "attemptedAt": element.attempted_at and to_iso(element.attempted_at),
            },
            "rule": self.rule.value,
            "explanation": self.words,
            "dueAt": self.due_at and to_iso(self.due_at),
            "holder": self.holder,
        }


def decide(
    element: TokenSocialURL,
    *,
    obstacle: FetchStatus | None,
    due_at: datetime | None,
    now: datetime,
    max_attempts: int,
    is_in_work: bool,
) -> Rule:
    """The rule that decides about a URL. Pure.

    `obstacle` is what keeps every source from being asked, `due_at` the end of its rest.
    """
    if element.status is FetchStatus.OK:
        rule = Rule.FINISHED
    elif element.status.is_absorbing:
        rule = Rule.FINAL
    elif obstacle is FetchStatus.UNSUPPORTED:
        rule = Rule.UNSUPPORTED
    elif obstacle is FetchStatus.SKIPPED_PAID:
        rule = Rule.PAID_IS_OFF
    elif is_in_work:
        rule = Rule.IN_WORK
    elif due_at is not None and due_at > now:
        rule = Rule.RESTING
    elif is_out_of_attempts(element.status, element.attempts, max_attempts):
        rule = Rule.OUT_OF_ATTEMPTS
    else:
        rule = Rule.DUE
    return rule


class URLExplainer:
    """Looks the URL, its token's lease and the sources up. Reads only."""

    def __init__(
        self,
        *,
        tokens: TokenRepository,
        leases: LeaseBook,
        obstacle_to: Callable[[str], FetchStatus | None],
        clock: Clock,
        interval: RetryInterval,
        max_attempts: int,
    ) -> None:
        self._tokens = tokens
        self._leases = leases
        self._obstacle_to = obstacle_to
        self._clock = clock
        self._interval = interval
        self._max_attempts = max_attempts

    def explain(self, address: str, url: str) -> Explanation:
        """Explain one URL of one token, in any spelling of it.

        Raises `TokenNotFound` and `URLNotFound`.
        """
        token = self._tokens.find_by_address(address)
        if token is None:
            raise TokenNotFound(f"no token {address} has been recorded")
        element = _element_of(token, url)
        if element is None:
            raise URLNotFound("the token has no such URL")
        lease = self._leases.find(token_lease(address))
        due_at = self._interval.due_at(_candidate_of(token, element))
        rule = decide(
            element,
            obstacle=self._obstacle_to(element.url),
            due_at=due_at,
            now=self._clock.now(),
            max_attempts=self._max_attempts,
            is_in_work=lease is not None,
        )
        return Explanation(
            token=address,
            element=element,
            rule=rule,
            due_at=due_at if rule in (Rule.RESTING, Rule.DUE, Rule.OUT_OF_ATTEMPTS) else None,
            holder=_holder_of(lease) if rule is Rule.IN_WORK else None,
        )


def _element_of(token: Token, url: str) -> TokenSocialURL | None:
    spellings = {url.strip(), normalize(url).url}
    return next((element for element in token.social_urls if element.url in spellings), None)


def _candidate_of(token: Token, element: TokenSocialURL) -> RetryableURL:
    return RetryableURL(
        address=token.address,
        symbol=token.symbol,
        first_transfer_at=token.first_transfer_at,
        url=element.url,
        status=element.status,
        attempts=element.attempts,
        attempted_at=element.attempted_at,
        reason=element.reason,
    )


def _holder_of(lease: HeldLease | None) -> str | None:
    return None if lease is None else lease.holder
