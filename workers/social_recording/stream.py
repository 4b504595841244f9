"""The live stream: turns messages about moving tokens into recording tasks.

    message -> read strictly -> enough investors? -> asked for lately? -> one task -> acknowledged

A message is acknowledged after its task was published, so a consumer that dies in between causes a second
task for the token, which finds it recorded, and never none. A message that cannot be read is buried among the
malformed ones. While the broker of the tasks is away, messages are held, at most as many as may be in hand;
the rest waits in the queue. Nothing is decided by what Redis remembers: without it a token is asked for more
often.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from enum import StrEnum

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Clock, to_iso
from workers.errors import BrokerUnavailable
from workers.social_recording.live import LiveRequests
from workers.social_recording.stream_broker import LiveMessage, StreamAway, StreamBroker, StreamSession
from workers.social_recording.stream_pulse import StreamPulse
from workers.social_recording.token_flow import MalformedMessage, TokenFlow, read_token_flow

log = logging.getLogger(__name__)

ASKED_KEY = "converge:stream:asked:"
# How long a look for messages may keep a wish to end waiting.
DRAIN_S = 0.5
KEEP_UP_EVERY_S = 5.0
PAUSE_FIRST_S = 0.5
PAUSE_MAX_S = 10.0


class Fate(StrEnum):
    """What became of a message; the words are those of the counts."""

    ASKED = "asked"
    BELOW_THRESHOLD = "belowThreshold"
    REPEATED = "repeated"
    MALFORMED = "malformed"


class TokenFlowIntake:
    """Decides about messages that could be read.

    `threshold` is the number of investors from which on a token is recorded. A token that was asked for is
    not asked for again for `repeat_after_s` seconds.
    """

    def __init__(self, redis: Redis, requests: LiveRequests, *, threshold: int, repeat_after_s: int) -> None:
        self._redis = redis
        self._requests = requests
        self._threshold = threshold
        self._repeat_after_s = repeat_after_s

    def take(self, flow: TokenFlow) -> Fate:
        """Ask for the token if that is due. Raises `BrokerUnavailable` when nobody took the task."""
        if flow.investors < self._threshold:
            return Fate.BELOW_THRESHOLD
        if self._was_asked_for(flow.address):
            return Fate.REPEATED
        self._requests.ask_for(flow.address)
        self._note(flow.address)
        return Fate.ASKED

    def _was_asked_for(self, address: str) -> bool:
        try:
            return bool(self._redis.exists(ASKED_KEY + address))
        except RedisError:
            return False

    def _note(self, address: str) -> None:
        """Only now: a note from before the task would swallow the message that a dead consumer left."""
        try:
            self._redis.set(ASKED_KEY + address, "1", ex=self._repeat_after_s)
        except RedisError:
            log.warning("it could not be noted that a token was asked for", extra={"token": address})


class Pause:
    """A wait that doubles, from half a second to ten."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_s = PAUSE_FIRST_S
        self._until_s = 0.0

    @property
    def is_over(self) -> bool:
        """Whether it is time to try again."""
        return self._clock.monotonic() >= self._until_s

    def begin(self) -> float:
        """Begin one, longer than the last; return its length in seconds."""
        length_s, self._next_s = self._next_s, min(self._next_s * 2, PAUSE_MAX_S)
        self._until_s = self._clock.monotonic() + length_s
        return length_s

    def forget(self) -> None:
        """Something went well: the next one is short again."""
        self._next_s, self._until_s = PAUSE_FIRST_S, 0.0


class StreamConsumer:
    """Consumes until `ending` is set; see the module docstring. One per process, for one thread."""

    def __init__(
        self,
        *,
        broker: StreamBroker,
        intake: TokenFlowIntake,
        pulse: StreamPulse,
        clock: Clock,
        prefetch: int,
        ending: threading.Event,
    ) -> None:
        self._broker = broker
        self._intake = intake
        self._pulse = pulse
        self._clock = clock
        self._prefetch = prefetch
        self._ending = ending
        self._held: deque[LiveMessage] = deque()
        self._counts: Counter[str] = Counter()
        self._tasks_pause = Pause(clock)
        self._next_keep_up_s = 0.0

    def run(self) -> None:
        """Consume; come back for every outage of the broker. What is in hand at the end goes back to it."""
        pause = Pause(self._clock)
        while not self._ending.is_set():
            try:
                with self._broker.session(self._prefetch) as session:
                    log.info("the stream is consumed", extra={"queue": self._broker.queue})
                    pause.forget()
                    self._consume(session)
            except StreamAway as exc:
                # The broker delivers again what this connection had in hand.
                self._held.clear()
                log.warning("the stream is away", extra={"queue": self._broker.queue, "error": str(exc)})
                self._clock.wait(self._ending, pause.begin())
        self._pulse.stop(self._take_counts())
        log.info("the stream is left", extra={"queue": self._broker.queue, "returned": len(self._held)})

    def _consume(self, session: StreamSession) -> None:
        self._next_keep_up_s = 0.0
        while not self._ending.is_set():
            if self._clock.monotonic() >= self._next_keep_up_s:
                waiting = session.keep_up()
                self._pulse.beat(self._take_counts(), waiting=waiting, held=len(self._held))
                self._next_keep_up_s = self._clock.monotonic() + KEEP_UP_EVERY_S
            self._held.extend(session.drain(DRAIN_S))
            self._work_off(session)

    def _work_off(self, session: StreamSession) -> None:
        """Deal with what is held, in order, until something has to be tried again later."""
        while self._held and self._tasks_pause.is_over and not self._ending.is_set():
            try:
                fate = self._deal_with(session, self._held[0])
            except BrokerUnavailable:
                pause_s = self._tasks_pause.begin()
                log.warning("no task could be published", extra={"held": len(self._held), "pause_s": pause_s})
                return
            self._tasks_pause.forget()
            self._held.popleft()
            self._counts[fate] += 1

    def _deal_with(self, session: StreamSession, message: LiveMessage) -> Fate:
        try:
            flow = _read(message)
        except MalformedMessage as exc:
            session.bury(message, reason=exc.reason, field=exc.field, at=to_iso(self._clock.now()))
            log.warning(
                "a message of the stream is malformed",
                extra={"queue": self._broker.queue, "reason": exc.reason, "field": exc.field},
            )
            return Fate.MALFORMED
        fate = self._intake.take(flow)
        session.acknowledge(message)
        return fate

    def _take_counts(self) -> Counter[str]:
        counts, self._counts = self._counts, Counter()
        return counts


def _read(message: LiveMessage) -> TokenFlow:
    if message.is_undecodable:
        raise MalformedMessage("not_decodable")
    return read_token_flow(message.body)
