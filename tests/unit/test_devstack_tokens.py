"""The sandbox's tokens have the numbers that their module promises."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise

from devstack.sandbox.tokens import FIELDS, SLOTS, TROUBLED_LINKS, base58, default_tokens, make_token

TOKENS = default_tokens().tokens
LINKS = Counter(link for token in TOKENS for slot in SLOTS if (link := token[slot]))  # type: ignore[literal-required]


def links_like(pattern: str) -> Counter[str]:
    return Counter({link: count for link, count in LINKS.items() if re.search(pattern, link)})


def test_there_are_as_many_tokens_of_each_group_as_documented() -> None:
    shown = [t for t in TOKENS if t["investorCount"] > 1 and t["totalUsedInDollar"] > 1000]
    recordable = [t for t in shown if t["investorCount"] >= 3]

    assert len(TOKENS) == 280
    assert len(shown) == 260
    assert len(recordable) == 230
    assert sum(token["investorCount"] == 1 for token in TOKENS) == 10
    assert sum(token["totalUsedInDollar"] <= 1000 for token in TOKENS) == 10
    assert default_tokens().missing < {token["tokenAddress"] for token in recordable}
    assert len(default_tokens().missing) == 6


def test_addresses_are_distinct_and_look_like_those_of_solana() -> None:
    addresses = {token["tokenAddress"] for token in TOKENS}
    assert len(addresses) == len(TOKENS)
    assert all(re.fullmatch(r"[1-9A-HJ-NP-Za-km-z]{32,44}", address) for address in addresses)


def test_base58_agrees_with_known_values() -> None:
    assert base58(bytes(32)) == "1" * 32
    assert base58(b"Hello World!") == "2NEpo7TZRRrLZSi2U"


def test_last_transfers_are_spread_evenly_over_january() -> None:
    moments = sorted(datetime.fromisoformat(token["lastTransferAt"]) for token in TOKENS)
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]

    assert moments[0] == datetime(2026, 1, 1, tzinfo=UTC)
    assert moments[-1] < datetime(2026, 2, 1, tzinfo=UTC)
    assert 9500 < min(gaps) <= max(gaps) < 9600


def test_a_fair_share_of_the_links_can_be_recorded_for_free_and_many_are_shared() -> None:
    for pattern in (
        r"^https://github\.com/\w+/\w+$",
        r"^https://x\.com/\w+/status/\d{19}$",
        r"^https://\w+\.\w+/$",
    ):
        found = links_like(pattern)
        assert found.total() >= 70
        assert len(found) >= 60
    assert sum(1 for count in LINKS.values() if count > 1) > 100


def test_some_links_lead_to_errors() -> None:
    assert set(TROUBLED_LINKS) <= set(LINKS)


def test_every_token_has_a_link_and_all_fields() -> None:
    assert all(any(token[slot] for slot in SLOTS) for token in TOKENS)  # type: ignore[literal-required]
    assert all(tuple(token) == FIELDS for token in TOKENS)


def test_the_same_number_makes_the_same_token() -> None:
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    assert make_token(5, last_transfer_at=moment) == make_token(5, last_transfer_at=moment)
    assert make_token(5, last_transfer_at=moment)["tokenAddress"] == TOKENS[5]["tokenAddress"]
