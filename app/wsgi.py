"""The entry point for a WSGI server: `gunicorn app.wsgi:app`."""

from __future__ import annotations

import sys

from app import create_app
from workers import logs
from workers.services import open_job_access
from workers.settings import SettingsError, read_settings

logs.configure()
try:
    app = create_app(open_job_access(read_settings()))
except SettingsError as exc:
    sys.exit(str(exc))
