"""Tokens in a real store: single elements change, claims are won once, the sweep finds the few."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.conftest import FakeClock
from tests.integration.social_graph_server import (
    CommandLog,
    command_log,
    graph_database,
    logged_database,
    run_together,
)
from workers.clock import Clock
from workers.mongo import MongoDatabase
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL, TokenWeb
from workers.social_graph.vocabulary import RETRYABLE_STATUSES, FetchStatus
from workers.store_errors import DuplicateKey

__all__ = ["command_log", "graph_database", "logged_database"]

AT = datetime(2026, 1, 15, 12, tzinfo=UTC)
U1, U2, U3 = "https://a.org/", "https://b.org/", "https://c.org/"


def url(text: str, status: FetchStatus, attempts: int = 0, at: datetime | None = None) -> TokenSocialURL:
    return TokenSocialURL(url=text, status=status, attempts=attempts, attempted_at=at)


def token(address: str, *urls: TokenSocialURL, created_at: datetime = AT) -> Token:
    return Token.of(
        address=address,
        created_at=created_at,
        symbol="SOL",
        fingerprints=["domain:a.org", "domain:b.org"],
        web=TokenWeb(domain="a.org"),
        social_urls=urls,
    )


@pytest.fixture
def tokens(logged_database: MongoDatabase, clock: FakeClock) -> TokenRepository:
    return TokenRepository(logged_database, clock)


@pytest.fixture
def worked_on(tokens: TokenRepository) -> TokenRepository:
    """A token with a failed URL that was tried once and a finished one that was tried three times."""
    tokens.insert(token("t", url(U1, FetchStatus.ERROR, 1, AT), url(U2, FetchStatus.OK, 3, AT)))
    return tokens


def elements(tokens: TokenRepository) -> dict[str, TokenSocialURL]:
    found = tokens.find_by_address("t")
    assert found is not None
    return {each.url: each for each in found.social_urls}


def claim(tokens: TokenRepository, at: datetime = AT + timedelta(hours=1), attempts: int = 1) -> bool:
    return tokens.claim_social_url(
        "t", U1, expected_status=FetchStatus.ERROR, expected_attempts=attempts, attempted_at=at
    )


def test_a_token_is_stored_once(tokens: TokenRepository) -> None:
    tokens.insert(token("t"))
    with pytest.raises(DuplicateKey) as caught:
        tokens.insert(token("t"))
    assert caught.value.collection == "tokens"
    assert tokens.exists("t")
    assert not tokens.exists("other")


def test_a_hundred_and_fifty_addresses_are_looked_up_with_one_find(
    tokens: TokenRepository, command_log: CommandLog
) -> None:
    for number in range(130):
        tokens.insert(token(f"t{number}"))
    with command_log.counted() as names:
        found = tokens.find_existing_addresses([f"t{number}" for number in range(150)])
    assert found == {f"t{number}" for number in range(130)}
    assert names == ["find"]
    assert command_log.commands[-1][1]["projection"] == {"_id": 0, "address": 1}


def test_no_addresses_need_no_query(tokens: TokenRepository, command_log: CommandLog) -> None:
    with command_log.counted() as names:
        assert tokens.find_existing_addresses([]) == set()
    assert names == []


def test_tokens_are_found_by_fingerprint_and_by_age(tokens: TokenRepository) -> None:
    for number in range(3):
        tokens.insert(token(f"t{number}", created_at=AT + timedelta(days=number)))
    assert [each.address for each in tokens.find_by_fingerprint("domain:b.org")] == ["t0", "t1", "t2"]
    assert [each.address for each in tokens.find_recently_discovered(2)] == ["t2", "t1"]


def test_an_upsert_updates_what_it_knows_and_leaves_the_rest(worked_on: TokenRepository) -> None:
    before = worked_on.find_by_address("t")
    worked_on.upsert_by_address(
        Token.of(address="t", created_at=AT + timedelta(days=9), symbol="NEW", fingerprints=["domain:c.org"])
    )
    after = worked_on.find_by_address("t")
    assert before is not None
    assert after is not None
    assert (after.symbol, after.web, after.created_at) == ("NEW", before.web, before.created_at)
    assert after.fingerprints == ("domain:a.org", "domain:b.org", "domain:c.org")
    assert after.social_urls == before.social_urls


def test_an_upsert_of_a_new_token_stores_all_of_it(tokens: TokenRepository) -> None:
    wanted = Token.of(address="t", created_at=AT, social_urls=[url(U1, FetchStatus.ERROR)])
    tokens.upsert_by_address(wanted)
    found = tokens.find_by_address("t")
    assert found is not None
    assert (found.social_urls, found.fingerprints, found.created_at) == (wanted.social_urls, (), AT)


def test_upserts_of_one_new_address_at_once_make_one_token(
    tokens: TokenRepository, graph_database: MongoDatabase
) -> None:
    run_together(lambda _: tokens.upsert_by_address(Token.of(address="t", created_at=AT)))
    assert graph_database["tokens"].count_documents({}) == 1


def test_a_retry_and_the_stream_do_not_undo_each_other(worked_on: TokenRepository, clock: FakeClock) -> None:
    before = worked_on.find_by_address("t")
    claimed_at = AT + timedelta(hours=1)
    assert claim(worked_on, claimed_at)
    added = worked_on.add_social_urls("t", [url(U3, FetchStatus.SKIPPED_PAID), url(U1, FetchStatus.OK)])
    clock.advance(5)
    assert worked_on.finish_claimed_url(
        "t", U1, claimed_attempts=2, claimed_at=claimed_at, status=FetchStatus.OK, reason=None
    )
    after = worked_on.find_by_address("t")
    assert before is not None
    assert after is not None
    assert added == 1
    assert elements(worked_on) == {
        U1: url(U1, FetchStatus.OK, 2, claimed_at),
        U2: url(U2, FetchStatus.OK, 3, AT),
        U3: url(U3, FetchStatus.SKIPPED_PAID),
    }
    assert (after.web, after.fingerprints, after.created_at) == (
        before.web,
        before.fingerprints,
        before.created_at,
    )
    assert after.updated_at == clock.now()


def test_no_update_of_a_retry_touches_more_than_its_element(
    worked_on: TokenRepository, command_log: CommandLog
) -> None:
    start = len(command_log.commands)
    claim(worked_on)
    worked_on.finish_claimed_url(
        "t",
        U1,
        claimed_attempts=2,
        claimed_at=AT + timedelta(hours=1),
        status=FetchStatus.ERROR,
        reason="timeout",
    )
    for name, command in command_log.commands[start:]:
        assert name == "update"
        (update,) = command["updates"]
        fields = [field for changes in update["u"].values() for field in changes]
        assert all(field == "updated_at" or field.startswith("social_urls.$[element].") for field in fields)


def test_of_two_claims_one_is_won(worked_on: TokenRepository) -> None:
    won = run_together(lambda _: claim(worked_on), times=2)
    assert sorted(won) == [False, True]
    assert elements(worked_on)[U1].attempts == 2


def test_without_the_condition_both_would_win(
    worked_on: TokenRepository, graph_database: MongoDatabase
) -> None:
    def claim_blindly(_: int) -> bool:
        update = {"$inc": {"social_urls.$[element].attempts": 1}}
        filters = [{"element.url": U1}]
        changed = graph_database["tokens"].update_one({"address": "t"}, update, array_filters=filters)
        return changed.matched_count == 1

    assert run_together(claim_blindly, times=2) == [True, True]
    assert elements(worked_on)[U1].attempts == 3


def test_a_claim_counts_even_if_nothing_follows(worked_on: TokenRepository) -> None:
    claimed_at = AT + timedelta(hours=1)
    assert claim(worked_on, claimed_at)
    assert elements(worked_on)[U1] == url(U1, FetchStatus.ERROR, 2, claimed_at)


@pytest.mark.parametrize(
    ("status", "attempts"), [(FetchStatus.UNSUPPORTED, 1), (FetchStatus.ERROR, 0), (FetchStatus.ERROR, 2)]
)
def test_a_url_that_is_not_as_expected_is_not_claimed(
    worked_on: TokenRepository, status: FetchStatus, attempts: int
) -> None:
    assert not worked_on.claim_social_url(
        "t", U1, expected_status=status, expected_attempts=attempts, attempted_at=AT
    )
    assert elements(worked_on)[U1].attempts == 1


def test_a_late_result_of_an_overtaken_claim_is_refused(worked_on: TokenRepository) -> None:
    first, second = AT + timedelta(hours=1), AT + timedelta(hours=2)
    assert claim(worked_on, first)
    assert claim(worked_on, second, attempts=2)
    assert worked_on.finish_claimed_url(
        "t", U1, claimed_attempts=3, claimed_at=second, status=FetchStatus.OK, reason=None
    )
    assert not worked_on.finish_claimed_url(
        "t", U1, claimed_attempts=2, claimed_at=first, status=FetchStatus.ERROR, reason="timeout"
    )
    assert elements(worked_on)[U1] == url(U1, FetchStatus.OK, 3, second)


def test_a_claim_without_a_call_is_given_back(worked_on: TokenRepository) -> None:
    claimed_at = AT + timedelta(hours=1)
    assert claim(worked_on, claimed_at)
    assert worked_on.give_back_claim(
        "t",
        U1,
        claimed_attempts=2,
        claimed_at=claimed_at,
        attempts=1,
        attempted_at=AT,
        status=FetchStatus.ERROR,
        reason="url_locked",
    )
    assert elements(worked_on)[U1] == TokenSocialURL(
        url=U1, status=FetchStatus.ERROR, attempts=1, attempted_at=AT, reason="url_locked"
    )


def test_a_url_that_was_never_tried_is_given_back_as_never_tried(tokens: TokenRepository) -> None:
    tokens.insert(token("t", url(U1, FetchStatus.ERROR)))
    assert claim(tokens, attempts=0)
    assert tokens.give_back_claim(
        "t",
        U1,
        claimed_attempts=1,
        claimed_at=AT + timedelta(hours=1),
        attempts=0,
        attempted_at=None,
        status=FetchStatus.UNSUPPORTED,
        reason=None,
    )
    assert elements(tokens)[U1] == url(U1, FetchStatus.UNSUPPORTED)


def test_a_result_with_a_call_counts_an_attempt_and_one_without_does_not(worked_on: TokenRepository) -> None:
    later = AT + timedelta(hours=1)
    assert worked_on.record_social_url_result(
        "t", U1, status=FetchStatus.ERROR, reason="http_503", attempted_at=later
    )
    assert worked_on.record_social_url_result("t", U1, status=FetchStatus.UNSUPPORTED, reason=None)
    assert elements(worked_on)[U1] == url(U1, FetchStatus.UNSUPPORTED, 2, later)


def test_a_result_that_ends_a_url_is_written_whole(worked_on: TokenRepository) -> None:
    later = AT + timedelta(hours=1)
    assert worked_on.record_social_url_result("t", U1, status=FetchStatus.OK, reason=None, attempted_at=later)
    assert elements(worked_on)[U1] == url(U1, FetchStatus.OK, 2, later)


def test_a_url_that_is_gone_or_ok_is_not_written(worked_on: TokenRepository) -> None:
    before = worked_on.find_by_address("t")
    for gone in (U2, U3):
        assert not worked_on.record_social_url_result(
            "t", gone, status=FetchStatus.ERROR, reason="timeout", attempted_at=AT
        )
    assert worked_on.find_by_address("t") == before


def test_urls_come_never_tried_first_then_longest_untried(tokens: TokenRepository) -> None:
    tokens.insert(
        token(
            "b",
            url(U1, FetchStatus.ERROR, 1, AT),
            url(U2, FetchStatus.OK, 1, AT - timedelta(days=9)),
            url(U3, FetchStatus.UNSUPPORTED),
        )
    )
    tokens.insert(
        token("a", url(U1, FetchStatus.ERROR, 2, AT - timedelta(days=1)), url(U2, FetchStatus.SKIPPED_PAID))
    )
    tokens.insert(token("c", url(U1, FetchStatus.EXHAUSTED, 5, AT)))
    found = list(tokens.iterate_retryable_urls(RETRYABLE_STATUSES))
    assert [(each.address, each.url) for each in found] == [("a", U2), ("b", U3), ("a", U1), ("b", U1)]
    assert (found[2].symbol, found[2].status, found[2].attempts, found[2].attempted_at) == (
        "SOL",
        FetchStatus.ERROR,
        2,
        AT - timedelta(days=1),
    )


def test_named_tokens_narrow_the_search(tokens: TokenRepository) -> None:
    for address in "abc":
        tokens.insert(token(address, url(U1, FetchStatus.ERROR)))
    found = tokens.iterate_retryable_urls([FetchStatus.ERROR], ["a", "c", "nowhere"])
    assert [each.address for each in found] == ["a", "c"]
    assert list(tokens.iterate_retryable_urls([FetchStatus.ERROR], [])) == []


def test_the_search_streams_in_batches_and_names_its_statuses(
    tokens: TokenRepository, command_log: CommandLog
) -> None:
    urls = [url(f"https://a.org/{number}", FetchStatus.ERROR) for number in range(450)]
    tokens.insert(token("t", *urls))
    with command_log.counted() as names:
        assert len(list(tokens.iterate_retryable_urls(RETRYABLE_STATUSES))) == 450
    assert names == ["aggregate", "getMore", "getMore"]
    pipeline = next(command for name, command in command_log.commands if name == "aggregate")["pipeline"]
    assert "$ne" not in str(pipeline)
    assert "$nin" not in str(pipeline)


def test_the_search_looks_at_the_few_tokens_that_have_such_a_url(
    tokens: TokenRepository, command_log: CommandLog, graph_database: MongoDatabase
) -> None:
    finished = {"url": U2, "status": "ok", "attempted_at": AT, "attempts": 1, "reason": None}
    failed = {"url": U1, "status": "error", "attempted_at": AT, "attempts": 1, "reason": None}
    graph_database["tokens"].insert_many(
        {"address": f"ok{number}", "created_at": AT, "social_urls": [finished]} for number in range(2000)
    )
    graph_database["tokens"].insert_many(
        {"address": f"bad{number}", "created_at": AT, "social_urls": [finished, failed]}
        for number in range(3)
    )
    assert len(list(tokens.iterate_retryable_urls(RETRYABLE_STATUSES))) == 3
    pipeline = next(command for name, command in command_log.commands if name == "aggregate")["pipeline"]
    explained = graph_database.command(
        "explain", {"aggregate": "tokens", "pipeline": pipeline, "cursor": {}}, verbosity="executionStats"
    )
    assert "idx_tokens_social_url_status" in str(explained)
    assert explained["executionStats"]["totalDocsExamined"] <= 6


def test_the_search_among_named_tokens_looks_at_these_however_many_others_wait(
    tokens: TokenRepository, command_log: CommandLog, graph_database: MongoDatabase
) -> None:
    failed = {"url": U1, "status": "error", "attempted_at": AT, "attempts": 1, "reason": None}
    graph_database["tokens"].insert_many(
        {"address": f"bad{number}", "created_at": AT, "social_urls": [failed]} for number in range(2000)
    )
    assert len(list(tokens.iterate_retryable_urls([FetchStatus.ERROR], ["bad7", "bad9"]))) == 2
    pipeline = next(command for name, command in command_log.commands if name == "aggregate")["pipeline"]
    explained = graph_database.command(
        "explain", {"aggregate": "tokens", "pipeline": pipeline, "cursor": {}}, verbosity="executionStats"
    )
    assert "uniq_tokens_address" in str(explained)
    assert explained["executionStats"]["totalDocsExamined"] <= 4


def test_every_status_is_counted(worked_on: TokenRepository) -> None:
    counted = worked_on.count_urls_by_status()
    assert set(counted) == set(FetchStatus)
    assert {status: number for status, number in counted.items() if number} == {
        FetchStatus.ERROR: 1,
        FetchStatus.OK: 1,
    }


def test_times_come_back_with_a_zone(graph_database: MongoDatabase) -> None:
    tokens = TokenRepository(graph_database, Clock())
    tokens.insert(token("t", url(U1, FetchStatus.ERROR, 1, AT)))
    (found,) = tokens.iterate_retryable_urls([FetchStatus.ERROR])
    assert found.attempted_at is not None
    assert AT - found.attempted_at == timedelta(0)
