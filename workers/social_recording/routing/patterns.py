"""How a platform's URLs are written down as data, and how one URL is matched against them. Pure.

A platform is one or more sites; a site is a set of hosts that share one table of patterns. The first pattern
that matches wins. A pattern is a path with named fields, optionally one query parameter that must be there,
and three templates: what the place is, its key, and its one canonical URL. Everything else of the URL is
decoration.

A place on a known site that no pattern names is `contents/unknown`, keyed by its path. So a reserved word
never becomes an account and never costs a call.

Invariant: a canonical URL matches a pattern that gives the same canonical URL again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_plus

from workers.social_graph.vocabulary import ContentSubtype, ObjectKind, Platform, VenueSubtype
from workers.social_recording.routing.route import Route

Subtype = ContentSubtype | VenueSubtype | None

# Parts of a path that are no fields: any one segment, and everything below the place (tabs, slugs, pages).
_WILDCARDS = {"any": r"[^/]+", "rest": r"(?:/.*)?"}

_FIELD = re.compile(r"\{(\w+)\}")
_SLASHES = re.compile(r"/{2,}")
_UNSAFE_ONCE_DECODED = re.compile(r"[\x00-\x20\x7f/?#\\%]")
_HEAD = re.compile(r"/([a-z0-9_.-]*)(?=/|$|\{rest\})")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


def words(text: str) -> frozenset[str]:
    """A set of words, written as one text so that long tables stay readable."""
    return frozenset(text.split())


TRACKERS = words(
    "_ga _gl _openstat cmpid dclid epik fb_action_ids fb_action_types fb_ref fb_source fbclid"
    " gad_source gbraid gclid gclsrc igsh igshid li_fat_id mibextid mkt_tok msclkid oly_anon_id"
    " oly_enc_id rb_clickid ref_src ref_url s_kwcid srsltid ttclid twclid vero_id wbraid wickedid"
    " yclid ysclid"
)
TRACKER_PREFIXES = ("utm_", "mc_", "pk_", "mtm_", "hsa_", "_hs", "__cft__", "__tn__")


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One named part of a URL.

    `folds`: the platform ignores letter case here, so the canonical URL has it in lower case while the key
    keeps the spelling. `is_text`: words that a person typed; the key is folded too and spaces are joined.
    """

    regex: str
    folds: bool = False
    is_text: bool = False

    def key_of(self, raw: str) -> str:
        """The part as it stands in the key."""
        return " ".join(raw.casefold().split()) if self.is_text else raw

    def url_of(self, raw: str) -> str:
        """The part as it stands in the canonical URL."""
        if self.is_text:
            return quote(self.key_of(raw), safe="")
        text = raw.lower() if self.folds else raw
        return text if text.isascii() else quote(text, safe="")


# What people search for, as a parameter and as a hashtag's path segment: a hashtag is a search for its text.
QUERY = Field(regex=r"(?s:.+)", is_text=True)
TAG = Field(regex=r"[^/]+", is_text=True)
_PLACE = Field(regex="")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """One form of URL.

    `path` is a regular expression in which `{name}` stands for a field, `{any}` for any one segment and
    `{rest}` for everything below. `param` names a query parameter whose value is one more field of that
    name; of `flags` one must be among the parameters, with or without a value. `key` and `url` are templates
    over the fields, and over `{place}`: path and query as they are.
    """

    path: str
    object: ObjectKind
    subtype: Subtype
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


class URLParts(NamedTuple):
    """A URL taken apart. `host` is lower-case without port; `query` and `fragment` lack their sign.

    A tuple and no dataclass, because each link makes two and a frozen dataclass costs four times as much.
    """

    host: str
    path: str
    query: str
    fragment: str


PathRewrite = Callable[[URLParts], str]
# The raw fields of a match in the order of the pattern, then the place as it stands where it is asked for.
Values = tuple[str, ...]


class _Matcher:
    """A pattern made ready to be tried; its templates name fields by position."""

    __slots__ = ("_fields", "_has_text", "_key", "_param", "_path", "_url", "needs_place", "pattern")

    def __init__(self, pattern: Pattern, fields: Mapping[str, Field]) -> None:
        def regex_of(found: re.Match[str]) -> str:
            name = found[1]
            return _WILDCARDS.get(name) or f"(?P<{name}>{fields[name].regex})"

        names = [name for name in _FIELD.findall(pattern.path) if name not in _WILDCARDS]
        self.pattern = pattern
        self.needs_place = "{place}" in pattern.url
        self._path = re.compile(_FIELD.sub(regex_of, pattern.path), re.ASCII | re.IGNORECASE)
        self._param: re.Pattern[str] | None = None
        if pattern.param is not None:
            names.append(pattern.param)
            self._param = re.compile(fields[pattern.param].regex, re.ASCII | re.IGNORECASE)
        self._fields = tuple(fields[name] for name in names) + (_PLACE,) * self.needs_place
        self._has_text = any(each.is_text for each in self._fields)
        self._key, self._url = (_positional(each, [*names, "place"]) for each in (pattern.key, pattern.url))

    def match(self, path: str, query: str) -> Values | None:
        """The raw fields, or None."""
        found = self._path.fullmatch(path)
        if found is None:
            return None
        if self.pattern.flags and not has_parameter(query, self.pattern.flags):
            return None
        if self._param is None:
            return found.groups()
        value = parameter(query, self.pattern.param or "")
        if value is None or self._param.fullmatch(value) is None or not self._fields[-1].key_of(value):
            return None
        return (*found.groups(), value)

    def url_of(self, values: Values) -> str:
        """The canonical URL of what was matched."""
        return self._url.format(*[each.url_of(raw) for each, raw in zip(self._fields, values, strict=True)])

    def key_of(self, values: Values) -> str:
        """The key of what was matched."""
        if self._has_text:
            values = tuple(each.key_of(raw) for each, raw in zip(self._fields, values, strict=True))
        return self._key.format(*values)


