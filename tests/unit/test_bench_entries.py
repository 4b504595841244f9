"""The whole run of the measurements: its table of entries, and what it shows and keeps of what they print."""

from __future__ import annotations

import json
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import bench.machine
from bench.entries import ENTRIES, Entry, Figure
from bench.report import Result, keep, table_of

ENTRY = Entry(
    name="speed",
    module="speed",
    figures=(
        Figure(name="time to that of others", path="to.others", at_most=1.5),
        Figure(name="the largest store", path="sizes.-1", unit="MiB", at_least=2),
    ),
)


def result_of(printed: str) -> Result:
    return Result.of(ENTRY, took_s=1.0, load_average=(0.1, 0.2), printed=printed)


def shown(*results: Result) -> str:
    console = Console(file=StringIO(), width=160)
    console.print(table_of(results))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def kept(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def test_each_entry_is_a_module_that_can_be_run() -> None:
    assert all(find_spec(f"bench.{entry.module}") for entry in ENTRIES)


def test_no_two_entries_share_a_name() -> None:
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)


def test_every_module_that_can_be_run_is_an_entry() -> None:
    modules = Path(str(find_spec("bench.entries").origin)).parent.glob("[!_]*.py")  # type: ignore[union-attr]
    runnable = {file.stem for file in modules if "\ndef main(" in file.read_text(encoding="utf-8")}
    assert runnable == {entry.module for entry in ENTRIES}


def test_the_figures_are_read_from_the_last_line_that_is_printed() -> None:
    table = shown(result_of('a list for people\n{"to": {"others": 1.25}, "sizes": [1, 3]}\n'))
    assert "1.25" in table
    assert "<= 1.5" in table
    assert "3 MiB" in table


def test_a_failed_entry_is_a_line_that_says_why_and_hides_no_other_entry() -> None:
    failed = Result.failed(ENTRY, took_s=1.0, load_average=(0.1, 0.2), error="exit code 1: no space left")
    good = result_of('{"to": {"others": 1.25}, "sizes": [1, 3]}')
    table = shown(failed, good)
    assert "failed: exit code 1: no space left" in table
    assert "1.25" in table


@pytest.mark.parametrize(
    "printed", ["", "no JSON", "[]", '{"to": {}}', '{"to": {"others": "1.2"}, "sizes": [3]}']
)
def test_an_entry_that_prints_not_all_of_its_figures_has_failed(printed: str) -> None:
    assert result_of(printed).error is not None


@pytest.mark.parametrize(("others", "is_met"), [(1.5, True), (1.51, False)])
def test_what_was_asked_for_is_compared_with_what_was_measured(
    others: float, is_met: bool, tmp_path: Path
) -> None:
    file = tmp_path / "results.json"
    keep([result_of(json.dumps({"to": {"others": others}, "sizes": [2]}))], file)
    first, second = kept(file)["entries"]["speed"]["figures"]
    assert (first["value"], first["is_met"]) == (others, is_met)
    assert second["is_met"]


def test_results_of_entries_that_were_not_measured_again_stay(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    other = Entry(name="other", module="other", figures=())
    keep([result_of('{"to": {"others": 1}, "sizes": [2]}')], file)
    keep([Result.of(other, took_s=1.0, load_average=(0.1, 0.2), printed="{}")], file)
    assert set(kept(file)["entries"]) == {"speed", "other"}


def test_results_of_another_machine_do_not_stay(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"machine": {"cores": 999}, "entries": {"speed": {}}}), encoding="utf-8")
    keep(
        [
            Result.of(
                Entry(name="other", module="other", figures=()), took_s=1.0, load_average=(0, 0), printed="{}"
            )
        ],
        file,
    )
    assert set(kept(file)["entries"]) == {"other"}


def test_a_package_that_is_not_installed_is_left_out_of_the_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.machine, "PACKAGES", ("celery", "no-such-package"))
    file = tmp_path / "results.json"
    keep([], file)
    assert set(kept(file)["versions"]) == {"celery"}
