"""The base of the models of queries and headers: one schema for all requests, a new one for who asks."""

from __future__ import annotations

from app.api.jobs import JobHeaders, JobQuery
from app.request_part import RequestPart


class Page(RequestPart):
    """A query of its own, with a list, which is what the schema is looked at for."""

    kind: list[str] | None = None
    limit: int = 50


def test_the_schema_that_each_request_asks_for_is_made_once() -> None:
    assert Page.model_json_schema() is Page.model_json_schema()
    assert Page.model_json_schema()["properties"]["kind"]["anyOf"][0]["type"] == "array"


def test_each_model_has_its_own_schema() -> None:
    assert set(JobQuery.model_json_schema()["properties"]) == {"kind", "state", "limit", "cursor"}
    assert set(JobHeaders.model_json_schema()["properties"]) == {"If-None-Match"}


def test_a_schema_for_the_specification_may_be_changed_by_whoever_asked_for_it() -> None:
    Page.model_json_schema(mode="validation")["properties"].clear()
    assert set(Page.model_json_schema()["properties"]) == {"kind", "limit"}
