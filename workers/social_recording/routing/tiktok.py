"""TikTok: its hosts and the forms of its URLs.

Handles change and get reused, so a video's canonical URL holds its number only; `@_` stands for any handle.
Short codes of `vm.`, `vt.` and `/t/` are kept apart: nothing says that they share one space.
"""

from __future__ import annotations

from workers.social_graph.vocabulary import ContentSubtype, Platform
from workers.social_recording.routing.patterns import QUERY, TAG, Field, Site, account, content
from workers.social_recording.routing.queries import words

_FIELDS = {
    "handle": Field(regex=r"[\w.]{1,30}", folds=True),
    "id": Field(regex=r"\d{5,25}"),
    "code": Field(regex=r"[\w-]{4,40}"),
    "q": QUERY,
    "tag": TAG,
}
_VIDEO = "https://tiktok.com/@_/video/{id}"


def _short_host(label: str) -> Site:
    host = f"{label}.tiktok.com"
    return Site(
        platform=Platform.TIKTOK,
        host=host,
        hosts=frozenset({host}),
        fields=_FIELDS,
        patterns=(
            content(ContentSubtype.SHORTLINK, "/{code}", key="{code}", url=f"https://{host}/{{code}}"),
        ),
    )


_MAIN = Site(
    platform=Platform.TIKTOK,
    host="tiktok.com",
    hosts=frozenset({"tiktok.com"}),
    noise=words(
        "_d _r _t is_copy_url is_from_webapp lang language refer sec_user_id sender_device sender_web_id"
        " share_app_id share_link_id social_sharing t tt_from u_code web_id"
    ),
    fields=_FIELDS,
    patterns=(
        content(ContentSubtype.VIDEO, "/@[^/]*/video/{id}{rest}", key="{id}", url=_VIDEO),
        content(
            ContentSubtype.PHOTO,
            "/@[^/]*/photo/{id}{rest}",
            key="{id}",
            url="https://tiktok.com/@_/photo/{id}",
        ),
        content(ContentSubtype.VIDEO, "/embed/(?:v2/)?{id}", key="{id}", url=_VIDEO),
        content(ContentSubtype.VIDEO, "/(?:share/video|video|player/v1)/{id}", key="{id}", url=_VIDEO),
        content(ContentSubtype.VIDEO, r"/v/{id}(?:\.html)?", key="{id}", url=_VIDEO),
        content(ContentSubtype.SHORTLINK, "/t/{code}", key="{code}", url="https://tiktok.com/t/{code}"),
        content(
            ContentSubtype.SEARCH,
            "/search{rest}",
            param="q",
            key="{q}",
            url="https://tiktok.com/search?q={q}",
        ),
        content(
            ContentSubtype.SEARCH,
            "/tag/{tag}{rest}",
            key="#{tag}",
            url="https://tiktok.com/search?q=%23{tag}",
        ),
        account("/@{handle}(?:/{any})?", key="{handle}", url="https://tiktok.com/@{handle}"),
    ),
)
SITES = (_MAIN, _short_host("vm"), _short_host("vt"))
