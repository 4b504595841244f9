"""Which platform-specific data is stored: JSON values under the platform's own names. Pure.

It is never queried, so a value that a document cannot hold is written in the nearest form that it can hold
instead of being refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

from workers.social_graph.stored_text import TEXT_MAX, clean_text, cut_text

StoredValue: TypeAlias = "str | int | float | bool | list[StoredValue] | dict[str, StoredValue] | None"

ModelT = TypeVar("ModelT", bound="DataclassInstance")

INT64_MAX = 2**63 - 1
DEPTH_MAX = 20


def stored_data(data: Mapping[str, object]) -> dict[str, StoredValue]:
    """The data as it is stored."""
    return _mapping(data, DEPTH_MAX)


def known_fields(model: type[ModelT], document: Mapping[str, Any]) -> ModelT:
    """The embedded document as its model; fields of a newer version are left out, so that the row is read."""
    names = {each.name for each in dataclasses.fields(model)}
    return model(**{name: value for name, value in document.items() if name in names})


def present_fields(**fields: object) -> dict[str, object]:
    """The fields that are known; an unknown one is left out, never stored as null."""
    return {name: value for name, value in fields.items() if value is not None}


def _mapping(data: Mapping[str, object], depth: int) -> dict[str, StoredValue]:
    stored = {_name(name): _value(value, depth - 1) for name, value in data.items()}
    stored.pop("", None)
    return stored


def _name(name: str) -> str:
    # A dot or a leading dollar sign in a field name makes the store read a path or an operator.
    return clean_text(str(name)).replace(".", "_").lstrip("$")


def _number(value: int | float) -> StoredValue:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if abs(value) <= INT64_MAX else _text(value)


def _value(value: object, depth: int) -> StoredValue:
    match value:
        case None | bool():
            return value
        case int() | float():
            return _number(value)
        case Mapping() if depth > 0:
            return _mapping(value, depth)
        case list() | tuple() if depth > 0:
            return [_value(item, depth - 1) for item in value]
        case _:
            return _text(value)


def _text(value: object) -> str | None:
    """The value in words; None for what Python cannot write down, such as lists a thousand deep."""
    try:
        text = str(value)
    except (RecursionError, ValueError):
        return None
    return cut_text(clean_text(text), TEXT_MAX)
