"""The recorded answers that the sandbox is made of, and the stable numbers it personalises them with.

Owns `data/`. Never changes a recorded payload on disk; `derive` gives the same number for the same words in
every process and on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")
JSON_TYPE = "application/json; charset=utf-8"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One HTTP answer: status, headers, body."""

    status: int = 200
    headers: Mapping[str, str]
    body: bytes


def text_of(name: str) -> str:
    """A recorded file as text."""
    return (DATA / name).read_text(encoding="utf-8")


def payload_of(name: str) -> Any:
    """A recorded JSON file, decoded."""
    return json.loads(text_of(name))


def to_json(value: object) -> bytes:
    """JSON as services send it: compact, UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer with a JSON body."""
    return Answer(status=status, headers={"content-type": JSON_TYPE, **(headers or {})}, body=to_json(value))


def error_answers(name: str, *, prefix: str = "") -> dict[str, Answer]:
    """The recorded error answers of a file by case, with `-` for `_`; without those that never answer."""
    answers = {}
    for record in payload_of(name):
        if record["status"] and record["case"].startswith(prefix):
            body = record["body"]
            answers[record["case"].replace("_", "-")] = Answer(
                status=record["status"],
                headers=record["headers"],
                body=body.encode() if isinstance(body, str) else to_json(body),
            )
    return answers


def derive(*words: str, below: int) -> int:
    """A number in `[0, below)` that depends on the words alone."""
    digest = hashlib.blake2b("\0".join(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % below


def pick(options: Sequence[str], *words: str) -> str:
    """One of the options, chosen by the words alone."""
    return options[derive(*words, below=len(options))]
