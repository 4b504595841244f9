"""The settings of fundings: what is taken, what is refused, and what is never shown."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.conftest import make_settings
from workers.http.redaction import MARK, Redactor

HOOK = "https://hooks.example.org/services/T0/B0/hidden-word"


def test_without_settings_there_are_no_fundings_and_no_channel() -> None:
    settings = make_settings()
    assert settings.funding_database_url is None
    assert settings.funding_alert_webhook_url is None


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_postgres_address_is_taken_in_any_spelling(scheme: str) -> None:
    url = f"{scheme}://me:hidden-word@db/fundings"
    settings = make_settings(funding_database_url=url)
    assert settings.funding_database_url == url
    assert "hidden-word" not in repr(settings) + str(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("funding_database_url", "mysql://db/x"),
        ("funding_near_completion_ratio", 0),
        ("funding_near_completion_ratio", 1.01),
        ("funding_counter_reconciliation_stabilization_delay_ms", 5),
        ("funding_deadline_ms", 300_001),
        ("funding_alert_webhook_url", "hooks.example.org/hidden-word"),
        ("funding_alert_webhook_url", "ftp://hooks.example.org/hidden-word"),
        ("funding_alert_webhook_url", "https://me@hooks.example.org/hidden-word"),
        ("funding_alert_webhook_url", f"{HOOK}#part"),
        ("funding_alert_webhook_url", f"{HOOK} "),
    ],
)
def test_a_bad_value_is_refused_and_not_shown(name: str, value: object) -> None:
    with pytest.raises(ValidationError) as error:
        make_settings(**{name: value})
    assert name in str(error.value)
    assert "hidden-word" not in str(error.value)


def test_the_webhook_is_a_service_of_ours_and_a_secret() -> None:
    settings = make_settings(funding_alert_webhook_url="HTTPS://Hooks.Example.org/services/T0/B0/hidden-word")
    assert HOOK in settings.service_urls
    assert HOOK in settings.secrets
    assert "hidden-word" not in repr(settings) + str(settings)
    assert Redactor(settings.secrets).redact(f"no answer ({HOOK})") == f"no answer ({MARK})"
