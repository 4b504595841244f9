"""The commands that say what is recorded of a token, and why one of its URLs is as it is."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table

from workers.base58 import is_public_key
from workers.cli.asking import ask
from workers.cli.terminal import FAILED, MISUSED, AsJSON, cell, epilog_of, give_up, out, print_json
from workers.clock import to_iso
from workers.social_graph.graph_reader import GraphReader, TokenView

PAGE_SIZE = 200

commands = typer.Typer()


@commands.command(
    epilog=epilog_of(
        "converge tokens So11111111111111111111111111111111111111112 --as-of 2026-01-31T00:00:00Z",
        codes={0: "shown", FAILED: "the token is not recorded, or a store is away"},
    )
)
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
        give_up("address: must be a public key: 32 bytes in base58", MISUSED)
    view = ask(lambda access: _whole_token(access.graph, address, as_of))
    if as_json:
        print_json(view.to_json())
    else:
        _show_token(view)


@commands.command(
    epilog=epilog_of(
        "converge explain https://x.com/harbor --token So11111111111111111111111111111111111111112",
        codes={0: "explained", FAILED: "the token does not have this URL, or a store is away"},
    )
)
def explain(
    url: Annotated[str, typer.Argument(help="the URL in any spelling")],
    token: Annotated[str, typer.Option(help="the mint address of a token that has it")],
    as_json: AsJSON = False,
) -> None:
    """Say why a URL of a token is or is not tried again, and when. Asks no platform."""
    found = ask(lambda access: access.explainer.explain(token, url))
    if as_json:
        print_json(found.to_json())
        return
    element = found.element
    tries = f"{element.status.value} {element.reason or ''} after {element.attempts} attempts"
    for line in (element.url, tries, f"{found.rule.value}: {found.words}"):
        out.print(cell(line))
    if found.due_at is not None:
        out.print(cell(f"due at {to_iso(found.due_at)}"))
    if found.holder is not None:
        out.print(cell(f"held by {found.holder}"))


def _show_token(view: TokenView) -> None:
    token = view.token
    out.print(cell(f"{token.address} {token.symbol or ''} first seen {to_iso(token.created_at)}"))
    urls = Table("url", "status", "reason", "attempts", "tried")
    for each in token.social_urls:
        tried = each.attempted_at and to_iso(each.attempted_at)
        urls.add_row(*map(cell, (each.url, each.status.value, each.reason, each.attempts, tried)))
    out.print(urls)
    linked = Table("linked", "kind", "where", "what", "depth", "through", "id")
    for found in view.objects:
        link = found.link
        where = f"{link.platform} {link.subtype or ''}"
        what = found.card and found.card.label
        cells = (to_iso(link.created_at), link.object, where, what, link.link_depth, link.entry_url)
        linked.add_row(*map(cell, (*cells, link.object_id)))
    out.print(linked)


def _whole_token(graph: GraphReader, address: str, as_of: datetime | None) -> TokenView:
    """The token with the objects of all pages."""
    view = graph.token(address, as_of=as_of, limit=PAGE_SIZE)
    while view.next_from is not None:
        page = graph.token(address, as_of=view.as_of, limit=PAGE_SIZE, after=view.next_from)
        view = dataclasses.replace(page, objects=(*view.objects, *page.objects))
    return view
