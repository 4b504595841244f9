"""From the command line to the services: settings, requests and questions, whose errors end the command."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

from pydantic import ValidationError

from workers.cli.terminal import FAILED, MISUSED, give_up
from workers.errors import ConvergeError
from workers.services import JobAccess, open_job_access
from workers.settings import Settings, SettingsError, read_settings

T = TypeVar("T")


def settings_or_end() -> Settings:
    """The settings of the environment; bad ones end the command with their names."""
    try:
        return read_settings()
    except SettingsError as exc:
        give_up(str(exc), MISUSED)


def ask(question: Callable[[JobAccess], T]) -> T:
    """Answer one question; an error of ours ends the command."""
    with closing(open_job_access(settings_or_end())) as access:
        try:
            return question(access)
        except ConvergeError as exc:
            give_up(str(exc), FAILED)


def request_or_end(build: Callable[[], Any]) -> Any:
    """Build a request; wrong values end the command with the name of the option."""
    try:
        return build()
    except ValidationError as exc:
        lines = [
            f"{'.'.join(map(str, row['loc'])) or 'request'}: {row['msg'].removeprefix('Value error, ')}"
            for row in exc.errors(include_url=False)
        ]
        give_up("\n".join(lines), MISUSED)
    except ConvergeError as exc:
        give_up(str(exc), MISUSED)
