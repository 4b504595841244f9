"""A client of the sandbox's admin side, for tests, the demo and benchmarks.

Owns the requests and their shapes. Never retries: a sandbox that does not answer is a mistake to be seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests

from devstack.sandbox.tokens import Token, TokenSet

TIMEOUT_S = 10.0


class SandboxError(Exception):
    """The sandbox refused a request; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """What was called: `by_call` counts `METHOD url`, `by_address` the tracker's addresses."""

    total: int
    by_call: Mapping[str, int]
    by_address: Mapping[str, int]

    def matching(self, pattern: str) -> int:
        """The number of calls whose `METHOD url` the regular expression is found in."""
        return sum(count for call, count in self.by_call.items() if re.search(pattern, call))


class SandboxClient:
    """The admin's side of the sandbox at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def calls(self) -> Calls:
        """What was called since the start or the last reset."""
        payload = self._send("GET", "calls")
        return Calls(total=payload["total"], by_call=payload["calls"], by_address=payload["addresses"])

    def reset(self) -> None:
        """Forget calls and faults, and bring back the default tokens."""
        self._send("POST", "reset")

    def set_faults(self, *rules: Mapping[str, object]) -> None:
        """Replace the rules; see `devstack.sandbox.faults.Fault` for the keys. Raises `SandboxError`."""
        self._send("PUT", "faults", list(rules))

    def clear_faults(self) -> None:
        """Remove all rules."""
        self._send("DELETE", "faults")

    def tokens(self) -> TokenSet:
        """The tracker's tokens."""
        payload = self._send("GET", "tokens")
        return TokenSet(tokens=payload["tokens"], missing=frozenset(payload["missing"]))

    def set_tokens(self, tokens: Sequence[Token], *, missing: Sequence[str] = ()) -> None:
        """Replace the tokens; `by-addresses` does not know those in `missing`. Raises `SandboxError`."""
        self._send("PUT", "tokens", {"tokens": list(tokens), "missing": list(missing)})

    def _send(self, method: str, name: str, body: object = None) -> Any:
        with requests.Session() as session:
            # A proxy of the user's shell has no business here.
            session.trust_env = False
            response = session.request(method, f"{self.url}/_sandbox/{name}", json=body, timeout=TIMEOUT_S)
        if not response.ok:
            raise SandboxError(f"{method} {name}: {response.status_code} {response.text}")
        return response.json() if response.content else None
