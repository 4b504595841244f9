"""What the jobs of the last hours got done, hour by hour, from what they say of themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from workers.jobs.record import JobState
from workers.jobs.service import Job
from workers.social_recording.job_kinds import RECONCILE, RETRY

HOURS = 24


@dataclass(kw_only=True)
class HourOfJobs:
    """The jobs that ended in the hour from `start` on. Dry runs did nothing and count nothing."""

    start: datetime
    jobs: int = 0
    failed: int = 0
    tokens_recorded: int = 0
    urls_converged: int = 0
    urls_still_open: int = 0


def hours_of(jobs: Iterable[Job], now: datetime, hours: int = HOURS) -> list[HourOfJobs]:
    """The last `hours` hours, the present one included, oldest first."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    found = [HourOfJobs(start=this_hour - timedelta(hours=back)) for back in reversed(range(hours))]
    by_start = {hour.start: hour for hour in found}
    for job in jobs:
        if job.finished_at is None or not job.state.is_final:
            continue
        hour = by_start.get(job.finished_at.replace(minute=0, second=0, microsecond=0))
        if hour is not None:
            _add(hour, job)
    return found


def meta_of(job: Job) -> Mapping[str, object]:
    """What the job counted; empty for one that has not ended or failed."""
    meta = job.result.get("meta") if job.result else None
    return meta if isinstance(meta, Mapping) else {}


def without_rows(job: Job) -> Job:
    """The job without the rows of its result, for those who keep many."""
    return replace(job, result=None if job.result is None else {"meta": meta_of(job)})


def count_of(meta: Mapping[str, object], name: str) -> int:
    """One count; 0 where it is missing."""
    value = meta.get(name)
    return value if isinstance(value, int) else 0


def _add(hour: HourOfJobs, job: Job) -> None:
    meta = meta_of(job)
    if meta.get("dryRun"):
        return
    hour.jobs += 1
    hour.failed += job.state in (JobState.FAILED, JobState.LOST)
    match job.record.kind:
        case RECONCILE.name:
            hour.tokens_recorded += count_of(meta, "recorded")
        case RETRY.name:
            converged = count_of(meta, "converged")
            hour.urls_converged += converged
            hour.urls_still_open += max(0, count_of(meta, "processed") - converged)
