"""What other people's answers may hold in any place, and how to put it there. For tests of parsers."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from workers.social_recording.object_graph import SocialObjectGraph

NOW = datetime(2026, 1, 15, tzinfo=UTC)
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "word",
    "half \ud800 pair",
    "NUL \0",
    [],
    [None],
    {},
    {"a": 1},
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in decoded JSON, as the keys and indexes that lead there."""
    if path:
        yield path
    steps: Any = ()
    if isinstance(value, dict):
        steps = value.items()
    elif isinstance(value, list):
        steps = enumerate(value)
    for step, inner in steps:
        yield from places(inner, (*path, step))


def with_value(payload: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """Decoded JSON with another value in one place. What does not lead there is shared with `payload`."""
    if not path:
        return odd
    step, *rest = path
    changed = copy.copy(payload)
    changed[step] = with_value(payload[step], tuple(rest), odd)
    return changed


def is_storable(graph: SocialObjectGraph) -> bool:
    """Whether every text can be written as UTF-8 and every number fits 64 bits."""
    json.dumps(graph, ensure_ascii=False, default=_fields_or_text).encode()
    numbers = [n for group in graph.groups for metrics in group.metrics.values() for n in metrics.values()]
    return all(0 <= number < 2**63 for number in numbers)


def _fields_or_text(value: object) -> object:
    if not dataclasses.is_dataclass(value):
        return str(value)
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
