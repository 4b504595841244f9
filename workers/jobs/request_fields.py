"""What the bodies of all job kinds have in common: their form on the wire, and fields that mean the same."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


def _without_fraction(value: object) -> object:
    """JSON knows one kind of number, so 20.0 is 20; text and booleans are not."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_without_fraction)
DryRun = Annotated[
    bool,
    Field(strict=True, description="say what would be done: no call to a platform, nothing written"),
]
DeadlineMs = Annotated[int, Field(ge=1000, le=300_000, strict=True), WHOLE]


class JobBody(BaseModel):
    """What a caller may ask for: camelCase on the wire, and no field that nobody knows."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
    )
