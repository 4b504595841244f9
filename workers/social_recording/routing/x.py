"""X: its hosts and mirrors, and the forms of its URLs.

The handle in a post's URL is decoration: any handle with the right number opens the post. A user's number
(`/i/user/1`) and a handle of digits look alike in the key; the canonical URL tells them apart.
"""

from __future__ import annotations

import re

from workers.social_graph.vocabulary import ContentSubtype, Platform, VenueSubtype
from workers.social_recording.routing.parts import Parts
from workers.social_recording.routing.patterns import (
    QUERY,
    TAG,
    Field,
    Site,
    account,
    content,
    venue,
)
from workers.social_recording.routing.queries import words

_HANDLE = Field(regex=r"\w{1,15}", folds=True)
_NUMBER = Field(regex=r"\d{1,20}")
_FIELDS = {
    "handle": _HANDLE,
    "screen_name": _HANDLE,
    "id": _NUMBER,
    "user_id": _NUMBER,
    "code": Field(regex=r"[A-Za-z0-9]{1,40}"),
    "kind": Field(regex=r"(?i:lists|spaces|events|broadcasts|topics)", folds=True),
    "name": Field(regex=r"[\w-]{1,40}"),
    "q": QUERY,
    "tag": TAG,
}
_TWEET = "https://x.com/i/status/{id}"
_RESERVED = words(
    "about account bookmarks communities compose download error explore favorites followers"
    " following hashtag hashtags help home i intent invitations jobs keyboard_shortcuts lists"
    " logged_out login logout mentions messages notifications oauth personalization privacy search"
    " sessions settings share signin signup statuses topics tos tweet welcome who_to_follow widgets"
)
# No parser has seen to the dots in it, so a segment may not begin with one.
_HASH_BANG = re.compile(r"!((?:/+[\w@~-][\w%@.~-]*)+)/*(?:[?#].*)?", re.ASCII)


def _path_of(parts: Parts) -> str:
    """Old links keep the place behind `#!`."""
    _, path, _, fragment = parts
    if path in ("", "/") and (found := _HASH_BANG.fullmatch(fragment)) is not None:
        return found[1]
    return path


_MAIN = Site(
    platform=Platform.X,
    host="x.com",
    hosts=words(
        "x.com twitter.com fxtwitter.com vxtwitter.com fixupx.com fixvx.com twittpr.com xcancel.com"
        " nitter.net nitter.poast.org nitter.privacydev.net nitter.tiekoetter.com nitter.space nitter.it"
        " nitter.cz nitter.42l.fr"
    ),
    prefix=r"w{2,4}\d?|m|mobile|[cdgt]",
    noise=frozenset({"s", "t", "lang", "src", "cn", "mx", "ref"}),
    reserved=_RESERVED,
    rewrite=_path_of,
    fields=_FIELDS,
    patterns=(
        content(ContentSubtype.TWEET, "/i/(?:web/)?status/{id}{rest}", key="{id}", url=_TWEET),
        content(ContentSubtype.TWEET, "/statuses/{id}{rest}", key="{id}", url=_TWEET),
        content(ContentSubtype.TWEET, "/{any}/status(?:es)?/{id}{rest}", key="{id}", url=_TWEET),
        venue(
            VenueSubtype.COMMUNITY,
            "/i/communities/{id}{rest}",
            key="{id}",
            url="https://x.com/i/communities/{id}",
        ),
        account("/i/user/{user_id}{rest}", key="{user_id}", url="https://x.com/i/user/{user_id}"),
        account(
            "/intent/(?:follow|user)",
            param="screen_name",
            key="{screen_name}",
            url="https://x.com/{screen_name}",
        ),
        account(
            "/intent/(?:follow|user)",
            param="user_id",
            key="{user_id}",
            url="https://x.com/i/user/{user_id}",
        ),
        content(ContentSubtype.INTENT, "/intent{rest}", key="{place}", url="https://x.com{place}"),
        content(ContentSubtype.INTENT, "/share", key="{place}", url="https://x.com{place}"),
        content(ContentSubtype.SEARCH, "/search", param="q", key="{q}", url="https://x.com/search?q={q}"),
        content(
            ContentSubtype.SEARCH, "/hashtag/{tag}{rest}", key="#{tag}", url="https://x.com/search?q=%23{tag}"
        ),
        content(
            ContentSubtype.UNKNOWN,
            "/i/{kind}/{name}{rest}",
            key="/i/{kind}/{name}",
            url="https://x.com/i/{kind}/{name}",
        ),
        account("/@?{handle}(?:/{any})?", key="{handle}", url="https://x.com/{handle}"),
    ),
)
_EMBED = Site(
    platform=Platform.X,
    host="platform.twitter.com",
    hosts=frozenset({"platform.twitter.com", "platform.x.com"}),
    fields=_FIELDS,
    patterns=(
        content(ContentSubtype.TWEET, r"/embed/(?:tweet|index)\.html", param="id", key="{id}", url=_TWEET),
    ),
)
_SHORT = Site(
    platform=Platform.X,
    host="t.co",
    hosts=frozenset({"t.co"}),
    fields=_FIELDS,
    patterns=(content(ContentSubtype.SHORTLINK, "/{code}", key="{code}", url="https://t.co/{code}"),),
)
_PICTURE = Site(
    platform=Platform.X,
    host="pic.twitter.com",
    hosts=frozenset({"pic.twitter.com", "pic.x.com"}),
    fields=_FIELDS,
    patterns=(
        content(ContentSubtype.SHORTLINK, "/{code}", key="{code}", url="https://pic.twitter.com/{code}"),
    ),
)
SITES = (_MAIN, _EMBED, _SHORT, _PICTURE)
