"""The results of a run: how they are kept, and the table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from bench.entries import Entry
from bench.machine import machine, versions

RESULTS = Path(__file__).parent / "results.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What came of an entry: `details` as it printed them, or `error`. `load_average` is before and after."""

    entry: Entry
    measured_at: datetime
    took_s: float
    load_average: tuple[float, float]
    details: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    @classmethod
    def of(cls, entry: Entry, *, took_s: float, load_average: tuple[float, float], printed: str) -> Result:
        """Take what an entry has printed; an error when there are no figures in it."""
        details: Any = {}
        error = None
        try:
            details = json.loads(printed.strip().rpartition("\n")[2])
            for figure in entry.figures:
                figure.value_in(details)
        except (LookupError, TypeError, ValueError) as exc:
            error = f"the figures cannot be read: {exc!r}"
        return cls(
            entry=entry,
            measured_at=datetime.now(UTC),
            took_s=took_s,
            load_average=load_average,
            details={} if error else details,
            error=error,
        )

    @classmethod
    def failed(cls, entry: Entry, *, took_s: float, load_average: tuple[float, float], error: str) -> Result:
        """What came of an entry that did not end well."""
        return cls(
            entry=entry,
            measured_at=datetime.now(UTC),
            took_s=took_s,
            load_average=load_average,
            error=error,
        )

    def to_json(self) -> dict[str, Any]:
        """The form in which it is kept; the figures come first."""
        kept: dict[str, Any] = {"measured_at": self.measured_at.isoformat(timespec="seconds")}
        if self.error is not None:
            return kept | {"error": self.error}
        figures = [
            {
                "name": figure.name,
                "value": (value := figure.value_in(self.details)),
                "unit": figure.unit,
                "asked": figure.asked,
                "is_met": figure.is_met_by(value),
            }
            for figure in self.entry.figures
        ]
        return kept | {
            "took_s": round(self.took_s, 1),
            "load_average": [round(each, 2) for each in self.load_average],
            "figures": figures,
            "details": self.details,
        }


def keep(results: Sequence[Result], file: Path = RESULTS) -> None:
    """Write the results. Entries that this run has not measured stay as they were on the same machine."""
    here = machine()
    earlier = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    entries = earlier.get("entries", {}) if earlier.get("machine") == here else {}
    entries |= {result.entry.name: result.to_json() for result in results}
    kept = {"machine": here, "versions": versions(), "entries": entries}
    file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def table_of(results: Sequence[Result]) -> Table:
    """The table for people: a line for each figure, one for each entry that failed."""
    here = machine()
    table = Table(title=f"{here['cores']} cores, {here['processor']}, {here['memory_gib']} GiB")
    for name in ("entry", "figure"):
        table.add_column(name)
    for name in ("measured", "asked for"):
        table.add_column(name, justify="right")
    for result in results:
        table.add_section()
        name = result.entry.name
        if result.error is not None:
            table.add_row(name, Text(f"failed: {result.error}", style="bold red"), "", "")
            continue
        for figure in result.entry.figures:
            value = figure.value_in(result.details)
            style = "" if figure.is_met_by(value) else "red"
            table.add_row(
                name, figure.name, Text(f"{_shown(value)} {figure.unit}".strip(), style=style), figure.asked
            )
            name = ""
    return table


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
