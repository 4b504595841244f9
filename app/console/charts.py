"""Charts as drawings made on the server: bars that stand on each other, one stack per stretch of time. Pure.

A drawing has no text in it, so that it may be stretched to any width; axes and legend are text around it, and
the same numbers stand in a table below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 1000.0, 160.0
GAP = 0.18
# What reads well at the top of a scale, times a power of ten: its half reads well too.
_TOPS = (1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One part of a stack, in the drawing's units from its upper left corner; `tone` counts the series."""

    x: float
    y: float
    width: float
    height: float
    tone: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """All of one stretch of time: its name, its values by series, and where it is touched."""

    label: str
    values: tuple[int, ...]
    x: float
    width: float
    bars: tuple[Bar, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """One drawing and the words around it: `top` is the number at its upper edge, `axis` what a stack is."""

    title: str
    axis: str
    description: str
    series: tuple[str, ...]
    stacks: tuple[Stack, ...]
    top: int

    @property
    def totals(self) -> tuple[int, ...]:
        """The sum of each series."""
        columns = zip(*(stack.values for stack in self.stacks), strict=True)
        return tuple(map(sum, columns)) if self.stacks else (0,) * len(self.series)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to see."""
        return not any(self.totals)


def stacked(
    title: str,
    *,
    axis: str,
    description: str,
    series: Sequence[str],
    rows: Sequence[tuple[str, Sequence[int]]],
) -> Chart:
    """Draw `rows` of a label and one number from 0 on per series, from left to right."""
    top = round_top(max((sum(values) for _, values in rows), default=0))
    pitch = WIDTH / max(1, len(rows))
    stacks = tuple(
        _stack(label, values, number * pitch, pitch, top) for number, (label, values) in enumerate(rows)
    )
    return Chart(
        title=title, axis=axis, description=description, series=tuple(series), stacks=stacks, top=top
    )


def round_top(highest: int) -> int:
    """The smallest number that reads well and is not below `highest`."""
    if highest <= 5:
        return max(1, highest)
    power = 10.0 ** math.floor(math.log10(highest))
    return round(next(step * power for step in _TOPS if step * power >= highest))


def _stack(label: str, values: Sequence[int], x: float, pitch: float, top: int) -> Stack:
    bars, floor = [], HEIGHT
    for tone, value in enumerate(values):
        height = HEIGHT * value / top
        floor -= height
        if value:
            bars.append(
                Bar(
                    x=round(x + pitch * GAP / 2, 2),
                    y=round(floor, 2),
                    width=round(pitch * (1 - GAP), 2),
                    height=round(height, 2),
                    tone=tone,
                )
            )
    return Stack(label=label, values=tuple(values), x=round(x, 2), width=round(pitch, 2), bars=tuple(bars))
