"""The words of which the documents are made: names, times and places, with their examples.

Keys are camelCase, times are UTC with `Z`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from workers.clock import to_iso
from workers.services import JOB_KINDS

JOB_KIND_NAMES = sorted(JOB_KINDS)
ERROR_CODE = r"[A-Z][A-Z_]*"
_TIME = {"type": "string", "format": "date-time", "examples": ["2026-01-31T12:00:00.000Z"]}
_EXAMPLE_ID = "0b6f3a52-6d4e-4a60-9d0c-8a3f5f1f2c11"
EXAMPLE_ADDRESS = "So11111111111111111111111111111111111111112"
EXAMPLE_SIGNATURE = "5gJFZweW8EsTQCNWH2EyjJA3vm2VcT91vQtrNAcx7YXeq4zHmqXzSqxxnhb9GxiLvecWJJZv8xxW6opHSnJME643"
EXAMPLE_OBJECT_ID = "65a1b2c3d4e5f60718293a4b"

Time = Annotated[datetime, PlainSerializer(to_iso, return_type=str), WithJsonSchema(_TIME)]
JobID = Annotated[str, Field(json_schema_extra={"format": "uuid"}, examples=[_EXAMPLE_ID])]
KindName = Annotated[str, Field(json_schema_extra={"enum": list(JOB_KIND_NAMES)})]
Code = Annotated[str, Field(pattern=f"^{ERROR_CODE}$", description="stable; made for programs")]
Path = Annotated[str, Field(json_schema_extra={"format": "uri-reference"})]
Address = Annotated[str, Field(description="the mint's public key in base58", examples=[EXAMPLE_ADDRESS])]
ObjectID = Annotated[str, Field(pattern="^[0-9a-f]{24}$", examples=[EXAMPLE_OBJECT_ID])]
Label = Annotated[
    str,
    Field(
        description="how it is called now: a handle, a title, a name, else a URL", examples=["nightharbor"]
    ),
]
PlatformKey = Annotated[str, Field(description="the platform's own lasting id", examples=["44196397"])]
EntryURL = Annotated[
    str, Field(description="the token's URL that leads there", examples=["https://x.com/nightharbor"])
]
Depth = Annotated[
    int, Field(ge=0, description="0 is what the URL itself shows, 1 what was reached through it")
]
LinkedAt = Annotated[Time, Field(description="when the link was made; the axis of `asOf`")]
AsOf = Annotated[Time, Field(description="the cut that was made; it includes its own instant")]


class Document(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    def to_json(self) -> dict[str, object]:
        """The document as it is sent; what was never set is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class PageMeta(Document):
    """Where the next page starts; null at the end."""

    cursor: str | None


class PageLinks(Document):
    """The next page, if there is one."""

    next: Path
