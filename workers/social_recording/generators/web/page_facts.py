"""What the head of a web page says about itself. Pure: markup in, facts out; it never fails.

Titles and descriptions are what the page's owner shows when it is shared, so Open Graph comes before Twitter
cards, and both before the title of the window. Of several, the first that is not empty wins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import ada_url
from selectolax.lexbor import LexborHTMLParser, LexborNode

LINKS_SEEN_MAX = 2000
_DEPTH_MAX = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class PageFacts:
    """The facts. `links` are absolute, in the order of the page, those of JSON-LD last."""

    title: str | None
    description: str | None
    window_title: str | None
    image_url: str | None
    site_name: str | None
    organization: str | None
    links: tuple[str, ...]
    has_password_field: bool
    has_visible_text: bool


def read_page(markup: str, url: str) -> PageFacts:
    """Read `markup`, which `url` answered with."""
    tree = LexborHTMLParser(markup)
    metas = _metas_of(tree)
    # A `title` inside a drawing is not the page's.
    window_title = _first(_text_of(node) for node in tree.css("head title, html > title"))
    base = _absolute(_attribute(tree.css_first("base[href]"), "href"), url) or url
    data = list(_linked_data(tree))
    links = tuple(_links_of(tree, base, data))
    has_password_field = tree.css_first("input[type=password]") is not None
    return PageFacts(
        title=_first((metas.get("og:title"), metas.get("twitter:title"), window_title)),
        description=_first(
            (metas.get("og:description"), metas.get("twitter:description"), metas.get("description"))
        ),
        window_title=window_title,
        image_url=_absolute(metas.get("og:image"), base),
        site_name=metas.get("og:site_name"),
        organization=_first(_organizations(data)),
        links=links,
        has_password_field=has_password_field,
        has_visible_text=_has_visible_text(tree),
    )


def _metas_of(tree: LexborHTMLParser) -> dict[str, str]:
    """The first content that is not empty for each name; some write `name` for `property` and back."""
    metas: dict[str, str] = {}
    for node in tree.css("meta[content]"):
        name = _attribute(node, "property") or _attribute(node, "name")
        content = collapsed(_attribute(node, "content"))
        if name and content:
            metas.setdefault(name.strip().lower(), content)
    return metas


def _links_of(tree: LexborHTMLParser, base: str, data: list[dict[str, object]]) -> Iterator[str]:
    hrefs = [_attribute(node, "href") for node in tree.css("a[href]")[:LINKS_SEEN_MAX]]
    for written in (*hrefs, *_same_as(data)):
        link = _absolute(written, base)
        if link is not None:
            yield link


def _linked_data(tree: LexborHTMLParser) -> Iterator[dict[str, object]]:
    """All objects of the page's JSON-LD, those inside lists and graphs too."""
    for node in tree.css('script[type="application/ld+json"]'):
        try:
            yield from _objects_in(json.loads(node.text()), 0)
        except (ValueError, RecursionError):
            continue


def _objects_in(value: object, depth: int) -> Iterator[dict[str, object]]:
    if depth > _DEPTH_MAX:
        return
    if isinstance(value, list):
        for item in value:
            yield from _objects_in(item, depth + 1)
    elif isinstance(value, dict):
        yield value
        yield from _objects_in(value.get("@graph"), depth + 1)


def _same_as(data: list[dict[str, object]]) -> Iterator[str]:
    for item in data:
        value = item.get("sameAs")
        yield from (link for link in (value if isinstance(value, list) else [value]) if isinstance(link, str))


def _organizations(data: list[dict[str, object]]) -> Iterator[str | None]:
    for item in data:
        name = item.get("name")
        if item.get("@type") == "Organization" and isinstance(name, str):
            yield collapsed(name)


def _absolute(written: str | None, base: str) -> str | None:
    """`written` seen from `base`; None for what is no http URL."""
    if not written or not written.strip():
        return None
    try:
        link = ada_url.URL(written.strip(), base)
    except ValueError:
        return None
    return str(link.href) if link.protocol in ("http:", "https:") else None


def _attribute(node: LexborNode | None, name: str) -> str | None:
    return None if node is None else node.attributes.get(name)


def _text_of(node: LexborNode) -> str | None:
    return collapsed(node.text())


def _has_visible_text(tree: LexborHTMLParser) -> bool:
    """Whether a person would see words. Takes the rest out of the tree, so it has to come last."""
    tree.strip_tags(["head", "script", "style", "noscript", "template"])
    return tree.body is not None and bool(tree.body.text(strip=True))


def collapsed(text: str | None) -> str | None:
    """`text` with each run of white space as one space; None when nothing is left."""
    return re.sub(r"\s+", " ", text or "").strip() or None


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)
