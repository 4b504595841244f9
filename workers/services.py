"""The one place that wires things: builds what a process needs from its settings, once, on first use.

Building opens no connection; each client connects with its first call.
"""

from __future__ import annotations

import functools
import logging
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import pymongo
from celery import signals
from pymongo.errors import PyMongoError
from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError
from redis.retry import Retry as RedisRetry

from workers import process_end
from workers.celery_app import app as worker_celery
from workers.celery_app import create_celery
from workers.clock import Clock
from workers.errors import BrokerUnavailable, RetryableError
from workers.funding.assembly import FundingAccess, FundingWork
from workers.funding.job_kinds import FUNDING_RECONCILE
from workers.http.client import OutboundClient
from workers.http.limiter import SourceLimiter
from workers.http.slots import CallSlots
from workers.jobs.fan_out import FanOutLimits, MemberDesk
from workers.jobs.messenger import CeleryMessenger
from workers.jobs.probe import WorkerProbe
from workers.jobs.record import JobStore
from workers.jobs.run import JobRunner
from workers.jobs.service import JobService
from workers.leases import LeaseBook, LeaseStore
from workers.mongo import connect
from workers.settings import Settings, read_settings
from workers.social_graph.graph_reader import GraphReader
from workers.social_graph.token import TokenRepository
from workers.social_graph.token_link import TokenLinkRepository
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.credit import CreditFlags
from workers.social_recording.detours import Detours
from workers.social_recording.due import RetryInterval
from workers.social_recording.explain import URLExplainer
from workers.social_recording.generators.apify.runs import RedisRunMemory
from workers.social_recording.generators.registry import Generators
from workers.social_recording.graph_writer import GraphWriter, StoredObjects
from workers.social_recording.job_kinds import RECONCILE, RETRY
from workers.social_recording.live import LiveRecording, LiveRequests
from workers.social_recording.overview import Overview
from workers.social_recording.reconcile import Reconcile
from workers.social_recording.recording import TokenRecorder
from workers.social_recording.retry import Retry, URLRetrier
from workers.social_recording.routing import registrable_domain
from workers.social_recording.stream import StreamConsumer, TokenFlowIntake
from workers.social_recording.stream_broker import StreamBroker
from workers.social_recording.stream_pulse import StreamPulse
from workers.social_recording.sweep import RetrySweep
from workers.social_recording.tracker import TrackerClient
from workers.social_recording.url_collection import RecordingLimits, URLCollector, obstacle_to
from workers.solana_backfill.assembly import build_backfill
from workers.solana_backfill.job_kinds import BACKFILL
from workers.telemetry import Meter, MeterWriter, TelemetryReader
from workers.vital_signs import VitalSigns
from workers.write_behind import WriteBehind

log = logging.getLogger(__name__)

JOB_KINDS = {kind.name: kind for kind in (RECONCILE, RETRY, BACKFILL, FUNDING_RECONCILE)}
SECONDS_PER_DAY = 86_400
CANARY_WAIT_S = 2.0
READY_TIMEOUT_S = 2.0
GIVE_BACK_MAX_S = 1.0
# The interpreter's own is ten times as long: with it bench.reconcile took 1.36 of the ideal time, now 1.32.
THREAD_TURN_S = 0.0005


def connect_redis(settings: Settings, *, retries: int) -> Redis:
    """A client for leases, records and events; `retries` per command, within two seconds each."""
    return Redis.from_url(
        settings.redis_url,
        socket_timeout=2 + 1,  # longer than the one second that BLPOP waits
        socket_connect_timeout=2,
        retry=RedisRetry(ExponentialBackoff(cap=0.5, base=0.05), retries),
        health_check_interval=30,
    )


