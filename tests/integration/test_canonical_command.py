"""`converge canonical` as a person starts it, in an environment without any setting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.solana_samples import body_of, result_of
from workers.solana_backfill.canonical import canonical_transaction
from workers.solana_backfill.canonical_model import CanonicalTransaction

SAMPLES = Path(__file__).parents[1] / "samples" / "solana"


def run(checkout: Path, *files: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", "canonical", *map(str, files)],
        env={},
        cwd=checkout,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_each_file_is_one_line_whether_it_is_an_answer_or_a_bare_result(
    checkout: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare result.json"
    bare.write_text(json.dumps(result_of("tx_v0_lookup_tables_swap")))
    done = run(
        checkout, SAMPLES / "tx_legacy_sol_transfer.json", bare, "-", stdin=body_of("tx_v0_transaction_index")
    )
    assert (done.returncode, done.stderr) == (0, b"")
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [
        canonical_transaction(body_of(name), None)
        for name in ("tx_legacy_sol_transfer", "tx_v0_lookup_tables_swap", "tx_v0_transaction_index")
    ]
    assert [CanonicalTransaction.from_json(line) for line in shown] == expected
    assert [line["content_hash"] for line in shown] == [each.content_hash() for each in expected]


def test_what_is_no_transaction_is_told_with_its_reason_and_the_others_are_shown(checkout: Path) -> None:
    names = ("tx_null_result", "tx_failed_base64_encoding", "tx_legacy_sol_transfer")
    done = run(checkout, *(SAMPLES / f"{name}.json" for name in names), SAMPLES / "not-there.json", SAMPLES)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1
    reasons = done.stderr.decode().splitlines()
    assert len(reasons) == 4
    for line, words in zip(
        reasons,
        ("tx_null_result.json: not_found", "unexpected_encoding", "No such file", "directory"),
        strict=True,
    ):
        assert words in line


def test_without_a_file_it_says_how_it_is_used(checkout: Path) -> None:
    assert run(checkout).returncode == 2
