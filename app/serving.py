"""How gunicorn serves the API: `gunicorn -c python:app.serving app.wsgi:app`. Values, and one hook."""

from __future__ import annotations

import importlib

worker_class = "gthread"
workers = 2
threads = 8
graceful_timeout = 20
# Its socket would lie in the home directory, which a user may not have and which two services would share.
control_socket_disable = True


def on_starting(_: object) -> None:
    """Load the code once, before the workers are forked; each builds its own app and its own connections."""
    for module in ("app", "workers.services"):
        importlib.import_module(module)
