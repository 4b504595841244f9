"""Reddit: what is true there, its API, and the web site's tokens and share links.

Owns posts, comments, subreddits and users: texts and numbers depend on an id or a name alone, so that the API
and the actor (`actors.py`) tell the same of one of them, as far as they tell it at all.

- The author of a post is one of 40, its subreddit one of 20, both chosen by its id; the subreddit in a post's
  URL plays no part, as on Reddit. About every eighth post repeats one of 10 fixed posts (`ORIGINS`).
- A user or a subreddit whose name is that of a case of `data/reddit/errors.json` (`subreddit_private`,
  `user_suspended`, `rate_limited`, ...) gets that case's answer. The posts in `FATES` are gone or closed.
- Tokens are given to every client but `bad-client`, and a token is good until the sandbox is reset.
- A share link leads to a post that depends on its code. A code that holds `walled` is refused with a page.
"""

from __future__ import annotations

import copy
import json
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

from devstack.sandbox.http_server import Request
from devstack.sandbox.samples import Answer, derive, error_answers, json_answer, payload_of

AUTHOR_COUNT, SUBREDDIT_COUNT = 40, 20
FIRST_SECOND, SECONDS = 1_700_000_000, 60_000_000
BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz"

POST = payload_of("reddit/post.json")["data"]["children"][0]["data"]
CROSSPOST = payload_of("reddit/crosspost.json")["data"]["children"][0]["data"]
SUBREDDIT = payload_of("reddit/subreddit_about.json")
USER = payload_of("reddit/user_about.json")
ERRORS = error_answers("reddit/errors.json")
NO_POST, BLOCK_PAGE = ERRORS["post-missing"], ERRORS["anonymous-json-blocked"]
TOKEN, BAD_CLIENT, BAD_TOKEN = ERRORS["token-ok"], ERRORS["token-bad-client"], ERRORS["token-expired"]
UNKNOWN_CLIENT = "bad-client"
# In the recording, what a suspended user is called.
SUSPENDED_NAME = b"somehandle"

FATES = {
    "zzzzzzz": "missing",
    "aaaaaaa": "deleted",
    "bbbbbbb": "moderator",
    "ccccccc": "copyright_takedown",
    "ddddddd": "author account deleted",
}
ORIGINS = tuple(f"origin{nth}" for nth in range(10))
ABOUT = re.compile(r"/(r|user)/([\w-]+)/about", re.ASCII)
SHARE = re.compile(r"/(r|user)/([\w-]+)/s/([\w-]+)", re.ASCII)
LIMIT_HEADERS = {
    "x-ratelimit-remaining": "594.0",
    "x-ratelimit-reset": "271",
    "x-ratelimit-used": "6",
}


class Reddit:
    """Answers both services; remembers the tokens it has given."""

    def __init__(self) -> None:
        self._tokens: set[str] = set()

    def api(self, request: Request, path: str) -> Answer:
        """Answer a GET of oauth.reddit.com."""
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self._tokens:
            return BAD_TOKEN
        if path == "/api/info":
            name = parse_qs(request.query).get("id", [""])[0]
            return _listing(name)
        found = ABOUT.fullmatch(path)
        if found is None:
            return json_answer({"message": "Not Found", "error": 404}, status=404)
        refusal = ERRORS.get(found[2].lower().replace("_", "-"))
        if refusal is not None:
            return replace(refusal, body=refusal.body.replace(SUSPENDED_NAME, found[2].encode()))
        show: Callable[[str], Any] = subreddit_about if found[1] == "r" else user_about
        return json_answer(show(found[2]), headers=LIMIT_HEADERS)

    def site(self, request: Request, path: str) -> Answer:
        """Answer www.reddit.com: tokens for apps, redirects for share links, a page for everything else."""
        if path == "/api/v1/access_token" and request.method == "POST":
            return self._token(request)
        found = SHARE.fullmatch(path.rstrip("/"))
        if found is None or "walled" in found[3].lower():
            return BLOCK_PAGE
        post_id = shared_post(found[3])
        place = f"/{found[1]}/{found[2]}/comments/{post_id}/shared/"
        location = f"https://www.reddit.com{place}?share_id={found[3]}&utm_name=androidcss"
        return Answer(status=301, headers={"location": location}, body=b"")

    def _token(self, request: Request) -> Answer:
        form = parse_qs(request.body.decode(errors="replace"))
        if _client_of(request.headers.get("authorization", "")) in ("", UNKNOWN_CLIENT):
            return BAD_CLIENT
        if form.get("grant_type") != ["client_credentials"]:
            return json_answer({"error": "unsupported_grant_type"}, status=400)
        token = f"sandbox-token-{len(self._tokens) + 1}"
        self._tokens.add(token)
        return json_answer({**json.loads(TOKEN.body), "access_token": token})


