"""What goes over the wire: the answers' shapes, from which both the answers and the specification are made.

Keys are camelCase, times are UTC with `Z`. One envelope holds jobs of every kind.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema

from workers.clock import to_iso
from workers.jobs.record import JobState
from workers.services import JOB_KINDS

JOB_KIND_NAMES = sorted(JOB_KINDS)
ERROR_CODE = r"[A-Z][A-Z_]*"
_TIME = {"type": "string", "format": "date-time", "examples": ["2026-01-31T12:00:00.000Z"]}
_EXAMPLE_ID = "0b6f3a52-6d4e-4a60-9d0c-8a3f5f1f2c11"

Time = Annotated[datetime, PlainSerializer(to_iso, return_type=str), WithJsonSchema(_TIME)]
JobID = Annotated[str, Field(json_schema_extra={"format": "uuid"}, examples=[_EXAMPLE_ID])]
KindName = Annotated[str, Field(json_schema_extra={"enum": list(JOB_KIND_NAMES)})]
Code = Annotated[str, Field(pattern=f"^{ERROR_CODE}$", description="stable; made for programs")]
Path = Annotated[str, Field(json_schema_extra={"format": "uri-reference"})]


class _Document(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    def to_json(self) -> dict[str, object]:
        """The document as it is sent; what was never set is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class JobProgress(_Document):
    """How many targets of a job have ended, and of how many; the total is known once they are selected."""

    done: Annotated[int, Field(ge=0)]
    total: Annotated[int, Field(ge=0)] | None


class JobResult(_Document):
    """What a job returned: one row per target, and its counts."""

    data: list[dict[str, object]]
    meta: dict[str, object]


class JobResultMeta(_Document):
    """What a job returned without its rows, which may be hundreds."""

    meta: dict[str, object]


class JobError(_Document):
    """Why a job failed."""

    code: Code
    detail: str


class JobLinks(_Document):
    """Where to go from a job; `cancel` is there as long as the job can be cancelled."""

    self_path: Annotated[Path, Field(alias="self")]
    cancel: Path | SkipJsonSchema[None] = None


class _AnyJob(_Document):
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


class PageMeta(_Document):
    """Where the next page starts; null at the end."""

    cursor: str | None


class PageLinks(_Document):
    """The next page, if there is one."""

    next: Path


class JobList(_Document):
    """A page of jobs, newest first; `links` is there unless it is the last one."""

    data: list[JobInList]
    meta: PageMeta
    links: PageLinks | SkipJsonSchema[None] = None


class ProblemError(_Document):
    """One offending value: a place in the body (JSON pointer), a parameter, or a header."""

    pointer: Annotated[str, Field(examples=["/endDate"])] | SkipJsonSchema[None] = None
    parameter: Annotated[str, Field(examples=["limit"])] | SkipJsonSchema[None] = None
    header: Annotated[str, Field(examples=["Idempotency-Key"])] | SkipJsonSchema[None] = None
    detail: str
    code: str


class Problem(_Document):
    """An RFC 9457 problem. `title` is the phrase of the status; `code` says what happened."""

    type: Annotated[str, Field(json_schema_extra={"const": "about:blank"})]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    code: Code
    detail: str
    errors: Annotated[
        list[ProblemError] | SkipJsonSchema[None], Field(description="the offending values")
    ] = None
    job: Annotated[Job | SkipJsonSchema[None], Field(description="the job that ended with this problem")] = (
        None
    )
    checks: Annotated[
        dict[str, str] | SkipJsonSchema[None], Field(description="what is ready and what is not")
    ] = None


class Alive(_Document):
    """The process answers."""

    status: Annotated[str, Field(json_schema_extra={"const": "ok"})]


class Ready(_Document):
    """Everything that a job needs answers."""

    status: Annotated[str, Field(json_schema_extra={"const": "ok"})]
    checks: Annotated[dict[str, str], Field(examples=[{"redis": "ok", "mongodb": "ok", "workers": "ok"}])]
