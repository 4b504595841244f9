"""The charts of the last hours: what the jobs got done, and whom the workers asked for it. Pure.

What is not known is not drawn: a chart without numbers is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from app.console.charts import Chart, stacked
from app.console.job_history import hours_of
from workers.jobs.service import Job
from workers.telemetry import HourOfCalls

HOURS = 24
# The style sheet knows so many colours; the sources with the fewest calls share the last one.
SERIES_MAX = 8
OTHERS = "others"


def chart_of_jobs(jobs: Iterable[Job], now: datetime) -> Chart | None:
    """What the jobs recorded and converged, hour by hour."""
    chart = stacked(
        "Convergence, hour by hour",
        axis="hour",
        description="What the jobs of the last 24 hours recorded and converged, and what they tried in vain,"
        " by the hour in which they ended, in UTC.",
        series=("tokens recorded", "URLs converged", "URLs tried, still open"),
        rows=[
            (_label(hour.start), (hour.tokens_recorded, hour.urls_converged, hour.urls_still_open))
            for hour in hours_of(jobs, now, HOURS)
        ],
    )
    return None if chart.is_empty else chart


def chart_of_calls(hours: Sequence[HourOfCalls]) -> Chart | None:
    """Whom the workers asked, hour by hour."""
    return _by_source(
        "Calls by source, hour by hour",
        "Calls to the outside within the last 24 hours, by source and by the hour in UTC.",
        [(hour.at, hour.calls) for hour in hours],
    )


def chart_of_paid_calls(hours: Sequence[HourOfCalls]) -> Chart | None:
    """Who of them cost money, hour by hour."""
    return _by_source(
        "Paid calls by source, hour by hour",
        "Those of the calls within the last 24 hours that cost money, by source and by the hour in UTC.",
        [(hour.at, hour.paid) for hour in hours],
    )


def _by_source(
    title: str, description: str, hours: Sequence[tuple[datetime, Mapping[str, int]]]
) -> Chart | None:
    totals = Counter[str]()
    for _, calls in hours:
        totals.update(calls)
    named = [source for source, number in sorted(totals.items(), key=_most_first) if number]
    others = named[SERIES_MAX - 1 :] if len(named) > SERIES_MAX else []
    shown = named[: len(named) - len(others)]
    rows = [
        (
            _label(at),
            [
                *(calls.get(source, 0) for source in shown),
                *([sum(calls.get(source, 0) for source in others)] if others else []),
            ],
        )
        for at, calls in hours
    ]
    series = [*shown, OTHERS] if others else shown
    chart = stacked(title, axis="hour", description=description, series=series, rows=rows)
    return None if chart.is_empty else chart


def _most_first(row: tuple[str, int]) -> tuple[int, str]:
    return -row[1], row[0]


def _label(hour: datetime) -> str:
    return f"{hour:%H:%M}"
