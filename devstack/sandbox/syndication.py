"""X's keyless syndication endpoint: one post by its id.

Owns the personalisation of two recorded posts to the post asked for; what is told of it is in `x_facts`.

The ids in `RESERVED_IDS` get the recorded error answers. So does `?case=` with the name of a case
(`syndication-deleted`, ...), which real clients do not send. An id that is no number of at most 19 digits is
`syndication-missing`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from devstack.sandbox import x_facts
from devstack.sandbox.samples import Answer, error_answers, json_answer, payload_of

CACHED_ANSWERS = 8192

POST = json.dumps(payload_of("x/syndication_tweet.json"))
POST_ID = "2023357708300373429"
QUOTE: dict[str, Any] = payload_of("x/syndication_quote.json")
ERRORS = error_answers("x/errors.json", prefix="syndication_")
MISSING = "syndication-missing"
# What this endpoint calls otherwise than the fate of a post is called.
_SILENT_FATES = frozenset({"silent", "hidden", "moved"})
RESERVED_IDS = {
    post_id: "syndication-empty" if fate in _SILENT_FATES else f"syndication-{fate}"
    for post_id, fate in x_facts.FATES.items()
    if fate in _SILENT_FATES or f"syndication-{fate}" in ERRORS
}


def answer(query: str) -> Answer:
    """Answer `GET /tweet-result?{query}`."""
    parameters = parse_qs(query)
    post_id = parameters.get("id", [""])[0]
    case = parameters.get("case", [RESERVED_IDS.get(post_id, "")])[0]
    if case in ERRORS:
        return ERRORS[case]
    if not x_facts.is_number(post_id):
        return ERRORS[MISSING]
    return _answer(post_id)


@lru_cache(CACHED_ANSWERS)
def _answer(post_id: str) -> Answer:
    post = x_facts.post(post_id)
    shown = _shown(post)
    if post.quoted_id is not None:
        shown["entities"] = QUOTE["entities"]
        # A quoted post that is gone is left out.
        if x_facts.FATES.get(post_id) != "quote-gone":
            shown["quoted_tweet"] = _quoted(x_facts.post(post.quoted_id))
    return json_answer(shown)


def _quoted(post: x_facts.Post) -> dict[str, Any]:
    """A post inside another: X gives two numbers more there, and leaves three fields out."""
    shown = _shown(post)
    shown["reply_count"] = post.count("replies")
    shown["retweet_count"] = post.count("retweets")
    for absent in ("__typename", "conversation_count", "news_action_type"):
        del shown[absent]
    return shown


def _shown(post: x_facts.Post) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(POST.replace(POST_ID, post.id))
    shown["user"]["id_str"] = post.author.id
    shown["user"]["name"] = post.author.name
    shown["user"]["screen_name"] = post.author.handle
    shown["text"] = post.text
    shown["display_text_range"] = [0, len(post.text)]
    shown["created_at"] = x_facts.iso(post.created_at)
    shown["favorite_count"] = post.count("likes")
    shown["conversation_count"] = post.count("replies")
    return shown
