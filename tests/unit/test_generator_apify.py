"""Apify: runs that are paid once, whatever happens to the attempt that started them."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import responses

from tests.apify_stand_in import API, DictRunMemory, paid_calls, run_payload, serve_run
from tests.conftest import FakeClock, make_settings
from tests.samples import body_of, error_case, sample_json
from workers.clock import Budget
from workers.errors import CreditExhausted, FetchFailed, RetryableError, TargetGone
from workers.http.client import OutboundClient
from workers.social_recording.generators.apify.answers import Findings, Question, read_run, record_path
from workers.social_recording.generators.apify.runs import NoRunMemory, RunMemory, RunNote
from workers.social_recording.generators.apify.transport import READ_RUN_KEPT_S, UNREAD_RUN_KEPT_S, Apify
from workers.social_recording.generators.generator import CallCounter, FetchContext

ACTOR = "somebody~some-scraper"
RUNS = f"{API}/acts/{ACTOR}/runs"
RUN = f"{API}/actor-runs/run1"
ITEMS = f"{API}/datasets/run1-dataset/items"
QUESTION = Question(
    actor=ACTOR,
    target="https://instagram.com/someone",
    input={"directUrls": ["https://www.instagram.com/someone/"], "resultsLimit": 1},
    names=("https://www.instagram.com/someone/",),
)
ITEM = {"inputUrl": "https://www.instagram.com/Someone", "found": 1}


class Killed(BaseException):
    """The worker process is gone."""


def ask(
    clock: FakeClock,
    memory: RunMemory | None = None,
    *,
    calls: CallCounter | None = None,
    budget_s: float = 240,
    read: Any = lambda found: found,
) -> Findings:
    settings = make_settings(apify_token="apify-secret")
    apify = Apify(OutboundClient(settings, clock), settings, memory or DictRunMemory())
    context = FetchContext(budget=Budget.of(clock, budget_s), calls=calls or CallCounter())
    found: Findings = apify.ask(QUESTION, read, context)
    return found


def failure(clock: FakeClock, memory: RunMemory | None = None, **changes: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        ask(clock, memory, **changes)
    return caught.value


def query_of(nth: int) -> dict[str, list[str]]:
    return parse_qs(urlsplit(str(responses.calls[nth].request.url)).query)


# --- one run


@responses.activate
def test_a_run_is_started_waited_for_and_read_within_its_limits(clock: FakeClock) -> None:
    serve_run(ACTOR, [ITEM])
    calls = CallCounter()
    found = ask(clock, calls=calls)
    assert found.items == (ITEM,)
    assert found.looked_at == datetime(2026, 1, 15, 11, 59, 30, tzinfo=UTC)
    assert calls.calls == 3
    start, wait, read = (call.request for call in responses.calls)
    assert json.loads(start.body or "") == QUESTION.input
    assert query_of(0) == {"maxItems": ["1"], "maxTotalChargeUsd": ["0.05"], "timeout": ["120"]}
    assert query_of(1) == {"waitForFinish": ["60"]}
    assert query_of(2) == {"clean": ["true"], "limit": ["100"]}
    for request in (start, wait, read):
        assert request.headers["Authorization"] == "Bearer apify-secret"
        assert "apify-secret" not in str(request.url)


@responses.activate
def test_a_run_that_goes_on_is_asked_about_again_but_not_in_a_hurry(clock: FakeClock) -> None:
    responses.post(RUNS, status=201, json=run_payload("READY"))
    for status in ("RUNNING", "RUNNING", "SUCCEEDED"):
        responses.get(RUN, json=run_payload(status))
    responses.get(ITEMS, json=[ITEM])
    assert ask(clock).items == (ITEM,)
    assert paid_calls() == 1
    assert clock.waits == [1.0, 1.0]


@responses.activate
def test_a_run_that_outlasts_the_attempt_is_left_for_the_next_one(clock: FakeClock) -> None:
    responses.post(RUNS, status=201, json=run_payload("READY"))
    running = responses.get(RUN, json=run_payload("RUNNING"))
    memory = DictRunMemory()
    error = failure(clock, memory, budget_s=30)
    assert error.reason == "run_unfinished"
    assert 20 <= sum(clock.waits) <= 30
    assert memory.notes[QUESTION.name].run_id == "run1"

    clock.advance(3600)
    responses.remove(running)
    responses.get(RUN, json=run_payload("SUCCEEDED"))
    responses.get(ITEMS, json=[ITEM])
    assert ask(clock, memory).items == (ITEM,)
    assert paid_calls() == 1


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "ABORTED", "TIMED-OUT"])
@responses.activate
def test_the_dataset_counts_however_the_run_ended(status: str, clock: FakeClock) -> None:
    serve_run(ACTOR, [ITEM], status=status)
    assert ask(clock).items == (ITEM,)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("SUCCEEDED", "empty_dataset"),
        ("FAILED", "run_failed"),
        ("ABORTED", "run_aborted"),
        ("TIMED-OUT", "run_timed_out"),
    ],
)
@pytest.mark.parametrize("items", [[], [{"inputUrl": "https://www.instagram.com/somebody-else/"}], [7, None]])
@responses.activate
def test_a_run_without_a_word_about_the_target_is_no_verdict_and_is_forgotten(
    status: str, reason: str, items: list[Any], clock: FakeClock
) -> None:
    serve_run(ACTOR, items, status=status)
    memory = DictRunMemory()
    assert failure(clock, memory).reason == reason
    assert memory.notes == {}


@responses.activate
def test_items_are_told_apart_by_what_they_name_and_not_by_their_place(clock: FakeClock) -> None:
    others = [{"inputUrl": "https://www.instagram.com/other/"}, {"url": "https://www.instagram.com/p/AAAAA/"}]
    serve_run(ACTOR, [*others, ITEM, {"input": "https://instagram.com/someone?igsh=1"}])
    assert [item.get("found", item.get("input")) for item in ask(clock).items] == [
        1,
        "https://instagram.com/someone?igsh=1",
    ]


@pytest.mark.parametrize(
    ("name", "item", "is_answer"),
    [
        ("someone", {"input": "Someone"}, True),
        ("someone", {"input": "@someone"}, True),
        ("someone", {"input": "someone_else"}, False),
        ("https://www.tiktok.com/@_/video/7524354453693802698", {"webVideoUrl": "x"}, False),
        (
            "https://www.tiktok.com/@_/video/7524354453693802698",
            {"input": "https://www.tiktok.com/@amberpixel_/video/7524354453693802698"},
            True,
        ),
        ("someone", {"input": ["someone"], "url": 7, "inputUrl": None}, False),
    ],
)
def test_an_item_names_the_question_in_any_spelling(name: str, item: dict[str, Any], is_answer: bool) -> None:
    question = Question(actor=ACTOR, target="t", input={}, names=(name,))
    assert question.is_answered_by(item) is is_answer


# --- an attempt that dies


def die_during_the_wait() -> responses.BaseResponse:
    """Make the process end when it asks about the run."""

    def die(request: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        raise Killed

    found = responses.CallbackResponse(responses.GET, RUN, callback=die)
    responses.add(found)
    return found


@responses.activate
def test_an_attempt_that_is_killed_while_the_run_goes_on_costs_one_run_in_all(clock: FakeClock) -> None:
    responses.post(RUNS, status=201, json=run_payload("READY"))
    dying = die_during_the_wait()
    memory = DictRunMemory()
    with pytest.raises(Killed):
        ask(clock, memory)

    responses.remove(dying)
    responses.get(RUN, json=run_payload("SUCCEEDED"))
    responses.get(ITEMS, json=[ITEM])
    clock.advance(3600)
    found = ask(clock, memory)
    assert found.items == (ITEM,)
    assert paid_calls() == 1
    # It is as old as the run and not as the attempt that reads it.
    assert found.looked_at == datetime(2026, 1, 15, 11, 59, 30, tzinfo=UTC)


@responses.activate
def test_twin_without_a_memory_the_second_attempt_pays_again(clock: FakeClock) -> None:
    responses.post(RUNS, status=201, json=run_payload("READY"))
    dying = die_during_the_wait()
    with pytest.raises(Killed):
        ask(clock, DictRunMemory())
    responses.remove(dying)
    responses.get(RUN, json=run_payload("SUCCEEDED"))
    responses.get(ITEMS, json=[ITEM])
    assert ask(clock, DictRunMemory()).items == (ITEM,)
    assert paid_calls() == 2


@responses.activate
def test_an_attempt_that_is_killed_after_reading_leaves_the_run_for_a_few_hours(clock: FakeClock) -> None:
    serve_run(ACTOR, [ITEM])
    memory = DictRunMemory()

    def die(found: Findings) -> Findings:
        raise Killed

    with pytest.raises(Killed):
        ask(clock, memory, read=die)
    assert memory.ttls[QUESTION.name] == READ_RUN_KEPT_S
    assert ask(clock, memory).items == (ITEM,)
    assert paid_calls() == 1


@pytest.mark.parametrize("lost", [requests.ReadTimeout(), requests.ConnectionError(), 503, 408])
@responses.activate
def test_a_start_whose_answer_got_lost_is_looked_for_by_its_input_before_anybody_pays_again(
    lost: Exception | int, clock: FakeClock
) -> None:
    if isinstance(lost, Exception):
        responses.post(RUNS, body=lost)
    else:
        responses.post(RUNS, status=lost, json={})
    memory = DictRunMemory()
    failure(clock, memory)
    assert paid_calls() == 1, "a start is never repeated within an attempt"
    assert memory.notes[QUESTION.name] == RunNote(begun_at=clock.now())
    assert memory.ttls[QUESTION.name] == UNREAD_RUN_KEPT_S

    others = [
        run_payload(run_id="other", startedAt="2026-01-15T11:59:59.000Z")["data"],
        run_payload(run_id="old", startedAt="2026-01-15T09:00:00.000Z")["data"],
        {"id": "odd"},
    ]
    listed = [*others, run_payload(startedAt="2026-01-15T12:00:01.000Z")["data"]]
    responses.get(RUNS, json={"data": {"items": listed}})
    responses.get(f"{API}/key-value-stores/other-store/records/INPUT", json={"directUrls": ["elsewhere"]})
    with_defaults = {**QUESTION.input, "proxy": {"useApifyProxy": True}}
    responses.get(f"{API}/key-value-stores/run1-store/records/INPUT", json=with_defaults)
    responses.get(RUN, json=run_payload("SUCCEEDED"))
    responses.get(ITEMS, json=[ITEM])
    clock.advance(3600)
    assert ask(clock, memory).items == (ITEM,)
    assert paid_calls() == 1
    search = next(
        call.request for call in responses.calls if str(call.request.url).startswith(f"{RUNS}?limit")
    )
    assert parse_qs(urlsplit(str(search.url)).query)["startedAfter"] == ["2026-01-15T11:58:00.000Z"]


@responses.activate
def test_a_start_that_left_no_run_behind_is_made_anew(clock: FakeClock) -> None:
    memory = DictRunMemory({QUESTION.name: RunNote(begun_at=clock.now() - timedelta(hours=1))})
    responses.get(RUNS, json={"data": {"items": []}})
    serve_run(ACTOR, [ITEM], run_id="run2")
    assert ask(clock, memory).items == (ITEM,)
    assert paid_calls() == 1


@responses.activate
def test_a_run_that_apify_has_deleted_is_made_anew(clock: FakeClock) -> None:
    memory = DictRunMemory({QUESTION.name: RunNote(begun_at=clock.now(), run_id="gone")})
    responses.get(f"{API}/actor-runs/gone", status=404, json={"error": {"type": "record-not-found"}})
    serve_run(ACTOR, [ITEM])
    assert ask(clock, memory).items == (ITEM,)
    assert memory.notes[QUESTION.name].run_id == "run1"


@responses.activate
def test_an_earlier_run_that_found_nothing_gives_way_to_one_new_run(clock: FakeClock) -> None:
    memory = DictRunMemory({QUESTION.name: RunNote(begun_at=clock.now(), run_id="empty")})
    responses.get(f"{API}/actor-runs/empty", json=run_payload("FAILED", "empty"))
    responses.get(f"{API}/datasets/empty-dataset/items", json=[])
    serve_run(ACTOR, [])
    assert failure(clock, memory).reason == "empty_dataset"
    assert paid_calls() == 1


@responses.activate
def test_what_says_nothing_about_the_target_is_not_read_twice(clock: FakeClock) -> None:
    def misread(found: Findings) -> Findings:
        raise FetchFailed("words", reason="actor_error")

    serve_run(ACTOR, [ITEM])
    memory = DictRunMemory()
    assert failure(clock, memory, read=misread).reason == "actor_error"
    assert memory.notes == {}


@responses.activate
def test_a_verdict_is_kept_for_the_case_that_nobody_could_store_it(clock: FakeClock) -> None:
    def gone(found: Findings) -> Findings:
        raise TargetGone("words", reason="actor_not_found")

    serve_run(ACTOR, [ITEM])
    memory = DictRunMemory()
    for _ in range(2):
        with pytest.raises(TargetGone):
            ask(clock, memory, read=gone)
    assert paid_calls() == 1


class AwayMemory(DictRunMemory):
    """A store that cannot be asked, from the `nth` question on."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self.left = nth

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise RetryableError("away")

    def recall(self, question: str) -> RunNote | None:
        self._count()
        return super().recall(question)

    def keep(self, question: str, note: RunNote, *, ttl_s: int) -> None:
        self._count()
        super().keep(question, note, ttl_s=ttl_s)


