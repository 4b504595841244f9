"""What a Celery worker does first when it ends: tasks that wait in it go back to their queues.

A worker takes more messages than it has threads. By itself it returns those that it has not started only
after the last running task has ended, which may take minutes; meanwhile nobody else could take them.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import bootsteps
from celery.worker import state

log = logging.getLogger(__name__)


class ReturnWaitingTasks(bootsteps.StartStopStep):
    """Works when the worker closes: its loop has ended, its consumer has not yet forgotten what it took.

    For the pool of `workers.celery_parts`; with another one it does nothing.
    """

    requires = ("celery.worker.components:Pool",)

    def close(self, worker: Any) -> None:
        """Let no thread take up another task, and give back those that none has taken up.

        A thread may have taken one up in this very moment. That one comes twice, which each task bears.
        """
        forget_waiting = getattr(worker.pool, "forget_waiting", None)
        if forget_waiting is None:
            return
        forget_waiting()
        waiting = [request for request in tuple(state.reserved_requests) if not request.acknowledged]
        for request in waiting:
            # Without this mark Celery would acknowledge a message that is another worker's by now.
            request.acknowledged = True
            request.message.reject_log_error(log, worker.consumer.connection_errors, requeue=True)
        if waiting:
            log.info("waiting tasks were given back", extra={"tasks": len(waiting)})
