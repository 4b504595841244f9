"""Reads foreign JSON into models: strict about what must be there, forgiving about the rest. Pure.

A field that must be there and is not makes the whole answer `unexpected_shape`. A field that may be missing
and has an impossible value counts as missing, so that one odd field does not lose the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from workers.errors import FetchFailed

# The store's largest integer.
_INT64_MAX = 2**63 - 1
# The year 2262; later ones are no times of anything that was published.
_UNIX_SECONDS_MAX = 9_214_646_400


class Foreign(BaseModel):
    """A part of a foreign answer; keys that we do not name are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def _to_text(value: object) -> object:
    """Ids come as numbers or as text and are text for us."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _to_unicode(value: object) -> object:
    """Half a surrogate pair is legal in JSON and illegal in every store."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _or_none(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    try:
        return handler(value)
    except ValidationError:
        return None


def or_empty(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    """For `WrapValidator`: what cannot be read counts as an empty list."""
    try:
        return handler(value)
    except ValidationError:
        return ()


def _only_readable(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    if not isinstance(value, list | tuple):
        return ()
    kept: list[object] = []
    for item in value:
        with suppress(ValidationError):
            kept += handler([item])
    return tuple(kept)


def _no_flag(value: object) -> object:
    """A yes or no is no number, though Python counts it as one."""
    return None if isinstance(value, bool) else value


def _of_unix_seconds(value: object) -> object:
    """A number of seconds becomes a time; anything else is no time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _UNIX_SECONDS_MAX:
        return None
    return datetime.fromtimestamp(value, UTC)


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(microsecond=moment.microsecond // 1000 * 1000)


# For a part of an answer that may be missing: what cannot be read counts as None ...
OR_NONE = WrapValidator(_or_none)
# ... and of a list, the items that can be read are the list.
ONLY_READABLE = WrapValidator(_only_readable)

_Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]

Id = Annotated[str, BeforeValidator(_to_text), Field(pattern=r"^[0-9A-Za-z_-]{1,100}$")]
# A login or handle, in every platform's letters; it becomes a part of a URL.
Name = Annotated[str, Field(pattern=r"^[0-9A-Za-z_.\[\]-]{1,100}$")]
Text = Annotated[str, BeforeValidator(_to_unicode)]
MaybeId = Annotated[Id | None, WrapValidator(_or_none)]
MaybeText = Annotated[Text | None, WrapValidator(_or_none)]
MaybeTexts = Annotated[tuple[Text, ...], WrapValidator(or_empty)]
MaybeBool = Annotated[bool | None, WrapValidator(_or_none)]
MaybeTime = Annotated[_Moment | None, WrapValidator(_or_none)]
MaybeUnixTime = Annotated[_Moment | None, BeforeValidator(_of_unix_seconds)]
MaybeCount = Annotated[
    Annotated[int, BeforeValidator(_no_flag), Field(ge=0, le=_INT64_MAX)] | None,
    WrapValidator(_or_none),
]
# A balance of votes, which may be below zero.
MaybeScore = Annotated[
    Annotated[int, BeforeValidator(_no_flag), Field(ge=-_INT64_MAX, le=_INT64_MAX)] | None,
    WrapValidator(_or_none),
]
MaybeShare = Annotated[
    Annotated[float, BeforeValidator(_no_flag), Field(ge=0, le=1)] | None,
    WrapValidator(_or_none),
]

_Model = TypeVar("_Model", bound=BaseModel)


def read_as(model: type[_Model], payload: object, source: str) -> _Model:
    """Read `payload`.

    Raises `FetchFailed` (`unexpected_shape`) naming the first place that is not as it should be.
    """
    try:
        return model.model_validate(payload)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the answer"
        raise FetchFailed(
            f"{source} answered in another shape: {place}: {first['msg']}", reason="unexpected_shape"
        ) from exc


def present(facts: Mapping[str, int | float | None]) -> dict[str, int | float]:
    """The counts that the platform gave; a missing one means unknown, never 0."""
    return {name: value for name, value in facts.items() if value is not None}
