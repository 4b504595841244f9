"""Every setting of every process, read from the environment once, at the entry points.

A setting's environment variable is its field name in capitals. A bad value, a missing required one, or an
misspelt name keeps the process from starting, and the message names it. Values are passed on; nothing else in
the code reads the environment.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from workers.solana_endpoints import ROLE_PATTERN, SolanaEndpoint, endpoint_of, read_endpoints
from workers.source_limits import limits_by_source

# Nobody else uses this prefix. The other first words (GITHUB, JOB, HTTP, ...) are those of many programs.
OWN_PREFIX = "SOCIAL_RECORD_"
# Names of other programs that look like a slip of ours.
FOREIGN_NAMES = frozenset({"GITLAB_TOKEN", "GITLAB_BASE_URL"})
# In a short name two letters are enough to make it another word.
SHORT_NAME_MAX = 9
SLIPS_MAX = 2


class SettingsError(Exception):
    """The environment does not describe a process that may start; the text names each setting."""


class AppEnv(StrEnum):
    """Which kind of place this process runs in."""

    DEV = "dev"
    TEST = "test"
    STAGE = "stage"
    PROD = "prod"


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL")
    return text.rstrip("/")


def _url_of(*schemes: str) -> AfterValidator:
    def check(text: str) -> str:
        if urlsplit(text).scheme not in schemes:
            raise ValueError(f"must start with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        return text

    return AfterValidator(check)


def _header_safe(secret: SecretStr) -> SecretStr:
    """What cannot be sent in a header must not get that far: the error there would quote it."""
    if not re.fullmatch(r"[!-~]+", secret.get_secret_value()):
        raise ValueError("must be printable ASCII without spaces and line ends")
    return secret


def _path_safe(secret: SecretStr) -> SecretStr:
    """A key that stands in a path must not end it."""
    if not re.fullmatch(r"[0-9A-Za-z:_-]+", secret.get_secret_value()):
        raise ValueError("must hold letters, digits, `:`, `_` and `-` only")
    return secret


def _secret_url(secret: SecretStr) -> SecretStr:
    """A URL that lets whoever has it in. Host and scheme are written small, as they are when it is asked."""
    parts = urlsplit(secret.get_secret_value())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.fragment:
        raise ValueError("must be an http or https URL without user and fragment")
    return SecretStr(parts._replace(netloc=parts.netloc.lower(), path=parts.path or "/").geturl())


def _comma_free(secret: SecretStr) -> SecretStr:
    """A key that arrives twice in a request is joined by a comma, so a key must not hold one itself."""
    if "," in secret.get_secret_value():
        raise ValueError("must not hold a comma")
    return secret


def _limits_text(text: str) -> str:
    limits_by_source(text, has_github_token=True)
    return text


HTTPURL = Annotated[str, AfterValidator(_http_url)]
RedisURL = Annotated[str, _url_of("redis", "rediss")]
StreamURL = Annotated[str, _url_of("redis", "rediss", "amqp", "amqps")]
HeaderSecret = Annotated[SecretStr, AfterValidator(_header_safe)]
PathSecret = Annotated[SecretStr, AfterValidator(_path_safe)]
SecretURL = Annotated[SecretStr, AfterValidator(_header_safe), AfterValidator(_secret_url)]
SourceLimits = Annotated[str, AfterValidator(_limits_text)]


class Settings(BaseSettings):
    """The settings; see the module docstring. The README has a table of them.

    The addresses of the stores hold passwords, so they are left out when the settings are printed.
    """

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, env_ignore_empty=True
    )

    # who may call
    app_env: AppEnv = AppEnv.DEV
    app_secret_key: Annotated[HeaderSecret, AfterValidator(_comma_free)]
    auth_disabled: bool = False
    auth_disabled_in_prod_accepted: bool = False
    schedule_enabled: bool | None = None
    api_waiters_max: int = Field(default=4, ge=0, le=1000)
    flower_url: HTTPURL | None = None

    # stores
    broker_url: RedisURL = Field(default="redis://127.0.0.1:6379/0", repr=False)
    result_backend_url: RedisURL = Field(default="redis://127.0.0.1:6379/1", repr=False)
    redis_url: RedisURL = Field(default="redis://127.0.0.1:6379/2", repr=False)
    mongo_url: Annotated[str, _url_of("mongodb", "mongodb+srv")] = Field(
        default="mongodb://127.0.0.1:27017", repr=False
    )
    mongo_database: str = Field(default="converge", pattern=r"^[A-Za-z0-9_-]{1,60}$")
    mongo_timeout_ms: int = Field(default=10_000, ge=100, le=120_000)

    # jobs
    job_queue_expires_s: int = Field(default=900, ge=1, le=86_400)
    job_retention_days: int = Field(default=7, ge=1, le=90)
    job_window: int = Field(default=32, ge=1, le=1000)
    job_heartbeat_ttl_ms: int = Field(default=60_000, ge=1000, le=600_000)
    job_target_budget_s: int = Field(default=300, ge=1, le=3600)
    job_grace_s: int = Field(default=15, ge=1, le=300)
    worker_stop_limit_s: int | None = Field(default=None, ge=1, le=7200)

    # the tracker
    tracker_base_url: HTTPURL
    tracker_api_key: HeaderSecret
    tracker_timeout_ms: int = Field(default=5000, ge=100, le=60_000)

    # the live stream
    stream_url: StreamURL | None = Field(default=None, repr=False)
    stream_queue: str = Field(default="token.flow", pattern=r"^[A-Za-z0-9._:-]{1,100}$")
    stream_prefetch: int = Field(default=16, ge=1, le=1000)
    stream_redeliver_after_s: int = Field(default=60, ge=1, le=3600)
    stream_repeat_after_s: int = Field(default=300, ge=1, le=86_400)
    stream_dead_letters_max: int = Field(default=1000, ge=1, le=1_000_000)

    # social recording
    social_record_af_group_ids: Annotated[tuple[str, ...], NoDecode] = Field(min_length=1)
    social_record_af_investor_threshold: int = Field(default=3, ge=1, le=1_000_000)
    social_record_max_attempts: int = Field(default=5, ge=1, le=100)
    social_record_reconcile_limit: int = Field(default=20, ge=1, le=100)
    social_record_retry_limit: int = Field(default=50, ge=1, le=200)
    social_record_deadline_ms: int = Field(default=45_000, ge=1000, le=300_000)
    social_record_retry_min_interval_minutes: int = Field(default=60, ge=0, le=525_600)
    social_record_retry_backoff_factor: float = Field(default=1.0, ge=1, le=10)
    social_record_reconcile_lock_ttl_ms: int = Field(default=60_000, ge=1000, le=600_000)
    social_record_retry_lock_ttl_ms: int = Field(default=60_000, ge=1000, le=600_000)
    social_record_token_lock_ttl_ms: int = Field(default=60_000, ge=1000, le=600_000)
    social_record_url_lock_wait_ms: int = Field(default=30_000, ge=0, le=300_000)
    social_record_enable_paid: bool = False

    # funding counters; without a database there are no fundings
    funding_database_url: Annotated[str, _url_of("postgresql", "postgres", "postgresql+psycopg")] | None = (
        Field(default=None, repr=False)
    )
    funding_database_timeout_ms: int = Field(default=10_000, ge=100, le=60_000)
    funding_near_completion_ratio: float = Field(default=0.999, gt=0, le=1)
    funding_deadline_ms: int = Field(default=240_000, ge=1000, le=300_000)
    funding_counter_reconciliation_stabilization_delay_ms: int = Field(default=5000, ge=10, le=30_000)
    funding_counter_reconciliation_skip_redis_counter_write: bool = False
    funding_reconcile_lock_ttl_ms: int = Field(default=60_000, ge=1000, le=600_000)
    funding_property_lock_ttl_ms: int = Field(default=60_000, ge=1000, le=600_000)
    funding_alert_webhook_url: SecretURL | None = None

    # Solana; without endpoints nothing is backfilled
    solana_endpoints: Annotated[tuple[SolanaEndpoint, ...] | None, NoDecode] = None
    solana_backfill_role: str = Field(default="history_backfill", pattern=ROLE_PATTERN)
    solana_backfill_limit: int = Field(default=1000, ge=1, le=100_000)
    solana_backfill_max_pages: int = Field(default=20, ge=1, le=100)
    solana_backfill_lock_ttl_ms: int = Field(default=60_000, ge=1000, le=600_000)
    solana_rpc_timeout_ms: int = Field(default=20_000, ge=100, le=120_000)
    solana_max_transaction_version: int = Field(default=1, ge=0, le=127)

    # the platforms; a source that needs a key is used when the key is there
    github_base_url: HTTPURL = "https://api.github.com"
    github_token: HeaderSecret | None = None
    x_syndication_base_url: HTTPURL = "https://cdn.syndication.twimg.com"
    x_oembed_base_url: HTTPURL = "https://publish.x.com"
    x_api_base_url: HTTPURL = "https://api.x.com/2"
    x_api_bearer_token: HeaderSecret | None = None
    twitterapiio_base_url: HTTPURL = "https://api.twitterapi.io"
    twitterapiio_api_key: HeaderSecret | None = None
    youtube_base_url: HTTPURL = "https://www.googleapis.com/youtube/v3"
    youtube_api_key: HeaderSecret | None = None
    youtube_site_base_url: HTTPURL = "https://www.youtube.com"
    reddit_base_url: HTTPURL = "https://oauth.reddit.com"
    reddit_login_base_url: HTTPURL = "https://www.reddit.com"
    reddit_client_id: HeaderSecret | None = None
    reddit_client_secret: HeaderSecret | None = None
    telegram_base_url: HTTPURL = "https://t.me"
    telegram_bot_base_url: HTTPURL = "https://api.telegram.org"
    telegram_bot_token: PathSecret | None = None
    tiktok_base_url: HTTPURL = "https://www.tiktok.com"
    apify_base_url: HTTPURL = "https://api.apify.com/v2"
    apify_token: HeaderSecret | None = None
    rdap_bootstrap_url: HTTPURL = "https://data.iana.org/rdap/dns.json"

    # the way out
    http_site_relay_url: HTTPURL | None = None
    http_user_agent: str = Field(
        default="converge/0.1 (+https://converge.invalid/about)", pattern=r"^[!-~]([ -~]*[!-~])?$"
    )
    http_connect_timeout_ms: int = Field(default=5000, ge=100, le=60_000)
    http_read_timeout_ms: int = Field(default=5000, ge=100, le=60_000)
    http_total_timeout_ms: int = Field(default=20_000, ge=100, le=120_000)
    http_body_max_bytes: int = Field(default=1_048_576, ge=1024, le=16_777_216)
    source_limits: SourceLimits | None = None

    @field_validator("social_record_af_group_ids", mode="before")
    @classmethod
    def _split_group_ids(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("solana_endpoints", mode="before")
    @classmethod
    def _read_endpoints(cls, value: object) -> object:
        return read_endpoints(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_role(self) -> Settings:
        endpoints, role = self.solana_endpoints, self.solana_backfill_role
        if endpoints is not None and endpoint_of(endpoints, role) is None:
            raise ValueError(f"SOLANA_BACKFILL_ROLE: no endpoint of SOLANA_ENDPOINTS has the role {role}")
        return self

    @model_validator(mode="after")
    def _check_prod(self) -> Settings:
        if self.app_env is AppEnv.PROD and self.auth_disabled and not self.auth_disabled_in_prod_accepted:
            raise ValueError(
                "AUTH_DISABLED in prod needs AUTH_DISABLED_IN_PROD_ACCEPTED=1 as well: every caller that"
                " reaches the port could then spend money"
            )
        if self.app_env is AppEnv.PROD and self.http_site_relay_url is not None:
            raise ValueError("HTTP_SITE_RELAY_URL is for sandboxes and is refused in prod")
        return self

    @property
    def service_urls(self) -> tuple[str, ...]:
        """The base URLs of the services that are asked; they may lie inside our own network."""
        names = [name for name in type(self).model_fields if name.endswith("_base_url")]
        urls = (*(getattr(self, name) for name in names), self.rdap_bootstrap_url)
        webhook = self.funding_alert_webhook_url
        endpoints = [endpoint.url for endpoint in self.solana_endpoints or ()]
        return (*urls, *endpoints) if webhook is None else (*urls, *endpoints, webhook.get_secret_value())

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every key and password that is set, for those who keep them out of texts."""
        values = (getattr(self, name) for name in type(self).model_fields)
        in_urls = [key for endpoint in self.solana_endpoints or () for key in endpoint.secrets]
        return (*(value.get_secret_value() for value in values if isinstance(value, SecretStr)), *in_urls)

    @property
    def stream_broker_url(self) -> str:
        """Where the live messages come from: the broker, unless STREAM_URL says otherwise."""
        return self.stream_url or self.broker_url

    @property
    def stop_limit_s(self) -> int:
        """How long a worker that was told to end may take, in seconds; by default what a target may take."""
        return self.worker_stop_limit_s or self.job_target_budget_s + self.job_grace_s

    @property
    def schedule_is_on(self) -> bool:
        """Whether scheduled jobs run here: in prod, unless SCHEDULE_ENABLED says otherwise."""
        if self.schedule_enabled is not None:
            return self.schedule_enabled
        return self.app_env is AppEnv.PROD


