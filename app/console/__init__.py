"""The operator's console: what is running, what has not converged and why, and what will happen next.

Pages made on the server, which read without JavaScript and load nothing from elsewhere. It has a guard of its
own (`sign_in.py`) instead of the API's, reaches stores through `workers.services` alone, and does no work of
jobs.
"""

from __future__ import annotations

from flask import Flask

from app.console import campaigns, fundings, graph, jobs, long_looks, overview, sign_in, urls, wording
from app.console.blueprint import blueprint
from workers.services import JobAccess

# Imported for their routes.
__all__ = ["campaigns", "fundings", "graph", "jobs", "overview", "register", "urls"]


def register(app: Flask, access: JobAccess) -> None:
    """Put the console into the app: its cookie, its guard, its pages. Opens no connection."""
    sign_in.prepare(app, access.settings)
    long_looks.prepare(app, access)
    overview.prepare(app, access)
    wording.register(app)
    app.register_blueprint(blueprint)
