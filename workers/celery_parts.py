"""Parts of Celery and kombu in place of the originals. `workers.celery_app` and `celeryconfig` name them.

The channel and the consumer do the same as the originals, less often: per task these cost a worker more
processor time than our own use of Redis. The pool keeps jobs, which mostly wait, off the threads that work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from celery.concurrency import thread
from celery.concurrency.base import apply_target
from celery.worker.consumer import Consumer
from kombu.transport import redis as kombu_redis
from vine import promise

# Flower's pages are at most so much behind. A full buffer goes out at once, whatever the time.
EVENTS_EVERY_S = 0.25
JOBS_QUEUE = "jobs"


class Channel(kombu_redis.Channel):
    """A channel that keeps its client of redis-py, where kombu makes one for every acknowledgement.

    Such a client is only a face of the channel's pool of connections, and threads may share it.
    """

    _kept: Any = None

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        """The client that is given, or else the channel's own."""
        yield client or self._own_client()

    def _own_client(self) -> Any:
        kept = self._kept
        # After a lost connection the channel has another pool.
        if kept is None or kept.connection_pool is not self.pool:
            kept = self._kept = self._create_client()  # type: ignore[attr-defined]
        return kept


class Transport(kombu_redis.Transport):
    """Redis, with the channel above."""

    Channel = Channel


class SparingConsumer(Consumer):
    """A consumer that publishes its tasks' events four times a second, not after every single one."""

    # Both are the parent's; its type stubs do not know them.
    hub: Any
    _flush_events: Callable[[], None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_flush_planned = False
        self._plan_flush_promise = promise(self._plan_flush)

    def on_send_event_buffered(self) -> None:  # type: ignore[override]
        """Called in any thread; only the loop's own may touch its timers."""
        self.hub.call_soon(self._plan_flush_promise)

    def shutdown(self) -> None:
        """Send what is left, so that nobody takes tasks that have ended for running ones."""
        self._flush_events()
        super().shutdown()

    def _plan_flush(self) -> None:
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self.hub.call_later(EVENTS_EVERY_S, self._flush_planned)

    def _flush_planned(self) -> None:
        self._is_flush_planned = False
        self._flush_events()


class TaskPool(thread.TaskPool):
    """The threads pool, with half as many threads again for targets, and as many again for jobs.

    `-c` is how many calls targets make at once, which `CallSlots` sees to; `worker_concurrency` in the app's
    configuration tells it. A target that waits for a store makes no call, and on one of the further threads
    another does meanwhile. A job waits for the targets that it has handed out. On a thread of the pool it
    would be one target less that is worked on, and jobs on all of them would wait for each other.
    """

    # All are the parent's; its type stubs know none of them.
    limit: int
    executor: ThreadPoolExecutor
    app: Any

    def __init__(self, limit: int, *args: Any, **kwargs: Any) -> None:
        # The limit is also what the consumer goes by when it takes messages from the broker.
        super().__init__(limit + limit // 2, *args, **kwargs)
        # Celery keeps what its command line says to itself.
        self.app.conf.worker_concurrency = limit
        # An app of somebody else may have none.
        routes: dict[str, dict[str, str]] = self.app.conf.task_routes or {}
        self._job_names = frozenset(name for name, route in routes.items() if route["queue"] == JOBS_QUEUE)
        self.job_executor = ThreadPoolExecutor(limit, thread_name_prefix="job")

    def on_apply(  # type: ignore[override]
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        callback: Callable[..., Any] | None = None,
        accept_callback: Callable[..., Any] | None = None,
        **_: object,
    ) -> Any:
        """Start a task; the first of the arguments is its name."""
        executor = self.job_executor if args[0] in self._job_names else self.executor
        future = executor.submit(apply_target, target, args, kwargs, callback, accept_callback)
        return thread.ApplyResult(future)  # type: ignore[attr-defined]

    def forget_waiting(self) -> None:
        """Let no thread take up another task; those that are in work go on."""
        for executor in (self.executor, self.job_executor):
            executor.shutdown(wait=False, cancel_futures=True)

    def on_stop(self) -> None:
        """Wait for what is in work."""
        self.job_executor.shutdown(cancel_futures=True)
        super().on_stop()
