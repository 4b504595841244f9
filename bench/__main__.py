"""Measures everything side by side: `make bench`.

Each entry runs in a process of its own, one after the other, so that none disturbs the next. A table is
printed, and `bench/results.json` is written. An entry that fails is shown as failed and makes the exit code
1; a number that is not what was asked for is only shown.

    python -m bench [--only NAME ...]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.entries import ENTRIES, Entry
from bench.report import Result, keep, table_of

CHECKOUT = Path(__file__).resolve().parents[1]
# What an entry that takes too long is granted to end its servers.
STOP_WAIT_S = 30.0
ERROR_LINES = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    names = [entry.name for entry in ENTRIES]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names)
    )
    wanted = parser.parse_args(arguments).only
    results = [run(entry) for entry in ENTRIES if entry.name in wanted]
    keep(results)
    Console(width=None if sys.stdout.isatty() else 120).print(table_of(results))
    return int(any(result.error is not None for result in results))


def run(entry: Entry) -> Result:
    """Measure one entry in a process of its own."""
    sys.stderr.write(f"{entry.name} ...\n")
    started, load_before = time.monotonic(), os.getloadavg()[0]
    process = subprocess.Popen(
        [sys.executable, "-m", f"bench.{entry.module}", *entry.options],
        cwd=CHECKOUT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        printed, complaints = process.communicate(timeout=entry.timeout_s)
        error = None if process.returncode == 0 else _reason(process.returncode, complaints)
    except subprocess.TimeoutExpired:
        _end(process)
        error = f"took longer than {entry.timeout_s:g} s"
    except BaseException:
        _end(process)
        raise
    took_s = time.monotonic() - started
    load_average = (load_before, os.getloadavg()[0])
    sys.stderr.write(f"{entry.name}: {took_s:.0f} s\n")
    if error is not None:
        return Result.failed(entry, took_s=took_s, load_average=load_average, error=error)
    return Result.of(entry, took_s=took_s, load_average=load_average, printed=printed)


def _reason(code: int, complaints: str) -> str:
    last = " | ".join(complaints.strip().splitlines()[-ERROR_LINES:])
    return f"exit code {code}: {last}"


def _end(process: subprocess.Popen[str]) -> None:
    """End an entry as Ctrl-C does, so that it ends its servers."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
