"""What runs in production is what the settings, the lock files and the queues say."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import celeryconfig
from workers.cli.stores import STREAM_STOP_LIMIT_S
from workers.settings import Settings

ROOT = Path(__file__).parent.parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
STORES = ("redis", "mongo", "postgres")
ONE_SHOT = ("migrate",)
OURS = tuple(name for name in SERVICES if name not in STORES)
LONG_RUNNING = tuple(name for name in SERVICES if name not in ONE_SHOT)
# Read by docker-compose.yml for programs that are not ours.
COMPOSE_ONLY = {"FLOWER_BASIC_AUTH", "POSTGRES_PASSWORD"}
SETTINGS = {name.upper(): field for name, field in Settings.model_fields.items()}
# In a network of containers these differ from the defaults for one machine.
ADDRESSES = {
    "BROKER_URL",
    "RESULT_BACKEND_URL",
    "REDIS_URL",
    "MONGO_URL",
    "FUNDING_DATABASE_URL",
    "APP_ENV",
    "FLOWER_URL",
}


def example() -> Iterator[tuple[str, str, bool]]:
    """Name, value and whether it is active, of each line of `.env.example`."""
    for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(r"(#?)([A-Z][A-Z0-9_]*)=(.*)", line)
        if found:
            yield found[2], found[3], not found[1]


def interpolations(value: object) -> Iterator[tuple[str, str]]:
    """Each `${NAME...}` of the compose file: the name and what follows it."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from interpolations(each)
    elif isinstance(value, str):
        yield from re.findall(r"(?<!\$)\$\{([A-Z0-9_]+)([^}]*)\}", value)


def queues_of(service: dict[str, Any]) -> list[str]:
    command: list[str] = service["command"]
    return command[command.index("-Q") + 1].split(",")


def test_the_example_names_every_setting_and_nothing_else() -> None:
    names = [name for name, _, _ in example()]
    assert len(names) == len(set(names))
    assert set(names) == SETTINGS.keys() | COMPOSE_ONLY


def test_what_is_required_is_active_and_empty_in_the_example() -> None:
    lines = {name: (value, active) for name, value, active in example()}
    required = {name for name, field in SETTINGS.items() if field.is_required()} | COMPOSE_ONLY
    assert {name: lines[name] for name in required} == dict.fromkeys(required, ("", True))


def test_the_defaults_that_the_example_shows_are_those_of_the_program() -> None:
    required = {"app_secret_key": "k", "tracker_base_url": "https://t.example", "tracker_api_key": "k"}
    program = Settings.model_validate(required | {"social_record_af_group_ids": "1"})
    shown = {name: value for name, value, active in example() if not active and name not in ADDRESSES}
    as_read = Settings.model_validate(
        required
        | {"social_record_af_group_ids": "1"}
        | {name.lower(): value for name, value in shown.items() if value}
    )
    assert as_read == program


def test_every_setting_reaches_our_containers_and_no_other_name_does() -> None:
    for name in OURS:
        extra = {"FLOWER_BASIC_AUTH"} if name == "flower" else set()
        assert SERVICES[name]["environment"].keys() == SETTINGS.keys() | extra


def test_compose_refuses_to_start_without_what_is_required() -> None:
    modes = dict(interpolations(COMPOSE))
    required = {name for name, field in SETTINGS.items() if field.is_required()} | COMPOSE_ONLY
    assert {name for name, mode in modes.items() if mode.startswith(":?")} == required
    assert all(name in mode for name, mode in modes.items() if mode.startswith(":?"))


def test_the_console_links_to_where_the_dashboard_is_published() -> None:
    [published] = SERVICES["flower"]["ports"]
    address = "http://" + published.rpartition(":")[0]
    assert dict(interpolations(SERVICES["api"]["environment"]))["FLOWER_URL"] == f":-{address}"
    assert ("FLOWER_URL", address, False) in list(example())


