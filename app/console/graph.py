"""What was recorded: tokens, their URLs and where these lead; objects and the tokens that lead there."""

from __future__ import annotations

import re

from flask import Response, abort, request, url_for

from app.console.blueprint import blueprint, is_fragment, page
from app.console.long_looks import list_seen
from app.process import this_process
from workers.social_graph.link_cursor import CURSOR_PATTERN, LinkCursor
from workers.social_graph.vocabulary import ObjectKind

LINKS_PER_PAGE = 50
TOKENS_PER_PAGE = 30


@blueprint.get("/tokens")
def list_tokens() -> Response:
    """A page of tokens, newest first, and a way to any other one."""
    before = request.args.get("before") or None
    overview = this_process().access.overview
    seen = list_seen(("tokens", before), lambda: overview.newest_tokens(TOKENS_PER_PAGE, before=before))
    tokens, following = seen.value if seen else ((), None)
    return page(
        "tokens_list.html" if is_fragment() else "tokens.html",
        seen=seen,
        tokens=tokens,
        is_first=before is None,
        first_page=url_for("console.list_tokens"),
        next_page=following and url_for("console.list_tokens", before=following),
    )


@blueprint.get("/tokens/<address>")
def show_token(address: str) -> Response:
    """One token."""
    view = this_process().access.graph.token(address, as_of=None, limit=LINKS_PER_PAGE, after=_place())
    here = url_for("console.show_token", address=address)
    return page(
        "token.html",
        view=view,
        token=view.token,
        is_first=_place() is None,
        first_page=here,
        next_page=view.next_from and f"{here}?after={view.next_from.to_text()}",
    )


@blueprint.get("/objects")
def list_objects() -> Response:
    """The way to an object: it is found by a URL that leads to it."""
    return page("objects.html")


@blueprint.get("/objects/<kind>/<object_id>")
def show_object(kind: str, object_id: str) -> Response:
    """One object and the tokens that lead to it."""
    if kind not in list(ObjectKind):
        abort(404, f"There is no kind of object called {kind}.")
    view = this_process().access.graph.tokens_of(
        ObjectKind(kind), object_id, as_of=None, limit=LINKS_PER_PAGE, after=_place()
    )
    here = url_for("console.show_object", kind=kind, object_id=object_id)
    return page(
        "object.html",
        view=view,
        target=view.target,
        is_first=_place() is None,
        first_page=here,
        next_page=view.next_from and f"{here}?after={view.next_from.to_text()}",
    )


def _place() -> LinkCursor | None:
    """Where the page before ended."""
    text = request.args.get("after", "")
    if not text:
        return None
    if not re.fullmatch(CURSOR_PATTERN, text):
        abort(400, "There is no such place in the list.")
    return LinkCursor.from_text(text)