@dataclass(frozen=True, kw_only=True)
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
    _prefix: re.Pattern[str] = field(init=False, repr=False)
    _by_head: dict[str, tuple[_Matcher, ...]] = field(init=False, repr=False)
    _headless: tuple[_Matcher, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the patterns by their first literal segment, keeping their order."""
        matchers = [(_head(each.path), _Matcher(each, self.fields)) for each in self.patterns]
        heads = {head for head, _ in matchers if head is not None}
        by_head = {
            head: tuple(
                each for own, each in matchers if own == head or (own is None and head not in self.reserved)
            )
            for head in heads | self.reserved
        }
        object.__setattr__(self, "_prefix", re.compile(self.prefix, re.ASCII))
        object.__setattr__(self, "_by_head", by_head)
        object.__setattr__(self, "_headless", tuple(each for head, each in matchers if head is None))

    def allows_prefix(self, label: str) -> bool:
        """Whether `label` in front of one of the hosts is still this site."""
        return self._prefix.fullmatch(label) is not None

    def canonical(self, parts: URLParts) -> str:
        """The canonical URL of where the URL leads on this site."""
        matcher, values = self._find(parts)
        return f"https://{self.host}{values[0]}" if matcher is None else matcher.url_of(values)

    def place(self, parts: URLParts) -> Route:
        """Where the URL leads on this site."""
        matcher, values = self._find(parts)
        if matcher is None:
            return Route(
                url=f"https://{self.host}{values[0]}",
                platform=self.platform,
                object=ObjectKind.CONTENTS,
                subtype=ContentSubtype.UNKNOWN,
                key=values[0],
            )
        return Route(
            url=matcher.url_of(values),
            platform=self.platform,
            object=matcher.pattern.object,
            subtype=matcher.pattern.subtype,
            key=matcher.key_of(values),
        )

    def _find(self, parts: URLParts) -> tuple[_Matcher | None, Values]:
        """The first pattern that matches with its fields, or None with the place as it stands."""
        path = clean_path(parts.path if self.rewrite is None else self.rewrite(parts))
        readable = _decoded(path) if "%" in path else path
        head = readable[1:].partition("/")[0].lower()
        for matcher in self._by_head.get(head, self._headless):
            values = matcher.match(readable, parts.query)
            if values is not None:
                if matcher.needs_place:
                    values = (*values, with_query(path, clean_query(parts.query, self.noise)))
                return matcher, values
        return None, (with_query(path, clean_query(parts.query, self.noise)),)


def _positional(template: str, names: Sequence[str]) -> str:
    return _FIELD.sub(lambda found: f"{{{names.index(found[1])}}}", template)


def _head(path: str) -> str | None:
    """The first segment when it is the same for every URL of this form."""
    first = _HEAD.match(path)
    return first[1] if first else None


def _decoded(path: str) -> str:
    """The path with its escapes resolved, unless that would change its shape."""
    segments = path.split("/")
    try:
        decoded = [unquote(segment, errors="strict") for segment in segments]
    except UnicodeDecodeError:
        return path
    if any(_UNSAFE_ONCE_DECODED.search(segment) for segment in decoded):
        return path
    return "/".join(decoded)


def clean_path(path: str) -> str:
    """A platform's path without doubled and trailing slashes."""
    if "//" in path:
        path = _SLASHES.sub("/", path)
    if "%" in path:
        path = upper_escapes(path)
    return path.rstrip("/") or "/"


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


def clean_query(query: str, noise: Container[str] = ()) -> str:
    """The query without trackers, empty pairs and what is `noise` on this site, in its own order."""
    if not query:
        return ""
    return "&".join(pair for pair in query.split("&") if pair and not _is_noise(pair, noise))


def _is_noise(pair: str, noise: Container[str]) -> bool:
    name = pair.partition("=")[0].lower()
    return name in TRACKERS or name in noise or name.startswith(TRACKER_PREFIXES)


def with_query(path: str, query: str) -> str:
    """Put the two together; an empty query has no sign."""
    return f"{path}?{query}" if query else path