def read_settings() -> Settings:
    """Read the settings from the process's environment.

    Raises `SettingsError` with one line per bad, missing, unknown or misspelt setting, without their values.
    """
    problems = [
        problem for name in sorted(os.environ) if (problem := _name_problem(name.upper())) is not None
    ]
    try:
        settings = Settings()
    except ValidationError as exc:
        problems += [_describe(error) for error in exc.errors(include_url=False, include_input=False)]
        raise SettingsError(_refusal(problems)) from None
    if problems:
        raise SettingsError(_refusal(problems))
    return settings


def _name_problem(name: str) -> str | None:
    """What is wrong with a name of the environment, or None when it is a setting or no business of ours."""
    known = [field.upper() for field in Settings.model_fields]
    if name in known or name in FOREIGN_NAMES:
        return None
    # Every process asks this about every variable at its start, so what is far off is not measured.
    similar = [setting for setting in known if _may_be_slip(name, setting)]
    meant = min(similar, key=lambda setting: _slips(name, setting), default="")
    slips_max = 1 if min(len(name), len(meant)) <= SHORT_NAME_MAX else SLIPS_MAX
    if meant and _slips(name, meant) <= slips_max:
        return f"{name}: unknown setting, probably {meant} is meant"
    return f"{name}: unknown setting" if name.startswith(OWN_PREFIX) else None


