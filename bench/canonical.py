"""How many transactions per second one core makes canonical, beside `solders` and only parsing their JSON.

Prints one JSON object. The transactions are the recorded ones, again and again; each starts as the bytes of a
node's answer. `canonical` is the canonical form alone, `hashed` with its content hash, `stored` with hash and
stored form, which is what a worker does for each before it writes. Nothing is remembered between rounds.
`json_loads` is the floor in Python. `solders`, whose parser is Rust, makes its objects of the same bytes and
is asked for the same fields (`read_by_solders`); it neither checks nor resolves what our form does.
Times are those of the processor, so that neighbours count less, and each is the best of several runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from solders.rpc.responses import GetTransactionResp

from workers.solana_backfill.canonical import canonical_transaction

SAMPLES = Path(__file__).parent.parent / "tests" / "samples" / "solana"
# Those that are one answer, and the answers inside the files that hold several.
SINGLE = (
    "tx_failed_custom_error_no_version",
    "tx_failed_string_error",
    "tx_legacy_logs_truncated",
    "tx_legacy_sol_transfer",
    "tx_legacy_spl_transfer",
    "tx_legacy_token2022_transfer",
    "tx_v0_lookup_tables_swap",
    "tx_v0_transaction_index",
)
PARTS = {"tx_same_in_three_encodings": "json", "tx_v1_failed_mainnet": "get_transaction_derived"}
RUNS = 8


def bodies() -> list[bytes]:
    """The answers, in the compact form that nodes send."""
    answers: list[Any] = [json.loads((SAMPLES / f"{name}.json").read_bytes()) for name in SINGLE]
    answers += [json.loads((SAMPLES / f"{name}.json").read_bytes())[part] for name, part in PARTS.items()]
    return [json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode() for answer in answers]


def hashed(body: bytes) -> None:
    """Make canonical and hash."""
    canonical_transaction(body, None).content_hash()


def stored(body: bytes) -> None:
    """Make canonical, hash, and build what is stored."""
    transaction = canonical_transaction(body, None)
    transaction.content_hash()
    transaction.to_json()


def read_by_solders(body: bytes) -> tuple[object, ...]:
    """Parse with `solders` and take the fields that the canonical form has."""
    parsed = GetTransactionResp.from_json(body.decode()).value
    assert parsed is not None
    meta = parsed.transaction.meta
    transaction: Any = parsed.transaction.transaction
    message = transaction.message
    return (
        parsed.slot,
        parsed.block_time,
        parsed.transaction.version,
        transaction.signatures,
        [str(key) for key in message.account_keys],
        [(each.program_id_index, each.accounts, each.data) for each in message.instructions],
        None
        if meta is None
        else (
            meta.err,
            meta.fee,
            meta.pre_balances,
            meta.post_balances,
            meta.pre_token_balances,
            meta.post_token_balances,
            meta.inner_instructions,
            meta.log_messages,
            meta.loaded_addresses,
            meta.compute_units_consumed,
        ),
    )


def per_second(work: Callable[[bytes], object], sample: list[bytes], rounds: int) -> float:
    """How many bodies per second of the processor `work` does."""
    started = time.process_time()
    for _ in range(rounds):
        for body in sample:
            work(body)
    return rounds * len(sample) / (time.process_time() - started)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="how often each run goes over the sample")
    json.dump(measure(parser.parse_args().rounds), sys.stdout)
    sys.stdout.write("\n")


def measure(rounds: int) -> dict[str, Any]:
    """Go over the sample `rounds` times in each of several runs; return the figures."""
    sample = bodies()
    ways: dict[str, Callable[[bytes], object]] = {
        "json_loads": json.loads,
        "solders": read_by_solders,
        "canonical": lambda body: canonical_transaction(body, None),
        "hashed": hashed,
        "stored": stored,
    }
    rates = dict.fromkeys(ways, 0.0)
    for _ in range(RUNS):
        for name, work in ways.items():
            rates[name] = max(rates[name], per_second(work, sample, rounds))
    return {
        "transactions_in_sample": len(sample),
        "mean_body_bytes": round(sum(map(len, sample)) / len(sample)),
        **{f"{name}_per_s": round(rate) for name, rate in rates.items()},
        **{
            f"{name}_of_floor": round(rates["json_loads"] / rates[name], 2)
            for name in ways
            if name != "json_loads"
        },
        "to_solders": {
            name: round(rates["solders"] / rates[name], 2) for name in ("canonical", "hashed", "stored")
        },
    }


if __name__ == "__main__":
    main()
