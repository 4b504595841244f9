"""A process with a bad setting does not start, and says which one is bad."""

from __future__ import annotations

import pytest

from workers.settings import Settings, SettingsError, read_settings

NEEDED = {
    "APP_SECRET_KEY": "secret-1",
    "TRACKER_BASE_URL": "https://tracker.example.com/",
    "TRACKER_API_KEY": "k",
    "SOCIAL_RECORD_AF_GROUP_IDS": "7, 9",
}
SECRETS = ("APP_SECRET_KEY", "TRACKER_API_KEY", "GITHUB_TOKEN")


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_the_defaults_are_the_documented_ones() -> None:
    settings = read_settings()
    assert settings.social_record_af_group_ids == ("7", "9")
    assert settings.tracker_base_url == "https://tracker.example.com"
    assert settings.social_record_max_attempts == 5
    assert (settings.social_record_reconcile_limit, settings.social_record_retry_limit) == (20, 50)
    assert settings.social_record_deadline_ms == 45_000
    assert settings.social_record_retry_min_interval_minutes == 60
    assert settings.social_record_af_investor_threshold == 3
    assert settings.social_record_enable_paid is False


@pytest.mark.parametrize("name", sorted(NEEDED))
@pytest.mark.parametrize("value", [None, ""])
def test_a_required_setting_that_is_missing_or_empty_is_named(
    environ: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    environ.delenv(name) if value is None else environ.setenv(name, value)
    with pytest.raises(SettingsError, match=f"{name}: required, but missing or empty"):
        read_settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SOCIAL_RECORD_MAX_ATTEMPTS", "abc"),
        ("SOCIAL_RECORD_MAX_ATTEMPTS", "0"),
        ("SOCIAL_RECORD_DEADLINE_MS", "999"),
        ("TRACKER_BASE_URL", "ftp://x"),
        ("BROKER_URL", "amqp://x"),
        ("MONGO_URL", "http://x"),
        ("APP_ENV", "production"),
        ("APP_SECRET_KEY", "a,b"),
        ("APP_SECRET_KEY", "schlüssel"),
        ("SOCIAL_RECORD_AF_GROUP_IDS", " , "),
        ("SOCIAL_RECORD_RETRY_MIN_INTERVAL_MINUTES", "525601"),
        ("HTTP_USER_AGENT", "converge\n"),
        *(
            (name, value)
            for name in SECRETS
            for value in ("hidden-1\n", "schl\u00fcssel", "hid den", "\u20ac")
        ),
    ],
)
def test_a_bad_value_is_named_and_not_shown(environ: pytest.MonkeyPatch, name: str, value: str) -> None:
    environ.setenv(name, value)
    with pytest.raises(SettingsError, match=f"{name}: ") as refusal:
        read_settings()
    if name in SECRETS:
        assert value not in str(refusal.value)
        assert repr(value)[1:-1] not in str(refusal.value)


@pytest.mark.parametrize("name", ["TRACKER_API_KEY", "GITHUB_TOKEN"])
def test_a_key_that_we_send_may_hold_a_comma(environ: pytest.MonkeyPatch, name: str) -> None:
    environ.setenv(name, "a,b")
    assert getattr(read_settings(), name.lower()).get_secret_value() == "a,b"


@pytest.mark.parametrize("name", ["SOCIAL_RECORD_COLOUR", "social_record_colour"])
def test_an_unknown_setting_under_our_prefix_is_named(environ: pytest.MonkeyPatch, name: str) -> None:
    environ.setenv(name, "3")
    with pytest.raises(SettingsError, match=r"SOCIAL_RECORD_COLOUR: unknown setting$"):
        read_settings()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("SOCIAL_RECORD_MAX_ATTEMPS", "SOCIAL_RECORD_MAX_ATTEMPTS"),
        ("MONGO_DATABSE", "MONGO_DATABASE"),
        ("mongo_databse", "MONGO_DATABASE"),
        ("REDIS_ULR", "REDIS_URL"),
        ("MONGO_URI", "MONGO_URL"),
        ("GITHUBTOKEN", "GITHUB_TOKEN"),
        ("TRACKER_API_KEYS", "TRACKER_API_KEY"),
        ("SHEDULE_ENABLD", "SCHEDULE_ENABLED"),
    ],
)
def test_a_slip_in_a_name_is_named_with_the_setting_that_was_probably_meant(
    environ: pytest.MonkeyPatch, written: str, meant: str
) -> None:
    environ.setenv(written, "3")
    with pytest.raises(SettingsError, match=f"{written.upper()}: unknown setting, probably {meant} is meant"):
        read_settings()


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_ACTIONS",
        "GITHUB_API_URL",
        "GITHUB_BASE_REF",
        "GITHUB_REF",
        "GITLAB_TOKEN",
        "GH_TOKEN",
        "JOB_NAME",
        "JOB_ID",
        "JOB_URL",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "TRACKER_PORT",
        "TRACKER_SERVICE_HOST",
        "TRACKER_PORT_80_TCP_ADDR",
        "REDIS_PORT",
        "REDIS_HOST",
        "MONGO_PORT",
        "MYSQL_URL",
        "NODE_ENV",
        "PIP_ENV",
        "APP_KEY",
        "APP_NAME",
        "X_DISPLAY",
        "LANG",
    ],
)
def test_a_name_of_another_program_is_no_business_of_ours(environ: pytest.MonkeyPatch, name: str) -> None:
    environ.setenv(name, "3")
    assert read_settings().app_env == "dev"


def test_dropping_the_guard_in_prod_needs_a_second_setting(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("APP_ENV", "prod")
    environ.setenv("AUTH_DISABLED", "1")
    with pytest.raises(SettingsError, match="AUTH_DISABLED_IN_PROD_ACCEPTED"):
        read_settings()
    environ.setenv("AUTH_DISABLED_IN_PROD_ACCEPTED", "1")
    assert read_settings().auth_disabled


def test_the_relay_of_a_sandbox_is_refused_in_prod(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("APP_ENV", "prod")
    environ.setenv("HTTP_SITE_RELAY_URL", "http://127.0.0.1:1/relay")
    with pytest.raises(SettingsError, match="HTTP_SITE_RELAY_URL"):
        read_settings()


@pytest.mark.parametrize(
    ("app_env", "enabled", "expected"),
    [("dev", None, False), ("prod", None, True), ("dev", "1", True), ("prod", "0", False)],
)
def test_the_schedule_runs_in_prod_unless_told_otherwise(
    environ: pytest.MonkeyPatch, app_env: str, enabled: str | None, expected: bool
) -> None:
    environ.setenv("APP_ENV", app_env)
    if enabled is not None:
        environ.setenv("SCHEDULE_ENABLED", enabled)
    assert read_settings().schedule_is_on is expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRACKER_API_KEY", "hidden-1"),
        ("GITHUB_TOKEN", "hidden-1"),
        ("TELEGRAM_BOT_TOKEN", "hidden-1"),
        ("APIFY_TOKEN", "hidden-1"),
        ("BROKER_URL", "redis://:hidden-1@redis:6379/0"),
        ("RESULT_BACKEND_URL", "redis://:hidden-1@redis:6379/0"),
        ("REDIS_URL", "redis://:hidden-1@redis:6379/0"),
        ("MONGO_URL", "mongodb://me:hidden-1@mongo"),
    ],
)
def test_secrets_are_not_shown_by_printing_the_settings(
    environ: pytest.MonkeyPatch, name: str, value: str
) -> None:
    environ.setenv(name, value)
    settings = read_settings()
    assert "secret-1" not in repr(settings)
    assert "hidden-1" not in repr(settings) + str(settings)
