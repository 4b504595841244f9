"""The closed sets of words that the social graph stores, and the names and caps of its collections."""

from __future__ import annotations

from enum import StrEnum

LINEAGE_MAX_DEPTH = 2
SERIES_POINTS_MAX = 200


class Platform(StrEnum):
    """Where a link leads. `web` is every site that is none of the others."""

    X = "x"
    TIKTOK = "tt"
    INSTAGRAM = "ig"
    YOUTUBE = "yt"
    REDDIT = "rd"
    GITHUB = "gh"
    TELEGRAM = "tg"
    WEB = "web"


class ObjectKind(StrEnum):
    """Collections that a link can point to; the value is the collection's name."""

    CONTENTS = "contents"
    ACCOUNTS = "accounts"
    VENUES = "venues"


class ContentSubtype(StrEnum):
    """What kind of content; `unknown` is a known platform whose place inside it we cannot name."""

    TWEET = "tweet"
    VIDEO = "video"
    PHOTO = "photo"
    POST = "post"
    REEL = "reel"
    TV = "tv"
    STORY = "story"
    REPO = "repo"
    GIST = "gist"
    SEARCH = "search"
    INTENT = "intent"
    SHORTLINK = "shortlink"
    UNKNOWN = "unknown"
    SITE = "site"


class VenueSubtype(StrEnum):
    """What kind of place people gather in."""

    COMMUNITY = "community"
    SUBREDDIT = "subreddit"
    CHANNEL = "channel"
    PORTAL = "portal"
    SHELL = "shell"
    GUARD_GROUP = "guard_group"


class ParentRelation(StrEnum):
    """How a content refers to its parent; stored on the referring side only."""

    QUOTE = "quote"
    RETWEET = "retweet"
    FORK = "fork"


class FetchStatus(StrEnum):
    """The last outcome of one URL. The only axis is whether a retry can change it."""

    OK = "ok"
    NOT_FOUND = "not_found"
    BLOCKED = "blocked"
    INVALID = "invalid"
    EXHAUSTED = "exhausted"
    ERROR = "error"
    UNSUPPORTED = "unsupported"
    SKIPPED_PAID = "skipped_paid"

    @property
    def is_absorbing(self) -> bool:
        """Whether this status stands until a person reopens it."""
        return self not in RETRYABLE_STATUSES


RETRYABLE_STATUSES = frozenset({FetchStatus.ERROR, FetchStatus.UNSUPPORTED, FetchStatus.SKIPPED_PAID})


class LinkStatus(StrEnum):
    """The state of a link's target when the link was observed."""

    OK = "ok"
    DELETED = "deleted"
    UNAVAILABLE = "unavailable"
    UNRESOLVED = "unresolved"

    @classmethod
    def of(cls, status: FetchStatus) -> LinkStatus:
        """Translate the outcome of a fetch."""
        known = {
            FetchStatus.OK: cls.OK,
            FetchStatus.NOT_FOUND: cls.DELETED,
            FetchStatus.BLOCKED: cls.UNAVAILABLE,
        }
        return known.get(status, cls.UNRESOLVED)
