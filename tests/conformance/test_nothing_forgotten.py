"""What is easily forgotten: settings without words, kinds without a task, tasks without a queue."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import celeryconfig
from tests.conftest import PLAIN_SETTINGS
from workers.celery_app import TASK_MODULES, app
from workers.services import JOB_KINDS
from workers.settings import Settings


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tasks, registered; that reads the settings, but connects nowhere."""
    for name, value in PLAIN_SETTINGS.items():
        monkeypatch.setenv(name.upper(), value if isinstance(value, str) else ",".join(value))
    for module in TASK_MODULES:
        importlib.import_module(module)


def readme_settings(checkout: Path) -> dict[str, str]:
    """The README's table: name -> default."""
    text = (checkout / "README.md").read_text()
    table = text.split("<!-- settings -->")[1].split("<!-- /settings -->")[0]
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*?) \| (.+?) \|$", table, flags=re.MULTILINE)
    assert all(meaning.strip() for _, _, meaning in rows)
    return {name: default.strip("`") for name, default, _ in rows}


def test_the_readme_lists_every_setting_and_no_other(checkout: Path) -> None:
    assert list(readme_settings(checkout)) == [name.upper() for name in Settings.model_fields]


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_the_readme_has_each_default(checkout: Path, name: str) -> None:
    field = Settings.model_fields[name]
    written = readme_settings(checkout)[name.upper()]
    if field.is_required():
        expected = "required"
    elif field.default is None:
        expected = "unset"
    elif isinstance(field.default, bool):
        expected = "1" if field.default else "0"
    else:
        expected = str(field.default)
    assert written == expected


def test_every_job_kind_has_its_task_queue_and_route() -> None:
    queues = {queue.name for queue in celeryconfig.task_queues}
    for kind in JOB_KINDS.values():
        assert app.tasks[kind.task].ignore_result is False, "its result is what the caller polls"
        assert celeryconfig.task_routes[kind.task] == {"queue": kind.queue}
        assert kind.queue in queues
        assert kind.request_model.model_fields


def test_leases_names_and_tasks_of_the_kinds_differ() -> None:
    for attribute in ("name", "task", "lease"):
        values = [getattr(kind, attribute) for kind in JOB_KINDS.values()]
        assert len(set(values)) == len(values)


def test_every_own_task_has_a_stable_name_and_a_route() -> None:
    own = {name for name in app.tasks if name.startswith("converge.")}
    assert len(TASK_MODULES) >= 2
    assert own - set(celeryconfig.task_routes) == {"converge.canary"}, "the canary names its queue itself"
    assert set(celeryconfig.task_routes) <= own


def test_the_schedule_sends_what_exists_and_lets_late_ticks_expire() -> None:
    for entry in celeryconfig.SCHEDULE.values():
        assert entry["task"] in app.tasks
        assert entry["options"]["expires"] <= 3600


def test_every_kind_is_named_in_the_architecture_notes(checkout: Path) -> None:
    text = (checkout / "docs" / "architecture.md").read_text()
    for kind in JOB_KINDS.values():
        assert f"`{kind.name}`" in text
        assert f"`{kind.lease}`" in text
