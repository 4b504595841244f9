"""One set of servers for all fault tests of a process; each test starts, kills and stops its own workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from devstack.stack import Stack
from tests.faults.crew import Crew
from tests.operator import Operator

# The data are kept, so that a server that was killed comes back with what it had acknowledged.
PARTS = ("valkey", "mongo", "sandbox", "migrate", "api")
QUICK = {
    "JOB_HEARTBEAT_TTL_MS": "2000",
    "JOB_GRACE_S": "2",
    # A message that died with its worker is given up after so long.
    "JOB_QUEUE_EXPIRES_S": "20",
    "SOCIAL_RECORD_TOKEN_LOCK_TTL_MS": "2000",
    "SOCIAL_RECORD_RECONCILE_LOCK_TTL_MS": "2000",
    "SOCIAL_RECORD_RETRY_LOCK_TTL_MS": "2000",
    "TRACKER_TIMEOUT_MS": "5000",
}


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    assert sys.platform == "linux", "the tests stop and kill processes by their pid"
    with Stack(parts=PARTS, root=tmp_path_factory.mktemp("faults"), keep_data=True, environ=QUICK) as stack:
        yield stack


@pytest.fixture
def operator(stack: Stack) -> Iterator[Operator]:
    """An operator in front of servers without tokens, jobs, messages and leases of other tests."""
    operator = Operator(stack)
    operator.sandbox.reset()
    operator.redis.flushall()
    operator.database.tokens.delete_many({})
    yield operator
    operator.close()


@pytest.fixture
def crew(stack: Stack, operator: Operator) -> Iterator[Crew]:
    crew = Crew(stack)
    yield crew
    crew.dismiss()
