"""The two commands of the README, run as a person runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import requests

from devstack.postgres import PostgresServer
from tests.waiting import wait_until

DEMO_TIMEOUT_S = 240
UP_TIMEOUT_S = 120


def living(marker: str) -> list[str]:
    """Processes, other than this one, that carry the marker in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if marker.encode() in environ and int(entry.name) != os.getpid():
            found.append(command)
    return found


def marked(tmp_path: Path) -> tuple[str, dict[str, str]]:
    """A mark, and an environment with it that every child inherits: HOME is handed on to all of them."""
    mark = str(tmp_path)
    return mark, {**os.environ, "HOME": mark}


def test_the_demo_ends_by_itself_with_counts_that_agree(checkout: Path, tmp_path: Path) -> None:
    mark, environ = marked(tmp_path)
    demo = subprocess.run(
        [sys.executable, "-m", "workers.cli", "demo"],
        cwd=checkout,
        env=environ,
        capture_output=True,
        text=True,
        timeout=DEMO_TIMEOUT_S,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    counts = json.loads(demo.stdout.splitlines()[-1])
    assert counts["agree"] is True
    assert counts["stored"]["tokens"] == counts["reconcile"]["recorded"] >= 200
    assert counts["reconcile"]["remaining"] == 0
    assert counts["retry"]["converged"] > 0
    assert sum(counts["urls"].values()) > 400
    assert counts["funding"] == {"scanned": 4, "fixed": 2, "failed": 1}
    assert living(mark) == []


def test_the_stack_stays_up_until_it_is_told_to_stop(checkout: Path, tmp_path: Path) -> None:
    mark, environ = marked(tmp_path)
    log_file = tmp_path / "up.log"
    # Data of its own, so that a person's stack of this checkout is left alone.
    root = tmp_path / "a root"
    root.mkdir()
    with log_file.open("wb") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "workers.cli", "up", "--root", str(root)],
            cwd=checkout,
            env=environ,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(
            lambda: "Ctrl-C" in log_file.read_text() or up.poll() is not None,
            "it is up",
            timeout_s=UP_TIMEOUT_S,
        )
        text = log_file.read_text()
        assert up.poll() is None, text
        found = re.search(r"^API +(\S+) +\(x-api-key: (\S+)\)$", text, flags=re.MULTILINE)
        assert found is not None, text
        url, key = found.groups()
        answer = requests.post(
            f"{url}/api/v1/internal/social-recording/reconcile",
            json={"startDate": "2026-01-01T00:00:00Z", "endDate": "2026-01-02T00:00:00Z"},
            headers={"x-api-key": key, "Prefer": "wait=60"},
            timeout=70,
        )
        assert answer.status_code == 200, answer.text
        flower = re.search(r"^Flower +(\S+)", text, flags=re.MULTILINE)
        assert flower is not None
        assert requests.get(flower[1], timeout=10).status_code == 401, "the dashboard wants a login"
    finally:
        up.send_signal(signal.SIGINT)
        status = up.wait(UP_TIMEOUT_S)
        # Kept data of a server that root has to run as somebody else may lie outside of the folder.
        PostgresServer(root / ".devstack" / "up" / "postgres").remove_data()
    assert status == 0, log_file.read_text()
    assert living(mark) == []
