"""What is true on X, whichever of its four services is asked.

Owns posts, people and communities: names, texts and numbers depend on the ids alone, so that the free and the
paid services tell the same of one of them, as far as they tell it at all.

- The author of a post is one of 40, chosen by its id, so many posts share an author; the handle in a post's
  URL plays no part, as on X.
- About every fifth post quotes one of 20 fixed posts from 2023 (`QUOTED_IDS`), if it is younger. About every
  eighth stands in one of 10 communities (`COMMUNITY_IDS`), if it is younger.
- What became of the posts in `FATES` is no usual thing; each service says it in its own words.
- A person's id comes from the lower-cased handle. Somebody asked for by an id that no name has given yet is
  called `u_` and the id in base 36.
- Each community was made by one of the 40 authors. `MISSING_COMMUNITY` is the id of none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from devstack.sandbox.samples import derive

EPOCH_MS = 1_288_834_974_657
ID_DIGITS_MAX = 19
FIRST_SNOWFLAKE = 30_000_000_000
# Accounts and communities got ids with a time inside years after posts.
FIRST_LONG_ID = 10**17
FIRST_POST_AT = datetime(2006, 3, 21, 20, 50, 14, tzinfo=UTC)
AUTHOR_COUNT, FIRST_AUTHOR_ID = 40, 2_600_000_000
FIRST_PERSON_ID, PERSON_IDS = 3_000_000_000, 1_000_000_000
FIRST_ACCOUNT_DAY, ACCOUNT_DAYS = datetime(2009, 1, 1, tzinfo=UTC), 2500
BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"

QUOTED_IDS = tuple(str(1_641_000_000_000_000_000 + nth * 1_000_000_007) for nth in range(20))
COMMUNITY_IDS = tuple(str(1_700_000_000_000_000_000 + nth * 1_000_000_009) for nth in range(10))
MISSING_COMMUNITY = "1500000000000000001"
FATES = {
    "1000000000000000001": "deleted",
    "1000000000000000002": "account-gone",
    "1000000000000000003": "suspended",
    "1000000000000000004": "protected",
    "1000000000000000005": "restricted",
    # Gone, and syndication says nothing at all.
    "1000000000000000006": "silent",
    "1000000000000000007": "missing",
    # These two are there, and syndication has its trouble.
    "1000000000000000008": "refused",
    "1000000000000000009": "rate-limited",
    # There, and syndication says nothing at all; for the second one oEmbed has moved.
    "1000000000000000010": "hidden",
    "1000000000000000011": "moved",
    "1000000000000000012": "quote-gone",
}
# Nobody but syndication tells these apart.
GONE = frozenset({"deleted", "account-gone", "silent", "missing"})
CLOSED = frozenset({"suspended", "protected"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Person:
    """An account."""

    id: str
    handle: str
    name: str

    @property
    def created_at(self) -> datetime:
        """When the account was made."""
        if int(self.id) >= FIRST_LONG_ID:
            return moment_of(self.id)
        return FIRST_ACCOUNT_DAY + timedelta(days=derive("account", self.id, below=ACCOUNT_DAYS))

    def count(self, what: str, *, below: int) -> int:
        """How many of `what` the account has."""
        return derive(what, self.id, below=below)

    @property
    def followers(self) -> int:
        """How many follow the account."""
        return self.count("followers", below=200_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Post:
    """A post; `quoted_id` and `community_id` are None for most."""

    id: str
    text: str
    author: Person
    quoted_id: str | None
    community_id: str | None

    @property
    def created_at(self) -> datetime:
        """The time inside the id; ids from before 2010 hold none and get X's first year."""
        return FIRST_POST_AT if int(self.id) < FIRST_SNOWFLAKE else moment_of(self.id)

    def count(self, what: str) -> int:
        """How many `likes`, `replies`, `retweets`, `quotes`, `bookmarks` or `views` the post has."""
        limits = {
            "likes": 3000,
            "replies": 50,
            "retweets": 500,
            "quotes": 40,
            "bookmarks": 80,
            "views": 90_000,
        }
        return derive(what, self.id, below=limits[what])


