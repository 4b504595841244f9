"""The `converge` command: everything on this machine, or jobs and look-ups against the configured stores.

Exit codes: 0 done, 1 the job failed or something differs, 2 wrong use or bad settings, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from pydantic import ValidationError
from redis.exceptions import RedisError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from workers.base58 import is_public_key
from workers.clock import to_iso
from workers.errors import ConvergeError
from workers.funding.assembly import BlockedFunding, migrate_fundings
from workers.funding.job_kinds import FUNDING_RECONCILE, FundingReconcileRequest
from workers.jobs.record import JobState
from workers.jobs.service import Job
from workers.line_reader import lines_of
from workers.logs import configure as configure_logs
from workers.mongo import connect
from workers.process_end import cut_off_after, end_when_told
from workers.progress_bar import progress_bar
from workers.schema import migrate as migrate_indexes
from workers.services import JobAccess, connect_redis, open_job_access, open_stream
from workers.settings import Settings, SettingsError, read_settings
from workers.social_graph.graph_reader import GraphReader, TokenView
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.job_kinds import RECONCILE, RETRY, ReconcileRequest, RetryRequest
from workers.social_recording.routing import TEXT_MAX, Description, descriptions_of
from workers.social_recording.stream_pulse import host_name, live_consumers, stream_counts
from workers.solana_backfill.campaign_words import Direction, Mode
from workers.solana_backfill.canonical import canonical_transaction
from workers.solana_backfill.job_kinds import BACKFILL, BackfillRequest
from workers.solana_backfill.vocabulary import Commitment

T = TypeVar("T")

FAILED, MISUSED = 1, 2
POLL_S = 0.5
PAGE_SIZE = 200
# A signature has 88 letters at most.
LINE_BYTES_MAX = 200
# Where a link leads, its key, its canonical URL or the reason why there is none, and the text that has it.
ROUTE_LINE = "{:<24} {:<32} {:<56} {}\n"
# Brokers that hang while the consumer of the stream leaves them; otherwise it takes two seconds.
STREAM_STOP_LIMIT_S = 15

main = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
jobs_commands = typer.Typer(no_args_is_help=True, help="Look at jobs, cancel one.")
funding_commands = typer.Typer(no_args_is_help=True, help="Counters of fundings: repair them, see blocks.")
leases_commands = typer.Typer(no_args_is_help=True, help="Look at leases, take one from a dead holder.")
main.add_typer(jobs_commands, name="jobs")
main.add_typer(funding_commands, name="funding")
main.add_typer(leases_commands, name="leases")
out = Console()
err = Console(stderr=True)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def _end(message: str, code: int) -> NoReturn:
    err.print(message, style="red", markup=False, highlight=False)
    raise typer.Exit(code)


def _settings() -> Settings:
    try:
        return read_settings()
    except SettingsError as exc:
        _end(str(exc), MISUSED)


def _ask(question: Callable[[JobAccess], T]) -> T:
    """Answer one question; an error of ours ends the command."""
    with closing(open_job_access(_settings())) as access:
        try:
            return question(access)
        except ConvergeError as exc:
            _end(str(exc), FAILED)


def _parse(build: Callable[[], Any]) -> Any:
    """Build a request; wrong values end the command with the name of the option."""
    try:
        return build()
    except ValidationError as exc:
        lines = [
            f"{'.'.join(map(str, row['loc'])) or 'request'}: {row['msg'].removeprefix('Value error, ')}"
            for row in exc.errors(include_url=False)
        ]
        _end("\n".join(lines), MISUSED)
    except ConvergeError as exc:
        _end(str(exc), MISUSED)


@main.command()
def up(
    port: Annotated[int, typer.Option(help="Port of the API; 0 takes any free one.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Folder for the data; by default the checkout.")] = None,
) -> None:
    """Start everything on this machine and keep it up until Ctrl-C. Data is kept between runs."""
    from devstack.session import keep_up  # noqa: PLC0415 - only these two commands need the devstack

    raise typer.Exit(keep_up(out, err, api_port=port, root=root))


@main.command()
def demo() -> None:
    """Start everything, run a reconcile and a retry job on sample tokens, show the results, end."""
    from devstack.demo import run_demo  # noqa: PLC0415

    raise typer.Exit(run_demo(out, err))


@main.command()
def migrate(as_json: AsJSON = False) -> None:
    """Create the missing indexes and tables; report those that differ. Running it again changes nothing."""
    settings = _settings()
    try:
        report = migrate_indexes(connect(settings))
        fundings = migrate_fundings(settings)
    except ConvergeError as exc:
        _end(str(exc), FAILED)
    found = dataclasses.asdict(report)
    tables = None if fundings is None else dataclasses.asdict(fundings)
    if as_json:
        sys.stdout.write(json.dumps({**found, "fundings": tables}) + "\n")
    else:
        for kind, states in (("", found), ("fundings ", tables or {})):
            for state, names in ((state, names) for state, names in states.items() if names):
                line = f"{kind}{state}: {len(names)} ({', '.join(names)})"
                out.print(line, highlight=False, markup=False)
    is_as_written = report.is_as_written and (fundings is None or fundings.is_as_written)
    raise typer.Exit(0 if is_as_written else FAILED)


@main.command()
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
    settings = _settings()
    request = _parse(
        lambda: ReconcileRequest(
            start_date=start,
            end_date=end,
            min_af_count=min_af_count,
            limit=limit,
            deadline_ms=deadline_ms,
            dry_run=dry_run,
        ).with_defaults(settings)
    )
    _run_job(settings, lambda access: access.jobs.submit(RECONCILE, request), as_json=as_json)


@main.command()
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
    settings = _settings()
    request = _parse(
        lambda: RetryRequest(
            statuses=status or None,
            token_addresses=token or None,
            limit=limit,
            deadline_ms=deadline_ms,
            min_interval_minutes=min_interval_minutes,
            dry_run=dry_run,
        ).with_defaults(settings)
    )
    _run_job(settings, lambda access: access.jobs.submit(RETRY, request), as_json=as_json)


@main.command()
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
    settings = _settings()
    listed = None if signatures is None else _lines_of_file(signatures)
    request = _parse(
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
    _run_job(settings, lambda access: access.jobs.submit(BACKFILL, request), as_json=as_json)


@main.command()
def stream(
    check: Annotated[
        bool, typer.Option("--check", help="Do not consume; say whether a consumer on this host is alive.")
    ] = False,
) -> None:
    """Turn messages about moving tokens into recordings, until it is told to end."""
    settings = _settings()
    if check:
        _check_stream(settings)
        return
    configure_logs()
    ending = threading.Event()
    end_when_told(ending)
    cut_off_after(ending, STREAM_STOP_LIMIT_S, lambda: None)
    open_stream(settings, ending).run()


@funding_commands.command("reconcile")
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
    settings = _settings()
    request = _parse(
        lambda: FundingReconcileRequest(
            property_ids=property_id or None, deadline_ms=deadline_ms, dry_run=dry_run
        )
    )
    _run_job(
        settings,
        lambda access: access.jobs.submit(FUNDING_RECONCILE, access.funding.complete(request)),
        as_json=as_json,
    )


@funding_commands.command("blocked")
def list_blocked(as_json: AsJSON = False) -> None:
    """Show the fundings that sell nothing for the time being, with counters and truth."""
    found = _ask(_all_blocked)
    if as_json:
        sys.stdout.write(json.dumps([each.to_json() for each in found]) + "\n")
        return
    table = Table("property", "reason", "since", "capacity", "waiting", "counters", "truth")
    for each in found:
        state, since = each.state, each.state.block and each.state.block.at
        counters, truth = (
            " + ".join(map(str, sides.to_json().values())) for sides in (each.counters, state.truth)
        )
        reason = state.block and state.block.reason.value
        cells = (state.property_id, reason, since and to_iso(since), state.capacity, state.waiting)
        table.add_row(*map(_cell, (*cells, counters, truth)))
    out.print(table)


@jobs_commands.command("list")
def list_jobs(
    kind: str | None = None,
    state: JobState | None = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 20,
    as_json: AsJSON = False,
) -> None:
    """List jobs, newest first."""
    found, _ = _ask(lambda access: access.jobs.list_jobs(kind=kind, state=state, limit=limit, before=None))
    if as_json:
        sys.stdout.write(json.dumps([_as_json(job) for job in found]) + "\n")
        return
    table = Table("id", "kind", "state", "created", "done")
    for job in found:
        record = job.record
        progress = f"{record.done}/{record.total}" if record.total is not None else ""
        table.add_row(
            record.id, record.kind, job.state.value, f"{record.created_at:%Y-%m-%d %H:%M:%S}", progress
        )
    out.print(table)


@jobs_commands.command()
def show(job_id: str, as_json: AsJSON = False) -> None:
    """Show one job with its result."""
    job = _ask(lambda access: access.jobs.get(job_id))
    _show(job, as_json=as_json)


@jobs_commands.command()
def cancel(job_id: str) -> None:
    """Ask a job to stop. What is in work is finished."""
    job = _ask(lambda access: access.jobs.cancel(job_id))
    out.print(f"{job.record.id} {job.state.value}, cancel asked for", highlight=False)


@main.command()
def tokens(
    address: Annotated[str, typer.Argument(help="mint address")],
    *,
    as_of: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"], help="links made by then, inclusive; by default all"),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Show one token, its URLs, and what they lead to."""
    if not is_public_key(address):
        _end("address: must be a public key: 32 bytes in base58", MISUSED)
    view = _ask(lambda access: _whole_token(access.graph, address, as_of))
    if as_json:
        sys.stdout.write(json.dumps(view.to_json()) + "\n")
    else:
        _show_token(view)


