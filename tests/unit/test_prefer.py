"""How long a caller is willing to wait (RFC 7240)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.rendering import WAIT_MAX_S, preferred_wait_s


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ("wait=10", 10),
        ("Wait = 10", 10),
        ('wait="10"', 10),
        ("respond-async, wait=5", 5),
        ("wait=5; extension=1", 5),
        ("wait=0", 0),
        ("wait=61", WAIT_MAX_S),
        ("wait=999999999", WAIT_MAX_S),
        ("wait", None),
        ("wait=-1", None),
        ("wait=1.5", None),
        ("wait=ten", None),
        ("await=5", None),
    ],
)
def test_a_wait_is_read_capped_and_ignored_when_it_makes_no_sense(header: str, expected: int | None) -> None:
    assert preferred_wait_s(header) == expected


@given(st.text())
def test_no_header_breaks_it(header: str) -> None:
    wait_s = preferred_wait_s(header)
    assert wait_s is None or 0 <= wait_s <= WAIT_MAX_S
