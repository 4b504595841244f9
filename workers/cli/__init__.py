"""The `converge` command: everything on this machine, or jobs and look-ups against the configured stores.

Exit codes: 0 done, 1 it failed or something differs, 2 wrong use or bad settings, 130 stopped by Ctrl-C.

The help of each command says more. With --json it prints JSON on standard output and nothing else.
"""

# This is the one module that knows the devstack, and only inside the two commands that need it.

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from workers.cli import fundings, jobs, leases, look_ups, starting, stores, texts
from workers.cli.terminal import FAILED, INTERRUPTED, MISUSED, AsJSON, epilog_of, err, give_up, out

main = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@main.command(
    epilog=epilog_of(
        "converge up --port 8000 --set SOCIAL_RECORD_ENABLE_PAID=1",
        codes={0: "stopped by Ctrl-C", FAILED: "something could not be started or has ended by itself"},
    )
)
def up(
    port: Annotated[int, typer.Option(help="Port of the API; 0 takes any free one.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Folder for the data; by default the checkout.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of all processes; repeat for several."),
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Start everything on this machine and keep it up until Ctrl-C. Data is kept between runs."""
    from devstack.session import keep_up  # noqa: PLC0415 - only these two commands need the devstack

    raise typer.Exit(
        keep_up(out, err, api_port=port, root=root, environ=_settings_of(settings or []), as_json=as_json)
    )


@main.command(
    epilog=epilog_of(
        "converge demo --json",
        codes={
            0: "all jobs succeeded and all counts agree",
            FAILED: "something failed or does not agree",
            INTERRUPTED: "stopped by Ctrl-C",
        },
    )
)
def demo(as_json: AsJSON = False) -> None:
    """Start everything, run a reconcile and a retry job on sample tokens, show the results, end."""
    from devstack.demo import run_demo  # noqa: PLC0415

    raise typer.Exit(run_demo(Console(quiet=True) if as_json else out, err))


def _settings_of(words: list[str]) -> dict[str, str]:
    """Names and values out of `NAME=VALUE`; anything else ends the command."""
    pairs = [word.partition("=") for word in words]
    for word, (name, is_there, _) in zip(words, pairs, strict=True):
        if not (name and is_there):
            give_up(f"--set wants NAME=VALUE, not {word}", MISUSED)
    return {name: value for name, _, value in pairs}


main.add_typer(stores.commands)
main.add_typer(starting.commands)
main.add_typer(look_ups.commands)
main.add_typer(texts.commands)
main.add_typer(jobs.commands, name="jobs")
main.add_typer(fundings.commands, name="funding")
main.add_typer(leases.commands, name="leases")

__all__ = ["main"]
