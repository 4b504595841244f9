"""The same tokens on a plain Celery chord: one message for each token, results and their count in Redis."""

from __future__ import annotations

import os
from collections.abc import Sequence

from celery import Celery, chord
from celery.concurrency import ALIASES as CONCURRENCY_ALIASES  # type: ignore[attr-defined]
from kombu.transport import TRANSPORT_ALIASES

from bench.fan_out_work import CHORD_BROKER, CHORD_RESULTS, RESULT_TIMEOUT_S, record

# With the recorder came our parts of Celery and kombu; this worker has their own.
CONCURRENCY_ALIASES["threads"] = "celery.concurrency.thread:TaskPool"
TRANSPORT_ALIASES["redis"] = "kombu.transport.redis:Transport"

app = Celery("chord", broker=os.environ[CHORD_BROKER], backend=os.environ[CHORD_RESULTS])


@app.task
def record_token(address: str) -> list[str]:
    """Record one token."""
    return record(address)


@app.task
def statuses_of(statuses: list[list[str]]) -> list[str]:
    """What the chord ends with: how all links ended."""
    return [status for each in statuses for status in each]


def run(addresses: Sequence[str]) -> list[str]:
    """Record the tokens and wait for the end; return how their links ended."""
    result = chord(record_token.s(address) for address in addresses)(statuses_of.s())
    found: list[str] = result.get(timeout=RESULT_TIMEOUT_S)
    return found
