"""What went wrong, and whether the service is alive and ready."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from app.documents.jobs import Job
from app.documents.words import Code, Document


class ProblemError(Document):
    """One offending value: a place in the body (JSON pointer), a parameter, or a header."""

    pointer: Annotated[str, Field(examples=["/endDate"])] | SkipJsonSchema[None] = None
    parameter: Annotated[str, Field(examples=["limit"])] | SkipJsonSchema[None] = None
    header: Annotated[str, Field(examples=["Idempotency-Key"])] | SkipJsonSchema[None] = None
    detail: str
    code: str


class Problem(Document):
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


class Alive(Document):
    """The process answers."""

    status: Annotated[str, Field(json_schema_extra={"const": "ok"})]


class Ready(Document):
    """Everything that a job needs answers."""

    status: Annotated[str, Field(json_schema_extra={"const": "ok"})]
    checks: Annotated[dict[str, str], Field(examples=[{"redis": "ok", "mongodb": "ok", "workers": "ok"}])]
