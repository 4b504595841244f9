"""`converge jobs`: look at jobs, cancel one."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from workers.cli.asking import ask
from workers.cli.following import job_as_json, show_job
from workers.cli.terminal import FAILED, AsJSON, epilog_of, out, print_json
from workers.jobs.record import JobState

JobID = Annotated[str, typer.Argument(help="the job's id, as `jobs list` shows it")]

commands = typer.Typer(no_args_is_help=True, help="Look at jobs, cancel one.")


@commands.command(
    "list",
    epilog=epilog_of(
        "converge jobs list --kind social.retry --state running",
        codes={0: "listed, also when there is none", FAILED: "Redis is away"},
    ),
)
def list_jobs(
    kind: Annotated[str | None, typer.Option(help="only of this kind, such as social.retry")] = None,
    state: Annotated[JobState | None, typer.Option(help="only in this state")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 20,
    as_json: AsJSON = False,
) -> None:
    """List jobs, newest first."""
    found, _ = ask(lambda access: access.jobs.list_jobs(kind=kind, state=state, limit=limit, before=None))
    if as_json:
        print_json([job_as_json(job) for job in found])
        return
    table = Table("id", "kind", "state", "created", "done")
    for job in found:
        record = job.record
        progress = f"{record.done}/{record.total}" if record.total is not None else ""
        table.add_row(
            record.id, record.kind, job.state.value, f"{record.created_at:%Y-%m-%d %H:%M:%S}", progress
        )
    out.print(table)


@commands.command(
    epilog=epilog_of(
        "converge jobs show 0b6f3a52-6d4e-4a60-9d0c-8a3f5f1f2c11 --json",
        codes={0: "shown, whatever came of the job", FAILED: "there is no such job, or Redis is away"},
    )
)
def show(job_id: JobID, as_json: AsJSON = False) -> None:
    """Show one job with its result."""
    show_job(ask(lambda access: access.jobs.get(job_id)), as_json=as_json)


@commands.command(
    epilog=epilog_of(
        "converge jobs cancel 0b6f3a52-6d4e-4a60-9d0c-8a3f5f1f2c11",
        codes={0: "asked for", FAILED: "there is no such job, it has ended, or Redis is away"},
    )
)
def cancel(job_id: JobID, as_json: AsJSON = False) -> None:
    """Ask a job to stop. What is in work is finished."""
    job = ask(lambda access: access.jobs.cancel(job_id))
    if as_json:
        print_json(job_as_json(job))
    else:
        out.print(f"{job.record.id} {job.state.value}, cancel asked for", highlight=False)
