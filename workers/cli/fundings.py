"""`converge funding`: repair the counters of fundings, see which of them sell nothing."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from workers.cli.asking import ask, request_or_end, settings_or_end
from workers.cli.following import CODES, run_job
from workers.cli.terminal import FAILED, AsJSON, DryRun, cell, epilog_of, out, print_json
from workers.clock import to_iso
from workers.funding.assembly import BlockedFunding
from workers.funding.job_kinds import FUNDING_RECONCILE, FundingReconcileRequest
from workers.services import JobAccess

PAGE_SIZE = 200

commands = typer.Typer(no_args_is_help=True, help="Counters of fundings: repair them, see blocks.")


@commands.command(
    "reconcile",
    epilog=epilog_of(
        "converge funding reconcile --dry-run",
        "converge funding reconcile --property harbour-quay-12",
        codes=CODES,
    ),
)
def reconcile_fundings(
    *,
    property_id: Annotated[
        list[str] | None, typer.Option("--property", help="whatever is sold of it; repeat for several")
    ] = None,
    deadline_ms: Annotated[int | None, typer.Option(help="1000 to 300000")] = None,
    dry_run: DryRun = False,
    as_json: AsJSON = False,
) -> None:
    """Bring the counters of nearly sold and of blocked fundings to the truth."""
    settings = settings_or_end()
    request = request_or_end(
        lambda: FundingReconcileRequest(
            property_ids=property_id or None, deadline_ms=deadline_ms, dry_run=dry_run
        )
    )
    run_job(
        settings,
        lambda access: access.jobs.submit(FUNDING_RECONCILE, access.funding.complete(request)),
        as_json=as_json,
    )


@commands.command(
    "blocked",
    epilog=epilog_of(
        "converge funding blocked --json",
        codes={
            0: "listed, also when there is none",
            FAILED: "fundings are not configured, or a store is away",
        },
    ),
)
def list_blocked(as_json: AsJSON = False) -> None:
    """Show the fundings that sell nothing for the time being, with counters and truth."""
    found = ask(_all_blocked)
    if as_json:
        print_json([each.to_json() for each in found])
        return
    table = Table("property", "reason", "since", "capacity", "waiting", "counters", "truth")
    for each in found:
        state, since = each.state, each.state.block and each.state.block.at
        counters, truth = (
            " + ".join(map(str, sides.to_json().values())) for sides in (each.counters, state.truth)
        )
        reason = state.block and state.block.reason.value
        cells = (state.property_id, reason, since and to_iso(since), state.capacity, state.waiting)
        table.add_row(*map(cell, (*cells, counters, truth)))
    out.print(table)


def _all_blocked(access: JobAccess) -> list[BlockedFunding]:
    """The blocked fundings of all pages."""
    found = page = access.funding.blocked(limit=PAGE_SIZE)
    while len(page) == PAGE_SIZE:
        page = access.funding.blocked(limit=PAGE_SIZE, after=page[-1].state.property_id)
        found = [*found, *page]
    return found
