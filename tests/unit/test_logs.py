"""A line of the log: its own fields, and what the thread is at work on."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest

from workers.logs import JSONFormatter, about


def line(message: str = "something happened", **fields: object) -> dict[str, Any]:
    record = logging.makeLogRecord({"name": "test", "levelname": "INFO", "msg": message, **fields})
    found: dict[str, Any] = json.loads(JSONFormatter().format(record))
    return found


def test_a_line_says_what_its_thread_is_at_work_on() -> None:
    with about(job="job-1", token="So1"), about(url="https://a.example/", platform="web"):
        found = line()
    assert {name: found[name] for name in ("job", "token", "url", "platform")} == {
        "job": "job-1",
        "token": "So1",
        "url": "https://a.example/",
        "platform": "web",
    }
    assert not line().keys() & {"job", "token", "url", "platform"}, "it is over"


def test_inner_facts_come_before_outer_ones_and_a_lines_own_before_both() -> None:
    with about(job="outer", token="outer", url="outer"), about(token="inner", url="inner"):
        found = line(url="own")
    assert (found["job"], found["token"], found["url"]) == ("outer", "inner", "own")


def test_a_fact_that_is_not_known_is_left_out_and_hides_none() -> None:
    with about(job="job-1"), about(job=None, token=None):
        found = line()
    assert found["job"] == "job-1"
    assert "token" not in found


def test_facts_never_replace_what_every_line_has() -> None:
    with about(message="other", level="other", at="other", logger="other"):
        found = line("mine")
    assert (found["message"], found["level"], found["logger"]) == ("mine", "info", "test")
    assert found["at"] != "other"


def test_an_error_inside_ends_the_work_and_other_threads_know_nothing_of_it() -> None:
    seen: list[dict[str, Any]] = []

    def work() -> None:
        with about(job="job-1"):
            thread = threading.Thread(target=lambda: seen.append(line()))
            thread.start()
            thread.join()
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        work()
    assert "job" not in seen[0]
    assert "job" not in line()
