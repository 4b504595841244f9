"""The Celery tasks of the funding counters: validate, call one service, done."""

from __future__ import annotations

from typing import Any

from celery import Task

from workers.celery_app import app
from workers.funding.job_kinds import FUNDING_RECONCILE
from workers.funding.reconcile import RECONCILE_PROPERTY_TASK
from workers.jobs.fan_out import Assignment
from workers.services import get_services


@app.task(name=FUNDING_RECONCILE.task, bind=True, ignore_result=False)
def reconcile(self: Task[..., Any], request: dict[str, object]) -> dict[str, object]:
    """Compare the counters of fundings with the purchases, and repair them."""
    services = get_services()
    return services.runner.run(FUNDING_RECONCILE, str(self.request.id), request, services.funding.reconcile)


@app.task(name=RECONCILE_PROPERTY_TASK)
def reconcile_property(assignment: dict[str, str | int]) -> None:
    """Reconcile one property for its job."""
    services, member = get_services(), Assignment.from_json(assignment)
    services.desk.run(member, lambda: services.funding.reconcile_property(member.target, member.job_id))


@app.task(name="converge.schedule.funding_reconciliation")
def nightly_reconciliation() -> None:
    """Ask for the nightly reconciliation job, or for its next try."""
    get_services().funding.nightly.run()
