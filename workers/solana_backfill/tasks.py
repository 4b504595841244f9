"""The Celery task of the Solana backfill: validate, call one service, done."""

from __future__ import annotations

from typing import Any

from celery import Task

from workers.celery_app import app
from workers.services import get_services
from workers.solana_backfill.job_kinds import BACKFILL


@app.task(name=BACKFILL.task, bind=True, ignore_result=False)
def backfill(self: Task[..., Any], request: dict[str, object]) -> dict[str, object]:
    """Fetch and store transactions of the past."""
    services = get_services()
    return services.runner.run(BACKFILL, str(self.request.id), request, services.backfill.run)
