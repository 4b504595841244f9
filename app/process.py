"""What one API process holds: the way to the jobs, and the bounds that keep its threads free.

A caller that waits holds a thread. Without a bound, as many of them as there are threads would keep out every
other request, health included.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from flask import current_app

from workers.clock import Clock
from workers.services import JobAccess

READINESS_TTL_S = 1.0
EXTENSION = "converge"


class Readiness:
    """The last look at what is ready. One thread looks at a time; the others get what it saw before."""

    def __init__(self, look: Callable[[], dict[str, str]], clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._looking = threading.Lock()
        self._seen: tuple[float, dict[str, str]] | None = None

    def latest(self) -> dict[str, str] | None:
        """The state of each part, at most a second old unless somebody is looking; None before any look."""
        seen = self._seen
        if seen is not None and self._clock.monotonic() - seen[0] < READINESS_TTL_S:
            return seen[1]
        if not self._looking.acquire(blocking=False):
            return None if seen is None else seen[1]
        try:
            checks = self._look()
            self._seen = (self._clock.monotonic(), checks)
            return checks
        finally:
            self._looking.release()


@dataclass(frozen=True, kw_only=True, slots=True)
class APIProcess:
    """One per process. A request takes a place among `waiters` before it waits, and never waits for one."""

    access: JobAccess
    readiness: Readiness
    waiters: threading.BoundedSemaphore

    @classmethod
    def around(cls, access: JobAccess) -> APIProcess:
        """Build what the process needs beside the access; opens no connection."""
        return cls(
            access=access,
            readiness=Readiness(access.readiness, Clock()),
            waiters=threading.BoundedSemaphore(access.settings.api_waiters_max),
        )


def this_process() -> APIProcess:
    """The holder of the running app."""
    process: APIProcess = current_app.extensions[EXTENSION]
    return process
