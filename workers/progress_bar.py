"""What every command shows while it waits for a job: a bar at a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# A log that somebody reads afterwards needs to know that it goes on, not each step.
LINE_EVERY_S = 5.0

ShowProgress: TypeAlias = Callable[[int, int | None], None]


@contextmanager
def shown_progress(console: Console, kind: str, *, every_s: float = LINE_EVERY_S) -> Iterator[ShowProgress]:
    """Call the result with what is done and of how much, which may not be known yet (None).

    At a terminal it moves a bar. Elsewhere it writes a line when the numbers have changed, at once the first
    time, then at most every `every_s` seconds, and when all is done.
    """
    if console.is_terminal:
        with _bar(console) as progress:
            task = progress.add_task(kind, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)
    else:
        yield _Lines(console, kind, every_s).show


def _bar(console: Console) -> Progress:
    """A bar with the job's kind, what is done of how much, and the time it takes."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


class _Lines:
    def __init__(self, console: Console, kind: str, every_s: float) -> None:
        self._console = console
        self._kind = kind
        self._every_s = every_s
        self._shown: tuple[int, int] | None = None
        self._shown_at = float("-inf")

    def show(self, done: int, total: int | None) -> None:
        if total is None or self._shown == (done, total):
            return
        now = time.monotonic()
        if now - self._shown_at < self._every_s and done < total:
            return
        self._shown, self._shown_at = (done, total), now
        line = f"{self._kind}: {done} of {total}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
