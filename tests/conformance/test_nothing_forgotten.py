"""What is easily forgotten: settings without words, kinds without a task, tasks without a queue."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import celeryconfig
from tests.conftest import PLAIN_SETTINGS
from workers.celery_app import TASK_MODULES, app
from workers.services import JOB_KINDS
from workers.settings import Settings

NOT_IMPORTED = {
    "gunicorn": "a program that is started",
}
READ_BY_SETTINGS_ALONE = {"auth_disabled_in_prod_accepted": "it only lets AUTH_DISABLED pass in prod"}


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


def python_files(checkout: Path) -> Iterator[Path]:
    for folder in ("app", "workers"):
        yield from sorted((checkout / folder).rglob("*.py"))
    yield checkout / "celeryconfig.py"


def imported_packages(checkout: Path) -> set[str]:
    found: set[str] = set()
    for path in python_files(checkout):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found


def test_every_runtime_dependency_is_imported_or_has_a_reason(checkout: Path) -> None:
    declared = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "dependencies"
    ]
    names = {re.split(r"[\[<>=~! ;]", each)[0].lower() for each in declared}
    distributions = importlib.metadata.packages_distributions()
    used = {
        re.sub(r"[._]", "-", distribution).lower()
        for package in imported_packages(checkout)
        for distribution in distributions.get(package, ())
    }
    assert names - used == NOT_IMPORTED.keys()


def test_every_relative_link_of_the_documents_leads_to_a_file(checkout: Path) -> None:
    pages = [checkout / "README.md", checkout / "CHANGELOG.md", *sorted((checkout / "docs").rglob("*.md"))]
    links = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", target)
    ]
    assert links
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []


def read_attributes(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_every_setting_is_read_by_something_outside_the_settings(checkout: Path) -> None:
    settings_file = checkout / "workers" / "settings.py"
    read = set().union(*(read_attributes(path) for path in python_files(checkout) if path != settings_file))
    for node in ast.walk(ast.parse(settings_file.read_text(encoding="utf-8"))):
        # What a property of the settings reads is read by those who read the property.
        if isinstance(node, ast.FunctionDef) and node.name in read:
            read |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    assert Settings.model_fields.keys() - read == READ_BY_SETTINGS_ALONE.keys()
