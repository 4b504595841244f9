"""The workers: jobs, tasks and everything they stand on. `celery -A workers` finds the app here."""

from workers.celery_app import app

__all__ = ["app"]
