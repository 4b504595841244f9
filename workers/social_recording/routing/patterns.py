"""How a platform's URLs are written down as data.

A platform is one or more sites; a site is a set of hosts that share one table of patterns. The first pattern
that matches wins. A pattern is a path with named fields, optionally one query parameter that must be there,
and three templates: what the place is, its key, and its one canonical URL. Everything else of the URL is
decoration.

Invariant: a canonical URL matches a pattern that gives the same canonical URL again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.social_recording.routing.parts import Parts

PathRewrite = Callable[[Parts], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One named part of a URL.

    `regex` tells letter case apart, other than the pattern around it; what it matches is ASCII unless
    `is_ascii` says otherwise. `folds`: the platform ignores letter case here, so the canonical URL has it in
    lower case while the key keeps the spelling. `is_text`: words that a person typed; the key is folded too
    and spaces are joined.
    """

    regex: str
    folds: bool = False
    is_text: bool = False
    is_ascii: bool = True


# What people search for, as a parameter and as a hashtag's path segment: a hashtag is a search for its text.
QUERY = Field(regex=r"(?s:.+)", is_text=True, is_ascii=False)
TAG = Field(regex=r"[^/]+", is_text=True, is_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """One form of URL.

    `path` is a regular expression that ignores letter case and in which `{name}` stands for a field, `{any}`
    for any one segment and `{rest}` for everything below. `param` names a query parameter whose value is one
    more field of that name; of `flags` one must be among the parameters, with or without a value. `key` and
    `url` are templates over the fields, and over `{place}`: path and query as they are.
    """

    path: str
    object: ObjectKind
    subtype: ContentSubtype | VenueSubtype | None
    key: str
    url: str
    param: str | None = None
    flags: frozenset[str] = frozenset()


def content(
    subtype: ContentSubtype,
    path: str,
    *,
    key: str,
    url: str,
    param: str | None = None,
    flags: frozenset[str] = frozenset(),
) -> Pattern:
    """A pattern for something that was published."""
    return Pattern(
        path=path,
        object=ObjectKind.CONTENTS,
        subtype=subtype,
        key=key,
        url=url,
        param=param,
        flags=flags,
    )


def account(path: str, *, key: str, url: str, param: str | None = None) -> Pattern:
    """A pattern for somebody."""
    return Pattern(path=path, object=ObjectKind.ACCOUNTS, subtype=None, key=key, url=url, param=param)


def venue(subtype: VenueSubtype | None, path: str, *, key: str, url: str) -> Pattern:
    """A pattern for a place where people gather."""
    return Pattern(path=path, object=ObjectKind.VENUES, subtype=subtype, key=key, url=url)


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Hosts that share one table of patterns.

    `hosts` are written without the labels that `prefix` allows in front (`www`, `m`, ...). `noise` are query
    parameters that never mean anything here; `reserved` are first path segments that are pages of the
    platform itself. `rewrite` is for sites that keep the place outside the path.
    """

    platform: Platform
    host: str
    hosts: frozenset[str]
    patterns: tuple[Pattern, ...]
    fields: Mapping[str, Field]
    prefix: str = r"w{2,4}\d?|m|mobile"
    noise: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()
    rewrite: PathRewrite | None = None
