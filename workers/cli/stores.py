"""The commands that processes of a deployment are: `migrate` before the others start, `stream` among them."""

from __future__ import annotations

import dataclasses
import threading
from typing import Annotated

import typer
from redis.exceptions import RedisError

from workers.cli.asking import settings_or_end
from workers.cli.terminal import FAILED, AsJSON, cell, epilog_of, give_up, out, print_json
from workers.clock import to_iso
from workers.errors import ConvergeError
from workers.funding.assembly import migrate_fundings
from workers.logs import configure as configure_logs
from workers.mongo import connect
from workers.process_end import cut_off_after, end_when_told
from workers.schema import migrate as migrate_indexes
from workers.services import connect_redis, open_stream
from workers.settings import Settings
from workers.social_recording.stream_pulse import host_name, live_consumers, stream_counts

# Brokers that hang while the consumer of the stream leaves them; otherwise it takes two seconds.
STREAM_STOP_LIMIT_S = 15

commands = typer.Typer()


@commands.command(
    epilog=epilog_of(
        "converge migrate",
        codes={0: "everything is as written", FAILED: "something differs, or a store is away"},
    )
)
def migrate(as_json: AsJSON = False) -> None:
    """Create the missing indexes and tables; report those that differ. Running it again changes nothing."""
    settings = settings_or_end()
    try:
        report = migrate_indexes(connect(settings))
        fundings = migrate_fundings(settings)
    except ConvergeError as exc:
        give_up(str(exc), FAILED)
    found = dataclasses.asdict(report)
    tables = None if fundings is None else dataclasses.asdict(fundings)
    if as_json:
        print_json({**found, "fundings": tables})
    else:
        for kind, states in (("", found), ("fundings ", tables or {})):
            for state, names in ((state, names) for state, names in states.items() if names):
                line = f"{kind}{state}: {len(names)} ({', '.join(names)})"
                out.print(line, highlight=False, markup=False)
    is_as_written = report.is_as_written and (fundings is None or fundings.is_as_written)
    raise typer.Exit(0 if is_as_written else FAILED)


@commands.command(
    epilog=epilog_of(
        "converge stream",
        "converge stream --check",
        codes={0: "told to end; with --check: alive", FAILED: "cut off; with --check: none is alive"},
    )
)
def stream(
    check: Annotated[
        bool, typer.Option("--check", help="Do not consume; say whether a consumer on this host is alive.")
    ] = False,
    as_json: AsJSON = False,
) -> None:
    """Turn messages about moving tokens into recordings, until it is told to end."""
    settings = settings_or_end()
    if check:
        _check_stream(settings, as_json=as_json)
        return
    configure_logs()
    ending = threading.Event()
    end_when_told(ending)
    cut_off_after(ending, STREAM_STOP_LIMIT_S, lambda: None)
    open_stream(settings, ending).run()


def _check_stream(settings: Settings, *, as_json: bool) -> None:
    """Show the consumers on this host and what the stream has brought; fail when there is none."""
    try:
        with connect_redis(settings, retries=1) as redis:
            consumers, counts = live_consumers(redis, host_name()), stream_counts(redis)
    except RedisError:
        give_up("Redis cannot be asked", FAILED)
    if as_json:
        alive = [
            {"name": each.name, "since": to_iso(each.started_at), "waiting": each.waiting, "held": each.held}
            for each in consumers
        ]
        print_json({"consumers": alive, "counts": dict(counts)})
    else:
        for each in consumers:
            state = f"since {to_iso(each.started_at)}, {each.waiting} waiting, {each.held} held"
            out.print(cell(f"{each.name} {state}"))
        out.print(cell(", ".join(f"{number} {fate}" for fate, number in counts.items()) or "no message yet"))
    if not consumers:
        give_up("no consumer of the stream is alive on this host", FAILED)
