"""What has been recorded, for people: where the links of a token lead, and which tokens lead to an object."""

from __future__ import annotations

from typing import Annotated, Any

from flask import Response, jsonify, url_for
from flask_openapi import APIBlueprint, Tag
from flask_openapi.types import ResponseDict
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app import documents
from app.process import this_process
from app.request_part import RequestPart
from app.specification import NEEDS_KEY, answer, problem, problems, too_long
from workers.base58 import is_public_key
from workers.clock import to_iso
from workers.social_graph.graph_reader import GraphReader
from workers.social_graph.link_cursor import CURSOR_PATTERN, LinkCursor
from workers.social_graph.vocabulary import ObjectKind
from workers.social_recording.job_kinds import ZonedTime

PAGE_SIZE_MAX = 200
ADDRESS_FORMAT = "solana-public-key"

blueprint = APIBlueprint(
    "social_graph",
    __name__,
    url_prefix="/api/v1/internal/social-recording",
    abp_tags=[Tag(name="social graph")],
    abp_security=NEEDS_KEY,
)


def _public_key(text: str) -> str:
    if not is_public_key(text):
        raise ValueError("must be a public key: 32 bytes in base58")
    return text


class TokenPath(BaseModel):
    """Which token."""

    address: Annotated[
        str,
        Field(
            json_schema_extra={"format": ADDRESS_FORMAT},
            description="the mint's public key, 32 bytes in base58",
            examples=[documents.EXAMPLE_ADDRESS],
        ),
        AfterValidator(_public_key),
    ]


class ObjectPath(BaseModel):
    """Which object."""

    kind: ObjectKind
    id: Annotated[
        str,
        Field(
            pattern="^[0-9a-fA-F]{24}$",
            description="the `id` of a linked object",
            examples=[documents.EXAMPLE_OBJECT_ID],
        ),
    ]


class LinksQuery(RequestPart):
    """Which links."""

    model_config = ConfigDict(extra="forbid")

    as_of: (
        Annotated[
            ZonedTime,
            Field(
                description="only links that were made by then, the instant included; left out: now",
                examples=["2026-01-31T00:00:00Z"],
            ),
        ]
        | None
    ) = Field(default=None, alias="asOf")
    limit: Annotated[int, Field(ge=1, le=PAGE_SIZE_MAX)] = 50
    cursor: (
        Annotated[str, Field(pattern=CURSOR_PATTERN, description="`meta.cursor` of the page before")] | None
    ) = None

    @property
    def after(self) -> LinkCursor | None:
        """The place where the page before stopped."""
        return None if self.cursor is None else LinkCursor.from_text(self.cursor)


def _graph() -> GraphReader:
    return this_process().access.graph


def _problems(not_found: str, meaning: str) -> ResponseDict:
    return {
        **problems(400, 401),
        404: problem(404, code=not_found, meaning=meaning),
        **problems(500),
        503: problem(503, code="STORE_UNAVAILABLE", meaning="The store of the graph does not answer."),
    }


def _page_response(
    page: documents.TokenObjects | documents.ObjectTokens,
    query: LinksQuery,
    endpoint: str,
    path: dict[str, Any],
) -> Response:
    """Send the page. The link to the next one keeps the cut, so that all pages are of one time."""
    if page.meta.cursor is not None:
        asked = {"asOf": to_iso(page.meta.as_of), "limit": query.limit, "cursor": page.meta.cursor}
        following = url_for(f"social_graph.{endpoint}", **{**path, **asked})
        page.links = documents.PageLinks(next=following)
    return jsonify(page.to_json())


@blueprint.get(
    "/tokens/<address>",
    summary="One token, its URLs, and what they lead to",
    operation_id="getToken",
    responses={
        200: answer(documents.TokenObjects, "The token and a page of linked objects."),
        **_problems("TOKEN_NOT_FOUND", "No such token has been recorded."),
    },
)
def get_token(path: TokenPath, query: LinksQuery) -> Response:
    """Show one token as it is now, and the objects that its URLs had led to by `asOf`, oldest link first."""
    view = _graph().token(path.address, as_of=query.as_of, limit=query.limit, after=query.after)
    page = documents.TokenObjects.model_validate(view.to_json())
    return _page_response(page, query, "get_token", {"address": path.address})


class ExplainQuery(RequestPart):
    """Which URL of which token."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[
        str,
        Field(
            json_schema_extra={"format": ADDRESS_FORMAT},
            description="the mint's public key, 32 bytes in base58",
            examples=[documents.EXAMPLE_ADDRESS],
        ),
        AfterValidator(_public_key),
    ]
    url: Annotated[
        str,
        Field(
            min_length=1,
            max_length=4096,
            description="the URL in any spelling",
            examples=["https://twitter.com/harbor/status/2000000000000000001"],
        ),
    ]


@blueprint.get(
    "/urls/explain",
    summary="Why a URL is or is not tried again, and when",
    operation_id="explainURL",
    responses={
        200: answer(documents.URLExplanation, "The rule that decides, and the time of the next try."),
        414: too_long(),
        **_problems("URL_NOT_FOUND", "The token has no such URL, or was never recorded (`TOKEN_NOT_FOUND`)."),
    },
)
def explain_url(query: ExplainQuery) -> Response:
    """Apply the rules of the retry to one URL as it is stored now. Asks no platform."""
    found = this_process().access.explainer.explain(query.token, query.url)
    return jsonify(documents.URLExplanation.model_validate(found.to_json()).to_json())


@blueprint.get(
    "/objects/<kind>/<id>/tokens",
    summary="The tokens that lead to an object",
    operation_id="listTokensOfObject",
    responses={
        200: answer(documents.ObjectTokens, "The object, how many tokens led to it, and a page of them."),
        **_problems("OBJECT_NOT_FOUND", "No such object is stored."),
    },
)
def list_tokens_of_object(path: ObjectPath, query: LinksQuery) -> Response:
    """List the tokens that had led to the object by `asOf`, each once, in the order of their first links."""
    view = _graph().tokens_of(path.kind, path.id, as_of=query.as_of, limit=query.limit, after=query.after)
    page = documents.ObjectTokens.model_validate(view.to_json())
    return _page_response(page, query, "list_tokens_of_object", path.model_dump(mode="json"))
