"""The worker whose jobs and targets share the threads of Celery's own pool; for a twin."""

from celery.concurrency import ALIASES  # type: ignore[attr-defined]

from workers.celery_app import app

__all__ = ["app"]

ALIASES["threads"] = "celery.concurrency.thread:TaskPool"
