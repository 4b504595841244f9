"""`converge up`: the stack in the foreground, until Ctrl-C."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from devstack.folders import CHECKOUT, InUse
from devstack.processes import StartFailed
from devstack.stack import FLOWER_USER, Stack

# The sandbox lets everybody in who shows a key. They are used when somebody turns paid calls on.
PAID_KEYS = {"TWITTERAPIIO_API_KEY": "sandbox", "APIFY_TOKEN": "sandbox"}


def keep_up(
    out: Console,
    err: Console,
    *,
    api_port: int = 0,
    root: Path | None = None,
    environ: Mapping[str, str] | None = None,
    as_json: bool = False,
) -> int:
    """Start everything, print where it is, and keep it up; return the exit code.

    Data stay below `root` (by default the checkout) for the next time. `environ` are settings of the
    processes that differ from what the stack chooses. Ends with 0 on Ctrl-C and with 1 when something ends by
    itself or cannot be started.
    """
    chosen = {**PAID_KEYS, **(environ or {})}
    try:
        err.print("starting ...", style="dim")
        with Stack(root=root or CHECKOUT, keep_data=True, api_port=api_port, environ=chosen) as stack:
            if as_json:
                out.file.write(json.dumps(_addresses(stack)) + "\n")
                out.file.flush()
            else:
                _print_addresses(out, _addresses(stack), broker_url=stack.environ["BROKER_URL"])
            try:
                ended = stack.wait()
            except KeyboardInterrupt:
                err.print("stopping ...", style="dim")
                return 0
            err.print(f"{ended} has ended by itself; its last lines:", style="red")
            err.print(stack.processes[ended].log_tail(), markup=False, highlight=False)
            return 1
    except (StartFailed, InUse) as exc:
        err.print(str(exc), style="red", markup=False, highlight=False)
        return 1
    except KeyboardInterrupt:
        return 0


def _addresses(stack: Stack) -> dict[str, str]:
    """Where everything is, for a program."""
    return {
        "api": stack.api_url,
        "apiKey": stack.api_key,
        "console": f"{stack.api_url}/console",
        "flower": stack.flower_url,
        "flowerUser": FLOWER_USER,
        "flowerPassword": stack.flower_password,
        "sandbox": f"{stack.sandbox_url}/_sandbox/calls",
        "redis": stack.valkey.url,
        "mongo": stack.mongo.url,
        "postgres": stack.environ["FUNDING_DATABASE_URL"],
        "logs": str(stack.logs),
    }


def _print_addresses(out: Console, at: Mapping[str, str], *, broker_url: str) -> None:
    lines = (
        f"API      {at['api']}   (x-api-key: {at['apiKey']})",
        f"console  {at['console']}   (the same key)",
        f"Flower   {at['flower']}   ({at['flowerUser']} / {at['flowerPassword']})",
        f"sandbox  {at['sandbox']}",
        f"Redis    {at['redis']}",
        f"MongoDB  {at['mongo']}",
        f"Postgres {at['postgres']}",
        f"logs     {at['logs']}",
        f"stream   LPUSH token.flow at {broker_url}",
        "",
        "Try it:",
        f"  curl -s -X POST {at['api']}/api/v1/internal/social-recording/reconcile \\",
        f"    -H 'x-api-key: {at['apiKey']}' -H 'content-type: application/json' -H 'Prefer: wait=60' \\",
        """    -d '{"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-02-01T00:00:00Z"}'""",
        "",
        "Ctrl-C stops everything; the data stay for the next time.",
    )
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)
