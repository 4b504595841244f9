"""When the schedule acts next. Pure: a crontab is only a set of minutes, hours and days, in UTC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, cast

from celery.schedules import crontab

DAYS_MAX = 366


class Crontab(Protocol):
    """What Celery's crontab holds once its text is read; its stubs do not say so."""

    minute: set[int]
    hour: set[int]
    day_of_week: set[int]
    day_of_month: set[int]
    month_of_year: set[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Upcoming:
    """One entry of the schedule and when it is sent next."""

    name: str
    task: str
    at: datetime


def upcoming(schedule: Mapping[str, Mapping[str, Any]], now: datetime) -> list[Upcoming]:
    """The entries of the schedule by the time at which each is sent next; one per task."""
    first: dict[str, Upcoming] = {}
    for name, entry in schedule.items():
        at = next_time(entry["schedule"], now)
        if at is None:
            continue
        known = first.get(entry["task"])
        if known is None or at < known.at:
            first[entry["task"]] = Upcoming(name=name, task=entry["task"], at=at)
    return sorted(first.values(), key=lambda each: each.at)


def next_time(when: object, now: datetime) -> datetime | None:
    """The first minute after `now` that a crontab names; None for none within a year, or no crontab."""
    if not isinstance(when, crontab):
        return None
    return next((moment for moment in _minutes(cast(Crontab, when), now) if moment > now), None)


def _minutes(when: Crontab, now: datetime) -> Iterator[datetime]:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for days in range(DAYS_MAX):
        day = midnight + timedelta(days=days)
        is_named = (
            day.month in when.month_of_year
            and day.day in when.day_of_month
            # Celery's week begins with Sunday as 0.
            and day.isoweekday() % 7 in when.day_of_week
        )
        if is_named:
            for hour in sorted(when.hour):
                for minute in sorted(when.minute):
                    yield day.replace(hour=hour, minute=minute)
