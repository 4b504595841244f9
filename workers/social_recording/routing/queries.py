"""Paths and queries as text: what they hold, and how they look without what does not count. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from urllib.parse import unquote, unquote_plus

_SLASHES = re.compile(r"/{2,}")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNSAFE_ONCE_DECODED = re.compile(r"[\x00-\x20\x7f/?#\\%]")


def words(text: str) -> frozenset[str]:
    """A set of words, written as one text so that long tables stay readable."""
    return frozenset(text.split())


# The names of parameters that say where a click came from.
TRACKERS = words(
    "_ga _gl _openstat cmpid dclid epik fb_action_ids fb_action_types fb_ref fb_source fbclid"
    " gad_source gbraid gclid gclsrc igsh igshid li_fat_id mibextid mkt_tok msclkid oly_anon_id"
    " oly_enc_id rb_clickid ref_src ref_url s_kwcid srsltid ttclid twclid vero_id wbraid wickedid"
    " yclid ysclid"
)
TRACKER_PREFIXES = ("utm_", "mc_", "pk_", "mtm_", "hsa_", "_hs", "__cft__", "__tn__")


def clean_path(path: str) -> str:
    """A platform's path without doubled and trailing slashes."""
    if "//" in path:
        path = _SLASHES.sub("/", path)
    if "%" in path:
        path = upper_escapes(path)
    return path.rstrip("/") or "/"


def decoded_path(path: str) -> str:
    """The path with its escapes resolved, unless that would change its shape."""
    segments = path.split("/")
    try:
        decoded = [unquote(segment, errors="strict") for segment in segments]
    except UnicodeDecodeError:
        return path
    if any(_UNSAFE_ONCE_DECODED.search(segment) for segment in decoded):
        return path
    return "/".join(decoded)


def upper_escapes(text: str) -> str:
    """Write `%c3` as `%C3`: RFC 3986 section 6.2.2.1 calls the two equal."""
    return _ESCAPE.sub(lambda found: found[0].upper(), text)


def has_parameter(query: str, names: Container[str]) -> bool:
    """Whether one of the parameters is there, with or without a value."""
    return any(pair.partition("=")[0] in names for pair in query.split("&"))


def parameter(query: str, name: str) -> str | None:
    """The first value of a query parameter, decoded; None when it is missing or empty."""
    for pair in query.split("&"):
        own, _, value = pair.partition("=")
        if own == name and value:
            return unquote_plus(value)
    return None


def clean_query(query: str, noise: Container[str] = TRACKERS) -> str:
    """The query without empty pairs and `noise`, names in lower case, in its own order."""
    return "&".join([pair for pair in query.split("&") if pair and not _is_noise(pair, noise)])


def _is_noise(pair: str, noise: Container[str]) -> bool:
    name = pair.partition("=")[0].lower()
    return name in noise or name.startswith(TRACKER_PREFIXES)


def with_query(path: str, query: str) -> str:
    """Put the two together; an empty query has no sign."""
    return f"{path}?{query}" if query else path