@dataclass(frozen=True, kw_only=True, slots=True)
class Community:
    """A community."""

    id: str
    name: str
    creator: Person
    members: int
    moderators: int

    @property
    def created_at(self) -> datetime:
        """The time inside the id."""
        return moment_of(self.id)


class People:
    """Everybody on X; remembers the handles it was asked for, for questions by id and their spelling."""

    def __init__(self) -> None:
        self._handles = {author(number).id: author(number).handle for number in range(AUTHOR_COUNT)}

    def by_handle(self, handle: str) -> Person:
        """Whoever has the handle; its first spelling counts from then on."""
        number = person_id(handle)
        return _person(number, self._handles.setdefault(number, handle))

    def by_id(self, number: str) -> Person:
        """Whoever has the id."""
        number = str(int(number))
        return _person(number, self._handles.get(number) or f"u_{base_36(int(number))}")


def author(number: int) -> Person:
    """One of the 40 who write all posts."""
    return Person(id=str(FIRST_AUTHOR_ID + number), handle=f"author_{number}", name=f"Author {number}")


def person_id(handle: str) -> str:
    """The id behind a handle, whatever its case."""
    name, _, number = handle.lower().partition("_")
    if name == "author" and number.isdecimal() and str(int(number)) == number and int(number) < AUTHOR_COUNT:
        return author(int(number)).id
    if name == "u" and number and set(number) <= set(BASE_36) and base_36(int(number, 36)) == number:
        return str(int(number, 36))
    return str(FIRST_PERSON_ID + derive("x person", handle.lower(), below=PERSON_IDS))


def post(post_id: str) -> Post:
    """The post of an id."""
    is_quote = quotes(post_id)
    text = f"Post {post_id}: the quiet river moves past the old stone bridge"
    return Post(
        id=post_id,
        text=f"#FrostCedarw {text}" if is_quote else text,
        author=author(derive("author", post_id, below=AUTHOR_COUNT)),
        quoted_id=QUOTED_IDS[derive("quotes", post_id, below=len(QUOTED_IDS))] if is_quote else None,
        community_id=_community_of(post_id),
    )


def quotes(post_id: str) -> bool:
    """Whether a post quotes another."""
    if FATES.get(post_id) == "quote-gone":
        return True
    return int(post_id) > int(QUOTED_IDS[-1]) and derive("is a quote", post_id, below=5) == 0


def community(number: str) -> Community:
    """The community of an id."""
    return Community(
        id=number,
        name=f"Harbor {number[-5:]}",
        creator=author(derive("community", number, below=AUTHOR_COUNT)),
        members=1 + derive("members", number, below=40_000),
        moderators=1 + derive("moderators", number, below=6),
    )


def is_number(text: str) -> bool:
    """Whether the text may be an id."""
    # isdecimal alone takes other scripts' digits, too.
    return text.isascii() and text.isdecimal() and len(text) <= ID_DIGITS_MAX


def moment_of(number: str) -> datetime:
    """The time inside an id, to the second as X shows it."""
    return datetime.fromtimestamp(((int(number) >> 22) + EPOCH_MS) // 1000, UTC)


def iso(moment: datetime) -> str:
    """As X's own services write it: `2025-12-06T17:42:18.000Z`."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def base_36(number: int) -> str:
    """A number from 0 in base 36."""
    text = ""
    while number or not text:
        number, digit = divmod(number, 36)
        text = BASE_36[digit] + text
    return text


def _person(number: str, handle: str) -> Person:
    known = int(number) - FIRST_AUTHOR_ID
    if 0 <= known < AUTHOR_COUNT:
        return author(known)
    return Person(id=number, handle=handle, name=f"{handle} of X")


def _community_of(post_id: str) -> str | None:
    if int(post_id) <= int(COMMUNITY_IDS[-1]) or derive("in a community", post_id, below=8):
        return None
    return COMMUNITY_IDS[derive("community of a post", post_id, below=len(COMMUNITY_IDS))]
