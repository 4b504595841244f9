"""What the measurements of running retry jobs share: URLs to retry, workers, jobs, and how they ended."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from redis import Redis

from devstack import programs
from devstack.processes import ManagedProcess, poll
from devstack.sandbox.client import SandboxClient
from devstack.sandbox.tokens import address_of
from devstack.stack import Stack
from workers.clock import Clock
from workers.jobs.service import Job
from workers.mongo import connect
from workers.services import open_job_access
from workers.settings import read_settings
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.job_kinds import RETRY, RetryRequest

PARTS = ("valkey", "mongo", "sandbox", "migrate")
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
FIRST_POST_ID = 2_000_000_000_000_000_000
JOB_TIMEOUT_S = 120.0
_numbers = itertools.count()


def links(count: int) -> list[str]:
    """Links that nobody has asked about yet, to a site and to a post in turn."""
    numbers = [next(_numbers) for _ in range(count)]
    return [
        f"https://harbor{each}.com/" if each % 2 else f"https://x.com/harbor/status/{FIRST_POST_ID + each}"
        for each in numbers
    ]


class RetryDesk:
    """An operator's place over a running stack. It starts and ends its workers itself."""

    def __init__(self, stack: Stack) -> None:
        os.environ.update(stack.environ)
        self.stack = stack
        self.sandbox = SandboxClient(stack.sandbox_url)
        self.settings = read_settings()
        self.redis = Redis.from_url(self.settings.redis_url)
        self.tokens = TokenRepository(connect(self.settings), Clock())
        self._access = open_job_access(self.settings)
        self._workers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._access.close()
        self.redis.close()

    def worker(
        self, *, queues: str, threads: int, environ: Mapping[str, str] | None = None
    ) -> ManagedProcess:
        """A worker for these queues, not started."""
        worker = programs.worker(
            f"bench-{next(self._workers)}",
            {**self.stack.environ, **(environ or {})},
            self.stack.logs,
            threads=threads,
        )
        argv = list(worker.argv)
        argv[argv.index("-Q") + 1] = queues
        return replace(worker, argv=argv)

    @contextmanager
    def workers(self, *, threads: int) -> Iterator[ManagedProcess]:
        """Inside, one worker runs for both queues."""
        with ExitStack() as exits:
            worker = self.worker(queues="jobs,records", threads=threads)
            worker.start()
            exits.callback(worker.stop)
            yield worker

    def store_posts(self, count: int) -> list[str]:
        """Store tokens with one failed link each, to posts that cost one call; return their addresses."""
        ids = [FIRST_POST_ID + next(_numbers) for _ in range(count)]
        return [self._store(f"https://x.com/harbor/status/{each}", FetchStatus.ERROR) for each in ids]

    def store_links(self, count: int) -> list[str]:
        """Store tokens with one failed link each, to a site and to a post in turn; return their addresses."""
        return [self._store(url, FetchStatus.ERROR) for url in links(count)]

    def store_accounts(self, count: int) -> list[str]:
        """Store tokens with one link each, to accounts that only a paid source shows."""
        names = [f"payer{next(_numbers)}" for _ in range(count)]
        return [self._store(f"https://x.com/{each}", FetchStatus.SKIPPED_PAID) for each in names]

    def _store(self, url: str, status: FetchStatus) -> str:
        is_tried = status is FetchStatus.ERROR
        element = TokenSocialURL(
            url=url,
            status=status,
            attempts=int(is_tried),
            attempted_at=LONG_AGO if is_tried else None,
            reason="http_503" if is_tried else None,
        )
        token = Token.of(address=address_of("bench", url), created_at=LONG_AGO, social_urls=[element])
        self.tokens.insert(token)
        return token.address

    def start_retry(self, addresses: Sequence[str], *, deadline_ms: int = 300_000) -> str:
        """Ask for a retry of these tokens, however short ago they were tried; return the job's id."""
        request = RetryRequest(
            token_addresses=list(addresses), limit=200, min_interval_minutes=0, deadline_ms=deadline_ms
        )
        return self._access.jobs.submit(RETRY, request.with_defaults(self.settings)).record.id

    def job(self, job_id: str) -> Job:
        """The job as it is now."""
        return self._access.jobs.get(job_id)

    def run_retry(self, worker: ManagedProcess, addresses: Sequence[str]) -> str:
        """Retry these tokens; return when the job has ended. Redis is not asked meanwhile, the log is."""
        job_id = self.start_retry(addresses)
        if not poll(lambda: worker.logged(f"[{job_id}] succeeded"), JOB_TIMEOUT_S):
            raise RuntimeError(f"the job {job_id} did not succeed in time")
        return job_id

    def meta(self, job_id: str) -> Mapping[str, Any]:
        """The counts of an ended job. Raises `RuntimeError` when it has none."""
        job = self.job(job_id)
        if job.result is None:
            raise RuntimeError(f"the job {job_id} has no result: {job.state} {job.error}")
        found: Mapping[str, Any] = job.result["meta"]  # type: ignore[assignment]
        return found

    def statuses(self, addresses: Sequence[str]) -> dict[str, int]:
        """How many URLs of these tokens are in which status."""
        found: dict[str, int] = {}
        for address in addresses:
            token = self.tokens.find_by_address(address)
            for element in () if token is None else token.social_urls:
                found[element.status.value] = found.get(element.status.value, 0) + 1
        return found
