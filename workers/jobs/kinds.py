"""What a job kind is. Each context states its own kinds; `workers.services` lists them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

RequestT = TypeVar("RequestT", bound=BaseModel)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobKind(Generic[RequestT]):
    """A type of run that a caller may ask for.

    `name` is what callers see, `task` the Celery task, `lease` the name of the lease that lets one job of
    this kind run at a time. `request_model` is the complete request, with every default filled in.
    """

    name: str
    task: str
    queue: str
    lease: str
    request_model: type[RequestT]
