"""Recording with everything real but Celery: stores, leases, jobs, and the sandbox as the outside world.

A test may put a generator of its own in the place of the platforms' ones, and then decides what a URL shows.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from redis import Redis

from devstack.sandbox.process import SandboxServer
from devstack.sandbox.tokens import Token as TrackerToken
from devstack.sandbox.tokens import address_of, make_token
from tests.conftest import make_settings
from workers.clock import Clock
from workers.http.client import OutboundClient
from workers.jobs.fan_out import Assignment, FanOutLimits, MemberDesk
from workers.jobs.kinds import JobKind
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.record import JobStore
from workers.jobs.run import JobRunner
from workers.leases import LeaseStore
from workers.mongo import Document, MongoDatabase
from workers.social_graph.indexes import migrate
from workers.social_graph.token import RetryableURL, Token, TokenRepository, TokenSocialURL
from workers.social_graph.token_link import TokenLinkRepository
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.credit import CreditFlags
from workers.social_recording.detours import Detours
from workers.social_recording.generators.apify.runs import RedisRunMemory
from workers.social_recording.generators.generator import FetchContext
from workers.social_recording.generators.registry import Generators
from workers.social_recording.graph_writer import GraphWriter, StoredObjects
from workers.social_recording.job_kinds import RECONCILE, RETRY, ReconcileRequest, RetryRequest
from workers.social_recording.object_graph import SocialObjectGraph
from workers.social_recording.reconcile import RECORD_TOKEN_TASK, Reconcile
from workers.social_recording.recording import TokenRecorder
from workers.social_recording.retry import RETRY_URL_TASK, Retry, URLRetrier, candidate_from_json
from workers.social_recording.routing import Route
from workers.social_recording.tracker import TrackerClient
from workers.social_recording.url_collection import RecordingLimits, URLCollector, graph_of_route

DAY = datetime(2026, 1, 10, tzinfo=UTC)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = RecordingLimits(
    budget_s=20, token_lease_ttl_ms=5000, url_lease_wait_s=10, max_attempts=5, is_paid_enabled=False
)
_numbers = itertools.count(50_000)


@dataclass
class OwnGenerator:
    """Answers for every URL as `show` says, and counts."""

    show: Callable[[Route], SocialObjectGraph] = lambda way: graph_of_route(way, Clock().now())
    source: str = "own"
    is_paid: bool = False
    is_there: bool = True
    calls: Counter[str] = field(default_factory=Counter)

    def supports(self, route: Route) -> bool:
        return self.is_there

    def generate(self, route: Route, context: FetchContext) -> SocialObjectGraph:
        context.calls.add()
        self.calls[route.url] += 1
        return self.show(route)


class OwnGenerators(Generators):
    """The table with one generator of the test."""

    def __init__(self, generator: OwnGenerator) -> None:
        self._generators = (generator,)


class ThreadMessenger:
    """Takes members to threads of this process instead of to a queue."""

    def __init__(self, place: RecordingPlace) -> None:
        self._place = place
        self.pool = ThreadPoolExecutor(8)

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def publish_member(self, *, task: str, arguments: Mapping[str, Any], queue: str) -> None:
        assert queue == "records"
        self.pool.submit(self._work, task, arguments)

    def _work(self, task: str, arguments: Mapping[str, Any]) -> None:
        place, member = self._place, Assignment.from_json(arguments["assignment"])
        if task == RECORD_TOKEN_TASK:
            place.desk.run(
                member,
                lambda: place.recorder.record(member.target, member.job_id).to_json(),
                place.recorder.lease_of(member.target),
            )
        else:
            assert task == RETRY_URL_TASK
            candidate = candidate_from_json(arguments["candidate"])
            place.desk.run(
                member,
                lambda: place.retrier.retry(candidate, member.job_id),
                place.retrier.lease_of(candidate),
            )


class RecordingPlace:
    """See the module docstring. `rebuild` changes parts of it."""

    def __init__(self, redis: Redis, database: MongoDatabase, sandbox: SandboxServer) -> None:
        self.redis, self.database, self.sandbox = redis, database, sandbox
        self.clock = Clock()
        self.leases = LeaseStore(redis, self.clock)
        names = {name.lower(): value for name, value in sandbox.settings().items()}
        self.settings = make_settings(tracker_timeout_ms=2000, **names)
        self.http = OutboundClient(self.settings, self.clock)
        self.tokens = TokenRepository(database, self.clock)
        self.links = TokenLinkRepository(database, self.clock)
        self.store = JobStore(redis, retention_s=600)
        self.desk: MemberDesk
        self.messenger = ThreadMessenger(self)
        self.shutdown = threading.Event()
        self.rebuild()

    def rebuild(
        self,
        *,
        generator: OwnGenerator | None = None,
        leases: LeaseStore | None = None,
        tokens: TokenRepository | None = None,
        window: int = 16,
        backoff_factor: float = 1.0,
        **limits: Any,
    ) -> None:
        """Build the parts anew with what the test wants otherwise."""
        self.limits = replace(LIMITS, **limits)
        leases, tokens = leases or self.leases, tokens or self.tokens
        self.desk = MemberDesk(self.redis, leases, process_ttl_ms=5000)
        real = Generators(self.http, self.settings, RedisRunMemory(self.redis))
        generators = OwnGenerators(generator) if generator else real
        collector = URLCollector(
            leases=leases,
            generators=generators,
            detours=Detours(self.http, self.redis),
            stored=StoredObjects(self.database, self.clock),
            writer=GraphWriter(self.database, self.clock),
            credit=CreditFlags(self.redis),
            clock=self.clock,
            limits=self.limits,
        )
        tracker = TrackerClient(self.http, self.settings)
        self.recorder = TokenRecorder(
            leases=leases,
            tracker=tracker,
            tokens=tokens,
            links=self.links,
            collector=collector,
            clock=self.clock,
            limits=self.limits,
        )
        self.retrier = URLRetrier(
            leases=leases, tokens=tokens, collector=collector, clock=self.clock, limits=self.limits
        )
        shared: dict[str, Any] = {
            "redis": self.redis,
            "tokens": tokens,
            "messenger": cast(CeleryMessenger, self.messenger),
            "clock": self.clock,
            "limits": FanOutLimits(window=window, budget_s=20, grace_s=2),
        }
        self.reconcile = Reconcile(tracker=tracker, **shared)
        self.retry = Retry(collector=collector, backoff_factor=backoff_factor, **shared)

    def run_retry(self, **body: Any) -> dict[str, Any]:
        """Run a retry job and return its `meta`."""
        found: dict[str, Any] = self.retry_result(**body)["meta"]
        return found

    def retry_result(self, **body: Any) -> dict[str, Any]:
        """Run a retry job and return its result."""
        request = RetryRequest.model_validate(body).with_defaults(self.settings)
        return self._run(RETRY, request.model_dump(mode="json"), self.retry.run)

    def run_reconcile(self, **body: Any) -> dict[str, Any]:
        """Run a reconcile job over the day of the tokens and return its result."""
        body = {"startDate": DAY, "endDate": DAY + timedelta(days=1), **body}
        request = ReconcileRequest.model_validate(body).with_defaults(self.settings)
        return self._run(RECONCILE, request.model_dump(mode="json"), self.reconcile.run)

    def _run(self, kind: JobKind[Any], request: Mapping[str, object], use_case: Any) -> dict[str, Any]:
        runner = JobRunner(
            self.store,
            self.leases,
            self.clock,
            heartbeat_ttl_ms=5000,
            lease_ttls_ms={kind.name: 5000},
            shutdown=self.shutdown,
        )
        job_id = f"job-{next(_numbers)}"
        self.store.create(job_id, kind.name, request, expires_s=60, claim=None)
        result: dict[str, Any] = runner.run(kind, job_id, request, use_case)
        return result

    def list_tokens(self, *links: Mapping[str, str | None], missing: int = 0) -> list[str]:
        """Make new tokens the only ones that the tracker knows; return their addresses."""
        tokens: list[TrackerToken] = [
            make_token(next(_numbers), last_transfer_at=DAY, links=each) for each in links
        ]
        addresses = [token["tokenAddress"] for token in tokens]
        self.sandbox.client.reset()
        self.sandbox.client.set_tokens(tokens, missing=addresses[:missing])
        return addresses

    def store_token(self, *urls: TokenSocialURL, symbol: str | None = None) -> str:
        """Store a token with these URLs; return its address."""
        address = address_of("stored", str(next(_numbers)))
        self.tokens.insert(Token.of(address=address, created_at=DAY, symbol=symbol, social_urls=urls))
        return address

    def document(self, address: str) -> Document:
        """The token's document."""
        found = self.database["tokens"].find_one({"address": address})
        assert found is not None
        return found

    def element(self, address: str, url: str | None = None) -> Document:
        """The element of one URL, or the token's only one."""
        elements: list[Document] = self.document(address)["social_urls"]
        [found] = [each for each in elements if url is None or each["url"] == url]
        return found

    def candidate(self, address: str) -> RetryableURL:
        """The token's one URL, as a retry sees it."""
        [found] = self.tokens.iterate_retryable_urls([FetchStatus.ERROR], [address])
        return found

    def close(self) -> None:
        """End the threads."""
        self.messenger.pool.shutdown(wait=True)
        self.leases.write_behind.flush(5.0)


def failed_url(url: str, *, attempts: int = 1, **fields: Any) -> TokenSocialURL:
    """A URL that failed long ago."""
    values: dict[str, Any] = {"reason": "http_503", "attempted_at": LONG_AGO, **fields}
    return TokenSocialURL(url=url, status=FetchStatus.ERROR, attempts=attempts, **values)


def new_site() -> str:
    """The canonical URL of a web site that no other test has."""
    return f"https://own-site-{next(_numbers)}.com/"


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    with SandboxServer(tmp_path_factory.mktemp("sandbox") / "data") as server:
        yield server


@pytest.fixture
def place(redis: Redis, database: MongoDatabase, sandbox: SandboxServer) -> Iterator[RecordingPlace]:
    migrate(database)
    found = RecordingPlace(redis, database, sandbox)
    yield found
    found.close()
