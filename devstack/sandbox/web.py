"""Web sites: what the site at a URL would answer.

Owns the choice of a page by the URL's host: of ten hosts eight have a full page, one is an empty page that a
script fills, one is parked. Each page's title names the host. Never looks at the path.

A host whose first label (after `www.`) starts with one of the words in `TROUBLES` answers that trouble:
`site-gone-anything.com`, `site-down-anything.io`, ... `site-redirect-chain-{rest}` leads to the same
URL at `www.{rest}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from html import escape
from urllib.parse import urlsplit, urlunsplit

from devstack.sandbox.samples import Answer, derive, error_answers, text_of

HTML = {"content-type": "text/html; charset=utf-8"}
CACHED_ANSWERS = 8192
SAMPLE_HOST, SAMPLE_NAME, SAMPLE_HANDLE = "moonharbor-example.com", "Moon Harbor", "moonharbor"
SPA_TITLE = "Vite + React + TS"
FULL, SPA, PARKED = (text_of(f"web/{name}.html") for name in ("page_full", "page_spa_empty", "parked"))
REDIRECT = "site-redirect-chain"


def _troubles() -> dict[str, Answer]:
    troubles = error_answers("web/errors.json", prefix="site_")
    challenge = troubles["site-challenge"]
    page = text_of("web/challenge_403.html").encode()
    troubles["site-challenge"] = Answer(status=403, headers=challenge.headers, body=page)
    troubles["site-down"] = Answer(status=503, headers={**HTML, "retry-after": "1"}, body=b"Unavailable")
    return troubles


TROUBLES: Mapping[str, Answer] = _troubles()


def answer(url: str) -> Answer:
    """Answer as the site at `url`; a URL without a host is a mistake of the caller."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host:
        return Answer(status=400, headers={"content-type": "text/plain"}, body=b"url: an absolute URL")
    label = host.removeprefix("www.")
    for word, trouble in TROUBLES.items():
        if label == word or label.startswith((f"{word}-", f"{word}.")):
            return _redirect(url, label) if word == REDIRECT else trouble
    return _page(host)


def _redirect(url: str, label: str) -> Answer:
    parts = urlsplit(url)
    target = urlunsplit(parts._replace(netloc=f"www.{label.removeprefix(REDIRECT).lstrip('-.')}"))
    return Answer(status=301, headers={**HTML, "location": target}, body=b"")


@lru_cache(CACHED_ANSWERS)
def _page(host: str) -> Answer:
    shown = escape(host)
    kind = derive("page", host.removeprefix("www."), below=10)
    if kind == 0:
        page = SPA.replace(SPA_TITLE, f"{SPA_TITLE} | {shown}")
    elif kind == 1:
        page = PARKED.replace(SAMPLE_HOST, shown)
    else:
        handle = "".join(char for char in host.partition(".")[0] if char.isalnum())[:12] or "site"
        page = FULL.replace(SAMPLE_HOST, shown).replace(SAMPLE_NAME, shown).replace(SAMPLE_HANDLE, handle)
    return Answer(headers=HTML, body=page.encode())
