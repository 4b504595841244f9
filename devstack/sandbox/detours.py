"""X's short links: `https://t.co/{code}`, each of which leads to one place, named by its code.

`post{number}` leads to that post, `gone{anything}` to nothing, `inside{anything}` into a network of its own,
every other code to a web site of that name.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from devstack.sandbox.samples import Answer

HOST = "t.co"
HTML = {"content-type": "text/html; charset=utf-8"}


def is_detour(url: str) -> bool:
    """Whether a URL is one of the short links."""
    try:
        return urlsplit(url).hostname == HOST
    except ValueError:
        return False


def answer(url: str) -> Answer:
    """Answer as the service of the short links."""
    code = urlsplit(url).path.strip("/")
    if not code or code.startswith("gone"):
        return Answer(status=404, headers=HTML, body=b"")
    post = re.fullmatch(r"post(\d+)", code)
    if post:
        target = f"https://twitter.com/anybody/status/{post[1]}"
    elif code.startswith("inside"):
        target = "http://10.0.0.5/"
    else:
        target = f"https://www.landing-{code.lower()}.com/?utm_source=t"
    return Answer(status=301, headers={**HTML, "location": target}, body=b"")
