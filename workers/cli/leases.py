"""`converge leases`: who holds which lease; take one from a holder that is dead."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
from rich.table import Table

from workers.cli.asking import ask
from workers.cli.terminal import FAILED, AsJSON, cell, epilog_of, give_up, out, print_json

commands = typer.Typer(no_args_is_help=True, help="Look at leases, take one from a dead holder.")


@commands.command(
    "list",
    epilog=epilog_of(
        "converge leases list social-record:",
        codes={0: "listed, also when there is none", FAILED: "Redis is away"},
    ),
)
def list_leases(
    prefix: Annotated[str, typer.Argument(help="first letters of the names, such as social-record:")] = "",
    as_json: AsJSON = False,
) -> None:
    """Show who holds which lease, since when and for how long yet."""
    held = ask(lambda access: access.leases.held(prefix))
    if as_json:
        print_json([dataclasses.asdict(lease) for lease in held])
        return
    table = Table("lease", "holder", "held for", "left")
    for lease in held:
        age = "" if lease.age_s is None else f"{lease.age_s:.1f} s"
        table.add_row(*map(cell, (lease.name, lease.holder, age, f"{lease.ttl_s:.1f} s")))
    out.print(table)


@commands.command(
    "release",
    epilog=epilog_of(
        "converge leases release social-reconcile:retry --holder 0b6f3a52-6d4e-4a60-9d0c-8a3f5f1f2c11",
        codes={0: "released", FAILED: "this holder does not have it (any more), or Redis is away"},
    ),
)
def release_lease(
    name: Annotated[str, typer.Argument(help="the lease, as `leases list` names it")],
    holder: Annotated[str, typer.Option(help="its holder, as `leases list` names it")],
    as_json: AsJSON = False,
) -> None:
    """Take a lease from a holder that is known to be dead. A living one notices and stops writing."""
    is_released = ask(lambda access: access.leases.release(name, holder))
    if as_json:
        print_json({"name": name, "holder": holder, "released": is_released})
    if not is_released:
        give_up("this holder does not have the lease (any more)", FAILED)
