"""The tracker: tokens by the time of their last transfer, and by address.

Owns the token set. Never shows in the list what the real one hides: tokens with a single investor or with at
most 1000 dollars used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast
from urllib.parse import parse_qs

from devstack.sandbox.samples import Answer, json_answer, to_json
from devstack.sandbox.tokens import FIELDS, Token, TokenSet, default_tokens

JSON_HEADERS = {"content-type": "application/json; charset=utf-8"}
INVESTORS_ABOVE = 1
USED_IN_DOLLAR_ABOVE = 1000
ADDRESSES_MAX = 1000


class BadTokens(Exception):
    """A token set that does not have the tracker's shape."""


class Tracker:
    """Answers the two routes for whoever knows the key."""

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key
        self.tokens = default_tokens()

    @property
    def tokens(self) -> TokenSet:
        """The tokens as they were set."""
        return self._tokens

    @tokens.setter
    def tokens(self, tokens: TokenSet) -> None:
        self._tokens = tokens
        # Encoded once, since a benchmark asks for them thousands of times.
        self._by_address = {
            token["tokenAddress"]: to_json(token)
            for token in tokens.tokens
            if token["tokenAddress"] not in tokens.missing
        }
        self._listed = sorted(
            (_moment(token["lastTransferAt"]), token["tokenAddress"], to_json(token))
            for token in tokens.tokens
            if token["investorCount"] > INVESTORS_ABOVE and token["totalUsedInDollar"] > USED_IN_DOLLAR_ABOVE
        )

    def knows(self, key: str | None) -> bool:
        """Whether a caller's key is the right one."""
        return key == self._api_key

    def listed(self, query: str) -> Answer:
        """Answer `GET /api/v1/tokens?startDate&endDate&groupIds`, the range half-open."""
        parameters = parse_qs(query)
        try:
            start, end = (_moment(parameters[name][0]) for name in ("startDate", "endDate"))
            groups = parameters["groupIds"][0]
        except (KeyError, ValueError):
            return _refused("startDate and endDate (with zone) and groupIds are required")
        if not groups.strip(","):
            return _refused("groupIds is empty")
        return _rows([row for moment, _, row in self._listed if start <= moment < end])

    def by_addresses(self, body: bytes) -> tuple[Answer, Sequence[str]]:
        """Answer `POST /api/v1/tokens/by-addresses`; also return the addresses asked for."""
        try:
            addresses = json.loads(body)["addresses"]
        except (ValueError, KeyError, TypeError):
            addresses = None
        if not isinstance(addresses, list) or not all(isinstance(each, str) for each in addresses):
            return _refused("addresses must be a list of text"), ()
        if len(addresses) > ADDRESSES_MAX:
            return _refused(f"at most {ADDRESSES_MAX} addresses"), addresses
        known = dict.fromkeys(each for each in addresses if each in self._by_address)
        return _rows([self._by_address[each] for each in known]), addresses


def encode_tokens(tokens: TokenSet) -> dict[str, object]:
    """A token set as the admin route sends it."""
    return {"tokens": list(tokens.tokens), "missing": sorted(tokens.missing)}


def decode_tokens(payload: Any) -> TokenSet:
    """Read what `encode_tokens` made, or a bare list of tokens. Raises `BadTokens`."""
    if isinstance(payload, list):
        payload = {"tokens": payload}
    if not isinstance(payload, dict) or not isinstance(payload.get("tokens"), list):
        raise BadTokens("send a list of tokens, or an object with the lists tokens and missing")
    for token in payload["tokens"]:
        if not isinstance(token, dict) or set(token) != set(FIELDS):
            raise BadTokens(f"a token has exactly the fields {', '.join(FIELDS)}")
        try:
            _moment(token["lastTransferAt"])
        except (ValueError, TypeError, AttributeError):
            raise BadTokens(f"lastTransferAt: {token['lastTransferAt']!r} is no time with zone") from None
    return TokenSet(
        tokens=cast(list[Token], payload["tokens"]), missing=frozenset(payload.get("missing", []))
    )


def _rows(rows: Sequence[bytes]) -> Answer:
    body = b'{"data":[%b],"meta":{"total":%d}}' % (b",".join(rows), len(rows))
    return Answer(headers=JSON_HEADERS, body=body)


def _refused(message: str) -> Answer:
    return json_answer({"error": "Bad Request", "message": message}, status=400)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time needs a zone")
    return moment
