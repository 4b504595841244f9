"""GitHub: its hosts and the forms of its URLs.

Whatever stands below a repository (files, issues, releases) is that repository. `*.github.io` is the web.
Logins and repository names ignore letter case.
"""

from __future__ import annotations

from workers.social_graph.vocabulary import ContentSubtype, Platform
from workers.social_recording.routing.patterns import QUERY, Field, Site, account, content
from workers.social_recording.routing.queries import words

_FIELDS = {
    # An underscore appears in the logins that companies manage.
    "owner": Field(regex=r"[A-Za-z0-9][\w-]{0,38}", folds=True),
    # `.git` behind a name is none of it. Most names have no full stop and need no such care.
    "repo": Field(regex=r"[\w-]{1,100}(?=/|\Z)|(?!\.{1,2}(?i:\.git)*(?:/|\Z))[\w.-]{1,100}?", folds=True),
    "gist": Field(regex=r"[0-9A-Fa-f]{20,40}|\d{1,12}", folds=True),
    "q": QUERY,
}
_ACCOUNT = "https://github.com/{owner}"
_REPO = "https://github.com/{owner}/{repo}"
_GIST = "https://gist.github.com/{gist}"
_RESERVED = words(
    "about account apps blog business careers codespaces collections community contact copilot"
    " customer-stories dashboard discussions education enterprise events explore features"
    " fluidicon.png gist home integrations issues join login logout marketplace mobile models new"
    " nonprofit notifications open-source opensearch organizations orgs partners premium-support"
    " press pricing pulls readme repositories resources search security sessions settings showcases"
    " signup site sitemap solutions spark sponsors stars team terms topics trending users watching"
    " wiki why-github"
)

_MAIN = Site(
    platform=Platform.GITHUB,
    host="github.com",
    hosts=frozenset({"github.com"}),
    noise=frozenset({"tab", "from", "isappinstalled", "ref_cta", "ref_loc", "ref_page"}),
    reserved=_RESERVED,
    fields=_FIELDS,
    patterns=(
        account("/orgs/{owner}{rest}", key="{owner}", url=_ACCOUNT),
        account("/users/{owner}{rest}", key="{owner}", url=_ACCOUNT),
        account("/sponsors/{owner}", key="{owner}", url=_ACCOUNT),
        content(
            ContentSubtype.SEARCH, "/search", param="q", key="{q}", url="https://github.com/search?q={q}"
        ),
        content(ContentSubtype.REPO, r"/{owner}/{repo}(?:\.git)*{rest}", key="{owner}/{repo}", url=_REPO),
        account("/@?{owner}", key="{owner}", url=_ACCOUNT),
    ),
)
_RAW = Site(
    platform=Platform.GITHUB,
    host="raw.githubusercontent.com",
    hosts=frozenset({"raw.githubusercontent.com", "raw.github.com", "codeload.github.com"}),
    # Nobody has such a name, and under github.com it would be another place.
    reserved=_RESERVED,
    fields=_FIELDS,
    patterns=(
        content(
            ContentSubtype.REPO,
            r"/{owner}/{repo}(?:\.git)*/{any}{rest}",
            key="{owner}/{repo}",
            url=_REPO,
        ),
    ),
)
_GISTS = Site(
    platform=Platform.GITHUB,
    host="gist.github.com",
    hosts=frozenset({"gist.github.com", "gist.githubusercontent.com"}),
    reserved=_RESERVED | {"discover", "forked", "mine", "starred"},
    fields=_FIELDS,
    patterns=(
        content(ContentSubtype.GIST, "/{owner}/{gist}{rest}", key="{gist}", url=_GIST),
        content(ContentSubtype.GIST, "/{gist}(?:\\.git)?", key="{gist}", url=_GIST),
        account("/{owner}", key="{owner}", url=_ACCOUNT),
    ),
)
SITES = (_MAIN, _RAW, _GISTS)
