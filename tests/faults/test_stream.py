"""The live stream with real processes: killed consumers, brokers that go away, floods, and ends."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from redis import Redis

from devstack.processes import ManagedProcess
from devstack.sandbox.tokens import Token, address_of
from devstack.valkey import ValkeyServer
from tests.faults.crew import Crew, assert_given_back, assert_recorded_once, by_addresses
from tests.faults.streaming import Moment, consume_and_die
from tests.integration.stream_place import QUEUE, flow, publish
from tests.operator import DAY, Operator, new_token, sites
from tests.pausing import paused
from tests.waiting import wait_until
from workers.social_recording.live import PRIORITY

QUICK = {"STREAM_REDELIVER_AFTER_S": "1"}
# Where Celery keeps the tasks of the stream: the queue's name, and the priority behind it.
TASKS_KEY = f"converge:records:{PRIORITY}"
# Where it keeps the members of a job.
MEMBERS_KEY = "converge:records"
FLOOD = 1000
# Just below what a message may have.
PADDING = "x" * 60_000


@pytest.fixture
def broker(operator: Operator) -> Iterator[Redis]:
    """The broker of the stack, of the stream as of the tasks."""
    with Redis.from_url(operator.stack.environ["BROKER_URL"]) as client:
        yield client


@pytest.fixture
def other_broker(tmp_path: Path) -> Iterator[ValkeyServer]:
    """A broker of the stream alone."""
    with ValkeyServer(tmp_path / "stream") as server:
        yield server


def flow_of(token: Token, investors: int = 5) -> bytes:
    return json.dumps(
        {"tokenAddress": token["tokenAddress"], "totalInvestedAlphaFinders": investors}
    ).encode()


def asked_for(broker: Redis) -> list[str]:
    """The tokens of the tasks that wait for a worker, the oldest first."""
    found = []
    for raw in reversed(broker.lrange(TASKS_KEY, 0, -1)):
        _, keywords, _ = json.loads(base64.b64decode(json.loads(raw)["body"]))
        found.append(keywords["address"])
    return found


def in_hand(stream: Redis) -> int:
    return int(stream.hlen(f"converge:stream:{QUEUE}:unacked"))


def is_dealt_with(stream: Redis) -> bool:
    return (
        stream.llen(QUEUE) == 0
        and stream.keys(f"converge:stream:{QUEUE}:taken:*") == []
        and in_hand(stream) == 0
    )


def resident_mb(process: ManagedProcess) -> float:
    """The memory that the process has."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize("moment", list(Moment))
def test_a_message_of_a_killed_consumer_comes_again_and_its_token_is_recorded_once(
    operator: Operator, crew: Crew, broker: Redis, moment: Moment
) -> None:
    tokens = operator.set_tokens(sites(1))
    publish(operator.stack.environ["BROKER_URL"], flow_of(tokens[0]))
    consume_and_die(operator.stack.environ, moment)
    assert (broker.llen(QUEUE), in_hand(broker)) == (0, 1)
    assert len(asked_for(broker)) == (moment is Moment.AFTER_THE_TASK)

    crew.listen(**QUICK)
    wait_until(lambda: is_dealt_with(broker), "the message came again", timeout_s=15)
    worker = crew.hire("records")
    wait_until(lambda: operator.documents(tokens), "the token is recorded")
    wait_until(lambda: broker.llen(TASKS_KEY) == 0, "no task is left")
    tasks = 1 + (moment is Moment.AFTER_THE_TASK)
    wait_until(
        lambda: worker.log_file.read_text().count("a live token was taken up") == tasks, "all tasks are over"
    )
    assert_recorded_once(operator, tokens)
    assert operator.calls().by_address == {tokens[0]["tokenAddress"]: 1}
    assert_given_back(operator)


def test_a_message_that_is_acknowledged_first_dies_with_its_consumer(
    operator: Operator, crew: Crew, broker: Redis
) -> None:
    """The twin of the above."""
    [token] = operator.set_tokens(sites(1))
    publish(operator.stack.environ["BROKER_URL"], flow_of(token))
    consume_and_die(operator.stack.environ, Moment.BEFORE_THE_TASK, is_acknowledged_first=True)
    consumer = crew.listen(**QUICK)
    publish(operator.stack.environ["BROKER_URL"], flow("another token"))
    wait_until(lambda: address_of("another token") in asked_for(broker), "the stream is consumed")
    wait_until(lambda: is_dealt_with(broker), "all messages are dealt with")
    assert consumer.running
    assert token["tokenAddress"] not in asked_for(broker)