class JobAccess:
    """What the API and the command line need: asking for jobs, looking at them, the graph and the stores."""

    def __init__(self, settings: Settings, clock: Clock, messenger: CeleryMessenger, redis: Redis) -> None:
        self.settings = settings
        self._redis = redis
        self._database = connect(settings, is_impatient=True)
        self._probe = WorkerProbe(redis, messenger, clock, queues=("jobs", "records"))
        self.store = JobStore(redis, retention_s=settings.job_retention_days * SECONDS_PER_DAY)
        self.jobs = JobService(
            self.store,
            messenger,
            clock,
            kinds=JOB_KINDS.keys(),
            queue_expires_s=settings.job_queue_expires_s,
        )
        self.graph = GraphReader(self._database, clock)
        self.leases = LeaseBook(redis, clock)
        self.funding = FundingAccess(settings, redis)
        self.telemetry = TelemetryReader(redis, clock)
        self.vitals = VitalSigns(
            redis=redis,
            broker_url=settings.broker_url,
            store=self.store,
            database=self._database,
            funding=self.funding,
            clock=clock,
        )
        obstacle_to = _obstacles(settings, clock)
        interval = RetryInterval(
            shortest=timedelta(minutes=settings.social_record_retry_min_interval_minutes),
            factor=settings.social_record_retry_backoff_factor,
        )
        self.explainer = URLExplainer(
            tokens=TokenRepository(self._database, clock),
            leases=self.leases,
            obstacle_to=obstacle_to,
            clock=clock,
            interval=interval,
            max_attempts=settings.social_record_max_attempts,
        )
        self.overview = Overview(
            self._database,
            clock,
            obstacle_to=obstacle_to,
            interval=interval,
            max_attempts=settings.social_record_max_attempts,
        )

    def close(self) -> None:
        """Close the connections; for processes that go on without them, such as tests."""
        self._redis.close()
        self._database.client.close()
        self.funding.close()
        self.vitals.close()

    def readiness(self) -> dict[str, str]:
        """What is ready and what is not: `ok` or a few words for each store and the workers.

        PostgreSQL is asked only where there are fundings.
        """
        state: dict[str, str] = {}
        try:
            silent = self._probe.silent_queues(wait_s=CANARY_WAIT_S)
            state["redis"] = "ok"
            state["workers"] = f"no worker answers on {', '.join(silent)}" if silent else "ok"
        except (RedisError, BrokerUnavailable):
            state["redis"] = "not reachable"
            state["workers"] = "unknown"
        try:
            with pymongo.timeout(READY_TIMEOUT_S):
                self._database.command("ping")
            state["mongodb"] = "ok"
        except PyMongoError:
            state["mongodb"] = "not reachable"
        if self.funding.is_configured:
            try:
                self.funding.ping()
                state["postgresql"] = "ok"
            except RetryableError:
                state["postgresql"] = "not reachable"
        return state


def _obstacles(settings: Settings, clock: Clock) -> Callable[[str], FetchStatus | None]:
    """Says what keeps every source from being asked about a URL. The client behind it asks nobody."""
    generators = Generators(OutboundClient(settings, clock), settings)
    return lambda url: obstacle_to(url, generators, is_paid_enabled=settings.social_record_enable_paid)


def open_job_access(settings: Settings) -> JobAccess:
    """Job access for a process that is no worker: it gives up soon when Redis is away."""
    celery = create_celery(lambda: settings, polls_only=True)
    return JobAccess(settings, Clock(), CeleryMessenger(celery), connect_redis(settings, retries=1))


def open_stream(settings: Settings, ending: threading.Event) -> StreamConsumer:
    """The consumer of the live stream, for a process of its own; it runs until `ending` is set."""
    clock = Clock()
    redis = connect_redis(settings, retries=1)
    celery = create_celery(lambda: settings, polls_only=True)
    broker = StreamBroker(
        settings.stream_broker_url,
        queue=settings.stream_queue,
        redeliver_after_s=settings.stream_redeliver_after_s,
        dead_letters_max=settings.stream_dead_letters_max,
    )
    intake = TokenFlowIntake(
        redis,
        LiveRequests(CeleryMessenger(celery)),
        threshold=settings.social_record_af_investor_threshold,
        repeat_after_s=settings.stream_repeat_after_s,
    )
    return StreamConsumer(
        broker=broker,
        intake=intake,
        pulse=StreamPulse(redis, clock),
        clock=clock,
        prefetch=settings.stream_prefetch,
        ending=ending,
    )


