"""One job as a command shows it: submitted, followed to its end, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing

import typer

from workers.cli.terminal import FAILED, INTERRUPTED, cell, err, give_up, out, print_json
from workers.errors import ConvergeError
from workers.jobs.record import JobState
from workers.jobs.service import Job
from workers.progress_bar import shown_progress
from workers.services import JobAccess, open_job_access
from workers.settings import Settings

POLL_S = 0.5
CODES = {
    0: "the job succeeded or was cancelled",
    FAILED: "it failed, was lost or expired, or a store is away",
    INTERRUPTED: "Ctrl-C, and the job goes on",
}


def run_job(settings: Settings, submit: Callable[[JobAccess], Job], *, as_json: bool) -> None:
    """Submit a job, show its progress to its end and then its result, and end with one of `CODES`.

    Ctrl-C ends the looking and not the job.
    """
    job: Job | None = None
    with closing(open_job_access(settings)) as access:
        try:
            job = submit(access)
            with shown_progress(err, job.record.kind) as show_progress:
                while not job.state.is_final:
                    job = access.jobs.wait(job.record.id, POLL_S)
                    show_progress(job.record.done, job.record.total)
        except ConvergeError as exc:
            give_up(str(exc), FAILED)
        except KeyboardInterrupt:
            job_id = job.record.id if job else None
            give_up(f"the job goes on: converge jobs show {job_id}" if job_id else "stopped", INTERRUPTED)
    show_job(job, as_json=as_json)
    raise typer.Exit(0 if job.state in (JobState.SUCCEEDED, JobState.CANCELLED) else FAILED)


def show_job(job: Job, *, as_json: bool) -> None:
    """Print a job: as JSON with everything, else its state, its error and its counts."""
    if as_json:
        print_json(job_as_json(job))
        return
    out.print(f"{job.record.kind} {job.record.id}: {job.state.value}", highlight=False)
    if job.error:
        out.print(cell(f"{job.error['code']}: {job.error['detail']}"))
    if job.result:
        meta = job.result.get("meta")
        for key, value in (meta if isinstance(meta, Mapping) else {}).items():
            out.print(cell(f"  {key}: {value}"))


def job_as_json(job: Job) -> dict[str, object]:
    """A job as programs read it; `result` has its rows and its counts."""
    return {
        "id": job.record.id,
        "kind": job.record.kind,
        "state": job.state.value,
        "request": job.record.request,
        "result": job.result,
        "error": job.error,
    }