@pytest.mark.parametrize("is_killed", [False, True], ids=["restarted", "killed"])
def test_no_message_is_lost_when_the_broker_goes_away_in_the_middle(
    operator: Operator, crew: Crew, broker: Redis, is_killed: bool
) -> None:
    consumer = crew.listen(**QUICK)
    wait_until(lambda: consumer.logged("is consumed"), "the stream is consumed")
    publish(operator.stack.environ["BROKER_URL"], *(flow(number) for number in range(600)))
    wait_until(lambda: broker.llen(TASKS_KEY) > 20, "it works")
    assert broker.llen(QUEUE) > 20, "and has more to do"
    if is_killed:
        operator.stack.valkey.kill()
        operator.stack.valkey.start()
    else:
        operator.stack.valkey.restart()
    wait_until(lambda: is_dealt_with(broker), "all messages are dealt with", timeout_s=40)
    assert set(asked_for(broker)) == {address_of(str(number)) for number in range(600)}
    assert consumer.running


@pytest.mark.parametrize(("prefetch", "is_bounded"), [(4, True), (FLOOD, False)])
def test_a_flood_stays_in_the_queue_while_tasks_cannot_be_published(
    operator: Operator,
    crew: Crew,
    broker: Redis,
    other_broker: ValkeyServer,
    *,
    prefetch: int,
    is_bounded: bool,
) -> None:
    """The second case is the twin: without the bound a consumer takes everything into its memory."""
    consumer = crew.listen(STREAM_URL=other_broker.url, STREAM_PREFETCH=str(prefetch))
    wait_until(lambda: consumer.logged("is consumed"), "the stream is consumed")
    with Redis.from_url(other_broker.url) as stream:
        publish(other_broker.url, flow("warm"))
        wait_until(lambda: len(asked_for(broker)) == 1, "it has done all that it ever does")
        before_mb = resident_mb(consumer)
        operator.stack.valkey.kill()
        for start in range(0, FLOOD, 100):
            publish(
                other_broker.url, *(flow(number, padding=PADDING) for number in range(start, start + 100))
            )
        held = min(prefetch, FLOOD)
        wait_until(lambda: in_hand(stream) == held, "it holds all that it may", timeout_s=60)
        wait_until(lambda: consumer.logged("no task could be published"), "it has tried")
        assert (resident_mb(consumer) - before_mb < 30) is is_bounded
        assert stream.llen(QUEUE) == FLOOD - held

        operator.stack.valkey.start()
        most = 0

        def is_over() -> bool:
            nonlocal most
            most = max(most, in_hand(stream))
            return is_dealt_with(stream)

        wait_until(is_over, "the flood is over", timeout_s=90)
        assert most <= held
        assert asked_for(broker)[-FLOOD:] == [address_of(str(number)) for number in range(FLOOD)]


def test_a_consumer_that_is_told_to_end_gives_back_what_it_holds_and_is_gone_soon(
    operator: Operator, crew: Crew, other_broker: ValkeyServer
) -> None:
    consumer = crew.listen(STREAM_URL=other_broker.url, STREAM_PREFETCH="4")
    wait_until(lambda: consumer.logged("is consumed"), "the stream is consumed")
    operator.stack.valkey.kill()
    with Redis.from_url(other_broker.url) as stream:
        publish(other_broker.url, *(flow(number) for number in range(10)))
        wait_until(lambda: in_hand(stream) == 4, "it holds some")
        wait_until(lambda: consumer.logged("no task could be published"), "it has tried")
        os.kill(consumer.pid, signal.SIGTERM)
        told_at = time.monotonic()
        wait_until(lambda: not consumer.running, "it ends", timeout_s=20)
        assert time.monotonic() - told_at < 8
        assert consumer.status == 0
        assert (stream.llen(QUEUE), in_hand(stream)) == (10, 0)
    operator.stack.valkey.start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_an_idle_consumer_ends_well_at_one_signal(
    operator: Operator, crew: Crew, number: signal.Signals
) -> None:
    consumer = crew.listen()
    wait_until(lambda: consumer.logged("is consumed"), "the stream is consumed")
    os.kill(consumer.pid, number)
    told_at = time.monotonic()
    wait_until(lambda: not consumer.running, "it ends")
    assert time.monotonic() - told_at < 5
    assert consumer.status == 0
    assert consumer.logged("the stream is left")


def test_a_consumer_without_its_broker_ends_at_one_signal_as_well(operator: Operator, crew: Crew) -> None:
    consumer = crew.listen(STREAM_URL="redis://127.0.0.1:9/0")
    wait_until(lambda: consumer.logged("the stream is away"), "it has tried")
    os.kill(consumer.pid, signal.SIGTERM)
    wait_until(lambda: not consumer.running, "it ends", timeout_s=5)
    assert consumer.status == 0


def test_a_second_signal_ends_a_consumer_at_once(
    operator: Operator, crew: Crew, other_broker: ValkeyServer
) -> None:
    consumer = crew.listen(STREAM_URL=other_broker.url)
    wait_until(lambda: consumer.logged("is consumed"), "the stream is consumed")
    # Its broker hangs, so that the first signal cannot bring about a clean end soon.
    with paused(other_broker.process.pid):
        os.kill(consumer.pid, signal.SIGTERM)
        wait_until(lambda: not consumer.running or _is_waiting(consumer), "it has heard the first one")
        os.kill(consumer.pid, signal.SIGTERM)
        told_at = time.monotonic()
        wait_until(lambda: not consumer.running, "it is gone")
        assert time.monotonic() - told_at < 2
        assert consumer.status == 128 + signal.SIGTERM


