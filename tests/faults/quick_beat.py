"""The app of a beat that fires the hourly sweep every second: `celery -A tests.faults.quick_beat beat`."""

from __future__ import annotations

from datetime import timedelta

from celeryconfig import SCHEDULE
from workers.celery_app import create_celery
from workers.settings import read_settings

EVERY = timedelta(seconds=1)

app = create_celery(read_settings)
app.conf.beat_schedule = {
    name: {**SCHEDULE[name], "schedule": EVERY} for name in app.conf.beat_schedule if name == "retry-sweep"
}
