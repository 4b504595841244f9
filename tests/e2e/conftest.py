"""One stack for all tests that want no other: they post jobs as a caller does, and real processes do them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devstack.stack import Stack
from tests.operator import Operator

PARTS = ("valkey", "mongo", "sandbox", "migrate", "worker", "api")
# Short times, so that a test can wait for what takes a minute in production.
QUICK = {
    "JOB_HEARTBEAT_TTL_MS": "4000",
    "JOB_GRACE_S": "2",
    "SOCIAL_RECORD_TOKEN_LOCK_TTL_MS": "2000",
    "SOCIAL_RECORD_RECONCILE_LOCK_TTL_MS": "2000",
    "SOCIAL_RECORD_RETRY_LOCK_TTL_MS": "2000",
    "HTTP_READ_TIMEOUT_MS": "1500",
    "TRACKER_TIMEOUT_MS": "1000",
}


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    with Stack(parts=PARTS, workers=2, worker_threads=12, environ=QUICK) as stack:
        yield stack


@pytest.fixture
def operator(stack: Stack) -> Iterator[Operator]:
    operator = Operator(stack)
    operator.sandbox.reset()
    yield operator
    operator.close()