class Services:
    """What a worker process needs. With `calls_max`, its targets have at most so many calls open at once."""

    def __init__(
        self, settings: Settings, messenger: CeleryMessenger, clock: Clock, *, calls_max: int | None = None
    ) -> None:
        self.settings = settings
        self.shutdown = threading.Event()
        self.redis = redis = connect_redis(settings, retries=3)
        access = JobAccess(settings, clock, messenger, redis)
        meter = Meter(clock)
        # Its own connection, because what it writes waits for nobody and is never urgent.
        self.metrics = MeterWriter(meter, connect_redis(settings, retries=0), clock)
        self.write_behind = WriteBehind(redis)
        self.leases = leases = LeaseStore(redis, clock, meter=meter, write_behind=self.write_behind)
        database = connect(settings)
        tokens = TokenRepository(database, clock)
        limiter = SourceLimiter.of(
            settings, redis, domain_of=registrable_domain, write_behind=self.write_behind
        )
        slots = None if calls_max is None else CallSlots(calls_max)
        http = OutboundClient(settings, clock, limiter=limiter, slots=slots, meter=meter)
        # Jobs do not wait for their own targets.
        job_http = OutboundClient(settings, clock, limiter=limiter, meter=meter)
        limits = RecordingLimits(
            budget_s=settings.job_target_budget_s,
            token_lease_ttl_ms=settings.social_record_token_lock_ttl_ms,
            url_lease_wait_s=settings.social_record_url_lock_wait_ms / 1000,
            max_attempts=settings.social_record_max_attempts,
            is_paid_enabled=settings.social_record_enable_paid,
        )
        fan_out = FanOutLimits(
            window=settings.job_window,
            budget_s=settings.job_target_budget_s,
            grace_s=settings.job_grace_s,
        )
        collector = URLCollector(
            leases=leases,
            generators=Generators(http, settings, RedisRunMemory(redis)),
            detours=Detours(http, redis),
            stored=StoredObjects(database, clock),
            writer=GraphWriter(database, clock),
            credit=CreditFlags(redis),
            clock=clock,
            limits=limits,
        )
        self.runner = JobRunner(
            access.store,
            leases,
            clock,
            heartbeat_ttl_ms=settings.job_heartbeat_ttl_ms,
            lease_ttls_ms={
                RECONCILE.name: settings.social_record_reconcile_lock_ttl_ms,
                RETRY.name: settings.social_record_retry_lock_ttl_ms,
                BACKFILL.name: settings.solana_backfill_lock_ttl_ms,
                FUNDING_RECONCILE.name: settings.funding_reconcile_lock_ttl_ms,
            },
            shutdown=self.shutdown,
            meter=meter,
        )
        self.desk = MemberDesk(redis, leases, process_ttl_ms=settings.job_heartbeat_ttl_ms)
        self.recorder = TokenRecorder(
            leases=leases,
            tracker=TrackerClient(http, settings),
            tokens=tokens,
            links=TokenLinkRepository(database, clock),
            collector=collector,
            clock=clock,
            limits=limits,
            meter=meter,
        )
        self.live = LiveRecording(self.recorder)
        self.retrier = URLRetrier(
            leases=leases, tokens=tokens, collector=collector, clock=clock, limits=limits, meter=meter
        )
        self.reconcile = Reconcile(
            redis=redis,
            tracker=TrackerClient(job_http, settings),
            tokens=tokens,
            messenger=messenger,
            clock=clock,
            limits=fan_out,
        )
        self.retry = Retry(
            redis=redis,
            tokens=tokens,
            collector=collector,
            messenger=messenger,
            clock=clock,
            limits=fan_out,
            backoff_factor=settings.social_record_retry_backoff_factor,
        )
        self.sweep = RetrySweep(redis=redis, jobs=access.jobs, clock=clock, settings=settings)
        self.backfill = build_backfill(settings, redis=redis, database=database, clock=clock, http=job_http)
        self.funding = FundingWork(
            settings,
            redis=redis,
            clock=clock,
            leases=leases,
            http=job_http,
            messenger=messenger,
            store=access.store,
            jobs=access.jobs,
            limits=fan_out,
        )

    def give_back(self) -> None:
        """Give all leases back, for an end that leaves work unfinished."""
        self.runner.cut_off()
        self.write_behind.flush(GIVE_BACK_MAX_S)
        log.error("leases of unfinished work are given back", extra={"leases": self.leases.give_back_all()})
        self.metrics.flush()


@functools.cache
def _build_services() -> Services:
    return Services(
        read_settings(),
        CeleryMessenger(worker_celery),
        Clock(),
        # Known where the pool of `workers.celery_parts` runs the tasks.
        calls_max=worker_celery.conf.worker_concurrency,
    )


_building = threading.Lock()


def get_services() -> Services:
    """The services of this worker process."""
    with _building:
        return _build_services()


@signals.worker_ready.connect
def _let_threads_take_turns_quickly(**_: object) -> None:
    """A thread that has its answer must not wait long for one that computes."""
    sys.setswitchinterval(THREAD_TURN_S)


@signals.worker_ready.connect
def _prepare_to_end(**_: object) -> None:
    """Celery's cold shutdown waits for every thread, so SIGQUIT is ours; and a clean end has a limit."""
    services = get_services()
    services.metrics.start()
    process_end.end_at_once_at(signal.SIGQUIT)
    process_end.cut_off_after(services.shutdown, services.settings.stop_limit_s, services.give_back)


@signals.worker_shutting_down.connect
def _stop_handing_out(**_: object) -> None:
    """Let running jobs end: what is in work is finished, nothing new starts. A second signal is the last."""
    process_end.end_at_once_when_told_again()
    get_services().shutdown.set()


@signals.worker_shutdown.connect
def _leave(**_: object) -> None:
    services = get_services()
    services.desk.leave()
    services.metrics.close()
