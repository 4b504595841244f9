"""Instagram: its hosts and the forms of its URLs.

A post, a reel and a tv video may share one code, but the URL says which it was called; the answer decides.
"""

from __future__ import annotations

from workers.social_graph.vocabulary import ContentSubtype, Platform
from workers.social_recording.routing.patterns import QUERY, TAG, Field, Site, account, content
from workers.social_recording.routing.queries import words

_FIELDS = {
    "handle": Field(regex=r"[\w.]{1,30}", folds=True),
    "code": Field(regex=r"[\w-]{5,80}"),
    "id": Field(regex=r"\d{5,25}"),
    "q": QUERY,
    "tag": TAG,
}
_SEARCH = "https://instagram.com/explore/search/keyword?q="
_RESERVED = words(
    "about accounts api archive blog challenge channel create data developer direct directory"
    " download emails explore fxcal graphql help legal lite login nametag oauth p press privacy qr"
    " reel reels s session share static stories support terms topics tv web your_activity"
)


SITES = (
    Site(
        platform=Platform.INSTAGRAM,
        host="instagram.com",
        hosts=frozenset({"instagram.com", "instagr.am"}),
        noise=frozenset({"hl", "img_index", "next", "taken-by", "theme"}),
        reserved=_RESERVED,
        fields=_FIELDS,
        patterns=(
            content(
                ContentSubtype.UNKNOWN,
                "/reels/audio/{id}",
                key="/reels/audio/{id}",
                url="https://instagram.com/reels/audio/{id}",
            ),
            content(
                ContentSubtype.POST, "/p/{code}{rest}", key="{code}", url="https://instagram.com/p/{code}"
            ),
            content(
                ContentSubtype.REEL,
                "/reel/{code}{rest}",
                key="{code}",
                url="https://instagram.com/reel/{code}",
            ),
            content(
                ContentSubtype.REEL,
                "/reels/{code}{rest}",
                key="{code}",
                url="https://instagram.com/reel/{code}",
            ),
            content(
                ContentSubtype.TV, "/tv/{code}{rest}", key="{code}", url="https://instagram.com/tv/{code}"
            ),
            content(
                ContentSubtype.STORY,
                "/stories/highlights/{id}{rest}",
                key="{id}",
                url="https://instagram.com/stories/highlights/{id}",
            ),
            content(
                ContentSubtype.STORY,
                "/stories/{handle}/{id}{rest}",
                key="{id}",
                url="https://instagram.com/stories/{handle}/{id}",
            ),
            account("/stories/{handle}", key="{handle}", url="https://instagram.com/{handle}"),
            content(ContentSubtype.STORY, "/s/{code}=*", key="{code}", url="https://instagram.com/s/{code}"),
            content(
                ContentSubtype.SHORTLINK,
                "/share/(?:(?:p|reel|tv|stories)/)?{code}",
                key="{code}",
                url="https://instagram.com/share/{code}",
            ),
            content(
                ContentSubtype.SEARCH, "/explore/search{rest}", param="q", key="{q}", url=_SEARCH + "{q}"
            ),
            content(
                ContentSubtype.SEARCH, "/explore/tags/{tag}{rest}", key="#{tag}", url=_SEARCH + "%23{tag}"
            ),
            account("/_[un]/{handle}", key="{handle}", url="https://instagram.com/{handle}"),
            content(
                ContentSubtype.POST,
                "/{handle}/p/{code}{rest}",
                key="{code}",
                url="https://instagram.com/p/{code}",
            ),
            content(
                ContentSubtype.REEL,
                "/{handle}/reels?/{code}{rest}",
                key="{code}",
                url="https://instagram.com/reel/{code}",
            ),
            content(
                ContentSubtype.TV,
                "/{handle}/tv/{code}{rest}",
                key="{code}",
                url="https://instagram.com/tv/{code}",
            ),
            account("/@?{handle}(?:/{any})?", key="{handle}", url="https://instagram.com/{handle}"),
        ),
    ),
)
