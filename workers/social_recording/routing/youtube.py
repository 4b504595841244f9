"""YouTube: its hosts and the forms of its URLs.

Channel ids, handles and the two older kinds of name are all accounts, and only an answer can tell which of
them are one account. Ids keep their letter case; names do not. `/name` is the short form of `/c/name`.
"""

from __future__ import annotations

from workers.social_graph.vocabulary import ContentSubtype, Platform
from workers.social_recording.routing.patterns import QUERY, TAG, Field, Site, account, content
from workers.social_recording.routing.queries import words

# Names may be in any script, so this says which signs are no part of them.
_NO_NAME = r"""\s/?#&=%<>"'`\\@:+,;!()*$\[\]{}|^"""
_FIELDS = {
    "v": Field(regex=r"[\w-]{11}"),
    "id": Field(regex=r"[\w-]{11}"),
    "channel": Field(regex=r"(?i:UC)[\w-]{22}"),
    "list": Field(regex=r"[\w-]{2,64}"),
    "code": Field(regex=r"[\w-]{10,64}"),
    "name": Field(regex=f"[^{_NO_NAME}.][^{_NO_NAME}]{{0,99}}", folds=True, is_ascii=False),
    # The older kind has no full stops, so that `/robots.txt` is nobody.
    "custom": Field(regex=f"[^{_NO_NAME}.]{{1,100}}", folds=True, is_ascii=False),
    "search_query": QUERY,
    "tag": TAG,
}
_VIDEO = "https://youtube.com/watch?v={id}"
_RESERVED = words(
    "about account ads api app attribution_link browse c channel channels charts clip create"
    " creators e embed error feed gaming hashtag howyoutubeworks iframe_api jobs kids learning live"
    " live_chat logout movies music new news oembed oops playlist playlists podcasts post premium"
    " redirect red results s select_site shorts signin source sports static t testtube trending tv"
    " upload user v vi view_play_list watch watch_videos youtubei yt yts"
)

_MAIN = Site(
    platform=Platform.YOUTUBE,
    host="youtube.com",
    hosts=frozenset({"youtube.com", "youtube-nocookie.com"}),
    prefix=r"w{2,4}\d?|m|mobile|music|gaming",
    noise=frozenset({"ab_channel", "app", "feature", "gl", "hl", "pp", "si", "view_as"}),
    reserved=_RESERVED,
    fields=_FIELDS,
    patterns=(
        content(ContentSubtype.VIDEO, "/watch", param="v", key="{v}", url="https://youtube.com/watch?v={v}"),
        content(ContentSubtype.VIDEO, "/watch/{id}{rest}", key="{id}", url=_VIDEO),
        content(ContentSubtype.VIDEO, "/shorts/{id}{rest}", key="{id}", url=_VIDEO),
        content(ContentSubtype.VIDEO, "/live/{id}{rest}", key="{id}", url=_VIDEO),
        account(
            "/embed/live_stream",
            param="channel",
            key="{channel}",
            url="https://youtube.com/channel/{channel}",
        ),
        content(
            ContentSubtype.UNKNOWN,
            "/embed/videoseries",
            param="list",
            key="{list}",
            url="https://youtube.com/playlist?list={list}",
        ),
        content(ContentSubtype.VIDEO, "/embed/{id}{rest}", key="{id}", url=_VIDEO),
        content(ContentSubtype.VIDEO, "/(?:v|e|vi)/{id}{rest}", key="{id}", url=_VIDEO),
        content(
            ContentSubtype.UNKNOWN,
            "/playlist",
            param="list",
            key="{list}",
            url="https://youtube.com/playlist?list={list}",
        ),
        content(
            ContentSubtype.SEARCH,
            "/results",
            param="search_query",
            key="{search_query}",
            url="https://youtube.com/results?search_query={search_query}",
        ),
        content(
            ContentSubtype.SEARCH,
            "/hashtag/{tag}{rest}",
            key="#{tag}",
            url="https://youtube.com/results?search_query=%23{tag}",
        ),
        account("/channel/{channel}{rest}", key="{channel}", url="https://youtube.com/channel/{channel}"),
        account("/c/{custom}{rest}", key="{custom}", url="https://youtube.com/c/{custom}"),
        account("/user/{custom}{rest}", key="{custom}", url="https://youtube.com/user/{custom}"),
        content(ContentSubtype.POST, "/post/{code}", key="{code}", url="https://youtube.com/post/{code}"),
        content(ContentSubtype.UNKNOWN, "/clip/{code}", key="{code}", url="https://youtube.com/clip/{code}"),
        account("/@{name}{rest}", key="{name}", url="https://youtube.com/@{name}"),
        account("/{custom}(?:/{any})?", key="{custom}", url="https://youtube.com/c/{custom}"),
    ),
)
_SHORT = Site(
    platform=Platform.YOUTUBE,
    host="youtu.be",
    hosts=frozenset({"youtu.be"}),
    noise=frozenset({"feature", "si", "t"}),
    fields=_FIELDS,
    patterns=(content(ContentSubtype.VIDEO, "/{id}", key="{id}", url=_VIDEO),),
)
SITES = (_MAIN, _SHORT)