@pytest.mark.parametrize("memory", [AwayMemory(0), AwayMemory(1), NoRunMemory()])
@responses.activate
def test_without_the_memory_nobody_pays(memory: RunMemory, clock: FakeClock) -> None:
    with pytest.raises(RetryableError):
        ask(clock, memory)
    assert len(responses.calls) == 0


@responses.activate
def test_a_memory_that_goes_away_after_the_payment_does_not_lose_the_result(clock: FakeClock) -> None:
    serve_run(ACTOR, [ITEM])
    assert ask(clock, AwayMemory(2)).items == (ITEM,)


# --- refusals


@pytest.mark.parametrize(
    ("case", "error", "reason"),
    [
        ("invalid_input", FetchFailed, "misconfigured"),
        ("run_failed", FetchFailed, "run_failed"),
        ("run_timed_out", FetchFailed, "http_408"),
        ("bad_token", FetchFailed, "misconfigured"),
        ("no_credit", CreditExhausted, "credit_exhausted"),
        ("monthly_limit", CreditExhausted, "credit_exhausted"),
        ("actor_memory_limit", FetchFailed, "rate_limited"),
        ("not_rented", FetchFailed, "misconfigured"),
        ("actor_missing", FetchFailed, "misconfigured"),
        ("rate_limited", FetchFailed, "rate_limited"),
    ],
)
@responses.activate
def test_every_known_refusal_has_its_meaning(
    case: str, error: type[FetchFailed], reason: str, clock: FakeClock
) -> None:
    entry = error_case("apify/errors.json", case)
    responses.post(RUNS, status=entry["status"], body=body_of(entry), content_type="application/json")
    memory = DictRunMemory()
    caught = failure(clock, memory)
    assert type(caught) is error
    assert caught.reason == reason
    assert len(responses.calls) == 1
    # Only an answer that may hide a run leaves a trace.
    assert bool(memory.notes) is (entry["status"] == 408)
    if isinstance(caught, CreditExhausted):
        assert caught.source == "apify"


