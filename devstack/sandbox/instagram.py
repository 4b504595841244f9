"""Instagram: what is true there. Its only service shows strangers the login.

Owns posts and profiles: names, texts and numbers depend on a post's code or a profile's handle alone. The
actor (`actors.py`) is the only one that tells them.

- The owner of a post is one of 40, chosen by its code. A post is a reel, one with hidden likes, a picture of
  two accounts, or a carousel, chosen by its code as well.
- What became of the codes in `FATES` is no usual thing, and neither are profiles with a name in
  `HANDLE_FATES` (`missing`, `nothing shown`, `silent`) or one that starts with `private`.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlsplit

from devstack.sandbox.samples import Answer, derive, payload_of

OWNER_COUNT = 40
FIRST_OWNER_ID = 40_000_000_000
HOSTS = frozenset({"instagram.com", "www.instagram.com"})
CODE_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

POSTS = payload_of("instagram/apify_posts.json")
PROFILE, PRIVATE_PROFILE = payload_of("instagram/apify_profile.json")
FATES = {
    "AAAAAAAAAAA": "missing",
    "AAAAAAAAAAB": "restricted",
    "AAAAAAAAAAC": "silent",
    "AAAAAAAAAAD": "nothing shown",
}
HANDLE_FATES = {
    "nosuchhandle000": "missing",
    "emptyharbor": "nothing shown",
    "silentharbor": "silent",
}


def is_page(url: str) -> bool:
    """Whether a relayed URL is one of Instagram's own pages."""
    return urlsplit(url).hostname in HOSTS


def page(url: str) -> Answer:
    """What a stranger gets for any page."""
    path = quote(urlsplit(url).path, safe="")
    location = f"https://www.instagram.com/accounts/login/?next={path}"
    return Answer(status=302, headers={"location": location}, body=b"")


def media_id(code: str) -> str:
    """The number that a code spells."""
    number = 0
    for letter in code:
        number = number * 64 + max(CODE_DIGITS.find(letter), 0)
    return str(number)


def post_facts(code: str) -> dict[str, Any]:
    """A post as the actor shows it, without what it was asked for."""
    recorded = POSTS[derive("instagram kind", code, below=len(POSTS))]
    owner = f"owner_{derive('instagram owner', code, below=OWNER_COUNT)}"
    text = json.dumps(recorded).replace(recorded["shortCode"], code).replace(recorded["id"], media_id(code))
    item: dict[str, Any] = json.loads(text)
    del item["inputUrl"]
    item |= {"ownerUsername": owner, "ownerId": owner_id(owner), "ownerFullName": f"The {owner}"}
    item["caption"] = f"Post {code}: {item['caption']}"
    if item["likesCount"] >= 0:
        item["likesCount"] = derive("instagram likes", code, below=50_000)
    return item


def profile_facts(handle: str) -> dict[str, Any]:
    """A profile as the actor shows it, without what it was asked for."""
    word = handle.lower()
    recorded = PRIVATE_PROFILE if word.startswith("private") else PROFILE
    item: dict[str, Any] = json.loads(json.dumps(recorded).replace(recorded["username"], word))
    del item["inputUrl"]
    item |= {"id": owner_id(word), "fullName": f"The {word}", "latestPosts": []}
    item["followersCount"] = derive("instagram followers", word, below=90_000)
    return item


def owner_id(handle: str) -> str:
    """The number of the owner of a handle."""
    return str(FIRST_OWNER_ID + derive("instagram id", handle.lower(), below=10**10))