@main.command()
def explain(
    url: Annotated[str, typer.Argument(help="the URL in any spelling")],
    token: Annotated[str, typer.Option(help="the mint address of a token that has it")],
    as_json: AsJSON = False,
) -> None:
    """Say why a URL of a token is or is not tried again, and when. Asks no platform."""
    found = _ask(lambda access: access.explainer.explain(token, url))
    if as_json:
        sys.stdout.write(json.dumps(found.to_json()) + "\n")
        return
    element = found.element
    tries = f"{element.status.value} {element.reason or ''} after {element.attempts} attempts"
    for line in (element.url, tries, f"{found.rule.value}: {found.words}"):
        out.print(_cell(line))
    if found.due_at is not None:
        out.print(_cell(f"due at {to_iso(found.due_at)}"))
    if found.holder is not None:
        out.print(_cell(f"held by {found.holder}"))


@main.command()
def canonical(
    files: Annotated[
        list[Path], typer.Argument(help="answers to getTransaction, or their results; - is stdin")
    ],
) -> None:
    """Print the canonical form of stored transactions, one line of JSON for each. Asks nobody."""
    is_complete = True
    for path in files:
        try:
            body = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
            transaction = canonical_transaction(body, None)
        except (OSError, ConvergeError) as exc:
            err.print(_cell(f"{path}: {exc}"), style="red", soft_wrap=True)
            is_complete = False
            continue
        shown = {**transaction.to_json(), "content_hash": transaction.content_hash()}
        sys.stdout.write(json.dumps(shown) + "\n")
    raise typer.Exit(0 if is_complete else FAILED)