@pytest.mark.parametrize(
    ("status", "body", "content_type", "reason"),
    [
        (402, b"", "text/plain", "credit_exhausted"),
        (402, b'{"error": {"type": "concurrent-runs-limit-exceeded"}}', "application/json", "rate_limited"),
        (402, b'{"error": {"type": "x402-payment-required"}}', "application/json", "credit_exhausted"),
        (403, b'{"error": {"type": "platform-feature-disabled"}}', "application/json", "misconfigured"),
        (400, b'{"error": []}', "application/json", "http_400"),
        (200, b"<!DOCTYPE html><title>Apify</title>", "text/html", "unexpected_html"),
        (200, b"", "application/json", "unexpected_shape"),
        (201, b"[]", "application/json", "unexpected_shape"),
        (201, b'{"data": {"id": "a/b", "status": "READY"}}', "application/json", "unexpected_shape"),
        (502, b"", "text/plain", "http_502"),
    ],
)
@responses.activate
def test_an_answer_that_says_nothing_about_the_run_is_an_error(
    status: int, body: bytes, content_type: str, reason: str, clock: FakeClock
) -> None:
    responses.post(RUNS, status=status, body=body, content_type=content_type)
    assert failure(clock).reason == reason
    assert paid_calls() == 1


@responses.activate
def test_a_dataset_that_is_no_list_is_an_error_and_the_run_is_kept(clock: FakeClock) -> None:
    serve_run(ACTOR, {"error": {}})
    memory = DictRunMemory()
    assert failure(clock, memory).reason == "unexpected_shape"
    assert memory.notes[QUESTION.name].run_id == "run1"