def test_no_secret_has_a_default() -> None:
    secrets = {
        name for name, _ in interpolations(COMPOSE) if re.search(r"KEY|TOKEN$|PASSWORD|AUTH$|SECRET$", name)
    }
    assert secrets == {
        "APIFY_TOKEN",
        "APP_SECRET_KEY",
        "FLOWER_BASIC_AUTH",
        "GITHUB_TOKEN",
        "POSTGRES_PASSWORD",
        "REDDIT_CLIENT_SECRET",
        "TELEGRAM_BOT_TOKEN",
        "TRACKER_API_KEY",
        "TWITTERAPIIO_API_KEY",
        "X_API_BEARER_TOKEN",
        "YOUTUBE_API_KEY",
    }
    for name, mode in interpolations(COMPOSE):
        assert name not in secrets or mode.startswith(":?") or mode == ":-"


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_a_long_running_service_has_a_health_check_and_comes_back(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout", "retries"} <= check.keys()
    assert SERVICES[name]["restart"] == "unless-stopped"
    assert SERVICES[name]["stop_grace_period"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_without_root_without_rights_and_without_a_writable_image(name: str) -> None:
    service = SERVICES[name]
    assert service["user"].partition(":")[0] not in ("", "0", "root")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_port_is_published_on_the_loopback_interface_alone(name: str) -> None:
    ports = SERVICES[name].get("ports", [])
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)
    assert bool(ports) == (name in ("api", "flower"))


@pytest.mark.parametrize("name", STORES)
def test_a_store_is_reached_from_its_network_alone_and_keeps_its_data(name: str) -> None:
    assert SERVICES[name]["networks"] == ["stores"]
    assert COMPOSE["networks"]["stores"] == {"internal": True}
    assert SERVICES[name]["volumes"]
    assert re.fullmatch(r"\w+:\d[\w.-]*", SERVICES[name]["image"])


@pytest.mark.parametrize("name", [name for name in OURS if name != "migrate"])
def test_our_processes_wait_for_the_stores_and_the_migration(name: str) -> None:
    waits = {each: how["condition"] for each, how in SERVICES[name]["depends_on"].items()}
    assert waits == {
        **dict.fromkeys(STORES, "service_healthy"),
        "migrate": "service_completed_successfully",
    }


def test_redis_keeps_what_it_was_given() -> None:
    command = SERVICES["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"


def test_mongo_is_a_replica_set_that_its_health_check_makes() -> None:
    assert "--replSet" in SERVICES["mongo"]["command"]
    assert "rs.initiate" in SERVICES["mongo"]["healthcheck"]["test"][-1]
    assert "replicaSet=rs0" in SERVICES["api"]["environment"]["MONGO_URL"]


def test_the_purchases_are_in_the_bundled_database_unless_another_one_is_named() -> None:
    url = SERVICES["worker-records"]["environment"]["FUNDING_DATABASE_URL"]
    postgres = SERVICES["postgres"]["environment"]
    user, database = postgres["POSTGRES_USER"], postgres["POSTGRES_DB"]
    assert url == (
        f"${{FUNDING_DATABASE_URL:-postgresql://{user}:${{POSTGRES_PASSWORD}}@postgres:5432/{database}}}"
    )


def test_each_queue_has_workers_and_jobs_share_theirs_with_nothing() -> None:
    workers = {name: queues_of(SERVICES[name]) for name in SERVICES if name.startswith("worker-")}
    assert workers["worker-jobs"] == ["jobs"]
    assert "jobs" not in workers["worker-records"]
    served = [queue for queues in workers.values() for queue in queues]
    assert sorted(served) == sorted(queue.name for queue in celeryconfig.task_queues)


def test_a_worker_uses_threads_and_has_a_node_name_that_its_health_check_asks_for() -> None:
    for name in ("worker-jobs", "worker-records"):
        command = SERVICES[name]["command"]
        assert command[command.index("-P") + 1] == "threads"
        assert {"--without-gossip", "--without-mingle"} <= set(command)
        node = command[command.index("-n") + 1].replace("%h", "$$(hostname)")
        assert SERVICES[name]["healthcheck"]["test"][-1].endswith(f"-d {node}")


def test_a_worker_has_time_to_finish_what_it_has_begun() -> None:
    needed_s = SETTINGS["JOB_TARGET_BUDGET_S"].default + SETTINGS["JOB_GRACE_S"].default
    for name in ("worker-jobs", "worker-records"):
        assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) >= needed_s


def test_the_dashboard_only_shows_and_asks_for_a_login() -> None:
    assert SERVICES["flower"]["environment"]["FLOWER_BASIC_AUTH"].startswith("${FLOWER_BASIC_AUTH:?")
    assert "--read_only=true" in SERVICES["flower"]["command"]


def test_the_stream_runs_like_all_others_and_is_asked_whether_it_lives() -> None:
    assert [name for name in SERVICES if "profiles" in SERVICES[name]] == []
    assert SERVICES["stream"]["command"] == ["converge", "stream"]
    assert SERVICES["stream"]["healthcheck"]["test"] == ["CMD", "converge", "stream", "--check"]
    assert int(SERVICES["stream"]["stop_grace_period"].removesuffix("s")) > STREAM_STOP_LIMIT_S


def test_a_worker_gives_up_its_clean_end_before_it_is_killed() -> None:
    settings = Settings.model_validate(
        {"app_secret_key": "k", "tracker_base_url": "https://t.example", "tracker_api_key": "k"}
        | {"social_record_af_group_ids": "1"}
    )
    for name in ("worker-jobs", "worker-records"):
        assert settings.stop_limit_s < int(SERVICES[name]["stop_grace_period"].removesuffix("s"))


def test_the_image_has_locked_dependencies_no_root_and_no_shell_between_us_and_a_signal() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert set(re.findall(r"^FROM (python:\S+)", dockerfile, re.MULTILINE)) == {"python:3.11-slim-bookworm"}
    installs = re.findall(r"pip install (.*)", dockerfile)
    assert all("--require-hashes" in each or "--no-deps --no-build-isolation ." in each for each in installs)
    assert re.search(r"^USER converge$", dockerfile, re.MULTILINE)
    assert re.search(r"^STOPSIGNAL SIGTERM$", dockerfile, re.MULTILINE)
    assert all(each.startswith("[") for each in re.findall(r"^CMD (.*)", dockerfile, re.MULTILINE))


def test_the_dashboard_image_gets_all_that_flower_needs_beyond_the_runtime_lock() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = re.search(r"keep = /\^\(([a-z|-]+)\)==/", dockerfile)
    assert copied
    locked = locked_names("requirements.lock")
    assert set(copied[1].split("|")) == needed_by("flower") - locked
    assert set(copied[1].split("|")) <= locked_names("requirements-dev.lock")


def locked_names(file: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE))


def needed_by(package: str) -> set[str]:
    """The package and, one by one, all that it requires here."""
    found = {package}
    waiting = [package]
    while waiting:
        for requirement in importlib.metadata.requires(waiting.pop()) or []:
            name = re.match(r"[\w.-]+", requirement)
            marker = requirement.partition(";")[2]
            if name is None or "extra" in marker or "win32" in marker or "Windows" in marker:
                continue
            canonical = re.sub(r"[._-]+", "-", name[0]).lower()
            if canonical not in found and canonical in locked_names("requirements-dev.lock"):
                found.add(canonical)
                waiting.append(canonical)
    return found