@main.command("route")
def route_texts(
    texts: Annotated[
        list[str] | None, typer.Argument(help="URLs or fields of text; by default the lines of stdin")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, one per link.")
    ] = False,
) -> None:
    """Say which links a text holds and where each leads. Asks nobody and needs no settings.

    A text without a link is no failure: its line says why there is none, and the exit code is 0.
    """
    write = sys.stdout.write
    if not as_json:
        write(ROUTE_LINE.format("where", "key", "canonical", "input"))
    for text in texts or lines_of(sys.stdin.buffer, bytes_max=4 * TEXT_MAX):
        for each in descriptions_of(text):
            write(json.dumps(each.to_json()) + "\n" if as_json else _route_line(each))
        sys.stdout.flush()


def _route_line(found: Description) -> str:
    """A line of the table; the widths are fixed, because what comes next is not known yet."""
    where = " ".join(filter(None, (found.platform, found.object, found.subtype))) or "-"
    leads_to = " ".join(filter(None, (found.canonical, found.reason)))
    cells = (where, found.key or "-", leads_to, found.input)
    line = ROUTE_LINE.format(*(_cell(each).plain for each in cells))
    return line.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding)


@leases_commands.command("list")
def list_leases(
    prefix: Annotated[str, typer.Argument(help="first letters of the names, such as social-record:")] = "",
    as_json: AsJSON = False,
) -> None:
    """Show who holds which lease, since when and for how long yet."""
    held = _ask(lambda access: access.leases.held(prefix))
    if as_json:
        sys.stdout.write(json.dumps([dataclasses.asdict(lease) for lease in held]) + "\n")
        return
    table = Table("lease", "holder", "held for", "left")
    for lease in held:
        age = "" if lease.age_s is None else f"{lease.age_s:.1f} s"
        table.add_row(*map(_cell, (lease.name, lease.holder, age, f"{lease.ttl_s:.1f} s")))
    out.print(table)


@leases_commands.command("release")
def release_lease(
    name: Annotated[str, typer.Argument(help="the lease, as `leases list` names it")],
    holder: Annotated[str, typer.Option(help="its holder, as `leases list` names it")],
) -> None:
    """Take a lease from a holder that is known to be dead. A living one notices and stops writing."""
    is_released = _ask(lambda access: access.leases.release(name, holder))
    if not is_released:
        _end("this holder does not have the lease (any more)", FAILED)


