"""Recording tokens as they move: what the stream asks for and its task does.

It goes through the recorder that reconcile uses, under the same lease of the token. Whatever comes of it
stays where it is: a token that was locked out, failed or is not known yet is the next reconcile's input.
"""

from __future__ import annotations

import logging

from workers.base58 import is_public_key
from workers.errors import InvalidInput
from workers.jobs.messenger import CeleryMessenger
from workers.social_recording.recording import TokenRecorder

log = logging.getLogger(__name__)

RECORD_LIVE_TOKEN_TASK = "converge.social_recording.record_live_token"
# Behind what jobs hand out (0), so that a flood of live tokens keeps no job from its deadline.
PRIORITY = 5


class LiveRequests:
    """The asking side. Raises `BrokerUnavailable` when the broker did not take the task."""

    def __init__(self, messenger: CeleryMessenger) -> None:
        self._messenger = messenger

    def ask_for(self, address: str) -> None:
        """Have the token recorded, soon and unless it is known."""
        self._messenger.publish_member(
            task=RECORD_LIVE_TOKEN_TASK,
            arguments={"address": address},
            queue="records",
            priority=PRIORITY,
        )


class LiveRecording:
    """The doing side."""

    def __init__(self, recorder: TokenRecorder) -> None:
        self._recorder = recorder

    def record(self, address: str) -> None:
        """Record the token and log what came of it. Raises `InvalidInput` for what is no public key."""
        if not is_public_key(address):
            raise InvalidInput("the address is no public key", field="address")
        report = self._recorder.record(address)
        log.info(
            "a live token was taken up",
            extra={"token": address, "outcome": report.outcome.value, "reason": report.reason},
        )
