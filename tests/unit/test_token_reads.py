"""Reading tokens back, on a stand-in store: no index, array filter or plan matters here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import mongomock
import pytest

from tests.conftest import FakeClock
from workers.mongo import MongoDatabase
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)


@pytest.fixture
def tokens(clock: FakeClock) -> TokenRepository:
    client: Any = mongomock.MongoClient(tz_aware=True)
    return TokenRepository(cast(MongoDatabase, client["t"]), clock)


def stored(address: str, *statuses: FetchStatus) -> Token:
    urls = [
        TokenSocialURL(
            url=f"https://{address}-{number}.com/", status=status, reason=None, attempted_at=None, attempts=0
        )
        for number, status in enumerate(statuses)
    ]
    return Token.of(
        address=address,
        symbol="SYM",
        first_transfer_at=AT,
        social_urls=urls,
        created_at=AT,
        fingerprints=["domain:x"],
    )


def test_a_token_comes_back_as_it_was_stored(tokens: TokenRepository) -> None:
    token = stored("a", FetchStatus.OK, FetchStatus.ERROR)
    tokens.insert(token)
    found = tokens.find_by_address("a")
    assert found is not None
    assert (found.address, found.symbol, found.first_transfer_at, found.created_at) == ("a", "SYM", AT, AT)
    assert found.social_urls == token.social_urls
    assert found.fingerprints == ("domain:x",)


def test_known_addresses_are_told_from_unknown_ones(tokens: TokenRepository) -> None:
    for address in ("a", "b"):
        tokens.insert(stored(address))
    assert tokens.find_existing_addresses(["a", "b", "c"]) == {"a", "b"}
    assert tokens.find_existing_addresses([]) == set()
    assert (tokens.exists("a"), tokens.exists("c")) == (True, False)


def test_urls_are_counted_by_status(tokens: TokenRepository) -> None:
    tokens.insert(stored("a", FetchStatus.OK, FetchStatus.ERROR))
    tokens.insert(stored("b", FetchStatus.ERROR))
    counts = tokens.count_urls_by_status()
    assert (counts[FetchStatus.OK], counts[FetchStatus.ERROR], counts[FetchStatus.INVALID]) == (1, 2, 0)
