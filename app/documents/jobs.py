"""Jobs of every kind in one envelope."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from app.documents.words import Code, Document, JobID, KindName, PageLinks, PageMeta, Path, Time
from workers.jobs.record import JobState


class JobProgress(Document):
    """How many targets of a job have ended, and of how many; the total is known once they are selected.

    `counts` tells more where a kind has more to tell, in the words of its result's `meta`.
    """

    done: Annotated[int, Field(ge=0)]
    total: Annotated[int, Field(ge=0)] | None
    counts: (
        Annotated[dict[str, int], Field(examples=[{"pages": 3, "selected": 2500, "completed": 1200}])]
        | SkipJsonSchema[None]
    ) = None


class JobResult(Document):
    """What a job returned: one row per target, and its counts."""

    data: list[dict[str, object]]
    meta: dict[str, object]


class JobResultMeta(Document):
    """What a job returned without its rows, which may be hundreds."""

    meta: dict[str, object]


class JobError(Document):
    """Why a job failed."""

    code: Code
    detail: str


class JobLinks(Document):
    """Where to go from a job; `cancel` is there as long as the job can be cancelled."""

    self_path: Annotated[Path, Field(alias="self")]
    cancel: Path | SkipJsonSchema[None] = None


class _AnyJob(Document):
    id: JobID
    kind: KindName
    state: JobState
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    cancel_requested_at: Time | None
    request: Annotated[dict[str, object], Field(description="what runs, with every default filled in")]
    progress: JobProgress
    error: JobError | None
    links: JobLinks


class Job(_AnyJob):
    """One job of any kind."""

    result: JobResult | None


class JobInList(_AnyJob):
    """One job of a list: without the rows of its result."""

    result: JobResultMeta | None


class JobList(Document):
    """A page of jobs, newest first; `links` is there unless it is the last one."""

    data: list[JobInList]
    meta: PageMeta
    links: PageLinks | SkipJsonSchema[None] = None
