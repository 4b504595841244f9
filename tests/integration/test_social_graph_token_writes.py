"""What each write to a token changes in its document, and what it leaves byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.conftest import FakeClock
from tests.integration.social_graph_server import graph_database
from tests.unit.test_social_graph_models import full_token
from workers.mongo import Document, MongoDatabase
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus

__all__ = ["graph_database"]

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
U1, U2, U3 = "https://a.org/", "https://b.org/", "https://c.org/"
AGAIN = AT + timedelta(minutes=30)
CLAIM = {"claimed_attempts": 2, "claimed_at": AGAIN}


def claim(tokens: TokenRepository) -> bool:
    return tokens.claim_social_url(
        "t", U1, expected_status=FetchStatus.ERROR, expected_attempts=1, attempted_at=AGAIN
    )


TOKEN_WRITES: dict[str, Callable[[TokenRepository], object]] = {
    "a result": lambda tokens: tokens.record_social_url_result(
        "t", U1, status=FetchStatus.ERROR, reason="timeout", attempted_at=AGAIN
    ),
    "a claim": claim,
    "the end of a claim": lambda tokens: (
        claim(tokens) and tokens.finish_claimed_url("t", U1, **CLAIM, status=FetchStatus.OK, reason=None)
    ),
    "a claim given back": lambda tokens: (
        claim(tokens)
        and tokens.give_back_claim(
            "t",
            U1,
            **CLAIM,
            attempts=1,
            attempted_at=AT,
            status=FetchStatus.ERROR,
            reason="url_locked",
        )
    ),
}


def document(database: MongoDatabase) -> Document:
    [found] = database["tokens"].find()
    return found


@pytest.fixture
def tokens(graph_database: MongoDatabase, clock: FakeClock) -> TokenRepository:
    """A token with one URL that failed and one that is done, and all that others write to it."""
    found = TokenRepository(graph_database, clock)
    failed = TokenSocialURL(url=U1, status=FetchStatus.ERROR, attempts=1, attempted_at=AT)
    done = TokenSocialURL(url=U2, status=FetchStatus.OK, attempts=3, attempted_at=AT)
    found.insert(
        replace(full_token(), address="t", created_at=AT - timedelta(days=9), social_urls=(failed, done))
    )
    return found


@pytest.mark.parametrize("write", TOKEN_WRITES.values(), ids=TOKEN_WRITES)
def test_a_write_of_one_url_moves_the_time_of_the_last_change_and_nothing_else_of_the_token(
    tokens: TokenRepository,
    graph_database: MongoDatabase,
    clock: FakeClock,
    write: Callable[[TokenRepository], object],
) -> None:
    before = document(graph_database)
    clock.advance(3600)
    assert write(tokens)
    after = document(graph_database)
    assert (after.pop("updated_at"), before.pop("updated_at")) == (clock.now(), AT)
    written, untouched = after.pop("social_urls")
    assert (written["url"], untouched) == (U1, before.pop("social_urls")[1])
    assert list(written) == ["url", "status", "attempted_at", "attempts", "reason"]
    assert after == before
    assert after["created_at"] == AT - timedelta(days=9)


def test_what_else_is_written_to_a_token_moves_the_time_of_the_last_change_as_well(
    tokens: TokenRepository, graph_database: MongoDatabase, clock: FakeClock
) -> None:
    before = document(graph_database)
    clock.advance(60)
    assert tokens.add_social_urls("t", [TokenSocialURL(url=U3, status=FetchStatus.UNSUPPORTED)]) == 1
    added = document(graph_database)
    assert (added["updated_at"], added["social_urls"][:2]) == (clock.now(), before["social_urls"])
    clock.advance(60)
    tokens.upsert_by_address(Token.of(address="t", created_at=clock.now(), symbol="NEW"))
    replaced = document(graph_database)
    assert (replaced["updated_at"], replaced["symbol"]) == (clock.now(), "NEW")
    assert (replaced["created_at"], replaced["_id"]) == (before["created_at"], before["_id"])


def test_what_is_refused_leaves_the_token_as_it_is(
    tokens: TokenRepository, graph_database: MongoDatabase, clock: FakeClock
) -> None:
    before = document(graph_database)
    clock.advance(60)
    assert not tokens.record_social_url_result("t", U3, status=FetchStatus.OK, reason=None)
    assert not tokens.record_social_url_result("t", U2, status=FetchStatus.ERROR, reason="timeout")
    assert not tokens.finish_claimed_url("t", U1, **CLAIM, status=FetchStatus.OK, reason=None)
    assert tokens.add_social_urls("t", [TokenSocialURL(url=U1, status=FetchStatus.OK)]) == 0
    assert document(graph_database) == before
