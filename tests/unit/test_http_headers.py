"""A header that cannot be sent is our own mistake, and its value is told to nobody."""

from __future__ import annotations

import logging
import traceback

import pytest
import responses

from tests.conftest import FakeClock, make_settings
from workers.clock import Budget
from workers.errors import FetchFailed
from workers.http.client import OutboundClient
from workers.http.messages import Request

URL = "https://site.example.com/x"


def asked(clock: FakeClock, key: str) -> FetchFailed:
    client = OutboundClient(make_settings(), clock)
    request = Request(source="tracker", url=URL, headers={"X-API-Key": key})
    with pytest.raises(FetchFailed) as caught:
        client.fetch(request, Budget.of(clock, 60))
    return caught.value


@pytest.mark.parametrize("key", ["hidden-1\n", "hidden-1\r\nX: y", " hidden-1"])
def test_a_header_that_the_library_refuses_is_misconfigured_and_not_quoted(
    key: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    failure = asked(clock, key)
    assert failure.reason == "misconfigured"
    assert failure.__cause__ is None
    told = (
        "".join(traceback.format_exception(failure)) + caplog.text + repr([vars(r) for r in caplog.records])
    )
    assert "hidden-1" not in told


@responses.activate
def test_a_header_that_has_no_bytes_is_misconfigured_too(clock: FakeClock) -> None:
    responses.get(URL, body=UnicodeEncodeError("latin-1", "hidden-1\u20ac", 8, 9, "ordinal not in range"))
    failure = asked(clock, "hidden-1\u20ac")
    assert failure.reason == "misconfigured"
    assert "hidden-1" not in "".join(traceback.format_exception(failure))
    assert len(responses.calls) == 1, "asking again would not help"
