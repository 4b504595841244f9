"""JSON logs: a fixed message plus fields, one object a line.

What a thread is at work on stands in every line that it writes meanwhile, whoever writes it.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType

_PLAIN_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_NOTHING: Mapping[str, object] = MappingProxyType({})
_at_work_on: ContextVar[Mapping[str, object]] = ContextVar("at_work_on", default=_NOTHING)


@contextmanager
def about(**facts: object) -> Iterator[None]:
    """Add `facts` to every line that this thread writes in the body; one that is None is left out.

    A line's own fields come before these, and inner ones before outer ones. Threads that are started in the
    body know nothing of it.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    token = _at_work_on.set({**_at_work_on.get(), **known})
    try:
        yield
    finally:
        _at_work_on.reset(token)


class JSONFormatter(logging.Formatter):
    """Renders a record and its `extra` fields as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record; values that are no JSON become text."""
        entry: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry = {**entry, **_at_work_on.get(), **entry}
        entry |= {key: value for key, value in record.__dict__.items() if key not in _PLAIN_ATTRIBUTES}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def configure(level: int = logging.INFO) -> None:
    """Send every record of this process to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