def _client_of(authorization: str) -> str:
    """The client of HTTP Basic; an empty text for anything else."""
    scheme, _, pair = authorization.partition(" ")
    try:
        return b64decode(pair).decode().partition(":")[0] if scheme == "Basic" else ""
    except ValueError:
        return ""


def shared_post(code: str) -> str:
    """The post that a share link leads to."""
    number, text = derive("reddit share", code, below=36**6), ""
    for _ in range(6):
        number, digit = divmod(number, 36)
        text += BASE_36[digit]
    return f"s{text}"


def post_facts(post_id: str) -> dict[str, Any] | None:
    """A post as the API shows it; None when there is none."""
    fate = FATES.get(post_id, "")
    if fate == "missing":
        return None
    origin = ORIGINS[derive("reddit origin", post_id, below=len(ORIGINS))]
    is_crosspost = not fate and post_id not in ORIGINS and derive("reddit crosspost", post_id, below=8) == 0
    post = _plain_post(post_id, CROSSPOST if is_crosspost else POST)
    if is_crosspost:
        post |= {"crosspost_parent": f"t3_{origin}", "crosspost_parent_list": [_plain_post(origin, POST)]}
    if fate == "author account deleted":
        post["author"] = "[deleted]"
    elif fate:
        post |= {"author": "[deleted]", "selftext": "[removed]", "removed_by_category": fate}
    return post


def comment_facts(comment_id: str) -> dict[str, Any]:
    """A comment as the API shows it."""
    post = _plain_post(f"p{comment_id}", POST)
    kept = ("subreddit", "subreddit_id", "subreddit_name_prefixed", "created_utc", "author", "locked")
    score = derive("reddit score", comment_id, below=200) - 20
    return {
        **{name: post[name] for name in kept},
        "id": comment_id,
        "name": f"t1_{comment_id}",
        "body": f"Comment {comment_id}.",
        "link_id": f"t3_{post['id']}",
        "parent_id": f"t3_{post['id']}",
        "score": score,
        "ups": score,
    }


def subreddit_about(name: str) -> dict[str, Any]:
    """A subreddit as the API shows it."""
    about: dict[str, Any] = copy.deepcopy(SUBREDDIT)
    members = _members(name)
    about["data"] |= {
        "display_name": name,
        "display_name_prefixed": f"r/{name}",
        "name": _subreddit_id(name),
        "id": _subreddit_id(name).removeprefix("t5_"),
        "title": f"All about {name}",
        "url": f"/r/{name}/",
        "subscribers": members,
        "active_user_count": members // 500,
    }
    return about


def user_about(name: str) -> dict[str, Any]:
    """A user as the API shows him."""
    about: dict[str, Any] = json.loads(json.dumps(USER).replace(USER["data"]["name"], name))
    karma = derive("reddit karma", name.lower(), below=200_000)
    about["data"] |= {
        "id": _id_of("reddit user", name.lower()),
        "link_karma": karma // 3,
        "comment_karma": karma - karma // 3,
        "total_karma": karma,
        "created_utc": float(1_300_000_000 + derive("reddit joined", name.lower(), below=300_000_000)),
    }
    return about


def _listing(full_name: str) -> Answer:
    kind, _, own = full_name.partition("_")
    facts = comment_facts(own) if kind == "t1" else post_facts(own)
    if facts is None or not own:
        return NO_POST
    listing = {"kind": "Listing", "data": {"dist": 1, "children": [{"kind": kind, "data": facts}]}}
    return json_answer(listing, headers=LIMIT_HEADERS)


def _plain_post(post_id: str, recorded: dict[str, Any]) -> dict[str, Any]:
    post = copy.deepcopy(recorded)
    author = f"redditor_{derive('reddit author', post_id, below=AUTHOR_COUNT)}"
    subreddit = f"harbor{derive('reddit subreddit', post_id, below=SUBREDDIT_COUNT)}"
    score = derive("reddit score", post_id, below=5000)
    post.pop("author_fullname", None)
    return post | {
        "id": post_id,
        "name": f"t3_{post_id}",
        "title": f"Post {post_id}: {post['title']}",
        "author": author,
        "subreddit": subreddit,
        "subreddit_id": _subreddit_id(subreddit),
        "subreddit_name_prefixed": f"r/{subreddit}",
        "subreddit_subscribers": _members(subreddit),
        "permalink": f"/r/{subreddit}/comments/{post_id}/post/",
        "created_utc": float(FIRST_SECOND + derive("reddit created", post_id, below=SECONDS)),
        "score": score,
        "ups": score,
        "num_comments": score // 20,
    }


def _members(subreddit: str) -> int:
    return 100 + derive("reddit members", subreddit.lower(), below=3_000_000)


def _subreddit_id(name: str) -> str:
    return f"t5_{_id_of('reddit subreddit', name.lower())}"


def _id_of(*words: str) -> str:
    return f"{derive(*words, below=36**5):x}"
