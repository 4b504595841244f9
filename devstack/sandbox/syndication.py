"""X's keyless syndication endpoint: one post by its id.

Owns the personalisation of two recorded posts to the id asked for. Never lets two answers about one post or
one author differ: text, author and numbers depend on the ids alone.

- The author is one of 40, chosen by the id, so many posts share an author; the handle in a post's URL plays
  no part, as on X.
- About every fifth post quotes one of 20 fixed posts from 2023 (`QUOTED_IDS`), if it is younger.
- The ids in `RESERVED_IDS` get the recorded error answers. So does `?case=` with the name of a case
  (`syndication-deleted`, ...), which real clients do not send.
- An id that is no number of at most 19 digits is `syndication-missing`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from devstack.sandbox.samples import Answer, derive, error_answers, json_answer, payload_of

EPOCH_MS = 1_288_834_974_657
ID_DIGITS_MAX = 19
FIRST_SNOWFLAKE = 30_000_000_000
AUTHOR_COUNT = 40
CACHED_ANSWERS = 8192

POST = json.dumps(payload_of("x/syndication_tweet.json"))
POST_ID = "2023357708300373429"
QUOTE: dict[str, Any] = payload_of("x/syndication_quote.json")
ERRORS = error_answers("x/errors.json", prefix="syndication_")
MISSING = "syndication-missing"
RESERVED_IDS = {
    "1000000000000000001": "syndication-deleted",
    "1000000000000000002": "syndication-account-gone",
    "1000000000000000003": "syndication-suspended",
    "1000000000000000004": "syndication-protected",
    "1000000000000000005": "syndication-restricted",
    "1000000000000000006": "syndication-empty",
    "1000000000000000007": MISSING,
    "1000000000000000008": "syndication-refused",
    "1000000000000000009": "syndication-rate-limited",
}
QUOTED_IDS = tuple(str(1_641_000_000_000_000_000 + nth * 1_000_000_007) for nth in range(20))


def answer(query: str) -> Answer:
    """Answer `GET /tweet-result?{query}`."""
    parameters = parse_qs(query)
    post_id = parameters.get("id", [""])[0]
    case = parameters.get("case", [RESERVED_IDS.get(post_id, "")])[0]
    if case in ERRORS:
        return ERRORS[case]
    # isdecimal alone takes other scripts' digits, too.
    if not (post_id.isascii() and post_id.isdecimal() and len(post_id) <= ID_DIGITS_MAX):
        return ERRORS[MISSING]
    return _post(post_id)


@lru_cache(CACHED_ANSWERS)
def _post(post_id: str) -> Answer:
    post = _plain(post_id)
    if quotes(post_id):
        quoted = _plain(QUOTED_IDS[derive("quotes", post_id, below=len(QUOTED_IDS))])
        # Inside another post X gives two numbers more, and two fields less.
        quoted["reply_count"] = derive("replies", quoted["id_str"], below=50)
        quoted["retweet_count"] = derive("retweets", quoted["id_str"], below=500)
        for absent in ("__typename", "conversation_count", "news_action_type"):
            del quoted[absent]
        post["quoted_tweet"] = quoted
        post["entities"] = QUOTE["entities"]
        post["text"] = f"#FrostCedarw {post['text']}"
        post["display_text_range"] = [0, len(post["text"])]
    return json_answer(post)


def quotes(post_id: str) -> bool:
    """Whether a post quotes another."""
    if post_id in QUOTED_IDS or int(post_id) <= int(QUOTED_IDS[-1]):
        return False
    return derive("is a quote", post_id, below=5) == 0


def _plain(post_id: str) -> dict[str, Any]:
    post: dict[str, Any] = json.loads(POST.replace(POST_ID, post_id))
    author = derive("author", post_id, below=AUTHOR_COUNT)
    post["user"]["id_str"] = str(2_600_000_000 + author)
    post["user"]["name"] = f"Author {author}"
    post["user"]["screen_name"] = f"author_{author}"
    post["text"] = f"Post {post_id}: {post['text']}"
    post["display_text_range"] = [0, len(post["text"])]
    post["created_at"] = _created_at(post_id)
    post["favorite_count"] = derive("likes", post_id, below=3000)
    post["conversation_count"] = derive("replies", post_id, below=50)
    return post


def _created_at(post_id: str) -> str:
    """The time inside the id; ids from before 2010 hold none and get X's first year."""
    number = int(post_id)
    if number < FIRST_SNOWFLAKE:
        return "2006-03-21T20:50:14.000Z"
    moment = datetime.fromtimestamp(((number >> 22) + EPOCH_MS) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
