"""X's keyless oEmbed endpoint: whether a post is there, and the page's piece to embed it.

Owns the personalisation of the recorded answer to the post asked for. Posts that are gone, protected or of a
suspended account are missing, all alike; the fate `moved` redirects once, as the endpoint's former host does.
"""

from __future__ import annotations

import re
from html import escape
from urllib.parse import parse_qs, quote

from devstack.sandbox import x_facts
from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, error_answers, json_answer, payload_of

SAMPLE = payload_of("x/oembed.json")
ERRORS = error_answers("x/errors.json", prefix="oembed_")
MISSING, MOVED, BAD_REQUEST = "oembed-missing", "oembed-moved", "oembed-bad-request"
MISSING_FATES = x_facts.GONE | x_facts.CLOSED
POST_URL = re.compile(r"https?://(?:www\.)?(?:x|twitter)\.com/\w+/status/(\d{1,19})(?:[/?#].*)?", re.ASCII)


def answer(request: Request, path: str) -> Answer:
    """Answer a GET of `path`, which starts after the base URL."""
    if request.method not in {"GET", "HEAD"}:
        return json_answer({"message": "Method Not Allowed"}, status=405)
    query = {name: values[0] for name, values in parse_qs(request.query).items()}
    if path != "/oembed" or "url" not in query:
        return ERRORS[BAD_REQUEST if path == "/oembed" else MISSING]
    found = POST_URL.fullmatch(query["url"])
    fate = x_facts.FATES.get(found[1]) if found else None
    if found is None or fate in MISSING_FATES:
        return ERRORS[MISSING]
    if fate == "moved" and "moved" not in query:
        return _moved(request)
    return _shown(found[1])


def _moved(request: Request) -> Answer:
    recorded = ERRORS[MOVED]
    location = f"http://{request.headers.get('host', '')}{request.target}&moved=1"
    return Answer(status=recorded.status, headers={**recorded.headers, "location": location}, body=b"")


def _shown(post_id: str) -> Answer:
    post = x_facts.post(post_id)
    profile = f"https://x.com/{post.author.handle}"
    url = f"{profile}/status/{post.id}"
    day = f"{post.created_at:%B} {post.created_at.day}, {post.created_at.year}"
    markup = (
        f'<blockquote class="twitter-tweet"><p lang="en" dir="ltr">{escape(post.text)}</p>'
        f"&mdash; {escape(post.author.name)} (@{post.author.handle})"
        f' <a href="{url}?ref_src={quote("twsrc^tfw")}">{day}</a></blockquote>\n'
    )
    return json_answer(
        {**SAMPLE, "url": url, "author_name": post.author.name, "author_url": profile, "html": markup}
    )
