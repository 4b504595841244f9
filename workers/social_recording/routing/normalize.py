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

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import ada_url

from workers.social_graph.vocabulary import Platform
from workers.social_recording.routing.extraction import links_meant
from workers.social_recording.routing.hosts import facts_of
from workers.social_recording.routing.parts import (
    LINK_MAX,
    SENTENCE_ENDS,
    Parts,
    is_plain,
    plain_parts,
    split,
)
from workers.social_recording.routing.queries import clean_query, upper_escapes, with_query
from workers.social_recording.routing.rejection import Rejection

TEXT_MAX = 65_536
# A canonical URL that still needs repair (a tracker was dropped from behind a full stop) is repaired again.
_PASSES_MAX = 8
_SHOWN_MAX = 200


class Normalized(NamedTuple):
    """Either `url`, the canonical URL, or `reason`, why there is none.

    `text` is the link as it was written, cut for display. A tuple, because one is made for every link.
    """

    url: str | None
    reason: Rejection | None
    text: str


# See `route.new_route`.
_new_normalized: Callable[[tuple[str, None, str]], Normalized] = partial(tuple.__new__, Normalized)


def normalize(text: str, *, handles_of: Platform | None = None) -> Normalized:
    """The first link in `text`, or the first reason why there is none.

    `handles_of` is the platform that a bare `@name` belongs to; without it such a text is `bare_handle`.
    """
    text = text.strip()
    plain = plain_url(text)
    if plain is not None:
        return _new_normalized((plain, None, text))
    first = None
    for each in _repaired_links(text, handles_of):
        if each.url is not None:
            return each
        first = first or each
    return first or _nothing(text)


def links_in(text: str, *, handles_of: Platform | None = None) -> tuple[Normalized, ...]:
    """Every link in `text` in order, each canonical URL once, with the reasons for what is no URL.

    Never empty: a text without any link gives one entry with a reason.
    """
    alone = text.strip()
    plain = plain_url(alone)
    if plain is not None:
        return (_new_normalized((plain, None, alone)),)
    found: dict[str, Normalized] = {}
    for each in _repaired_links(text, handles_of):
        found.setdefault(each.url or f"{each.reason} {each.text}", each)
    return tuple(found.values()) or (_nothing(text),)


def plain_url(text: str) -> str | None:
    """The short way to the canonical URL of a sound link on a host that we accept; None for all others.

    Such a link has no port and no dot segments, so a parser would give it back as it is: none is asked.
    """
    parts = plain_parts(text)
    if parts is None:
        return None
    host, path, _, _ = parts
    facts = facts_of(host)
    has_escapes = "%" in path
    if not facts.is_plain or "/." in path or (has_escapes and "/%2" in path):
        return None
    canonical = web_url(facts.name, parts) if facts.places is None else facts.places.canonical(parts)
    # It is made of the link's own signs, so only its end can need repair, unless escapes were resolved.
    if (
        canonical[-1] in SENTENCE_ENDS
        or len(canonical) > LINK_MAX
        or (has_escapes and not is_plain(canonical))
    ):
        return None
    return canonical


def _repaired_links(text: str, handles_of: Platform | None) -> Iterator[Normalized]:
    """The long way, for every text. Gives nothing for a text without anything that is meant as a link."""
    if len(text) > TEXT_MAX:
        yield Normalized(None, Rejection.TOO_LONG, text[:_SHOWN_MAX])
        return
    for written, outcome in links_meant(text, handles_of):
        judged = outcome if isinstance(outcome, Rejection) else _judged(outcome)
        if isinstance(judged, Rejection):
            yield Normalized(None, judged, written[:_SHOWN_MAX])
        else:
            yield Normalized(judged, None, written[:_SHOWN_MAX])


def _nothing(text: str) -> Normalized:
    reason = Rejection.NOT_A_URL if text.strip() else Rejection.EMPTY
    return Normalized(None, reason, text[:_SHOWN_MAX])


def _judged(url: str) -> str | Rejection:
    """Take a repaired link to the form that another pass would not change."""
    plain = plain_url(url)
    if plain is not None:
        return plain
    outcome = parsed_url(url)
    for _ in range(_PASSES_MAX):
        if isinstance(outcome, Rejection) or is_plain(outcome):
            return outcome
        before = outcome
        _, repaired = next(links_meant(outcome, None), ("", Rejection.NOT_A_URL))
        outcome = repaired if isinstance(repaired, Rejection) else parsed_url(repaired)
        if outcome == before:
            return before
    return Rejection.BAD_URL


def parsed_url(url: str) -> str | Rejection:
    """The canonical form of any URL with a scheme, or why it is refused."""
    try:
        href = ada_url.normalize_url(url)
    except ValueError:
        return Rejection.BAD_URL
    scheme, port, parts = split(href)
    host = parts[0]
    if "@" in host:
        return Rejection.HAS_CREDENTIALS
    facts = facts_of(host)
    if facts.refusal is not None:
        return facts.refusal
    if facts.places is not None and not port:
        canonical = facts.places.canonical(parts)
    else:
        canonical = web_url(facts.name, parts, scheme, port)
    return canonical if len(canonical) <= LINK_MAX else Rejection.TOO_LONG


def web_url(name: str, parts: Parts, scheme: str = "https", port: str = "") -> str:
    """The canonical URL of a page that is on no known platform; `name` is its host in that URL.

    A site answers on both default ports with the same pages, so the scheme is no part of its identity; on
    any other port the scheme is what makes it reachable.
    """
    _, path, query, fragment = parts
    place = path.rstrip("/") or "/"
    if "%" in place:
        place = upper_escapes(place)
    if query:
        place = with_query(place, clean_query(query))
    if fragment and fragment.startswith(("/", "!/")) and fragment.strip("/!"):
        place = f"{place}#{fragment}"
    return f"{scheme}://{name}{port}{place}" if port else f"https://{name}{place}"
