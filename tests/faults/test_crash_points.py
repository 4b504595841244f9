"""A worker that dies at any of its writes: the next run brings about what an undisturbed one would have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from devstack.mongo import MongoServer
from devstack.sandbox.process import SandboxServer
from devstack.sandbox.tokens import make_token
from devstack.valkey import ValkeyServer
from tests.faults.crashing import Desk, Site, When, lasting, normalised, survives, token_document
from tests.operator import DAY
from workers.clock import Clock
from workers.mongo import MongoDatabase
from workers.social_graph.indexes import INDEXES, migrate
from workers.social_graph.token import Token, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus

# A fork is two contents and two accounts, with what was measured on each.
REPO = "https://github.com/crash-owner/anchor-fork"
SITE = "https://crash-site.com/"
TOKEN = make_token(90_001, last_transfer_at=DAY, links={"website": SITE, "twitter": REPO})
ADDRESS = TOKEN["tokenAddress"]
ENOUGH_WRITES = 40


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "data") as server:
        server.client.set_tokens([TOKEN])
        yield server


@pytest.fixture
def site(mongo: MongoServer, valkey: ValkeyServer, database: MongoDatabase, sandbox: SandboxServer) -> Site:
    migrate(database)
    return Site(mongo_url=mongo.url, database=database.name, redis_url=valkey.url, outside=sandbox.settings())


@pytest.fixture
def desk(database: MongoDatabase, redis: Redis, sandbox: SandboxServer) -> Desk:
    return Desk(database, redis, sandbox.settings())


def empty(database: MongoDatabase, redis: Redis) -> None:
    """Forget the graph; the leases of the dead are over as well, as they are after their time to live."""
    for collection in {index.collection for index in INDEXES}:
        database[collection].delete_many({})
    redis.flushall()


def each_crash(
    site: Site, database: MongoDatabase, redis: Redis, what: str, prepare: Callable[[], object]
) -> Iterator[str]:
    """Let a child die before and after each of its writes in turn, and yield where it was."""
    for when in When:
        for number in itertools.count(1):
            assert number < ENOUGH_WRITES
            empty(database, redis)
            prepare()
            if survives(site, ADDRESS, what, number, when):
                assert number > 1, "there was no write at all"
                break
            redis.flushall()
            yield f"{when} write {number}"


def assert_points_are_among(found: dict[str, list[object]], whole: dict[str, list[object]]) -> None:
    """A crash may cost points, but never leads to other, doubled or orphaned ones."""
    series = found.get("metric_series", [])
    assert all(each in whole["metric_series"] for each in series)
    assert len({repr(each) for each in series}) == len(series)


def test_recording_that_was_cut_off_at_any_write_converges_and_its_document_comes_last(
    site: Site, database: MongoDatabase, redis: Redis, desk: Desk
) -> None:
    assert desk.recorder.record(ADDRESS).outcome == "recorded"
    whole = normalised(database)
    assert {"accounts", "contents", "metric_series", "token_links", "tokens"} <= set(whole)
    marks = []
    for place in each_crash(site, database, redis, "record", lambda: None):
        is_marked = token_document(database, ADDRESS) is not None
        marks.append(is_marked)
        outcome = desk.recorder.record(ADDRESS).outcome
        assert outcome == ("alreadySeen" if is_marked else "recorded"), place
        found = normalised(database)
        assert lasting(found) == lasting(whole), place
        assert_points_are_among(found, whole)
        if is_marked:
            assert found == whole, "the token's document is the last write"
    # Where the document is, all else is, and a crash before it leaves none.
    assert len(marks) >= 10
    assert marks.index(True) == len(marks) - 1


def failed_token(desk: Desk) -> None:
    element = TokenSocialURL(
        url=REPO, status=FetchStatus.ERROR, attempts=1, attempted_at=DAY, reason="http_503"
    )
    token = Token.of(
        address=ADDRESS, symbol=TOKEN["tokenSymbol"], created_at=Clock().now(), social_urls=[element]
    )
    desk.tokens.insert(token)


def attempts_of(database: MongoDatabase) -> int:
    document = token_document(database, ADDRESS)
    assert document is not None
    [element] = document["social_urls"]
    found: int = element["attempts"]
    return found


def test_a_retry_that_was_cut_off_at_any_write_converges_to_the_same_graph(
    site: Site, database: MongoDatabase, redis: Redis, desk: Desk
) -> None:
    failed_token(desk)
    assert desk.retry(ADDRESS) == {"outcome": "processed", "status": "ok", "reason": None}
    whole = normalised(database)
    for place in each_crash(site, database, redis, "retry", lambda: failed_token(desk)):
        charged = attempts_of(database)
        assert charged == (1 if place == "before write 1" else 2), place
        desk.retry(ADDRESS)
        found = normalised(database)
        assert lasting(found) == lasting(whole), place
        assert_points_are_among(found, whole)
        assert charged <= attempts_of(database) <= charged + 1, place


@pytest.mark.parametrize(("number", "when"), [(1, When.AFTER), (2, When.BEFORE), (3, When.AFTER)])
def test_a_url_that_kills_its_worker_runs_out_of_attempts(
    site: Site, desk: Desk, sandbox: SandboxServer, number: int, when: When
) -> None:
    database, redis = desk.database, desk.redis
    failed_token(desk)
    for attempts in range(2, 6):
        for collection in ("accounts", "contents", "metric_series", "token_links"):
            # As if the URL led to something new each time, so that it is fetched and kills again.
            database[collection].delete_many({})
        assert not survives(site, ADDRESS, "retry", number, when)
        redis.flushall()
        assert attempts_of(database) == attempts
    calls = sandbox.client.calls().total
    assert desk.retry(ADDRESS) == {"outcome": "processed", "status": "exhausted", "reason": "cut_off"}
    assert desk.retry(ADDRESS) is None
    assert attempts_of(database) == 5
    assert sandbox.client.calls().total == calls
