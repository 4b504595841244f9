"""What each source bears, and how `SOURCE_LIMITS` says so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PLAIN_SETTINGS
from workers.settings import SettingsError, read_settings
from workers.source_limits import (
    CALLS_MAX,
    OPEN_MAX,
    SOURCES,
    Rate,
    SourceLimit,
    limits_by_source,
    read_entries,
)

MINUTE_MS = 60_000


def test_an_entry_replaces_all_limits_of_its_source_and_of_no_other() -> None:
    defaults = limits_by_source(None, has_github_token=True)
    changed = limits_by_source("github=900/minute;50 at once", has_github_token=True)
    assert changed["github"] == SourceLimit(rates=(Rate(calls=900, window_ms=MINUTE_MS),), open_max=50)
    assert {**changed, "github": None} == {**defaults, "github": None}


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("1/second", SourceLimit(rates=(Rate(calls=1, window_ms=1000),))),
        ("1/5second", SourceLimit(rates=(Rate(calls=1, window_ms=5000),))),
        ("7 / 15 Minutes", SourceLimit(rates=(Rate(calls=7, window_ms=15 * MINUTE_MS),))),
        ("2 at once", SourceLimit(open_max=2)),
        ("3atonce", SourceLimit(open_max=3)),
        (
            "5000/hour; 10000/day ;4 at once",
            SourceLimit(
                rates=(Rate(calls=5000, window_ms=60 * MINUTE_MS), Rate(calls=10_000, window_ms=86_400_000)),
                open_max=4,
            ),
        ),
        ("none", SourceLimit()),
        ("NONE", SourceLimit()),
    ],
)
def test_every_way_to_write_a_limit_is_read(text: str, limit: SourceLimit) -> None:
    assert read_entries(f" telegram = {text} ,") == {"telegram": limit}


def test_the_star_stands_for_every_source_without_an_entry_and_keeps_hosts_apart() -> None:
    found = limits_by_source("telegram=none, *=9/second", has_github_token=False)
    nine = (Rate(calls=9, window_ms=1000),)
    assert found["telegram"].is_none
    assert found["github"] == SourceLimit(rates=nine)
    assert found["web"] == SourceLimit(rates=nine, is_per_host=True)
    assert found.keys() == SOURCES


def test_web_sites_and_registries_are_counted_by_host_also_with_limits_of_the_operator() -> None:
    found = limits_by_source("web=1/second", has_github_token=True)
    assert {source for source, limit in found.items() if limit.is_per_host} == {"web", "rdap"}


def test_github_bears_what_its_key_allows() -> None:
    hour_ms = 60 * MINUTE_MS
    without = limits_by_source(None, has_github_token=False)["github"]
    assert without.rates == (Rate(calls=60, window_ms=hour_ms),)
    assert limits_by_source(None, has_github_token=True)["github"].rates == (
        Rate(calls=5000, window_ms=hour_ms),
        Rate(calls=900, window_ms=MINUTE_MS),
    )


def test_every_source_has_a_limit_but_the_operators_own_and_the_one_with_a_schedule() -> None:
    found = limits_by_source(None, has_github_token=False)
    assert [source for source, limit in found.items() if limit.is_none] == ["tracker", "solana_rpc"]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("github", "`github` must look like"),
        ("github=1/second,=2/second", "`=2/second` must look like"),
        ("gitlab=1/second", "`gitlab` is no source; there are alert_webhook, apify"),
        ("telegram=1/second,telegram=none", "`telegram` is there twice"),
        ("telegram=1/week", "`1/week` of `telegram` is neither"),
        ("telegram=often", "`often` of `telegram` is neither"),
        ("telegram=", "`` of `telegram` is neither"),
        ("telegram=1/second;;2 at once", "`` of `telegram` is neither"),
        ("telegram=-1/second", "`-1/second` of `telegram` is neither"),
        ("telegram=1.5/second", "`1.5/second` of `telegram` is neither"),
        ("telegram=1/0second", "`1/0second` of `telegram` is neither"),
        ("telegram=none;1/second", "`none` of `telegram` is neither"),
        ("telegram=1/second|2/minute", "`1/second|2/minute` of `telegram` is neither"),
        ("telegram=0/second", "`0/second` of `telegram` must allow 1 to 100000"),
        (f"telegram={CALLS_MAX + 1}/day", f"must allow 1 to {CALLS_MAX}"),
        ("telegram=0 at once", "`0 at once` of `telegram` must allow 1 to 10000"),
        (f"telegram={OPEN_MAX + 1} at once", f"must allow 1 to {OPEN_MAX}"),
        ("telegram=1/2day", "`1/2day` of `telegram` must span"),
        ("telegram=1/60second;2/minute", "two rates for the same time"),
        ("telegram=1 at once;2 at once", "says twice"),
        ("*=5", "`5` of `*` is neither"),
    ],
)
def test_a_limit_that_cannot_be_read_is_quoted(text: str, quoted: str) -> None:
    with pytest.raises(ValueError, match="`") as caught:
        read_entries(text)
    assert quoted in str(caught.value)


def test_a_process_does_not_start_with_limits_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLAIN_SETTINGS.items():
        monkeypatch.setenv(name.upper(), value if isinstance(value, str) else ",".join(value))
    monkeypatch.setenv("SOURCE_LIMITS", "github=900/minute,telegram=1/week")
    with pytest.raises(SettingsError, match=r"SOURCE_LIMITS: `1/week` of `telegram` is neither"):
        read_settings()
    monkeypatch.setenv("SOURCE_LIMITS", "github=900/minute")
    assert read_settings().source_limits == "github=900/minute"


def trees(checkout: Path) -> Iterator[ast.Module]:
    for path in sorted((checkout / "workers").rglob("*.py")):
        yield ast.parse(path.read_text(encoding="utf-8"))


def named_sources(tree: ast.Module) -> Iterator[str]:
    """What a module calls a source: constants such as `SOURCE`, and `source=` of a request."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            named = [each.id for each in node.targets if isinstance(each, ast.Name)]
            value: ast.expr = node.value
        elif isinstance(node, ast.keyword) and node.arg == "source":
            named, value = ["SOURCE"], node.value
        else:
            continue
        is_source = any(name == "SOURCE" or name.endswith("_SOURCE") for name in named)
        if is_source and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def test_every_source_that_is_asked_has_a_limit(checkout: Path) -> None:
    asked = {source for tree in trees(checkout) for source in named_sources(tree)}
    assert {"github", "web", "tracker"} <= asked
    assert asked <= SOURCES


def test_the_clients_of_a_worker_process_have_the_limiter(checkout: Path) -> None:
    tree = ast.parse((checkout / "workers" / "services.py").read_text(encoding="utf-8"))
    (services,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == "Services")
    built = [
        node
        for node in ast.walk(services)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "OutboundClient"
    ]
    assert built
    assert all("limiter" in [keyword.arg for keyword in each.keywords] for each in built)