def _check_stream(settings: Settings) -> None:
    """Show the consumers on this host and what the stream has brought; fail when there is none."""
    try:
        with connect_redis(settings, retries=1) as redis:
            consumers, counts = live_consumers(redis, host_name()), stream_counts(redis)
    except RedisError:
        _end("Redis cannot be asked", FAILED)
    for each in consumers:
        state = f"since {to_iso(each.started_at)}, {each.waiting} waiting, {each.held} held"
        out.print(_cell(f"{each.name} {state}"))
    out.print(_cell(", ".join(f"{number} {fate}" for fate, number in counts.items()) or "no message yet"))
    if not consumers:
        _end("no consumer of the stream is alive on this host", FAILED)


def _lines_of_file(path: Path) -> list[str]:
    """The lines of a file or of stdin (`-`), without blank ones and white space around them."""
    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as stream:
            lines = [line.strip() for line in lines_of(stream, bytes_max=LINE_BYTES_MAX)]
    except OSError as exc:
        _end(f"{path}: {exc.strerror}", MISUSED)
    return [line for line in lines if line]


def _all_blocked(access: JobAccess) -> list[BlockedFunding]:
    """The blocked fundings of all pages."""
    found = page = access.funding.blocked(limit=PAGE_SIZE)
    while len(page) == PAGE_SIZE:
        page = access.funding.blocked(limit=PAGE_SIZE, after=page[-1].state.property_id)
        found = [*found, *page]
    return found


def _show_token(view: TokenView) -> None:
    token = view.token
    out.print(_cell(f"{token.address} {token.symbol or ''} first seen {to_iso(token.created_at)}"))
    urls = Table("url", "status", "reason", "attempts", "tried")
    for each in token.social_urls:
        tried = each.attempted_at and to_iso(each.attempted_at)
        urls.add_row(*map(_cell, (each.url, each.status.value, each.reason, each.attempts, tried)))
    out.print(urls)
    linked = Table("linked", "kind", "where", "what", "depth", "through", "id")
    for found in view.objects:
        link = found.link
        where = f"{link.platform} {link.subtype or ''}"
        what = found.card and found.card.label
        cells = (to_iso(link.created_at), link.object, where, what, link.link_depth, link.entry_url)
        linked.add_row(*map(_cell, (*cells, link.object_id)))
    out.print(linked)


def _whole_token(graph: GraphReader, address: str, as_of: datetime | None) -> TokenView:
    """The token with the objects of all pages."""
    view = graph.token(address, as_of=as_of, limit=PAGE_SIZE)
    while view.next_from is not None:
        page = graph.token(address, as_of=view.as_of, limit=PAGE_SIZE, after=view.next_from)
        view = dataclasses.replace(page, objects=(*view.objects, *page.objects))
    return view


def _cell(value: object) -> Text:
    """A value as a terminal may show it: names come from strangers and must not steer it."""
    return Text("" if value is None else re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", str(value)))


def _run_job(settings: Settings, submit: Callable[[JobAccess], Job], *, as_json: bool) -> None:
    """Submit a job, follow it to its end with a progress bar, show the result."""
    with closing(open_job_access(settings)) as access:
        try:
            job = submit(access)
            with progress_bar(err) as progress:
                task = progress.add_task(job.record.kind, total=None)
                while not job.state.is_final:
                    job = access.jobs.wait(job.record.id, POLL_S)
                    progress.update(task, completed=job.record.done, total=job.record.total)
        except ConvergeError as exc:
            _end(str(exc), FAILED)
    _show(job, as_json=as_json)
    raise typer.Exit(0 if job.state in (JobState.SUCCEEDED, JobState.CANCELLED) else FAILED)


def _show(job: Job, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(_as_json(job)) + "\n")
        return
    out.print(f"{job.record.kind} {job.record.id}: {job.state.value}", highlight=False)
    if job.error:
        out.print(f"{job.error['code']}: {job.error['detail']}", markup=False)
    if job.result:
        meta = job.result.get("meta")
        for key, value in (meta if isinstance(meta, Mapping) else {}).items():
            out.print(f"  {key}: {value}", highlight=False)


def _as_json(job: Job) -> dict[str, object]:
    return {
        "id": job.record.id,
        "kind": job.record.kind,
        "state": job.state.value,
        "request": job.record.request,
        "result": job.result,
        "error": job.error,
    }


if __name__ == "__main__":
    main()
