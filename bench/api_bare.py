"""What the API is compared with: routes of a bare Flask app under the same server.

`/plain` answers a small document that it has, `/stored` one that it reads from Redis first, `/taken` one that
was posted, `/sent` as well, after it has sent it as a task. None checks a key, or what it is given.
"""

from __future__ import annotations

import functools
import json
import os

from celery import Celery
from flask import Flask, Response, jsonify, request
from redis import Redis

REDIS, BROKER, STORED_KEY = "BENCH_API_REDIS", "BENCH_API_BROKER", "bench:api:document"

app = Flask(__name__)


@functools.cache
def _redis() -> Redis:
    return Redis.from_url(os.environ[REDIS])


@functools.cache
def _celery() -> Celery:
    celery = Celery("bare", broker=os.environ[BROKER])
    # As the API does, so that dashboards show what waits.
    celery.conf.task_send_sent_event = True
    return celery


@app.get("/plain")
def plain() -> Response:
    """Answer at once."""
    return jsonify(status="ok")


@app.get("/stored")
def stored() -> Response:
    """Answer what Redis has."""
    return jsonify(json.loads(_redis().get(STORED_KEY) or b"{}"))


@app.post("/taken")
def taken() -> Response:
    """Answer what was posted."""
    return jsonify(request.get_json())


@app.post("/sent")
def sent() -> Response:
    """Send a task and answer what was posted."""
    _celery().send_task("bare", kwargs={"request": request.get_json()}, ignore_result=True)
    return jsonify(request.get_json())
