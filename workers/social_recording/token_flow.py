"""What a message of the live stream says, read strictly. Pure.

    {"tokenAddress": "<mint, 32 bytes in base58>", "totalInvestedAlphaFinders": 5, ...}

Two fields are read; whatever else a message holds is the publisher's business. A message that cannot be read
raises `MalformedMessage` with a stable code and the field; it never quotes what the message held.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from workers.base58 import is_public_key
from workers.errors import InvalidInput

ADDRESS_FIELD = "tokenAddress"
INVESTORS_FIELD = "totalInvestedAlphaFinders"
BODY_MAX_BYTES = 65_536
# More than anybody has; a larger number is a slip of the publisher.
INVESTORS_MAX = 1_000_000_000


class MalformedMessage(InvalidInput):
    """A message that nobody can use, now or later; `reason` is a stable code."""

    def __init__(self, reason: str, *, field: str = "body") -> None:
        super().__init__(f"{field}: {reason}", field=field)
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenFlow:
    """That a token moved, and how many of the investors we watch have put money into it so far."""

    address: str
    investors: int


def read_token_flow(body: bytes) -> TokenFlow:
    """Read a message's body, UTF-8 JSON of at most 64 KiB.

    Raises `MalformedMessage` with `too_large`, `not_json`, `no_object`, `missing`, `wrong_type`,
    `no_public_key` or `out_of_range`.
    """
    values = _object_in(body)
    return TokenFlow(address=_address_in(values), investors=_investors_in(values))


def _object_in(body: bytes) -> dict[str, object]:
    if len(body) > BODY_MAX_BYTES:
        raise MalformedMessage("too_large")
    try:
        # A byte order mark is not JSON, but some publishers cannot help it.
        values = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        # From None: the error quotes the body.
        raise MalformedMessage("not_json") from None
    if not isinstance(values, dict):
        raise MalformedMessage("no_object")
    return values


def _address_in(values: dict[str, object]) -> str:
    if ADDRESS_FIELD not in values:
        raise MalformedMessage("missing", field=ADDRESS_FIELD)
    address = values[ADDRESS_FIELD]
    if not isinstance(address, str):
        raise MalformedMessage("wrong_type", field=ADDRESS_FIELD)
    if not is_public_key(address):
        raise MalformedMessage("no_public_key", field=ADDRESS_FIELD)
    return address


def _investors_in(values: dict[str, object]) -> int:
    if INVESTORS_FIELD not in values:
        raise MalformedMessage("missing", field=INVESTORS_FIELD)
    investors = values[INVESTORS_FIELD]
    # In Python a truth value counts as a whole number.
    if not isinstance(investors, int) or isinstance(investors, bool):
        raise MalformedMessage("wrong_type", field=INVESTORS_FIELD)
    if not 0 <= investors <= INVESTORS_MAX:
        raise MalformedMessage("out_of_range", field=INVESTORS_FIELD)
    return investors
