"""What goes over the wire: the answers' shapes, from which both the answers and the specification are made.

Keys are camelCase, times are UTC with `Z`. One envelope holds jobs of every kind.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema

from workers.clock import to_iso
from workers.funding.vocabulary import BlockReason
from workers.jobs.record import JobState
from workers.services import JOB_KINDS
from workers.social_graph.vocabulary import (
    ContentSubtype,
    FetchStatus,
    LinkStatus,
    ObjectKind,
    Platform,
    VenueSubtype,
)
from workers.social_recording.explain import Rule

JOB_KIND_NAMES = sorted(JOB_KINDS)
ERROR_CODE = r"[A-Z][A-Z_]*"
_TIME = {"type": "string", "format": "date-time", "examples": ["2026-01-31T12:00:00.000Z"]}
_EXAMPLE_ID = "0b6f3a52-6d4e-4a60-9d0c-8a3f5f1f2c11"
EXAMPLE_ADDRESS = "So11111111111111111111111111111111111111112"
EXAMPLE_SIGNATURE = "5gJFZweW8EsTQCNWH2EyjJA3vm2VcT91vQtrNAcx7YXeq4zHmqXzSqxxnhb9GxiLvecWJJZv8xxW6opHSnJME643"
EXAMPLE_OBJECT_ID = "65a1b2c3d4e5f60718293a4b"

Time = Annotated[datetime, PlainSerializer(to_iso, return_type=str), WithJsonSchema(_TIME)]
JobID = Annotated[str, Field(json_schema_extra={"format": "uuid"}, examples=[_EXAMPLE_ID])]
KindName = Annotated[str, Field(json_schema_extra={"enum": list(JOB_KIND_NAMES)})]
Code = Annotated[str, Field(pattern=f"^{ERROR_CODE}$", description="stable; made for programs")]
Path = Annotated[str, Field(json_schema_extra={"format": "uri-reference"})]
Address = Annotated[str, Field(description="the mint's public key in base58", examples=[EXAMPLE_ADDRESS])]
ObjectID = Annotated[str, Field(pattern="^[0-9a-f]{24}$", examples=[EXAMPLE_OBJECT_ID])]
Label = Annotated[
    str,
    Field(
        description="how it is called now: a handle, a title, a name, else a URL", examples=["nightharbor"]
    ),
]
PlatformKey = Annotated[str, Field(description="the platform's own lasting id", examples=["44196397"])]
EntryURL = Annotated[
    str, Field(description="the token's URL that leads there", examples=["https://x.com/nightharbor"])
]
Depth = Annotated[
    int, Field(ge=0, description="0 is what the URL itself shows, 1 what was reached through it")
]
LinkedAt = Annotated[Time, Field(description="when the link was made; the axis of `asOf`")]
AsOf = Annotated[Time, Field(description="the cut that was made; it includes its own instant")]


class _Document(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    def to_json(self) -> dict[str, object]:
        """The document as it is sent; what was never set is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class JobProgress(_Document):
    """How many targets of a job have ended, and of how many; the total is known once they are selected.

    `counts` tells more where a kind has more to tell, in the words of its result's `meta`.
    """

    done: Annotated[int, Field(ge=0)]
    total: Annotated[int, Field(ge=0)] | None
    counts: (
        Annotated[dict[str, int], Field(examples=[{"pages": 3, "selected": 2500, "completed": 1200}])]
        | SkipJsonSchema[None]
    ) = None


class JobResult(_Document):
    """What a job returned: one row per target, and its counts."""

    data: list[dict[str, object]]
    meta: dict[str, object]


class JobResultMeta(_Document):
    """What a job returned without its rows, which may be hundreds."""

    meta: dict[str, object]


class JobError(_Document):
    """Why a job failed."""

    code: Code
    detail: str


class JobLinks(_Document):
    """Where to go from a job; `cancel` is there as long as the job can be cancelled."""

    self_path: Annotated[Path, Field(alias="self")]
    cancel: Path | SkipJsonSchema[None] = None


class _AnyJob(_Document):
    id: JobID
    kind: KindName
    state: JobState
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    cancel_requested_at: Time | None
    request: Annotated[dict[str, object], Field(description="what runs, with every default filled in")]
    progress: JobProgress
    error: JobError | None
    links: JobLinks


