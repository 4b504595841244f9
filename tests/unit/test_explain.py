"""Which rule decides whether a URL is tried again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from workers.social_graph.token import TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.explain import Rule, decide

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
EARLIER, LATER = NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)


def rule(status: FetchStatus, attempts: int = 1, **facts: Any) -> Rule:
    plain: dict[str, Any] = {
        "obstacle": None,
        "due_at": EARLIER,
        "now": NOW,
        "max_attempts": 5,
        "is_in_work": False,
    }
    element = TokenSocialURL(url="https://a.org/", status=status, attempts=attempts)
    return decide(element, **{**plain, **facts})


@pytest.mark.parametrize(
    ("status", "facts", "expected"),
    [
        (FetchStatus.OK, {"is_in_work": True}, Rule.FINISHED),
        (FetchStatus.NOT_FOUND, {}, Rule.FINAL),
        (FetchStatus.BLOCKED, {}, Rule.FINAL),
        (FetchStatus.INVALID, {}, Rule.FINAL),
        (FetchStatus.EXHAUSTED, {"attempts": 5}, Rule.FINAL),
        (FetchStatus.UNSUPPORTED, {"obstacle": FetchStatus.UNSUPPORTED}, Rule.UNSUPPORTED),
        (FetchStatus.SKIPPED_PAID, {"obstacle": FetchStatus.SKIPPED_PAID}, Rule.PAID_IS_OFF),
        (FetchStatus.SKIPPED_PAID, {"due_at": None}, Rule.DUE),
        (FetchStatus.ERROR, {"is_in_work": True, "due_at": LATER}, Rule.IN_WORK),
        (FetchStatus.ERROR, {"due_at": LATER}, Rule.RESTING),
        (FetchStatus.ERROR, {"due_at": NOW}, Rule.DUE),
        (FetchStatus.ERROR, {}, Rule.DUE),
        (FetchStatus.ERROR, {"attempts": 5}, Rule.OUT_OF_ATTEMPTS),
        (FetchStatus.ERROR, {"attempts": 5, "due_at": LATER}, Rule.RESTING),
        (FetchStatus.SKIPPED_PAID, {"attempts": 5}, Rule.OUT_OF_ATTEMPTS),
        (FetchStatus.UNSUPPORTED, {"attempts": 5}, Rule.OUT_OF_ATTEMPTS),
        (FetchStatus.UNSUPPORTED, {"attempts": 5, "obstacle": FetchStatus.UNSUPPORTED}, Rule.UNSUPPORTED),
    ],
)
def test_the_first_rule_that_applies_decides(
    status: FetchStatus, facts: dict[str, Any], expected: Rule
) -> None:
    assert rule(status, **facts) is expected