def _may_be_slip(written: str, meant: str) -> bool:
    """Whether the letters alone allow for so few slips: each one adds, removes or replaces one letter."""
    if abs(len(written) - len(meant)) > SLIPS_MAX:
        return False
    letters, other_letters = Counter(written), Counter(meant)
    return max((letters - other_letters).total(), (other_letters - letters).total()) <= SLIPS_MAX


def _slips(written: str, meant: str) -> int:
    """How many letters were left out, added, mistaken or swapped with a neighbour to write one for the other.

    It is the restricted Damerau-Levenshtein distance.
    """
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for i, letter in enumerate(written, start=1):
        before, above, row = row, before, [i]
        for j, other in enumerate(meant, start=1):
            costs = [before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other)]
            if i > 1 and j > 1 and (letter, written[i - 2]) == (meant[j - 2], other):
                costs.append(above[j - 2] + 1)
            row.append(min(costs))
    return row[-1]


def _refusal(problems: Sequence[str]) -> str:
    return "cannot start:\n" + "\n".join(f"  {problem}" for problem in problems)


def _describe(error: ErrorDetails) -> str:
    name = str(error["loc"][0]).upper() if error["loc"] else ""
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "missing":
        message = "required, but missing or empty"
    return f"{name}: {message}" if name else message
