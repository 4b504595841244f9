"""Late results, lost leases, two writers and doubled requests: what protects, and what happens without it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from redis import Redis

from tests.conftest import FakeClock
from tests.integration.recording_place import (
    OwnGenerator,
    RecordingPlace,
    failed_url,
    new_site,
    place,
    sandbox,
)
from tests.integration.test_job_service import KIND, Request, StandInMessenger
from workers.clock import Clock
from workers.errors import TargetGone
from workers.jobs.record import IdempotencyClaim, JobRecord, JobStore, KnownJob
from workers.jobs.service import JobService
from workers.leases import KEY_PREFIX, Lease
from workers.social_graph.token import Token, TokenRepository, TokenSocialURL
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.recording import TokenOutcome, token_lease
from workers.social_recording.routing import Route
from workers.social_recording.url_collection import graph_of_route

__all__ = ["place", "sandbox"]

CALLERS = 12


# --- a result that comes too late


def overtake(place: RecordingPlace, tokens: TokenRepository) -> tuple[str, int]:
    """While a worker waits for its answer another one claims the URL anew; return what stands in the end."""

    def overtaken(_: Route) -> SocialObjectGraph:
        newer = place.candidate(address)
        assert place.tokens.claim_social_url(
            address,
            newer.url,
            expected_status=newer.status,
            expected_attempts=newer.attempts,
            attempted_at=Clock().now() + timedelta(seconds=1),
        )
        raise TargetGone("gone", reason="deleted")

    place.rebuild(generator=OwnGenerator(show=overtaken), tokens=tokens)
    address = place.store_token(failed_url(new_site()))
    place.retrier.retry(place.candidate(address))
    element = place.element(address)
    return element["status"], element["attempts"]


def test_a_result_whose_claim_was_overtaken_is_refused(place: RecordingPlace) -> None:
    assert overtake(place, place.tokens) == ("error", 3)


def test_without_the_claim_in_its_condition_a_late_result_would_stand(place: RecordingPlace) -> None:
    class Unconditional(TokenRepository):
        """Writes the result to the element of the URL, whoever has claimed it since."""

        def finish_claimed_url(
            self,
            address: str,
            url: str,
            *,
            claimed_attempts: int,
            claimed_at: datetime,
            status: FetchStatus,
            reason: str | None,
        ) -> bool:
            return self.record_social_url_result(address, url, status=status, reason=reason)

    assert overtake(place, Unconditional(place.database, place.clock)) == ("not_found", 3)


# --- a lease that went to somebody else


def lose_the_token(place: RecordingPlace) -> tuple[TokenOutcome, int]:
    """A worker loses its token to another one while it waits for an answer; return what it says and left."""

    def lose(way: Route) -> SocialObjectGraph:
        place.redis.set(f"{KEY_PREFIX}{token_lease(address)}", "another worker")
        [lease] = [each for each in place.leases._held if each.name == token_lease(address)]
        place.leases.renew(lease)
        return graph_of_route(way, Clock().now())

    place.rebuild(generator=OwnGenerator(show=lose))
    [address] = place.list_tokens({"website": new_site()})
    outcome = place.recorder.record(address).outcome
    return outcome, place.database["tokens"].count_documents({"address": address})


def test_a_worker_that_lost_its_token_leaves_no_mark(place: RecordingPlace) -> None:
    assert lose_the_token(place) == (TokenOutcome.FAILED, 0)


def test_without_looking_at_its_lease_it_would_leave_one(
    place: RecordingPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lease, "check", lambda _: None)
    assert lose_the_token(place) == (TokenOutcome.RECORDED, 1)


# --- two writers of one token


def repair_while_one_is_added(place: RecordingPlace, tokens: TokenRepository) -> list[str]:
    """A retry repairs a URL while the stream adds another; return the URLs that the token has then."""
    first, added = new_site(), new_site()
    address = place.store_token(failed_url(first))

    def show(way: Route) -> SocialObjectGraph:
        new = TokenSocialURL(url=added, status=FetchStatus.UNSUPPORTED)
        assert place.tokens.add_social_urls(address, [new]) == 1
        return graph_of_route(way, Clock().now())

    place.rebuild(generator=OwnGenerator(show=show), tokens=tokens)
    assert place.retrier.retry(place.candidate(address))["status"] == "ok"
    found = [each["url"] for each in place.document(address)["social_urls"]]
    return ["first" if each == first else "added" for each in found]


def test_a_url_that_is_added_during_a_retry_stays(place: RecordingPlace) -> None:
    assert repair_while_one_is_added(place, place.tokens) == ["first", "added"]


def test_a_retry_that_wrote_the_whole_document_would_undo_what_was_added(place: RecordingPlace) -> None:
    class WholeDocuments(TokenRepository):
        """Reads the token when it claims a URL, and writes all of it with the result."""

        seen: Token | None = None

        def claim_social_url(self, address: str, url: str, **claim: Any) -> bool:
            is_ours = super().claim_social_url(address, url, **claim)
            self.seen = self.find_by_address(address)
            return is_ours

        def finish_claimed_url(self, address: str, url: str, **result: Any) -> bool:
            assert self.seen is not None
            document = self.seen.to_document()
            for element in document["social_urls"]:
                if element["url"] == url:
                    element["status"] = result["status"].value
            return self._collection.replace_one({"address": address}, document).matched_count == 1

    assert repair_while_one_is_added(place, WholeDocuments(place.database, place.clock)) == ["first"]


# --- one request, sent by many at once


class LookThenCreate(JobStore):
    """Looks whether the key is known, and creates the record in a second step."""

    def __init__(self, redis: Redis, *, everybody_looked: Callable[[], object]) -> None:
        super().__init__(redis, retention_s=60)
        self._plain = redis
        self._everybody_looked = everybody_looked

    def create(
        self, job_id: str, kind: str, request: Any, *, expires_s: int, claim: IdempotencyClaim | None
    ) -> JobRecord | KnownJob:
        assert claim is not None
        known = self._plain.get(f"naive:{claim.key}")
        self._everybody_looked()
        if isinstance(known, bytes):
            return KnownJob(id=known.decode(), body_hash=claim.body_hash)
        self._plain.set(f"naive:{claim.key}", job_id)
        return super().create(job_id, kind, request, expires_s=expires_s, claim=None)


def send_at_once(store: JobStore, clock: FakeClock) -> tuple[int, int]:
    """How many messages and how many different jobs come of one request that many send at one moment."""
    messenger, together = StandInMessenger(), threading.Barrier(CALLERS)
    jobs = JobService(store, messenger, clock, kinds={KIND.name}, queue_expires_s=900)

    def send(_: int) -> str:
        together.wait(timeout=20)
        return jobs.submit(KIND, Request(), idempotency_key="night-1").record.id

    with ThreadPoolExecutor(CALLERS) as pool:
        ids = set(pool.map(send, range(CALLERS)))
    return len(messenger.published), len(ids)


def test_one_idempotency_key_that_many_send_at_once_is_one_job(redis: Redis, clock: FakeClock) -> None:
    assert send_at_once(JobStore(redis, retention_s=60), clock) == (1, 1)


def test_a_key_that_is_looked_up_and_written_in_two_steps_would_be_many_jobs(
    redis: Redis, clock: FakeClock
) -> None:
    looked = threading.Barrier(CALLERS)
    store = LookThenCreate(redis, everybody_looked=lambda: looked.wait(timeout=20))
    assert send_at_once(store, clock) == (CALLERS, CALLERS)
