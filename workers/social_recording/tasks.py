"""The Celery tasks of social recording: validate, call one service, done."""

from __future__ import annotations

from typing import Any

from celery import Task

from workers.celery_app import app
from workers.jobs.fan_out import Assignment
from workers.services import get_services
from workers.social_recording.job_kinds import RECONCILE, RETRY
from workers.social_recording.live import RECORD_LIVE_TOKEN_TASK
from workers.social_recording.reconcile import RECORD_TOKEN_TASK
from workers.social_recording.retry import RETRY_URL_TASK, candidate_from_json


@app.task(name=RECONCILE.task, bind=True, ignore_result=False)
def reconcile(self: Task[..., Any], request: dict[str, object]) -> dict[str, object]:
    """Record the tokens of a range that were missed."""
    services = get_services()
    return services.runner.run(RECONCILE, str(self.request.id), request, services.reconcile.run)


@app.task(name=RETRY.task, bind=True, ignore_result=False)
def retry(self: Task[..., Any], request: dict[str, object]) -> dict[str, object]:
    """Try again the URLs that have not converged."""
    services = get_services()
    return services.runner.run(RETRY, str(self.request.id), request, services.retry.run)


@app.task(name=RECORD_TOKEN_TASK)
def record_token(assignment: dict[str, str | int]) -> None:
    """Record one token for its job."""
    services = get_services()
    member = Assignment.from_json(assignment)
    services.desk.run(
        member,
        lambda: services.recorder.record(member.target, member.job_id).to_json(),
        services.recorder.lease_of(member.target),
    )


@app.task(name=RETRY_URL_TASK)
def retry_url(assignment: dict[str, str | int], candidate: dict[str, str | int | None]) -> None:
    """Try one URL again for its job."""
    services = get_services()
    member, url = Assignment.from_json(assignment), candidate_from_json(candidate)
    services.desk.run(
        member,
        lambda: services.retrier.retry(url, member.job_id),
        services.retrier.lease_of(url),
    )


@app.task(name=RECORD_LIVE_TOKEN_TASK)
def record_live_token(address: str) -> None:
    """Record one token that the stream has brought."""
    get_services().live.record(address)


@app.task(name="converge.schedule.retry_sweep")
def retry_sweep() -> None:
    """Ask for the hourly retry job."""
    get_services().sweep.run()
