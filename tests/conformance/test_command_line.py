"""Every command says how it is called, what its exit codes mean, and can speak to programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from workers.cli import main
from workers.cli.terminal import epilog_of

PRINTS_JSON_ANYWAY = {"canonical"}
LINES_MAX = 300


def commands_of(group: TyperGroup, *above: str) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    """Each command with the words that call it."""
    for name, found in group.commands.items():
        if isinstance(found, TyperGroup):
            yield from commands_of(found, *above, name)
        else:
            assert isinstance(found, TyperCommand)
            yield (*above, name), found


ROOT = typer.main.get_command(main)
assert isinstance(ROOT, TyperGroup)
COMMANDS = dict(commands_of(ROOT))


def help_of(words: tuple[str, ...]) -> str:
    """The help of a command as one line of words."""
    done = CliRunner().invoke(main, [*words, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert done.exit_code == 0
    return " ".join(done.output.split())


def test_the_known_commands_are_there() -> None:
    assert {" ".join(words) for words in COMMANDS} == {
        *("up", "demo", "migrate", "stream", "reconcile", "retry", "backfill"),
        *("tokens", "explain", "canonical", "route"),
        *("jobs list", "jobs show", "jobs cancel"),
        *("funding reconcile", "funding blocked", "leases list", "leases release"),
    }


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_has_an_example_that_calls_this_command_with_options_that_exist(
    words: tuple[str, ...],
) -> None:
    text = help_of(words)
    examples = re.findall(r"Example: converge (.+?)(?= Example:| Exit codes:)", text)
    assert examples
    options = {name for option in COMMANDS[words].params for name in option.opts}
    for example in examples:
        assert example.split()[: len(words)] == list(words)
        assert set(re.findall(r"(?<= )--[a-z-]+", example)) <= options


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_help_and_the_runbook_have_the_exit_codes(words: tuple[str, ...], checkout: Path) -> None:
    found = re.search(r"Exit codes: (.+?)\.(?: |$)", help_of(words))
    assert found is not None
    codes = re.findall(r"(?:^|, )([0-9]+) [a-z]", found[1])
    assert {"0", "2"} <= set(codes)
    assert set(codes) <= {"0", "1", "2", "130"}
    runbook = (checkout / "docs" / "operations.md").read_text(encoding="utf-8")
    table = runbook.split("## The command line")[1].split("\n## ")[0]
    row = re.search(rf"^\|[^|]*`{' '.join(words)}`[^|]*\|(.*)\|$", table, flags=re.MULTILINE)
    assert row is not None, "the runbook's table has the command"
    for code in {*codes} - {"2"}:
        assert re.search(rf"\b{code}\b", row[1]), f"{code} is explained there"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_a_command_prints_can_be_read_by_programs(words: tuple[str, ...]) -> None:
    has_json = any("--json" in option.opts for option in COMMANDS[words].params)
    assert has_json is (words[0] not in PRINTS_JSON_ANYWAY)


def test_wrong_use_ends_with_2_and_says_what_is_wrong() -> None:
    for words in (("nonsense",), ("jobs", "show"), ("retry", "--limit", "many"), ("up", "--set", "PAID")):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2, words
        assert done.stderr.strip()


def test_the_end_of_a_help_has_each_code_once_and_in_order() -> None:
    assert epilog_of("converge look", codes={1: "nothing there", 0: "found"}) == (
        "Example: converge look\n\nExit codes: 0 found, 1 nothing there, 2 wrong use or bad settings."
    )


def test_no_file_of_the_command_line_is_long(checkout: Path) -> None:
    for path in (checkout / "workers" / "cli").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_MAX, path