def _is_waiting(process: ManagedProcess) -> bool:
    """Whether no signal is on its way to the process any more."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    pending = [line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return all(int(each, 16) == 0 for each in pending)


def test_a_token_that_is_recorded_live_locks_jobs_out_and_is_recorded_once(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens(sites(1))
    operator.sandbox.set_faults({"route": by_addresses(tokens[0]), "latency_ms": 3000})
    crew.hire()
    crew.listen()
    publish(operator.stack.environ["BROKER_URL"], flow_of(tokens[0]))
    wait_until(lambda: operator.calls().by_address, "it is recorded live")
    meta = operator.meta("reconcile")
    assert (meta["lockedOut"], meta["recorded"], meta["remaining"]) == (1, 0, 1)
    wait_until(lambda: operator.documents(tokens), "the live recording is finished")
    assert operator.meta("reconcile")["alreadySeen"] == 1
    assert_recorded_once(operator, tokens)


def test_a_token_that_a_retry_holds_is_left_alone_by_the_stream(operator: Operator, crew: Crew) -> None:
    tokens = operator.set_tokens([{"website": "https://github.com/live-owner/broken"}])
    operator.sandbox.set_faults({"route": "/github/", "body": "<html></html>"})
    worker = crew.hire()
    operator.run("reconcile")
    assert operator.url_of(tokens[0])["status"] == "error"
    operator.sandbox.set_faults({"route": "/github/", "latency_ms": 2500, "times": 1})
    crew.listen()
    asked = operator.calls().by_address
    job_id = operator.start("retry", {"minIntervalMinutes": 0})
    wait_until(lambda: operator.url_of(tokens[0])["attempts"] == 2, "the retry has its claim")
    publish(operator.stack.environ["BROKER_URL"], flow_of(tokens[0]))
    wait_until(lambda: worker.logged('"outcome": "lockedOut"'), "the stream found it held")
    assert operator.job(job_id)["state"] == "running"
    assert operator.ended(job_id)["result"]["meta"]["converged"] == 1
    assert (operator.url_of(tokens[0])["status"], operator.url_of(tokens[0])["attempts"]) == ("ok", 2)
    assert operator.calls().by_address == asked, "the stream asked nobody"
    assert_recorded_once(operator, tokens)


def test_a_live_token_that_hangs_ends_with_its_budget_and_leaves_the_thread_to_others(
    operator: Operator, crew: Crew
) -> None:
    tokens = operator.set_tokens(sites(2))
    operator.sandbox.set_faults({"route": by_addresses(tokens[0]), "hang": True})
    worker = crew.hire("records", threads=1, JOB_TARGET_BUDGET_S="2")
    crew.listen()
    publish(operator.stack.environ["BROKER_URL"], *(flow_of(token) for token in tokens))
    wait_until(lambda: worker.logged('"outcome": "failed", "reason": "timeout"'), "the first one is given up")
    wait_until(lambda: operator.documents(tokens), "the other one is recorded")
    assert list(operator.documents(tokens)) == [tokens[1]["tokenAddress"]]
    # Given back a moment after the document is there, long before it would run out.
    assert_given_back(operator)


@pytest.mark.parametrize("job_comes_first", [True, False])
def test_a_flood_of_live_tokens_keeps_no_job_waiting(
    operator: Operator, crew: Crew, broker: Redis, job_comes_first: bool
) -> None:
    """The second case is the twin: at the priority of a job's members the job comes last."""
    live = operator.set_tokens(sites(20))
    next_day = DAY + timedelta(days=1)
    wanted = [new_token(links, at=next_day) for links in sites(4)]
    crew.listen()
    publish(operator.stack.environ["BROKER_URL"], *(flow_of(token) for token in live))
    wait_until(lambda: len(asked_for(broker)) == len(live), "all are asked for")
    if not job_comes_first:
        while task := broker.rpop(TASKS_KEY):
            broker.lpush(MEMBERS_KEY, task)
    operator.sandbox.set_tokens(live + wanted)
    operator.sandbox.set_faults({"route": "plain-site", "latency_ms": 100})
    crew.hire("jobs")
    ranged = {"startDate": next_day.isoformat(), "endDate": (next_day + timedelta(days=1)).isoformat()}
    job_id = operator.start("reconcile", ranged)
    before = 0 if job_comes_first else len(live)
    wait_until(lambda: broker.llen(MEMBERS_KEY) == before + len(wanted), "the job's members wait as well")
    crew.hire("records", threads=2)
    assert operator.ended(job_id)["result"]["meta"]["recorded"] == len(wanted)
    still_missing = len(live) - len(operator.documents(live))
    assert (still_missing > len(live) / 2) is job_comes_first
