"""Reddit: its hosts and the forms of its URLs.

There is no catch-all for venues: only `/r/name` is a subreddit, since each new one costs a paid call. A
subreddit's own search is keyed as Reddit writes it in its search field: `subreddit:name words`.
"""

from __future__ import annotations

from workers.social_graph.vocabulary import ContentSubtype, Platform, VenueSubtype
from workers.social_recording.routing.patterns import QUERY, Field, Site, account, content, venue

_FIELDS = {
    "id": Field(regex=r"[A-Za-z0-9]{1,13}", folds=True),
    "comment": Field(regex=r"[A-Za-z0-9]{1,13}", folds=True),
    "sub": Field(regex=r"\w{2,24}", folds=True),
    "user": Field(regex=r"[\w-]{1,24}", folds=True),
    "code": Field(regex=r"[\w-]{4,40}"),
    "media": Field(regex=r"[A-Za-z0-9]{6,20}", folds=True),
    "q": QUERY,
}
# Whose post it is does not matter for its identity.
_OWNER = "(?:(?:r|u|user)/{any}/)?"
_POST = "https://reddit.com/comments/{id}"
_COMMENT = "https://reddit.com/comments/{id}/_/{comment}"

_MAIN = Site(
    platform=Platform.REDDIT,
    host="reddit.com",
    hosts=frozenset({"reddit.com"}),
    # Languages and countries are two letters: `de.reddit.com`, `np.reddit.com`.
    prefix=r"w{2,4}\d?|m|mobile|old|new|amp|sh|i|[a-z]{2}",
    noise=frozenset({"st", "sh", "share_id", "context", "rdt", "sort"}),
    fields=_FIELDS,
    patterns=(
        content(
            ContentSubtype.POST,
            f"/{_OWNER}comments/{{id}}/[^/]*/{{comment}}",
            key="t1_{comment}",
            url=_COMMENT,
        ),
        content(ContentSubtype.POST, f"/{_OWNER}comments/{{id}}{{rest}}", key="{id}", url=_POST),
        content(
            ContentSubtype.POST, f"/{_OWNER}(?:gallery|tb|video|poll)/{{id}}{{rest}}", key="{id}", url=_POST
        ),
        content(
            ContentSubtype.SHORTLINK,
            "/r/{sub}/s/{code}",
            key="{code}",
            url="https://reddit.com/r/{sub}/s/{code}",
        ),
        content(
            ContentSubtype.SHORTLINK,
            "/u(?:ser)?/{user}/s/{code}",
            key="{code}",
            url="https://reddit.com/user/{user}/s/{code}",
        ),
        content(
            ContentSubtype.SEARCH,
            "/r/{sub}/search",
            param="q",
            key="subreddit:{sub} {q}",
            url="https://reddit.com/r/{sub}/search?q={q}",
        ),
        content(
            ContentSubtype.SEARCH,
            "/search{rest}",
            param="q",
            key="{q}",
            url="https://reddit.com/search?q={q}",
        ),
        content(
            ContentSubtype.UNKNOWN,
            "/r/(?:all|popular|friends|mod|random|randnsfw){rest}",
            key="{place}",
            url="https://reddit.com{place}",
        ),
        content(
            ContentSubtype.UNKNOWN, "/r/{sub}/search{rest}", key="{place}", url="https://reddit.com{place}"
        ),
        account("/r/u_{user}{rest}", key="{user}", url="https://reddit.com/user/{user}"),
        venue(VenueSubtype.SUBREDDIT, "/r/{sub}{rest}", key="{sub}", url="https://reddit.com/r/{sub}"),
        content(
            ContentSubtype.UNKNOWN,
            "/u(?:ser)?/(?:me|{user}/m)(?:/.*)?",
            key="{place}",
            url="https://reddit.com{place}",
        ),
        account("/u(?:ser)?/{user}{rest}", key="{user}", url="https://reddit.com/user/{user}"),
    ),
)
_SHORT = Site(
    platform=Platform.REDDIT,
    host="redd.it",
    hosts=frozenset({"redd.it"}),
    fields=_FIELDS,
    patterns=(content(ContentSubtype.POST, "/{id}", key="{id}", url=_POST),),
)
_MEDIA = Site(
    platform=Platform.REDDIT,
    host="v.redd.it",
    hosts=frozenset({"v.redd.it"}),
    fields=_FIELDS,
    patterns=(
        content(ContentSubtype.SHORTLINK, "/{media}{rest}", key="{media}", url="https://v.redd.it/{media}"),
    ),
)
_APP = Site(
    platform=Platform.REDDIT,
    host="reddit.app.link",
    hosts=frozenset({"reddit.app.link"}),
    fields=_FIELDS,
    patterns=(
        content(ContentSubtype.SHORTLINK, "/{code}", key="{code}", url="https://reddit.app.link/{code}"),
    ),
)
_IMAGES = Site(
    platform=Platform.REDDIT,
    host="i.redd.it",
    hosts=frozenset({"i.redd.it", "preview.redd.it"}),
    fields=_FIELDS,
    patterns=(),
)
SITES = (_MAIN, _SHORT, _MEDIA, _APP, _IMAGES)
