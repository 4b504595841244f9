"""What the commands share in speaking to a person or a program: streams, options, help, ends.

Names of strangers reach a terminal only through `cell`. With `--json` a command prints JSON on standard
output and nothing else; what goes wrong is said on standard error in either case.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.text import Text

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
MISUSE = "wrong use or bad settings"

out = Console()
err = Console(stderr=True)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done; write nothing.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print one JSON object or list instead of a table.")]


def give_up(message: str, code: int) -> NoReturn:
    """End the command with a sentence on standard error."""
    err.print(message, style="red", markup=False, highlight=False)
    raise typer.Exit(code)


def print_json(value: object) -> None:
    """Print one line of JSON, which no width of a terminal folds."""
    sys.stdout.write(json.dumps(value) + "\n")


def cell(value: object) -> Text:
    """A value as a terminal may show it: names come from strangers and must not steer it."""
    return Text("" if value is None else re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", str(value)))


def epilog_of(*examples: str, codes: Mapping[int, str]) -> str:
    """The end of a command's help: how it is called, and what its exit codes mean.

    Every command reads its settings or its arguments, so 2 is the same for all of them.
    """
    meanings = {**codes, MISUSED: MISUSE}
    lines = [
        *(f"Example: {example}" for example in examples),
        f"Exit codes: {', '.join(f'{code} {meanings[code]}' for code in sorted(meanings))}.",
    ]
    # The help joins single lines, and parts at empty ones.
    return "\n\n".join(lines)
