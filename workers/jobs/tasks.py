"""The tasks that every worker offers, whatever its context."""

from __future__ import annotations

from workers.celery_app import app
from workers.jobs.probe import CANARY_TASK, note_canary
from workers.services import get_services


@app.task(name=CANARY_TASK)
def canary(queue: str) -> None:
    """Show that tasks of this queue run."""
    note_canary(get_services().redis, queue)
