"""Remembers paid runs, so that work that was paid for is found again by the attempt that comes after a crash.

Owns the notes in Redis, one per question to an actor. Never decides whether a run is of use. A note is made
before a run is asked for and completed when its id is known: whatever happens in between, the next attempt
knows that there may be a run, and since when.
"""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from redis import Redis
from redis.exceptions import RedisError

from workers.clock import from_iso, to_iso
from workers.errors import RetryableError

log = logging.getLogger(__name__)

KEY_PREFIX = "converge:paid-run:"
STORE_AWAY = (RedisError, OSError)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunNote:
    """What is known of a run: when it was asked for, on our clock, and its id once that has been told."""

    begun_at: datetime
    run_id: str | None = None


class RunMemory(Protocol):
    """Where notes about runs are kept, by the name of the question."""

    def recall(self, question: str) -> RunNote | None:
        """The note about `question`, or None.

        Raises `RetryableError` when the store cannot be asked: nobody may pay without having looked.
        """

    def keep(self, question: str, note: RunNote, *, ttl_s: int) -> None:
        """Put the note in the place of an older one, for `ttl_s` seconds. Raises `RetryableError`."""

    def forget(self, question: str) -> None:
        """Drop the note; a store that cannot be asked keeps it until it expires."""


class RedisRunMemory:
    """The notes of all workers, in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def recall(self, question: str) -> RunNote | None:
        """See `RunMemory`. A note that nobody can read is none."""
        try:
            text = self._redis.get(_key(question))
        except STORE_AWAY as exc:
            raise RetryableError("the memory of paid runs cannot be asked") from exc
        return None if text is None else _read(text)

    def keep(self, question: str, note: RunNote, *, ttl_s: int) -> None:
        """See `RunMemory`."""
        text = json.dumps({"begun_at": to_iso(note.begun_at), "run_id": note.run_id})
        try:
            self._redis.set(_key(question), text, ex=ttl_s)
        except STORE_AWAY as exc:
            raise RetryableError("the memory of paid runs cannot be asked") from exc

    def forget(self, question: str) -> None:
        """See `RunMemory`."""
        try:
            self._redis.delete(_key(question))
        except STORE_AWAY as exc:
            log.warning("a paid run could not be forgotten", extra={"error": repr(exc)})


class NoRunMemory:
    """For processes that ask nobody. Who asks all the same is refused before anything is paid for."""

    def recall(self, question: str) -> RunNote | None:
        """Always raises `RetryableError`."""
        raise RetryableError(f"there is no memory of paid runs here, so nobody may pay for {question}")

    def keep(self, question: str, note: RunNote, *, ttl_s: int) -> None:
        """Always raises `RetryableError`."""
        raise RetryableError(f"there is no memory of paid runs here for {question}: {note}, {ttl_s} s")

    def forget(self, question: str) -> None:
        """There is nothing to forget."""


def _key(question: str) -> str:
    return KEY_PREFIX + hashlib.sha256(question.encode()).hexdigest()


def _read(text: bytes | str) -> RunNote | None:
    try:
        values = json.loads(text)
        run_id = values["run_id"]
        return RunNote(begun_at=from_iso(values["begun_at"]), run_id=None if run_id is None else str(run_id))
    except (ValueError, KeyError, TypeError):
        return None