class Job(_AnyJob):
    """One job of any kind."""

    result: JobResult | None


class JobInList(_AnyJob):
    """One job of a list: without the rows of its result."""

    result: JobResultMeta | None


class PageMeta(_Document):
    """Where the next page starts; null at the end."""

    cursor: str | None


class PageLinks(_Document):
    """The next page, if there is one."""

    next: Path


class JobList(_Document):
    """A page of jobs, newest first; `links` is there unless it is the last one."""

    data: list[JobInList]
    meta: PageMeta
    links: PageLinks | SkipJsonSchema[None] = None


class TokenURL(_Document):
    """One URL of a token and the last outcome of collecting it; `reason` is a stable code."""

    url: str
    status: FetchStatus
    reason: str | None
    attempts: Annotated[int, Field(ge=0, description="calls made to the outside")]
    attempted_at: Time | None


class URLExplanation(_Document):
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


class TokenWeb(_Document):
    """What is known of a token's own domain."""

    domain: str | None
    domain_created_at: Time | None
    scan_time: Time | None


class Token(_Document):
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


class _AnyObject(_Document):
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


class TokenObjects(_Document):
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


class ReferringToken(_Document):
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


class ObjectTokens(_Document):
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


class BrickCounters(_Document):
    """Both counters of a property as Redis has them: a text that is no number, or null for a missing one."""

    purchased: int | str | None
    auto_invest: int | str | None


class BrickTruth(_Document):
    """The bricks of all live purchases of a property; those of auto-invest are among them."""

    purchased: Annotated[int, Field(ge=0)]
    auto_invest: Annotated[int, Field(ge=0)]


class BlockedFunding(_Document):
    """A funding that sells nothing, with both sides as they are now; `blockedAt` is when that began."""

    property_id: Annotated[str, Field(examples=["harbour-quay-12"])]
    reason: BlockReason
    blocked_at: Time | None
    capacity: Annotated[int, Field(ge=1, description="bricks on sale in all")]
    waiting: Annotated[int, Field(ge=0, description="purchases that wait for their bricks")]
    counters: BrickCounters
    truth: BrickTruth


class BlockedFundings(_Document):
    """A page of blocked fundings, by property; `links` is there unless it is the last one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "data": [
                        {
                            "propertyId": "harbour-quay-12",
                            "reason": "counter-reconciliation",
                            "blockedAt": "2026-01-31T02:30:04.120Z",
                            "capacity": 5000,
                            "waiting": 0,
                            "counters": {"purchased": 4999, "autoInvest": 1200},
                            "truth": {"purchased": 5001, "autoInvest": 1200},
                        }
                    ],
                    "meta": {"cursor": None},
                }
            ]
        }
    )

    data: list[BlockedFunding]
    meta: PageMeta
    links: PageLinks | SkipJsonSchema[None] = None


class ProblemError(_Document):
    """One offending value: a place in the body (JSON pointer), a parameter, or a header."""

    pointer: Annotated[str, Field(examples=["/endDate"])] | SkipJsonSchema[None] = None
    parameter: Annotated[str, Field(examples=["limit"])] | SkipJsonSchema[None] = None
    header: Annotated[str, Field(examples=["Idempotency-Key"])] | SkipJsonSchema[None] = None
    detail: str
    code: str


class Problem(_Document):
    """An RFC 9457 problem. `title` is the phrase of the status; `code` says what happened."""

    type: Annotated[str, Field(json_schema_extra={"const": "about:blank"})]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    code: Code
    detail: str
    errors: Annotated[
        list[ProblemError] | SkipJsonSchema[None], Field(description="the offending values")
    ] = None
    job: Annotated[Job | SkipJsonSchema[None], Field(description="the job that ended with this problem")] = (
        None
    )
    checks: Annotated[
        dict[str, str] | SkipJsonSchema[None], Field(description="what is ready and what is not")
    ] = None


class Alive(_Document):
    """The process answers."""

    status: Annotated[str, Field(json_schema_extra={"const": "ok"})]


class Ready(_Document):
    """Everything that a job needs answers."""

    status: Annotated[str, Field(json_schema_extra={"const": "ok"})]
    checks: Annotated[dict[str, str], Field(examples=[{"redis": "ok", "mongodb": "ok", "workers": "ok"}])]
