"""Recorded and assembled answers of the services that are asked, and their reading.

`errors.json` is a list of `{case, request, status, headers, body, outcome}`; status 0 means no HTTP answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def sample_bytes(name: str) -> bytes:
    """A sample as it came over the wire."""
    return (_HERE / name).read_bytes()


def sample_json(name: str) -> Any:
    """A sample as JSON."""
    return json.loads(sample_bytes(name))


def error_case(name: str, case: str) -> dict[str, Any]:
    """One case of an `errors.json`."""
    return next(entry for entry in sample_json(name) if entry["case"] == case)


def body_of(entry: dict[str, Any]) -> bytes:
    """The body of a case as it came over the wire."""
    body = entry["body"]
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()
