"""URLs taken apart: a short way for links as nearly everybody writes them, a long way for all. Pure.

Invariant: the short way gives what the long way gives for the URL that a browser would make of the link.
"""

from __future__ import annotations

import re

LINK_MAX = 2048

# Host without port, path, query and fragment, the last two without their sign; what is missing is empty. No
# class with names, because two of them are made for every link and the plain tuple costs a quarter.
Parts = tuple[str, str, str, str]

# The shape of nearly all links; nothing in it needs repair, and no second link can begin behind the host. A
# full stop and the like behind a link belong to the sentence.
_PLAIN = re.compile(
    r"(?:https?://)?([A-Za-z0-9._-]*[A-Za-z0-9])"
    r"(/[A-Za-z0-9_@~%+=&$/.,;!-]*+)?"
    r"(?:\?([A-Za-z0-9_@~%+=&$/.,;!?-]*+))?"
    r"(?:#([A-Za-z0-9_@~%+=&$/.,;!?#-]*+))?(?<![.,;!?])"
)
SENTENCE_ENDS = ".,;!?"


def plain_parts(text: str) -> Parts | None:
    """Take a link apart that needs no repair, with or without a scheme; None when it may need some."""
    found = _PLAIN.fullmatch(text) if len(text) <= LINK_MAX else None
    return None if found is None else found.groups("")  # type: ignore[return-value]


def is_plain(text: str) -> bool:
    """Whether the text is one link with a scheme that needs no repair."""
    return text.startswith(("http://", "https://")) and plain_parts(text) is not None


def split(href: str) -> tuple[str, str, Parts]:
    """Scheme, port with its colon, and parts of a URL as WHATWG writes it.

    What is in front of an `@` stays with the host.
    """
    scheme, _, rest = href.partition("://")
    fragment = query = port = ""
    if "#" in rest:
        rest, _, fragment = rest.partition("#")
    if "?" in rest:
        rest, _, query = rest.partition("?")
    host, slash, path = rest.partition("/")
    if ":" in host:
        colon = host.rindex(":")
        if colon > max(host.rfind("]"), host.rfind("@")):
            host, port = host[:colon], host[colon:]
    return scheme, port, (host, slash + path, query, fragment)
