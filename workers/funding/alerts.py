"""What people are told about counters: in the log always, and in a channel once.

A channel is a webhook that takes Slack's messages. It hears of a property and a reason once a night, however
often the reconciliation is repeated; the log has every time. An alert that cannot be delivered is logged and
never fails what it is about.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import Budget, Clock
from workers.errors import ConvergeError
from workers.funding.evaluate import Reading, Readings
from workers.funding.vocabulary import AlertReason
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Redirects, Request
from workers.http.retry import FREE

log = logging.getLogger(__name__)

SOURCE = "alert_webhook"
NAME = "funding-counter-reconciliation"
SKIP_PREFIX = "[SKIP REDIS WRITE] "
DELIVERY_BUDGET_S = 20.0
CALL_TIMEOUT_S = 5.0
# While one process delivers, no other does; after that the alert is known for the rest of the night.
DELIVERING_TTL_S = 60
DELIVERED_TTL_S = 2 * 86_400
# A message is for reading, and Slack cuts long ones.
TEXT_MAX = 1000
_GOOD = frozenset({AlertReason.FIXED, AlertReason.WOULD_FIX})


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """One thing that people should know.

    `property_id` is None for what is about the whole run. `delta` is how far the counters were moved, or
    would have been; `readings` is what was seen before.
    """

    reason: AlertReason
    property_id: str | None = None
    capacity: int | None = None
    delta: Mapping[str, int | None] | None = None
    readings: Readings = ()
    detail: str = ""

    @property
    def name(self) -> str:
        """Which of the two kinds of alert it is."""
        return f"{NAME}-{'fixed' if self.reason in _GOOD else 'failed'}"

    def facts(self) -> dict[str, object]:
        """What is known, in the order in which people want it."""
        found: dict[str, object] = {"property": self.property_id or "all", "reason": self.reason.value}
        if self.capacity is not None:
            found["capacity"] = self.capacity
        if self.delta is not None:
            found["delta"] = dict(self.delta)
        if self.readings:
            found["truth"] = _split(self.readings[-1])
            found["reads"] = len(self.readings)
            found["readings"] = [reading.to_json() for reading in self.readings]
        if self.detail:
            found["detail"] = self.detail
        return found


@dataclass(kw_only=True)
class FundingAlerts:
    """See the module docstring. Without a `webhook_url` there is the log alone."""

    redis: Redis
    http: OutboundClient
    clock: Clock
    webhook_url: str | None = field(default=None, repr=False)

    def send(self, alert: Alert) -> None:
        """Log the alert, and tell the channel unless it was told this night."""
        level = logging.WARNING if alert.reason in _GOOD else logging.ERROR
        log.log(level, alert.name, extra={"alert": alert.facts()})
        if self.webhook_url is None:
            return
        night = self.clock.now().date().isoformat()
        mark = f"converge:funding:alert:{night}:{alert.property_id or '*'}:{alert.reason.value}"
        if not self._claim(mark):
            return
        is_delivered = self._deliver(self.webhook_url, alert)
        self._settle(mark, is_delivered=is_delivered)

    def _claim(self, mark: str) -> bool:
        try:
            return bool(self.redis.set(mark, "1", nx=True, ex=DELIVERING_TTL_S))
        except RedisError:
            # Twice is better than not at all.
            log.warning("nobody knows whether the alert was sent before")
            return True

    def _deliver(self, url: str, alert: Alert) -> bool:
        request = Request(
            source=SOURCE,
            url=url,
            destination=Destination.SERVICE,
            method="POST",
            json_body=message_of(alert),
            redirects=Redirects.NEVER,
            retry=FREE,
            timeout_s=CALL_TIMEOUT_S,
        )
        try:
            response = self.http.fetch(request, Budget.of(self.clock, DELIVERY_BUDGET_S))
        except ConvergeError as exc:
            log.error("an alert was not delivered", extra={"alert": alert.name, "cause": str(exc)})  # noqa: TRY400
            return False
        if not 200 <= response.status < 300:
            log.error("an alert was refused", extra={"alert": alert.name, "status": response.status})
            return False
        return True

    def _settle(self, mark: str, *, is_delivered: bool) -> None:
        """Remember that the channel was told, or let the next try tell it."""
        try:
            if is_delivered:
                self.redis.set(mark, "1", ex=DELIVERED_TTL_S)
            else:
                self.redis.delete(mark)
        except RedisError:
            log.warning("nobody will know that the alert was sent")


def message_of(alert: Alert) -> dict[str, object]:
    """The alert as a message with fields, see https://docs.slack.dev/legacy/legacy-messaging.

    Others than Slack take this form as well.
    """
    prefix = SKIP_PREFIX if alert.reason is AlertReason.WOULD_FIX else ""
    about = f"property {alert.property_id}" if alert.property_id else "the whole run"
    fields = [
        {"title": name, "value": _escaped(_plain(value)), "short": name not in ("readings", "detail")}
        for name, value in alert.facts().items()
    ]
    return {
        "text": f"{prefix}{alert.name}: {about}: {alert.reason.value}",
        "attachments": [{"color": "warning" if alert.reason in _GOOD else "danger", "fields": fields}],
    }


def _split(reading: Reading) -> dict[str, int]:
    """The truth by who bought."""
    truth = reading.truth
    return {
        "purchased": truth.purchased,
        "direct": truth.purchased - truth.auto_invest,
        "autoInvest": truth.auto_invest,
    }


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    if isinstance(value, list):
        return "; ".join(_plain(each) for each in value)
    return "none" if value is None else str(value)


def _escaped(text: str) -> str:
    """The text with the three letters that would be markup written out, see
    https://docs.slack.dev/messaging/formatting-message-text#escaping."""
    return text[:TEXT_MAX].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
