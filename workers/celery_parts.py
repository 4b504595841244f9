"""Parts of Celery and kombu that do the same as the originals, less often.

Both were found with a profiler: per task they cost a worker more processor time than our own use of Redis.
They own no behaviour that anybody sees from outside. `workers.celery_app` and `celeryconfig` name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from celery.worker.consumer import Consumer
from kombu.transport import redis as kombu_redis
from vine import promise

# Flower's pages are at most so much behind. A full buffer goes out at once, whatever the time.
EVENTS_EVERY_S = 0.25


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
