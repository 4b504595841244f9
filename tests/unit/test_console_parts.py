"""The console's pure parts: drawings, hours, the schedule, forms and words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.schedules import crontab, schedule
from werkzeug.datastructures import MultiDict

from app.console.charts import HEIGHT, WIDTH, round_top, stacked
from app.console.forms import FORMS, Control, Refused, body_of, key_of, request_of
from app.console.history_charts import chart_of_calls, chart_of_jobs, chart_of_paid_calls
from app.console.job_history import hours_of, meta_of, without_rows
from app.console.upcoming import next_time, upcoming
from app.console.wording import RULES, SENTENCES, ago, plainly, shortened, sign_of, span, spoken, tame
from celeryconfig import SCHEDULE
from workers.jobs.record import JobRecord, JobState
from workers.jobs.service import Job
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.explain import Rule
from workers.social_recording.job_kinds import RetryRequest
from workers.telemetry import HourOfCalls

NOW = datetime(2026, 1, 15, 12, 40, tzinfo=UTC)


def drawn(*rows: tuple[str, tuple[int, ...]]) -> Any:
    return stacked("t", axis="hour", description="d", series=("a", "b"), rows=rows)


@pytest.mark.parametrize(
    ("highest", "top"),
    [
        (0, 1),
        (1, 1),
        (3, 3),
        (5, 5),
        (6, 6),
        (11, 12),
        (21, 30),
        (99, 100),
        (101, 120),
        (4_999_999, 5_000_000),
    ],
)
def test_a_scale_ends_at_a_number_that_reads_well(highest: int, top: int) -> None:
    assert round_top(highest) == top


def test_bars_stand_on_each_other_and_none_leaves_the_drawing() -> None:
    chart = drawn(("09:00", (3, 1)), ("10:00", (0, 0)), ("11:00", (10, 0)))
    first, empty, last = chart.stacks
    assert [bar.tone for bar in first.bars] == [0, 1]
    lower, upper = first.bars
    assert lower.y + lower.height == pytest.approx(HEIGHT)
    assert upper.y + upper.height == pytest.approx(lower.y)
    assert empty.bars == ()
    assert last.bars[0].y == pytest.approx(0)
    assert last.x + last.width == pytest.approx(WIDTH, abs=0.1)
    assert chart.totals == (13, 1)
    assert not chart.is_empty


def test_a_chart_without_numbers_says_so() -> None:
    assert drawn(("09:00", (0, 0))).is_empty
    assert drawn().is_empty


def job(
    kind: str,
    meta: dict[str, object],
    *,
    ended: datetime | None = NOW,
    state: JobState = JobState.SUCCEEDED,
) -> Job:
    record = JobRecord(
        id="j",
        kind=kind,
        request={},
        created_at=NOW - timedelta(hours=1),
        expires_at=NOW,
        read_at=NOW,
        finished_at=ended,
    )
    return Job(record=record, state=state, result={"data": [], "meta": meta})


def test_jobs_are_counted_in_the_hour_in_which_they_ended() -> None:
    earlier = NOW - timedelta(hours=2)
    jobs = [
        job("social.reconcile", {"recorded": 5}),
        job("social.reconcile", {"recorded": 2}, ended=earlier),
        job("social.retry", {"processed": 9, "converged": 6}, ended=NOW - timedelta(minutes=39)),
        job("social.retry", {"processed": 3, "converged": 3}, ended=NOW - timedelta(minutes=41)),
    ]
    hours = hours_of(jobs, NOW, 3)
    assert [hour.start.hour for hour in hours] == [10, 11, 12]
    assert [hour.tokens_recorded for hour in hours] == [2, 0, 5]
    assert [hour.urls_converged for hour in hours] == [0, 3, 6]
    assert [hour.urls_still_open for hour in hours] == [0, 0, 3]
    assert [hour.jobs for hour in hours] == [1, 1, 2]


def test_dry_runs_running_and_old_jobs_count_nothing() -> None:
    jobs = [
        job("social.reconcile", {"recorded": 5, "dryRun": True}),
        job("social.reconcile", {"recorded": 5}, state=JobState.RUNNING, ended=None),
        job("social.reconcile", {"recorded": 5}, ended=NOW - timedelta(hours=30)),
        job("social.reconcile", {"skipped": "already running"}),
    ]
    hours = hours_of(jobs, NOW)
    assert sum(hour.tokens_recorded for hour in hours) == 0
    assert sum(hour.jobs for hour in hours) == 1


def test_what_is_not_known_is_not_drawn() -> None:
    assert chart_of_jobs([], NOW) is None
    assert chart_of_calls([]) is None
    quiet = HourOfCalls(at=NOW, calls={}, paid={})
    assert chart_of_calls([quiet]) is None
    assert chart_of_paid_calls([HourOfCalls(at=NOW, calls={"web": 3}, paid={"web": 0})]) is None


def test_calls_are_drawn_by_source_the_busiest_first() -> None:
    hours = [
        HourOfCalls(at=NOW - timedelta(hours=1), calls={"web": 2, "github": 9}, paid={}),
        HourOfCalls(at=NOW, calls={"web": 1, "apify": 4}, paid={"apify": 4}),
    ]
    chart = chart_of_calls(hours)
    assert chart is not None
    assert (chart.series, chart.totals) == (("github", "apify", "web"), (9, 4, 3))
    assert [stack.values for stack in chart.stacks] == [(9, 0, 2), (0, 4, 1)]
    paid = chart_of_paid_calls(hours)
    assert paid is not None
    assert (paid.series, paid.totals) == (("apify",), (4,))


@pytest.mark.parametrize(("sources", "series"), [(8, 8), (9, 8), (30, 8)])
def test_many_sources_share_the_last_colour(sources: int, series: int) -> None:
    calls = {f"s{number:02}": 100 - number for number in range(sources)}
    chart = chart_of_calls([HourOfCalls(at=NOW, calls=calls, paid={})])
    assert chart is not None
    assert len(chart.series) == series
    assert sum(chart.totals) == sum(calls.values())
    assert (chart.series[-1] == "others") is (sources > 8)


def test_the_history_of_jobs_keeps_their_counts_and_not_their_rows() -> None:
    ended = job("social.retry", {"converged": 3})
    kept = without_rows(replace(ended, result={"data": [{"url": "u"}], "meta": {"converged": 3}}))
    assert kept.result == {"meta": {"converged": 3}}
    assert meta_of(kept) == meta_of(ended)
    assert without_rows(replace(ended, result=None)).result is None


@pytest.mark.parametrize(
    ("when", "now", "at"),
    [
        (crontab(minute=7), NOW, datetime(2026, 1, 15, 13, 7, tzinfo=UTC)),
        (crontab(minute=7), NOW.replace(minute=6, second=59), datetime(2026, 1, 15, 12, 7, tzinfo=UTC)),
        (crontab(minute=7), NOW.replace(minute=7), datetime(2026, 1, 15, 13, 7, tzinfo=UTC)),
        (crontab(hour=2, minute=30), NOW, datetime(2026, 1, 16, 2, 30, tzinfo=UTC)),
        (crontab(hour=2, minute=30, day_of_week="sun"), NOW, datetime(2026, 1, 18, 2, 30, tzinfo=UTC)),
        (crontab(hour=0, minute=0, day_of_month=31), NOW, datetime(2026, 1, 31, tzinfo=UTC)),
        (crontab(hour=0, minute=0, day_of_month=29, month_of_year=2), NOW, None),
        (schedule(60), NOW, None),
    ],
)
def test_the_next_time_of_a_crontab_is_the_first_after_now(
    when: object, now: datetime, at: datetime | None
) -> None:
    assert next_time(when, now) == at


def test_each_task_of_the_schedule_is_named_once_by_its_next_time() -> None:
    found = upcoming(SCHEDULE, NOW)
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert {each.task for each in found} == {entry["task"] for entry in SCHEDULE.values()}
    assert len({each.task for each in found}) == len(found)
    assert all(each.at > NOW for each in found)


def test_what_is_left_empty_is_left_out_of_the_request() -> None:
    filled = MultiDict(
        [("limit", ""), ("statuses", "error"), ("statuses", "blocked"), ("tokenAddresses", " ")]
    )
    assert body_of(FORMS["retry"], filled, dry_run=False) == {"statuses": ["error", "blocked"]}
    assert body_of(FORMS["retry"], MultiDict(), dry_run=True) == {"dryRun": True}


def test_numbers_times_and_lines_are_read_as_the_api_wants_them() -> None:
    filled = MultiDict([("minIntervalMinutes", "0"), ("limit", " 7 "), ("tokenAddresses", "a\r\n b\n\n")])
    assert body_of(FORMS["retry"], filled, dry_run=False) == {
        "minIntervalMinutes": 0,
        "limit": 7,
        "tokenAddresses": ["a", "b"],
    }
    filled = MultiDict([("startDate", "2026-01-01T00:00"), ("endDate", "2026-01-02T00:00:30")])
    body = body_of(FORMS["reconcile"], filled, dry_run=False)
    assert body == {"startDate": "2026-01-01T00:00Z", "endDate": "2026-01-02T00:00:30Z"}
    request = request_of(FORMS["reconcile"], body)
    assert request.model_dump()["end_date"] == datetime(2026, 1, 2, 0, 0, 30, tzinfo=UTC)


def test_what_the_api_refuses_is_told_at_the_field() -> None:
    with pytest.raises(Refused) as caught:
        request_of(
            FORMS["retry"], {"limit": "many", "tokenAddresses": ["So1", "!"], "minIntervalMinutes": -1}
        )
    words = caught.value.by_field
    assert set(words) == {"limit", "tokenAddresses", "minIntervalMinutes"}
    assert words["tokenAddresses"].startswith("number 1: ")


@pytest.mark.parametrize("slug", FORMS)
def test_every_field_of_a_form_is_one_of_the_request(slug: str) -> None:
    form = FORMS[slug]
    aliases = {field.alias for field in form.request.model_fields.values()}
    assert {field.name for field in form.fields} <= aliases
    assert "dryRun" in aliases
    for field in form.fields:
        if field.control in (Control.ONE_OF, Control.SOME_OF):
            assert field.choices


def test_a_form_sent_twice_is_one_job_and_other_values_are_another() -> None:
    body = {"limit": 1}
    assert key_of("a", body) == key_of("a", dict(body))
    assert len({key_of("a", body), key_of("b", body), key_of("a", {"limit": 2})}) == 3
    assert len(key_of("0b6f3a52-6d4e-4a60-9d0c-8a3f5f1f2c11", body)) <= 200


def test_the_empty_retry_form_asks_for_what_an_empty_body_asks_for() -> None:
    assert request_of(FORMS["retry"], {}) == RetryRequest()


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (0.25, "250 ms"),
        (1, "1 s"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (7265, "2 h 1 min"),
        (timedelta(days=3, hours=4, minutes=5), "3 d 4 h"),
    ],
)
def test_a_span_is_told_in_its_two_largest_units(length: timedelta | float, words: str) -> None:
    assert span(length) == words


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (NOW - timedelta(seconds=90), "1 min ago"),
        (NOW + timedelta(hours=2, minutes=5), "in 2 h"),
        (NOW, "now"),
        (NOW - timedelta(days=400), "400 d ago"),
    ],
)
def test_a_time_is_told_by_its_distance(moment: datetime, words: str) -> None:
    assert ago(moment, NOW) == words


def test_values_read_plainly() -> None:
    assert plainly(None) == plainly([]) == plainly({}) == "none"
    assert plainly(12345) == "12\u202f345"
    assert plainly(True) == "yes"
    assert plainly({"ok": 15, "notFound": 1}) == "15 ok, 1 not found"
    assert plainly(["error", "blocked"]) == "error, blocked"
    assert plainly([{"a": 1}]) == '[{"a": 1}]'
    assert plainly("a\u202eb\x1b[31m") == "a b [31m"


def test_names_of_strangers_are_tamed() -> None:
    assert tame("<b>\u202e&") == "<bdi>&lt;b&gt; &amp;</bdi>"


def test_names_of_the_api_are_spoken() -> None:
    assert spoken("candidateUrls") == "candidate URLs"
    assert spoken("skippedByInterval") == "skipped by interval"


def test_a_long_address_is_shown_by_its_ends() -> None:
    assert shortened("So11111111111111111111111111111111111111112") == "So1111…111112"
    assert shortened("short") == "short"


def test_every_status_and_state_has_a_sign_of_its_own_beside_its_word() -> None:
    for words in (FetchStatus, JobState):
        signs = [sign_of(word) for word in words]
        assert ("·", "calm") not in signs
        glyphs = [glyph for glyph, _ in signs]
        assert len(set(glyphs)) == len(glyphs)


def test_every_rule_has_a_name_and_a_sentence() -> None:
    assert RULES.keys() == SENTENCES.keys() == set(Rule)
