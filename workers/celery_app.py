"""Builds the Celery app. Nothing connects here, and settings are read on first use of the configuration."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from celery import Celery, Task, signals
from celery.backends.redis import RedisBackend
from celery.concurrency import ALIASES as CONCURRENCY_ALIASES  # type: ignore[attr-defined]
from celery.exceptions import Ignore
from kombu.transport import TRANSPORT_ALIASES

from workers import logs
from workers.jobs.run import CutOff, SecondDelivery
from workers.settings import Settings, SettingsError, read_settings
from workers.worker_end import ReturnWaitingTasks

TASK_MODULES = (
    "workers.jobs.tasks",
    "workers.social_recording.tasks",
    "workers.solana_backfill.tasks",
    "workers.funding.tasks",
)

CONCURRENCY_ALIASES["threads"] = "workers.celery_parts:TaskPool"
# By the scheme of the URL and not by `broker_transport`, which would also change how the broker is called in
# logs and in the dashboard.
TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = "workers.celery_parts:Transport"


class GuardedTask(Task[..., Any]):
    """A task whose thread survives everything that a task can raise.

    The threads pool drops a `SystemExit`, `KeyboardInterrupt`, `GeneratorExit` or `MemoryError` without a log
    line or a result; as a `RuntimeError` they fail the task like any other error. A second delivery of a job
    leaves the result of the first one alone, and one that is cut off leaves none.
    """

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task."""
        try:
            return super().__call__(*args, **kwargs)
        except (SecondDelivery, CutOff) as exc:
            raise Ignore(str(exc)) from exc
        except (SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError) as exc:
            raise RuntimeError(f"the task raised {type(exc).__name__}") from exc


class PollingBackend(RedisBackend):
    """The result backend of a process that only reads: it subscribes to nothing when it publishes."""

    def on_task_call(self, producer: object, task_id: str) -> None:
        """Do nothing; the parent's subscription blocks for many seconds when Redis is away."""


def create_celery(settings: Callable[[], Settings], *, polls_only: bool = False) -> Celery[Task[..., Any]]:
    """An app for a worker or a beat, or, with `polls_only`, for a process that publishes and polls.

    `settings` is called when the configuration is first needed; a `SettingsError` ends the process.
    """
    celery: Celery[Task[..., Any]] = Celery("converge", task_cls=GuardedTask)
    celery.config_from_object("celeryconfig")
    celery.add_defaults(lambda: _from_settings(settings))
    celery.steps["worker"].add(ReturnWaitingTasks)
    if polls_only:
        celery.conf.update(_impatient(celery.conf))
    return celery


def _from_settings(read: Callable[[], Settings]) -> dict[str, object]:
    try:
        settings = read()
    except SettingsError as exc:
        raise SystemExit(str(exc)) from None
    return {
        "broker_url": settings.broker_url,
        "result_backend": settings.result_backend_url,
        "beat_schedule": _schedule() if settings.schedule_is_on else {},
    }


def _impatient(conf: Mapping[str, Any]) -> dict[str, object]:
    """What differs in a process that must answer its own caller within seconds, whatever Redis does."""
    timeouts = {"socket_timeout": 2, "socket_connect_timeout": 2}
    once = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}
    return {
        "result_backend": f"{__name__}:PollingBackend+{conf['result_backend']}",
        "broker_transport_options": {**conf["broker_transport_options"], **timeouts},
        "broker_connection_timeout": 2,
        "redis_socket_timeout": 2,
        "redis_socket_connect_timeout": 2,
        "task_publish_retry_policy": once,
        "task_send_sent_event": True,
        "result_backend_always_retry": False,
        "result_backend_transport_options": {
            **conf["result_backend_transport_options"],
            "retry_policy": once,
        },
    }


def _schedule() -> dict[str, object]:
    from celeryconfig import SCHEDULE  # noqa: PLC0415 - a setting of the beat alone

    return dict(SCHEDULE)


@signals.worker_init.connect
def _know_the_tasks(**_: object) -> None:
    """Load the tasks where they run. Beat, Flower and `celery inspect` know them by name and start sooner."""
    for module in TASK_MODULES:
        importlib.import_module(module)


@signals.setup_logging.connect
def _configure_logs(**_: object) -> None:
    logs.configure()


app = create_celery(read_settings)
