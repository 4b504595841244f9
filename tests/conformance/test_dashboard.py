"""The dashboard asks only for what is exposed, and for everything that is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.api.metrics import GAUGES, STREAM_MESSAGES
from workers.telemetry_table import COUNTERS, HISTOGRAMS

LABELS = {
    **{f"{spec.name}_total": {label.name for label in spec.labels} for spec in COUNTERS},
    **{f"{spec.name}_bucket": {"le", *(label.name for label in spec.labels)} for spec in HISTOGRAMS},
    **{spec.name: set(spec.labels) for spec in GAUGES},
    f"{STREAM_MESSAGES}_total": {"fate"},
}
# Says how old another number is, which a graph shows by itself.
NOT_SHOWN = {"converge_urls_age_seconds"}
SUBJECTS = ("Jobs that ended", "Convergence rate", "Links by status", "Calls by source", "Calls by outcome")
SUBJECTS += ("Paid calls by source and outcome", "Lease waits", "Queue lengths", "Drift of the counters")


@pytest.fixture
def dashboard(checkout: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkout / "docs" / "grafana" / "converge.json").read_text())
    return found


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\bconverge_[a-z_]+", expression))


def test_every_expression_names_metrics_that_are_exposed(dashboard: dict[str, Any]) -> None:
    found = list(expressions(dashboard))
    assert len(found) > 20
    for expression in found:
        assert names_in(expression), expression
        assert names_in(expression) <= LABELS.keys(), expression


def test_every_label_in_an_expression_is_one_of_its_metrics(dashboard: dict[str, Any]) -> None:
    for expression in expressions(dashboard):
        allowed = set.union(*(LABELS[name] for name in names_in(expression)))
        grouped = re.findall(r"\bby \(([^)]*)\)", expression)
        used = {label.strip() for group in grouped for label in group.split(",")}
        used |= set(re.findall(r"[{,]\s*([a-z]+)\s*[=!]", expression))
        assert used <= allowed, expression


def test_every_metric_that_is_exposed_has_a_panel(dashboard: dict[str, Any]) -> None:
    shown = set().union(*map(names_in, expressions(dashboard)))
    assert LABELS.keys() - shown == NOT_SHOWN


def test_rates_are_taken_of_counters_alone(dashboard: dict[str, Any]) -> None:
    for expression in expressions(dashboard):
        for name in re.findall(r"(?:rate|increase)\((converge_[a-z_]+)", expression):
            assert name.endswith(("_total", "_bucket")), expression
        assert expression.count("(") == expression.count(")")


def test_the_panels_are_there_and_do_not_lie_on_each_other(dashboard: dict[str, Any]) -> None:
    assert dashboard["schemaVersion"] >= 39
    panels = dashboard["panels"]
    assert {panel["title"] for panel in panels} >= set(SUBJECTS)
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_no_source_of_data_is_named_but_the_one_that_is_chosen(dashboard: dict[str, Any]) -> None:
    uids = re.findall(r'"uid": "([^"]*)"', json.dumps(dashboard))
    assert set(uids) == {"${datasource}", "converge"}
