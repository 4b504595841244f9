"""The commands that read what they are given, ask nobody and need no settings: `route` and `canonical`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from workers.cli.terminal import FAILED, cell, epilog_of, err
from workers.errors import ConvergeError
from workers.line_reader import lines_of
from workers.social_recording.routing import TEXT_MAX, Description, descriptions_of
from workers.solana_backfill.canonical import canonical_transaction

# Where a link leads, its key, its canonical URL or the reason why there is none, and the text that has it.
ROUTE_LINE = "{:<24} {:<32} {:<56} {}\n"

commands = typer.Typer()


@commands.command(
    epilog=epilog_of(
        "converge canonical transaction.json | jq .content_hash",
        codes={0: "all are printed", FAILED: "one cannot be read or is refused; the others are printed"},
    )
)
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
            err.print(cell(f"{path}: {exc}"), style="red", soft_wrap=True)
            is_complete = False
            continue
        shown = {**transaction.to_json(), "content_hash": transaction.content_hash()}
        sys.stdout.write(json.dumps(shown) + "\n")
    raise typer.Exit(0 if is_complete else FAILED)


@commands.command(
    "route",
    epilog=epilog_of(
        "converge route 'see https://x.com/harbor and t.me/harbor'",
        "converge route --json < fields.txt",
        codes={0: "read, also where nothing is a link"},
    ),
)
def route_texts(
    texts: Annotated[
        list[str] | None, typer.Argument(help="URLs or fields of text; by default the lines of stdin")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, one per link.")
    ] = False,
) -> None:
    """Say which links a text holds and where each leads. Asks nobody and needs no settings.

    A text without a link is no failure: its line says why there is none.
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
    line = ROUTE_LINE.format(*(cell(each).plain for each in cells))
    return line.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding)