@responses.activate
def test_no_failure_and_no_log_shows_the_key(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    responses.post(RUNS, body=requests.ConnectionError("Authorization: Bearer apify-secret"))
    with caplog.at_level(logging.DEBUG):
        error = failure(clock)
    told = "".join(traceback.format_exception(error)) + caplog.text
    assert "connection was refused or broke" in told
    assert "apify-secret" not in told


# --- details


def test_a_recorded_run_is_read(clock: FakeClock) -> None:
    run = read_run(sample_json("apify/run.json"))
    assert (run.id, run.status, run.is_over) == ("oZlOTbfIWlqY5ePF6", "SUCCEEDED", True)
    assert run.default_dataset_id == "YPFQNKHrBLp4uqJbw"
    assert run.finished_at == datetime(2025, 8, 13, 5, 14, 38, 668_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        (
            "https://api.apify.com/v2/key-value-stores/aB1/records/a-b_c.vtt",
            "/key-value-stores/aB1/records/a-b_c.vtt",
        ),
        ("https://api.apify.com/v2/key-value-stores/aB1/records/../../x", None),
        ("https://api.apify.com.evil.io/v2/key-value-stores/a/records/b", None),
        ("https://api.apify.com/v2/acts/a/runs?x=/key-value-stores/a/records/b", None),
    ],
)
def test_only_records_at_apify_are_asked_with_the_key(url: str, path: str | None) -> None:
    assert record_path(url) == path
