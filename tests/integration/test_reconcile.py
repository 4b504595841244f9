"""Reconcile with real stores and the sandbox's tracker: selection, order, and what it asks the stores."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from tests.conftest import FakeClock
from tests.integration.recording_place import OwnGenerator, RecordingPlace, new_site, place, sandbox
from tests.integration.social_graph_server import CommandLog, command_log, graph_database, logged_database
from workers.errors import JobFailed
from workers.jobs.fan_out import FanOutResult
from workers.leases import KEY_PREFIX, LeaseStore
from workers.mongo import MongoDatabase
from workers.social_graph.token import TokenRepository
from workers.social_recording.reconcile import TRIED_KEY, TriedTokens, _count
from workers.social_recording.recording import TokenOutcome, token_lease
from workers.social_recording.tracker import TrackedToken

__all__ = ["command_log", "graph_database", "logged_database", "place", "sandbox"]


def tracked(*addresses: str) -> list[TrackedToken]:
    return [
        TrackedToken(
            address=address, symbol=None, investor_count=5, first_transfer_at=None, last_transfer_at=None
        )
        for address in addresses
    ]


def test_tokens_never_tried_come_first_and_then_the_one_tried_longest_ago(
    redis: Redis, clock: FakeClock
) -> None:
    tried = TriedTokens(redis, clock)
    for address in ("b", "d", "a"):
        tried.note(address)
        clock.advance(1)
    order = tried.order(tracked("a", "b", "c", "d", "e"))
    assert [token.address for token in order] == ["c", "e", "b", "d", "a"]
    tried.note("b")
    assert [token.address for token in tried.order(tracked("a", "b"))] == ["a", "b"]
    redis.delete(TRIED_KEY)
    assert [token.address for token in tried.order(tracked("a", "b"))] == ["a", "b"], "a loss costs nothing"
    assert tried.order([]) == []


def test_tokens_that_always_fail_do_not_keep_a_good_one_waiting(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator())
    addresses = place.list_tokens(*({"website": new_site()} for _ in range(26)), missing=25)
    for _ in range(3):
        meta = place.run_reconcile(limit=10)["meta"]
        assert meta["targeted"] == meta["processed"] + meta["remaining"]
    assert place.document(addresses[25])


def test_one_query_tells_which_of_a_hundred_tokens_have_been_seen(
    place: RecordingPlace, logged_database: MongoDatabase, command_log: CommandLog
) -> None:
    place.rebuild(generator=OwnGenerator(), tokens=TokenRepository(logged_database, place.clock))
    addresses = place.list_tokens(*({"website": new_site()} for _ in range(100)))
    place.run_reconcile(limit=100)
    start = len(command_log.commands)
    meta = place.run_reconcile(limit=100)["meta"]
    assert (meta["alreadySeen"], meta["targeted"]) == (100, 0)
    [(name, command)] = command_log.commands[start:]
    assert (name, command["find"]) == ("find", "tokens")
    assert sorted(command["filter"]["address"]["$in"]) == sorted(addresses)


def test_what_is_recorded_is_not_written_to_by_the_next_run(place: RecordingPlace) -> None:
    generator = OwnGenerator()
    place.rebuild(generator=generator)
    addresses = place.list_tokens(*({"website": new_site()} for _ in range(5)))
    assert place.run_reconcile()["meta"]["recorded"] == 5
    before = [place.document(address) for address in addresses]
    for key in [*place.redis.keys("converge:job*"), TRIED_KEY]:
        place.redis.delete(key)
    assert place.run_reconcile()["meta"]["targeted"] == 0
    assert [place.document(address) for address in addresses] == before
    assert generator.calls.total() == 5


def test_the_groups_come_from_the_settings(place: RecordingPlace) -> None:
    place.list_tokens()
    place.run_reconcile()
    [call] = place.sandbox.client.calls().by_call
    assert "groupIds=1%2C2" in call


def test_a_reconcile_makes_one_call_to_the_list_and_one_for_each_token(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator())
    place.list_tokens(*({"website": new_site()} for _ in range(25)))
    meta = place.run_reconcile()["meta"]
    assert (meta["processed"], meta["remaining"], meta["stoppedBy"]) == (20, 5, "limit")
    assert place.sandbox.client.calls().total == 21


def test_tokens_in_other_hands_stay_for_the_next_run(place: RecordingPlace) -> None:
    place.rebuild(generator=OwnGenerator())
    addresses = place.list_tokens(*({"website": new_site()} for _ in range(3)))
    with LeaseStore(place.redis, place.clock).hold(token_lease(addresses[1]), ttl_ms=60_000):
        result = place.run_reconcile()
    outcomes = {row["address"]: row["outcome"] for row in result["data"]}
    assert outcomes[addresses[1]] == TokenOutcome.LOCKED_OUT
    assert (result["meta"]["lockedOut"], result["meta"]["recorded"], result["meta"]["remaining"]) == (1, 2, 1)
    assert place.run_reconcile()["meta"]["recorded"] == 1


def test_a_tracker_that_finally_fails_fails_the_job_and_the_lease_is_free(place: RecordingPlace) -> None:
    place.list_tokens({"website": new_site()})
    place.sandbox.client.set_faults({"route": "/tracker/", "status": 403})
    with pytest.raises(JobFailed) as caught:
        place.run_reconcile()
    assert caught.value.code == "UPSTREAM_FAILED"
    assert place.database["tokens"].count_documents({}) == 0
    assert place.redis.keys(f"{KEY_PREFIX}social-*") == []
    place.sandbox.client.clear_faults()
    place.rebuild(generator=OwnGenerator())
    assert place.run_reconcile()["meta"]["recorded"] == 1


def test_the_times_of_tries_are_forgotten_after_a_month(redis: Redis, clock: FakeClock) -> None:
    tried = TriedTokens(redis, clock)
    tried.note("a")
    clock.advance(timedelta(days=31).total_seconds())
    tried.note("b")
    tried.forget_old()
    assert redis.zrange(TRIED_KEY, 0, -1) == [b"b"]


@given(
    outcomes=st.lists(st.sampled_from([each for each in TokenOutcome if each is not TokenOutcome.LOST])),
    lost=st.integers(0, 5),
    waiting=st.integers(0, 5),
)
def test_the_counts_of_a_reconcile_add_up(outcomes: list[TokenOutcome], lost: int, waiting: int) -> None:
    result = FanOutResult(
        outcomes={str(number): {"outcome": each.value} for number, each in enumerate(outcomes)},
        lost=[f"lost-{number}" for number in range(lost)],
    )
    targeted = len(outcomes) + lost + waiting
    meta: dict[str, Any] = _count(result, targeted=targeted)
    assert targeted == meta["processed"] + meta["remaining"]
    assert meta["processed"] == meta["recorded"] + meta["failed"] + meta["unresolved"]
    assert meta["remaining"] == meta["lockedOut"] + meta["lost"] + waiting
