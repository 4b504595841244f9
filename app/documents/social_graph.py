"""Tokens, their URLs, and the objects that these lead to."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from app.documents.words import (
    EXAMPLE_ADDRESS,
    EXAMPLE_OBJECT_ID,
    Address,
    AsOf,
    Depth,
    Document,
    EntryURL,
    Label,
    LinkedAt,
    ObjectID,
    PageLinks,
    PageMeta,
    PlatformKey,
    Time,
)
from workers.social_graph.vocabulary import (
    ContentSubtype,
    FetchStatus,
    LinkStatus,
    ObjectKind,
    Platform,
    VenueSubtype,
)
from workers.social_recording.explain import Rule


class TokenURL(Document):
    """One URL of a token and the last outcome of collecting it; `reason` is a stable code."""

    url: str
    status: FetchStatus
    reason: str | None
    attempts: Annotated[int, Field(ge=0, description="calls made to the outside")]
    attempted_at: Time | None


class URLExplanation(Document):
    """Why a URL is or is not tried again. `dueAt` is the earliest time of a next try, null when there will be
    none or any time will do; `holder` is who has the token in work.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "token": EXAMPLE_ADDRESS,
                    "url": {
                        "url": "https://x.com/harbor/status/2000000000000000001",
                        "status": "error",
                        "reason": "http_503",
                        "attempts": 2,
                        "attemptedAt": "2026-01-31T12:00:00.000Z",
                    },
                    "rule": "resting",
                    "explanation": "It was tried a short while ago; the next retry after `dueAt` takes it.",
                    "dueAt": "2026-01-31T13:00:00.000Z",
                    "holder": None,
                }
            ]
        }
    )

    token: str
    url: TokenURL
    rule: Rule
    explanation: str
    due_at: Time | None
    holder: str | None


class TokenWeb(Document):
    """What is known of a token's own domain."""

    domain: str | None
    domain_created_at: Time | None
    scan_time: Time | None


class Token(Document):
    """A token as it is now; `createdAt` is when it was first seen."""

    address: Address
    symbol: str | None
    first_transfer_at: Time | None
    created_at: Time
    updated_at: Time | None
    urls: list[TokenURL]
    web: TokenWeb | SkipJsonSchema[None] = None
    fingerprints: Annotated[
        list[str] | SkipJsonSchema[None],
        Field(description="`kind:value`, shared by tokens of one maker", examples=[["domain:example.org"]]),
    ] = None


class _AnyObject(Document):
    kind: ObjectKind
    id: ObjectID
    platform: Platform
    subtype: Annotated[
        ContentSubtype | VenueSubtype | None, Field(description="null for accounts, which have none")
    ]


class GraphObject(_AnyObject):
    """A content, an account or a venue."""

    platform_key: PlatformKey | None
    label: Label


class LinkedObject(_AnyObject):
    """One object that one URL of a token leads to; `status` is the link's, of the time when it was made."""

    platform_key: PlatformKey | None
    label: Label | None
    status: LinkStatus
    entry_url: EntryURL
    depth: Depth
    name_match: Annotated[
        bool | None, Field(description="whether a Telegram venue has the token's name; null elsewhere")
    ]
    linked_at: LinkedAt


class AsOfMeta(PageMeta):
    """The cut, and where the next page starts."""

    as_of: AsOf


class TokenObjects(Document):
    """A token and a page of the objects its URLs led to, oldest link first."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "token": {
                        "address": EXAMPLE_ADDRESS,
                        "symbol": "HARBOR",
                        "firstTransferAt": "2026-01-08T04:00:00.000Z",
                        "createdAt": "2026-01-08T05:10:02.417Z",
                        "updatedAt": "2026-01-08T05:10:02.417Z",
                        "urls": [
                            {
                                "url": "https://x.com/nightharbor",
                                "status": "ok",
                                "reason": None,
                                "attempts": 1,
                                "attemptedAt": "2026-01-08T05:10:00.120Z",
                            }
                        ],
                    },
                    "data": [
                        {
                            "kind": "accounts",
                            "id": EXAMPLE_OBJECT_ID,
                            "platform": "x",
                            "subtype": None,
                            "platformKey": "44196397",
                            "label": "nightharbor",
                            "status": "ok",
                            "entryUrl": "https://x.com/nightharbor",
                            "depth": 0,
                            "nameMatch": None,
                            "linkedAt": "2026-01-08T05:10:00.120Z",
                        }
                    ],
                    "meta": {"asOf": "2026-01-31T00:00:00.000Z", "cursor": None},
                }
            ]
        }
    )

    token: Token
    data: list[LinkedObject]
    meta: AsOfMeta
    links: PageLinks | SkipJsonSchema[None] = None


class ReferringToken(Document):
    """A token that leads to an object, with the first link that did: its URL, its depth, its time."""

    address: Address
    symbol: str | None
    entry_url: EntryURL
    depth: Depth
    linked_at: LinkedAt
    first_transfer_at: Time | None


class ReferencesMeta(AsOfMeta):
    """How many tokens led to the object by the cut, each counted once; not only those of this page."""

    count_direct: Annotated[
        int, Field(ge=0, description="tokens with a URL that itself shows the object (depth 0)")
    ]
    count_all: Annotated[
        int, Field(ge=0, description="tokens that led to it in any way: the rows of all pages")
    ]


class ObjectTokens(Document):
    """An object and a page of the tokens that led to it, each once, in the order of their first links."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "object": {
                        "kind": "accounts",
                        "id": EXAMPLE_OBJECT_ID,
                        "platform": "x",
                        "subtype": None,
                        "platformKey": "44196397",
                        "label": "nightharbor",
                    },
                    "data": [
                        {
                            "address": EXAMPLE_ADDRESS,
                            "symbol": "HARBOR",
                            "entryUrl": "https://x.com/nightharbor",
                            "depth": 0,
                            "linkedAt": "2026-01-08T05:10:00.120Z",
                            "firstTransferAt": "2026-01-08T04:00:00.000Z",
                        }
                    ],
                    "meta": {
                        "asOf": "2026-01-31T00:00:00.000Z",
                        "countDirect": 1,
                        "countAll": 2,
                        "cursor": "19b9be32e0801a3f0c5d2e7b9468",
                    },
                    "links": {
                        "next": "/api/v1/internal/social-recording/objects/accounts/"
                        f"{EXAMPLE_OBJECT_ID}/tokens?asOf=2026-01-31T00:00:00.000Z&limit=1&cursor=19b9be32e0801a3f0c5d2e7b9468"
                    },
                }
            ]
        }
    )

    target: Annotated[GraphObject, Field(alias="object")]
    data: list[ReferringToken]
    meta: ReferencesMeta
    links: PageLinks | SkipJsonSchema[None] = None
