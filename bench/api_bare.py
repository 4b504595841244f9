"""What the API is compared with: routes of a bare Flask app under the same server.

`/plain` answers a small document that it has, `/stored` one that it reads from Redis first, `/taken` one that
it makes of a posted document. None checks a key, counts, or validates.
"""

from __future__ import annotations

import functools
import json
import os

from flask import Flask, Response, jsonify, request
from redis import Redis

REDIS, STORED_KEY = "BENCH_API_REDIS", "bench:api:document"

app = Flask(__name__)


@functools.cache
def _redis() -> Redis:
    return Redis.from_url(os.environ[REDIS])


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
