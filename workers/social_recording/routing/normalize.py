"""Turns what people write into the one URL that is stored and compared. Pure; never raises.

A known platform's URL becomes the canonical URL of the place it leads to, so all spellings of one place are
one URL. On the web the scheme (on default ports), `www.`, default ports, trackers, trailing slashes and
fragments do not count; the letter case of the path, the query and a `#/route` do.

URLs whose host is an inside address or name come through in canonical form, so that the recording can mark
them `blocked` without a connection (`addresses.leads_inside`). Other addresses are refused: nobody's social
page is a number.

Invariant: `normalize(normalize(t).url).url == normalize(t).url`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import ada_url

from workers.social_graph.vocabulary import Platform
from workers.social_recording.routing.extraction import LINK_MAX, is_plain, links_meant
from workers.social_recording.routing.hosts import HostFacts, facts_of
from workers.social_recording.routing.patterns import URLParts, clean_query, upper_escapes, with_query
from workers.social_recording.routing.rejection import Rejection

TEXT_MAX = 65_536
# A canonical URL that still needs repair (a tracker was dropped from behind a full stop) is repaired again.
_PASSES_MAX = 8
_SHOWN_MAX = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Normalized:
    """Either `url`, the canonical URL, or `reason`, why there is none.

    `text` is the link as it was written, cut for display; it takes no part in comparisons.
    """

    url: str | None = None
    reason: Rejection | None = None
    text: str = field(default="", compare=False)


def normalize(text: str, *, handles_of: Platform | None = None) -> Normalized:
    """The first link in `text`, or the first reason why there is none.

    `handles_of` is the platform that a bare `@name` belongs to; without it such a text is `bare_handle`.
    """
    text = text.strip()
    if is_plain(text):
        return _judge(text, text)
    found = links_in(text, handles_of=handles_of)
    return next((each for each in found if each.url is not None), found[0])


def links_in(text: str, *, handles_of: Platform | None = None) -> tuple[Normalized, ...]:
    """Every link in `text` in order, each canonical URL once, with the reasons for what is no URL.

    Never empty: a text without any link gives one entry with a reason.
    """
    if len(text) > TEXT_MAX:
        return (Normalized(reason=Rejection.TOO_LONG, text=text[:_SHOWN_MAX]),)
    found: dict[str, Normalized] = {}
    for written, outcome in links_meant(text, handles_of):
        shown = written[:_SHOWN_MAX]
        if isinstance(outcome, Rejection):
            each = Normalized(reason=outcome, text=shown)
        else:
            each = _judge(outcome, shown)
        found.setdefault(each.url or f"{each.reason} {shown}", each)
    if found:
        return tuple(found.values())
    reason = Rejection.NOT_A_URL if text.strip() else Rejection.EMPTY
    return (Normalized(reason=reason, text=text[:_SHOWN_MAX]),)


def _judge(url: str, text: str) -> Normalized:
    """Take a repaired link to the form that another pass would not change."""
    outcome = _canonical(url)
    for _ in range(_PASSES_MAX):
        if isinstance(outcome, Rejection):
            return Normalized(reason=outcome, text=text)
        if is_plain(outcome):
            return Normalized(url=outcome, text=text)
        before = outcome
        _, repaired = next(links_meant(outcome, None), ("", Rejection.NOT_A_URL))
        outcome = repaired if isinstance(repaired, Rejection) else _canonical(repaired)
        if outcome == before:
            return Normalized(url=before, text=text)
    return Normalized(reason=Rejection.BAD_URL, text=text)


def _canonical(url: str) -> str | Rejection:
    """The canonical form of a URL with a scheme, or why it is refused."""
    try:
        href = ada_url.normalize_url(url)
    except ValueError:
        return Rejection.BAD_URL
    scheme, authority, parts = split(href)
    if "@" in authority:
        return Rejection.HAS_CREDENTIALS
    facts = facts_of(parts.host)
    if facts.refusal is not None:
        return facts.refusal
    if facts.site is not None and authority == parts.host:
        canonical = facts.site.canonical(parts)
    else:
        canonical = web_url(scheme, authority, parts, facts)
    return canonical if len(canonical) <= LINK_MAX else Rejection.TOO_LONG


def split(href: str) -> tuple[str, str, URLParts]:
    """Scheme, authority (host and port) and parts of a URL as WHATWG writes it."""
    scheme, _, rest = href.partition("://")
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    host = authority
    if ":" in authority:
        host = authority[: authority.index("]") + 1] if "]" in authority else authority.partition(":")[0]
    return scheme, authority, URLParts(host, slash + path or "/", query, fragment)


def web_url(scheme: str, authority: str, parts: URLParts, facts: HostFacts) -> str:
    """The canonical URL of a page that is on no known platform.

    A site answers on both default ports with the same pages, so the scheme is no part of its identity; on
    any other port the scheme is what makes it reachable.
    """
    port = authority[len(parts.host) :]
    path = parts.path.rstrip("/") or "/"
    if "%" in path:
        path = upper_escapes(path)
    place = with_query(path, clean_query(parts.query))
    if parts.fragment.startswith(("/", "!/")) and parts.fragment.strip("/!"):
        place = f"{place}#{parts.fragment}"
    return f"{scheme if port else 'https'}://{facts.name}{port}{place}"
