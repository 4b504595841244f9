"""What an alert says in a channel."""

from __future__ import annotations

from typing import Any

import pytest

from workers.funding.alerts import TEXT_MAX, Alert, message_of
from workers.funding.counters import auto_invest_key, purchased_key
from workers.funding.evaluate import BrickCounts, Counter, Counters, Holding, Reading
from workers.funding.vocabulary import AlertReason

READING = Reading(
    counters=Counters(purchased=Counter.of(10), auto_invest=Counter.of(3)),
    truth=BrickCounts(purchased=9, auto_invest=3),
)


def fields_of(alert: Alert) -> dict[str, str]:
    message: Any = message_of(alert)
    [attachment] = message["attachments"]
    return {each["title"]: each["value"] for each in attachment["fields"]}


def test_a_fixed_alert_has_the_delta_the_split_of_the_truth_and_the_number_of_reads() -> None:
    alert = Alert(
        reason=AlertReason.FIXED,
        property_id="p1",
        capacity=10,
        delta={"purchased": -1, "autoInvest": 0},
        readings=(READING, READING),
    )
    assert message_of(alert)["text"] == "funding-counter-reconciliation-fixed: property p1: fixed"
    fields = fields_of(alert)
    assert fields["delta"] == "purchased -1, autoInvest 0"
    assert fields["truth"] == "purchased 9, direct 6, autoInvest 3"
    assert fields["reads"] == "2"
    assert fields["readings"].count("truth purchased 9") == 2


def test_an_alert_about_a_write_that_was_left_out_begins_with_its_mark() -> None:
    alert = Alert(reason=AlertReason.WOULD_FIX, property_id="p1")
    assert message_of(alert)["text"] == (
        "[SKIP REDIS WRITE] funding-counter-reconciliation-fixed: property p1: would-fix"
    )


@pytest.mark.parametrize(
    "reason", sorted(set(AlertReason) - {AlertReason.FIXED, AlertReason.WOULD_FIX}, key=str)
)
def test_everything_else_is_a_failed_alert(reason: AlertReason) -> None:
    message = message_of(Alert(reason=reason, property_id="p1"))
    assert message["text"] == f"funding-counter-reconciliation-failed: property p1: {reason.value}"


def test_an_alert_about_the_whole_run_names_no_property() -> None:
    message = message_of(Alert(reason=AlertReason.UNEXPECTED, detail="the database failed"))
    assert message["text"] == "funding-counter-reconciliation-failed: the whole run: unexpected"


def test_what_stands_in_a_counter_is_no_markup_and_does_not_flood_the_channel() -> None:
    fields = fields_of(Alert(reason=AlertReason.COUNTER_NOT_A_NUMBER, detail="<!channel> & more" * 1000))
    assert fields["detail"].startswith("&lt;!channel&gt; &amp; more")
    assert len(fields["detail"]) < TEXT_MAX * 2
    odd = Reading(
        counters=Counters(purchased=Counter(holding=Holding.TEXT, text="x" * 500)), truth=READING.truth
    )
    assert len(fields_of(Alert(reason=AlertReason.FIXED, readings=(odd,)))["readings"]) < 200


def test_the_names_of_the_counters_are_those_of_the_selling_side() -> None:
    assert purchased_key("42") == "property_42_purchased_brick_count"
    assert auto_invest_key("42") == "property_42_auto_invest_purchased_brick_count"
