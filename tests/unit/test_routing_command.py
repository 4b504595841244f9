"""`converge route`: what it prints of texts from arguments and from standard input."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO

import pytest
from typer.testing import CliRunner, Result

from workers.cli import main
from workers.line_reader import lines_of
from workers.social_recording.routing import TEXT_MAX

KEYS = ["input", "canonical", "platform", "object", "subtype", "key", "reason"]
ANSWER_S = 60


def run(*arguments: str, stdin: str | bytes = "", env: dict[str, str | None] | None = None) -> Result:
    return CliRunner().invoke(main, ["route", *arguments], input=stdin, env=env)


def objects(result: Result) -> list[dict[str, str | None]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_each_link_of_an_argument_is_one_object_a_line() -> None:
    text = "see https://t.co/AbC123xyz\u2026 and (https://t.co/Qq9)."
    found = objects(run("--json", text, "https://WWW.X.com/Some_Name?s=21"))
    assert [list(each) for each in found] == [KEYS] * 3
    assert [each["input"] for each in found] == [text, text, "https://WWW.X.com/Some_Name?s=21"]
    assert [each["canonical"] for each in found] == [
        "https://t.co/AbC123xyz",
        "https://t.co/Qq9",
        "https://x.com/some_name",
    ]
    assert found[2] == {
        "input": "https://WWW.X.com/Some_Name?s=21",
        "canonical": "https://x.com/some_name",
        "platform": "x",
        "object": "accounts",
        "subtype": None,
        "key": "some_name",
        "reason": None,
    }


def test_what_holds_no_link_says_why_and_is_no_failure() -> None:
    found = objects(run("--json", "Some Coin", "javascript:alert(1)", "https://x.com@evil.io/", ""))
    assert [each["reason"] for each in found] == ["not_a_url", "bad_scheme", "has_credentials", "empty"]
    assert all(each[key] is None for each in found for key in KEYS[1:-1])


def test_a_link_that_leads_inside_is_shown_with_its_place_and_the_reason_why_nobody_opens_it() -> None:
    (found,) = objects(run("--json", "http://2130706433/"))
    assert (found["canonical"], found["reason"]) == ("https://127.0.0.1/", "unsafe_address")


def test_without_arguments_the_lines_of_standard_input_are_taken() -> None:
    stdin = b"t.me/Name1\r\n\nhttps://x.com/a https://x.com/b\nhttps://github.com/o/r"
    found = objects(run("--json", stdin=stdin))
    assert [(each["input"], each["key"]) for each in found] == [
        ("t.me/Name1", "name1"),
        ("", None),
        ("https://x.com/a https://x.com/b", "a"),
        ("https://x.com/a https://x.com/b", "b"),
        ("https://github.com/o/r", "o/r"),
    ]


def test_bytes_that_are_no_text_and_endless_lines_are_read_as_lines_without_a_link() -> None:
    stdin = b"https://\xff\xfe.com/\n" + b"a" * (4 * TEXT_MAX + 50) + b"\nhttps://x.com/a\n"
    found = objects(run("--json", stdin=stdin))
    assert [each["reason"] for each in found] == ["bad_url", "too_long", None]
    assert found[2]["canonical"] == "https://x.com/a"


def test_people_get_columns_in_which_no_stranger_can_steer_the_terminal() -> None:
    result = run("https://x.com/some_name", "Some\x1b[31m Coin", "https://t.me/name1/7 \udcff")
    assert result.exit_code == 0
    head, *lines = result.stdout.splitlines()
    at = [head.index(name) for name in ("where", "key", "canonical", "input")]
    assert [lines[0][start:].split()[0] for start in at] == [
        "x",
        "some_name",
        "https://x.com/some_name",
        "https://x.com/some_name",
    ]
    assert lines[0].startswith("x accounts ")
    assert lines[1].split() == ["-", "-", "not_a_url", "Some", "[31m", "Coin"]
    assert lines[2].startswith("tg contents post ")
    assert "\x1b" not in result.stdout


def test_no_setting_is_read() -> None:
    broken: dict[str, str | None] = {"APP_SECRET_KEY": None, "SOCIAL_RECORD_NO_SUCH": "1", "MONGO_URL": "?"}
    assert objects(run("--json", "https://x.com/a", env=broken))[0]["key"] == "a"


@pytest.fixture
def route_process() -> Iterator[subprocess.Popen[bytes]]:
    """`converge route --json` that waits for lines, with an empty environment."""
    with subprocess.Popen(
        [sys.executable, "-m", "workers.cli", "route", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
    ) as process:
        yield process
        process.kill()


def test_a_line_is_answered_before_the_next_one_is_there(route_process: subprocess.Popen[bytes]) -> None:
    stdin, stdout = route_process.stdin, route_process.stdout
    assert stdin is not None
    assert stdout is not None
    answers: queue.Queue[bytes] = queue.Queue()
    reader = threading.Thread(target=_pass_on, args=(stdout, answers))
    reader.start()
    for name in ("a", "b"):
        stdin.write(f"https://x.com/{name}\n".encode())
        stdin.flush()
        assert json.loads(answers.get(timeout=ANSWER_S))["key"] == name
    stdin.close()
    assert route_process.wait(timeout=ANSWER_S) == 0
    reader.join(timeout=ANSWER_S)


def _pass_on(stream: IO[bytes], answers: queue.Queue[bytes]) -> None:
    for line in stream:
        answers.put(line)


class EndlessLine:
    """A stream of which each read gives what was asked for, and no line end before `length` bytes."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.largest_read = 0

    def readline(self, size: int) -> bytes:
        given = min(size, self._left)
        self._left -= given
        self.largest_read = max(self.largest_read, given)
        return b"a" * given


def test_a_line_without_end_is_read_in_bounded_pieces_and_cut() -> None:
    stream = EndlessLine(10_000_000)
    lines = list(lines_of(stream, bytes_max=1000))  # type: ignore[arg-type]
    assert lines == ["a" * 1001]
    assert stream.largest_read == 1001
