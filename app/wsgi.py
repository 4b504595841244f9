"""The entry point for a WSGI server: `gunicorn app.wsgi:app`."""

from __future__ import annotations

import sys

from app import create_app
from workers import logs
from workers.services import open_job_access
from workers.settings import SettingsError, read_settings

# With this status of a worker gunicorn ends as a whole; any other one makes it start workers for ever.
APP_LOAD_ERROR = 4

logs.configure()
try:
    app = create_app(open_job_access(read_settings()))
except SettingsError as exc:
    sys.stderr.write(f"{exc}\n")
    sys.exit(APP_LOAD_ERROR)
