"""Matches URLs against the patterns of their site. Pure.

A place on a known site that no pattern names is `contents/unknown`, keyed by its path. So a reserved word
never becomes an account and never costs a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import call
from urllib.parse import quote

from workers.social_graph.vocabulary import ContentSubtype
from workers.social_recording.routing.parts import Parts
from workers.social_recording.routing.patterns import Field, Pattern, Site, content
from workers.social_recording.routing.queries import (
    TRACKERS,
    clean_path,
    clean_query,
    decoded_path,
    has_parameter,
    parameter,
    with_query,
)
from workers.social_recording.routing.route import Route, new_route

# The raw fields of a match in the order of the pattern, then the place as it stands where it is asked for.
Values = tuple[str, ...]
Spelling = Callable[[str], str]
Writer = Callable[[Values], str]

# Parts of a path that are no fields: any one segment, and everything below the place (tabs, slugs, pages).
_WILDCARDS = {"any": r"[^/]+", "rest": r"(?:/.*)?"}
_PLACE = Field(regex="")
_FIELD = re.compile(r"\{(\w+)\}")
_HEAD = re.compile(r"/([a-z0-9_.-]*)(?=/|$|\{rest\})")


class Places:
    """The places of one site."""

    __slots__ = ("_any_query", "_no_query", "_noise", "_platform", "_prefix", "_rewrite", "_unnamed")

    def __init__(self, site: Site) -> None:
        matchers = [_Matcher(each, site.fields) for each in site.patterns]
        unnamed = content(ContentSubtype.UNKNOWN, "", key="{place}", url=f"https://{site.host}{{place}}")
        self._platform = site.platform
        self._noise = TRACKERS | site.noise
        self._rewrite = site.rewrite
        self._prefix = re.compile(site.prefix, re.ASCII)
        self._any_query = _index(matchers, site.reserved)
        # Most URLs have no query, and then a pattern that wants one need not be tried.
        self._no_query = _index([each for each in matchers if not each.wants_query], site.reserved)
        self._unnamed = (_Matcher(unnamed, {}), ())

    def allows_prefix(self, label: str) -> bool:
        """Whether `label` in front of one of the hosts is still this site."""
        return self._prefix.fullmatch(label) is not None

    def canonical(self, parts: Parts) -> str:
        """The canonical URL of where the URL leads on this site."""
        matcher, values = self._find(parts)
        return matcher.url_of(values)

    def route(self, parts: Parts) -> Route:
        """Where the URL leads on this site."""
        matcher, values = self._find(parts)
        pattern = matcher.pattern
        url, key = matcher.url_of(values), matcher.key_of(values)
        return new_route((url, self._platform, pattern.object, pattern.subtype, key))

    def _find(self, parts: Parts) -> tuple[_Matcher, Values]:
        """The first pattern that matches, with its values."""
        _, path, query, _ = parts
        if self._rewrite is not None:
            path = self._rewrite(parts)
        readable = path = path.rstrip("/") or "/"
        if "%" in path or "//" in path:
            path = clean_path(path)
            readable = decoded_path(path)
        by_head, headless = self._any_query if query else self._no_query
        table = by_head.get(readable.split("/", 2)[1].lower(), headless)
        matcher, values = table.find(readable, query) or self._unnamed
        if matcher.needs_place:
            place = with_query(path, clean_query(query, self._noise)) if query else path
            return matcher, (*values, place)
        return matcher, values


class _Matcher:
    """A pattern made ready to be tried; what it writes, it writes from the values at their positions."""

    __slots__ = ("_param", "fields_in_path", "head", "key_of", "needs_place", "pattern", "regex", "url_of")

    def __init__(self, pattern: Pattern, fields: Mapping[str, Field]) -> None:
        def regex_of(found: re.Match[str]) -> str:
            name = found[1]
            return _WILDCARDS.get(name) or f"((?-i:{fields[name].regex}))"

        names = [name for name in _FIELD.findall(pattern.path) if name not in _WILDCARDS]
        head = _HEAD.match(pattern.path)
        self.pattern = pattern
        self.head = head[1] if head else None
        self.regex = _FIELD.sub(regex_of, pattern.path)
        self.fields_in_path = len(names)
        self.needs_place = "{place}" in pattern.url
        self._param: re.Pattern[str] | None = None
        if pattern.param is not None:
            names.append(pattern.param)
            self._param = re.compile(fields[pattern.param].regex, re.ASCII)
        own = {name: fields[name] for name in names} | ({"place": _PLACE} if self.needs_place else {})
        self.key_of = _writer(pattern.key, {name: _in_key(each) for name, each in own.items()})
        self.url_of = _writer(pattern.url, {name: _in_url(each) for name, each in own.items()})

    @property
    def wants_query(self) -> bool:
        """Whether the path alone does not decide."""
        return self._param is not None or bool(self.pattern.flags)

    def checked(self, values: Values, query: str) -> Values | None:
        """All raw fields, where the path gave `values`; None when the query does not match."""
        if self.pattern.flags and not has_parameter(query, self.pattern.flags):
            return None
        if self._param is None:
            return values
        value = parameter(query, self.pattern.param or "")
        # A value of white space is no search.
        if value is None or value.isspace() or self._param.fullmatch(value) is None:
            return None
        return (*values, value)


def _index(matchers: Sequence[_Matcher], reserved: frozenset[str]) -> _Index:
    by_head = dict.fromkeys(reserved, _Table([]))
    for head in {each.head for each in matchers if each.head is not None}:
        heads = {head} if head in reserved else {head, None}
        by_head[head] = _Table([each for each in matchers if each.head in heads])
    return by_head, _Table([each for each in matchers if each.head is None])


class _Table:
    """Patterns in their order, tried at once: the alternatives of one regular expression.

    A branch is a pattern, where its fields are among all groups, and what is left to try when its query does
    not match. It is found by the number of the group around the alternative.
    """

    __slots__ = ("_branches", "_path")

    def __init__(self, matchers: Sequence[_Matcher]) -> None:
        alternatives = "|".join(f"({each.regex})" for each in matchers)
        self._path = re.compile(alternatives or "(?!)", re.ASCII | re.IGNORECASE)
        self._branches: dict[int | None, tuple[_Matcher, slice, _Table | None]] = {}
        group = 1
        for at, each in enumerate(matchers, start=1):
            rest = _Table(matchers[at:]) if each.wants_query else None
            self._branches[group] = (each, slice(group, group + each.fields_in_path), rest)
            group += 1 + each.fields_in_path

    def find(self, path: str, query: str) -> tuple[_Matcher, Values] | None:
        """The first pattern that matches, with its raw fields."""
        found = self._path.fullmatch(path)
        if found is None:
            return None
        # The group around an alternative is the last one to close.
        matcher, fields, rest = self._branches[found.lastindex]
        values = found.groups()[fields]
        if rest is None:
            return matcher, values
        checked = matcher.checked(values, query)
        return rest.find(path, query) if checked is None else (matcher, checked)


# Patterns by their first segment, where that is the same for all URLs of the form; and all that have none.
_Index = tuple[Mapping[str, _Table], _Table]


def _writer(template: str, spellings: Mapping[str, Spelling]) -> Writer:
    """A function that fills in the template. Most have one field, so that case has its own short one."""
    head, *rest = _FIELD.split(template)
    names = list(spellings)
    if len(rest) == 2:
        at, spell, tail = names.index(rest[0]), spellings[rest[0]], rest[1]
        return lambda values: f"{head}{spell(values[at])}{tail}"
    fill = _FIELD.sub(lambda found: f"{{{names.index(found[1])}}}", template).format
    in_order = tuple(spellings.values())
    return lambda values: fill(*map(call, in_order, values))


def _in_key(field: Field) -> Spelling:
    return _folded_text if field.is_text else str


def _in_url(field: Field) -> Spelling:
    if field.is_text:
        return _quoted_text
    if not field.is_ascii:
        return _quoted_lower if field.folds else _quoted
    return str.lower if field.folds else str


def _folded_text(raw: str) -> str:
    return " ".join(raw.casefold().split())


def _quoted_text(raw: str) -> str:
    # A lone surrogate cannot be quoted; no parser lets one through, but `route` takes any text.
    return quote(_folded_text(raw), safe="", errors="replace")


def _quoted_lower(raw: str) -> str:
    return _quoted(raw.lower())


def _quoted(raw: str) -> str:
    return raw if raw.isascii() else quote(raw, safe="", errors="replace")
