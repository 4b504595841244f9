"""What a command shows while it waits, at a terminal and in a log."""

from __future__ import annotations

import io

from rich.console import Console

from workers.progress_bar import shown_progress


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_log_gets_a_plain_line_for_each_change() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with shown_progress(console, "social.retry", every_s=0) as show:
        for done, total in ((0, None), (0, 2), (0, 2), (1, 2), (1, 2), (2, 2), (2, 2)):
            show(done, total)
    assert text_of(console).splitlines() == [f"social.retry: {done} of 2" for done in (0, 1, 2)]


def test_a_log_is_not_flooded_and_still_has_the_end() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with shown_progress(console, "social.retry", every_s=3600) as show:
        for done in range(101):
            show(done, 100)
    assert text_of(console).splitlines() == ["social.retry: 0 of 100", "social.retry: 100 of 100"]


def test_a_terminal_gets_a_bar_that_moves() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, legacy_windows=False)
    with shown_progress(console, "social.retry") as show:
        show(3, 4)
    assert "3/4" in text_of(console)
    assert "\x1b[" in text_of(console)
