"""The actors at Apify: what each finds about what it is asked, and in which form it says so.

Owns the forms of items. What is true is owned by the platform's own module. An error about a target is an
item like any other; of a target whose fate is `silent` there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from devstack.sandbox import instagram, reddit, tiktok
from devstack.sandbox.samples import derive, payload_of

Items: TypeAlias = list[dict[str, Any]]
Actor: TypeAlias = Callable[[Mapping[str, Any], datetime], Items]

TIKTOK_ERRORS = {
    "missing": ("Post not found or private.", "NOT_FOUND"),
    "private": ("Post is private.", "PRIVATE_POST"),
}
INSTAGRAM_ERRORS = {
    "missing": ("not_found", "Post does not exist"),
    "nothing shown": ("no_items", "Empty or private data for provided input"),
    "restricted": ("restricted_page", "Restricted access, only partial data available"),
}
REDDIT_POST, REDDIT_COMMENT, REDDIT_COMMUNITY, REDDIT_USER = payload_of("reddit/apify_items.json")


def tiktok_scraper(asked: Mapping[str, Any], now: datetime) -> Items:
    """Videos by URL, and profiles by one video each. Its items do not say when it looked."""
    del now
    items: Items = []
    for url in asked.get("postURLs", ()):
        kind, video_id, _ = tiktok.place_of(url)
        fate = tiktok.FATES.get(video_id, "") if kind in ("video", "photo") else "missing"
        if error := TIKTOK_ERRORS.get(fate):
            items.append({"url": url, "input": url, "error": error[0], "errorCode": error[1]})
        elif fate != "silent":
            video = tiktok.video_facts(video_id, tiktok.author_of(video_id))
            items.append({**video, "isSlideshow": kind == "photo", "input": url})
    for handle in asked.get("profiles", ()):
        fate = tiktok.HANDLE_FATES.get(handle.lower(), "")
        if fate == "missing":
            gone = {"error": "Profile not found.", "errorCode": "NOT_FOUND"}
            items.append({"url": f"https://www.tiktok.com/@{handle}", "input": handle, **gone})
        elif fate != "silent":
            video = tiktok.video_facts(tiktok.video_of("of", handle.lower()), handle.lower())
            items.append({**video, "input": handle, "fromProfileSection": "videos"})
    return items


def instagram_scraper(asked: Mapping[str, Any], now: datetime) -> Items:
    """Posts and profiles by URL. Its items do not say when it looked."""
    del now
    items: Items = []
    for url in asked.get("directUrls", ()):
        words = urlsplit(url).path.strip("/").split("/")
        is_post = words[0] in ("p", "reel", "tv") and len(words) > 1
        fate = instagram.FATES.get(words[1], "") if is_post else instagram.HANDLE_FATES.get(words[0], "")
        if error := INSTAGRAM_ERRORS.get(fate):
            items.append({"url": url, "inputUrl": url, "error": error[0], "errorDescription": error[1]})
        elif fate != "silent":
            facts = instagram.post_facts(words[1]) if is_post else instagram.profile_facts(words[0])
            items.append({"inputUrl": url, **facts})
    return items


def reddit_scraper(asked: Mapping[str, Any], now: datetime) -> Items:
    """Posts, comments, subreddits and users by URL; its items name themselves only.

    Of what Reddit does not show to strangers there is no item.
    """
    items: Items = []
    for each in asked.get("startUrls", ()):
        words = urlsplit(each["url"]).path.strip("/").split("/")
        if len(words) == 4 and words[2] == "s":
            items += _shared(words, now)
        elif "comments" in words:
            thread = words[words.index("comments") + 1 :]
            items += _thread(thread, now, with_comments=not asked.get("skipComments"))
        elif len(words) == 2:
            items += _about(words[0], words[1], now)
    return items


def _shared(words: list[str], now: datetime) -> Items:
    post = reddit.post_facts(reddit.shared_post(words[3]))
    if post is None:
        return []
    place = {"subreddit": words[1]} if words[0] == "r" else {"author": words[1]}
    return [_reddit_post({**post, **place}, now)]


def _thread(words: list[str], now: datetime, *, with_comments: bool) -> Items:
    post = reddit.post_facts(words[0])
    if post is None:
        return []
    items = [_reddit_post(post, now)]
    if with_comments and len(words) > 2:
        items.append(_reddit_comment(reddit.comment_facts(words[2]), words[0], now))
    return items


def _about(kind: str, name: str, now: datetime) -> Items:
    if name.lower().replace("_", "-") in reddit.ERRORS:
        return []
    if kind == "r":
        about = reddit.subreddit_about(name)["data"]
        facts = {
            "id": about["id"],
            "name": about["name"],
            "title": about["display_name"],
            "description": about["public_description"] or about["description"],
            "createdAt": _iso(about["created_utc"]),
            "numberOfMembers": about["subscribers"],
            "url": f"https://www.reddit.com/r/{name}/",
        }
        return [{**REDDIT_COMMUNITY, **facts, "scrapedAt": _iso(now.timestamp())}]
    about = reddit.user_about(name)["data"]
    facts = {
        "id": about["id"],
        "username": about["name"],
        "postKarma": about["link_karma"],
        "commentKarma": about["comment_karma"],
        "description": about["subreddit"]["public_description"],
        "createdAt": _iso(about["created_utc"]),
        "url": f"https://www.reddit.com/user/{name}/",
    }
    return [{**REDDIT_USER, **facts, "scrapedAt": _iso(now.timestamp())}]


def _reddit_post(post: dict[str, Any], now: datetime) -> dict[str, Any]:
    facts = {
        "id": post["name"],
        "parsedId": post["id"],
        "url": f"https://www.reddit.com{post['permalink']}",
        "username": post["author"],
        "title": post["title"],
        "communityName": f"r/{post['subreddit']}",
        "parsedCommunityName": post["subreddit"],
        "body": post["selftext"],
        "numberOfComments": post["num_comments"],
        "upVotes": post["score"],
        "createdAt": _iso(post["created_utc"]),
    }
    return {**REDDIT_POST, **facts, "scrapedAt": _iso(now.timestamp())}


def _reddit_comment(comment: dict[str, Any], post_id: str, now: datetime) -> dict[str, Any]:
    facts = {
        "id": comment["name"],
        "parsedId": comment["id"],
        "url": f"https://www.reddit.com/r/{comment['subreddit']}/comments/{post_id}/post/{comment['id']}/",
        "parentId": f"t3_{post_id}",
        "username": comment["author"],
        "category": comment["subreddit"],
        "communityName": f"r/{comment['subreddit']}",
        "body": comment["body"],
        "upVotes": comment["score"],
        "numberOfreplies": derive("reddit replies", comment["id"], below=5),
        "createdAt": _iso(comment["created_utc"]),
    }
    return {**REDDIT_COMMENT, **facts, "scrapedAt": _iso(now.timestamp())}


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


ACTORS: Mapping[str, Actor] = {
    "clockworks~tiktok-scraper": tiktok_scraper,
    "apify~instagram-scraper": instagram_scraper,
    "trudax~reddit-scraper": reddit_scraper,
}
