"""The commands that start a job of social recording or a backfill, and stay until it has ended."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from workers.cli.asking import request_or_end, settings_or_end
from workers.cli.following import CODES, run_job
from workers.cli.terminal import MISUSED, AsJSON, DryRun, epilog_of, give_up
from workers.line_reader import lines_of
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.job_kinds import RECONCILE, RETRY, ReconcileRequest, RetryRequest
from workers.solana_backfill.campaign_words import Direction, Mode
from workers.solana_backfill.job_kinds import BACKFILL, BackfillRequest
from workers.solana_backfill.vocabulary import Commitment

# A signature has 88 letters at most.
LINE_BYTES_MAX = 200

commands = typer.Typer()


@commands.command(
    epilog=epilog_of(
        "converge reconcile --start 2026-01-01T00:00:00Z --end 2026-01-02T00:00:00Z --limit 20", codes=CODES
    )
)
def reconcile(
    *,
    start: Annotated[datetime, typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"], help="2026-01-01T00:00:00Z")],
    end: Annotated[datetime, typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"], help="exclusive")],
    min_af_count: Annotated[int | None, typer.Option(help="floor of investors")] = None,
    limit: Annotated[int | None, typer.Option(help="1 to 100 tokens")] = None,
    deadline_ms: Annotated[int | None, typer.Option(help="1000 to 300000")] = None,
    dry_run: DryRun = False,
    as_json: AsJSON = False,
) -> None:
    """Record the tokens whose last trade lies in the range and that were missed."""
    settings = settings_or_end()
    request = request_or_end(
        lambda: ReconcileRequest(
            start_date=start,
            end_date=end,
            min_af_count=min_af_count,
            limit=limit,
            deadline_ms=deadline_ms,
            dry_run=dry_run,
        ).with_defaults(settings)
    )
    run_job(settings, lambda access: access.jobs.submit(RECONCILE, request), as_json=as_json)


@commands.command(
    epilog=epilog_of(
        "converge retry",
        "converge retry --status exhausted --min-interval-minutes 0 --dry-run",
        codes=CODES,
    )
)
def retry(
    *,
    status: Annotated[list[FetchStatus] | None, typer.Option(help="repeat for several")] = None,
    token: Annotated[list[str] | None, typer.Option(help="mint address; repeat for several")] = None,
    limit: Annotated[int | None, typer.Option(help="1 to 200 URLs")] = None,
    deadline_ms: Annotated[int | None, typer.Option(help="1000 to 300000")] = None,
    min_interval_minutes: Annotated[int | None, typer.Option(help="0 tries everything at once")] = None,
    dry_run: DryRun = False,
    as_json: AsJSON = False,
) -> None:
    """Try again the URLs that have not converged."""
    settings = settings_or_end()
    request = request_or_end(
        lambda: RetryRequest(
            statuses=status or None,
            token_addresses=token or None,
            limit=limit,
            deadline_ms=deadline_ms,
            min_interval_minutes=min_interval_minutes,
            dry_run=dry_run,
        ).with_defaults(settings)
    )
    run_job(settings, lambda access: access.jobs.submit(RETRY, request), as_json=as_json)


@commands.command(
    epilog=epilog_of(
        "converge backfill --mode program --address $PROGRAM --anchor $SIGNATURE --limit 500",
        "converge backfill --signatures list.txt",
        codes=CODES,
    )
)
def backfill(
    *,
    mode: Annotated[Mode | None, typer.Option(help="what the address is; without it, a list is read")] = None,
    address: Annotated[str | None, typer.Option(help="public key of the program, mint or pool")] = None,
    signatures: Annotated[
        Path | None, typer.Option(help="file with one signature per line; - is stdin", allow_dash=True)
    ] = None,
    direction: Annotated[Direction | None, typer.Option(help="side of the anchor; before by default")] = None,
    anchor: Annotated[str | None, typer.Option(help="signature to start from, exclusive")] = None,
    limit: Annotated[int | None, typer.Option(help="1 to 100000 signatures")] = None,
    max_pages: Annotated[int | None, typer.Option(help="1 to 100 pages of 1,000")] = None,
    commitment: Annotated[Commitment, typer.Option(help="of all requests")] = Commitment.FINALIZED,
    include_failed: Annotated[
        bool, typer.Option("--with-failed/--without-failed", help="transactions that failed on the chain")
    ] = True,
    role: Annotated[str | None, typer.Option(help="which configured endpoint is asked")] = None,
    dry_run: DryRun = False,
    as_json: AsJSON = False,
) -> None:
    """Fetch and store transactions of the past: of a list of signatures, or of an address's history."""
    settings = settings_or_end()
    listed = None if signatures is None else _lines_of_file(signatures)
    request = request_or_end(
        lambda: BackfillRequest(
            mode=mode or Mode.SIGNATURES,
            address=address,
            signatures=listed,
            direction=direction,
            anchor=anchor,
            limit=limit,
            max_pages=max_pages,
            commitment=commitment,
            include_failed=include_failed,
            role=role,
            dry_run=dry_run,
        ).with_defaults(settings)
    )
    run_job(settings, lambda access: access.jobs.submit(BACKFILL, request), as_json=as_json)


def _lines_of_file(path: Path) -> list[str]:
    """The lines of a file or of stdin (`-`), without blank ones and white space around them."""
    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as stream:
            lines = [line.strip() for line in lines_of(stream, bytes_max=LINE_BYTES_MAX)]
    except OSError as exc:
        give_up(f"{path}: {exc.strerror}", MISUSED)
    return [line for line in lines if line]
