"""The job kind of the Solana backfill and what its callers may ask for.

A body names only what differs from the defaults; `with_defaults` fills in the settings, so that a job's
record says what really ran. It holds a role and never the URL of an endpoint.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator

from workers.base58 import ALPHABET, is_public_key, is_signature
from workers.errors import InvalidInput, PermanentError
from workers.jobs.kinds import JobKind
from workers.jobs.request_fields import WHOLE, DryRun, JobBody
from workers.settings import Settings
from workers.solana_backfill.campaign_words import Direction, Mode
from workers.solana_backfill.vocabulary import Commitment
from workers.solana_endpoints import ROLE_PATTERN, endpoint_of

T = TypeVar("T")

BACKFILL_NOT_CONFIGURED = "BACKFILL_NOT_CONFIGURED"
PUBLIC_KEY_FORMAT = "solana-public-key"
SIGNATURE_FORMAT = "solana-signature"
PAGES_MAX = 100
# What as many pages can list. It bounds what a search keeps in memory.
LIMIT_MAX = 100_000
# As many of them as a body of a mebibyte holds.
SIGNATURES_MAX = 10_000


class BackfillNotConfigured(PermanentError):
    """This process knows no endpoint."""

    def __init__(self) -> None:
        super().__init__("SOLANA_ENDPOINTS is not set, so there is nobody to ask for transactions")


class EndpointNotFound(InvalidInput):
    """No endpoint has this role."""

    def __init__(self, role: str) -> None:
        super().__init__(f"no endpoint has the role {role}", field="role")


def _public_key(text: str) -> str:
    if not is_public_key(text):
        raise ValueError("must be a public key: 32 bytes in base58")
    return text


def _signature(text: str) -> str:
    if not is_signature(text):
        raise ValueError("must be a signature: 64 bytes in base58")
    return text


# A pattern cannot say how many bytes a text in base58 has, so the forms have names of their own as well.
_KEY_SCHEMA = {"format": PUBLIC_KEY_FORMAT, "pattern": f"^[{ALPHABET}]{{32,44}}$"}
_SIGNATURE_SCHEMA = {"format": SIGNATURE_FORMAT, "pattern": f"^[{ALPHABET}]{{64,88}}$"}
PublicKey = Annotated[str, Field(json_schema_extra={**_KEY_SCHEMA}), AfterValidator(_public_key)]
Signature = Annotated[str, Field(json_schema_extra={**_SIGNATURE_SCHEMA}), AfterValidator(_signature)]
_NULL = {"type": "null"}
_ADDRESS = {"type": "string", **_KEY_SCHEMA}
_ANCHOR = {"type": "string", **_SIGNATURE_SCHEMA}
_OF_A_SEARCH = ("address", "direction", "anchor", "limit", "maxPages")
_ADDRESS_MODES = [mode.value for mode in Mode if mode is not Mode.SIGNATURES]
# The three shapes that the validators below let through, for those who read the specification.
RULES: dict[str, Any] = {
    "anyOf": [
        {
            "required": ["signatures"],
            "properties": {
                "mode": {"enum": [Mode.SIGNATURES.value]},
                "signatures": {"type": "array", "items": _ANCHOR, "minItems": 1},
                **dict.fromkeys(_OF_A_SEARCH, _NULL),
                "includeFailed": {"enum": [True]},
            },
        },
        {
            "required": ["address"],
            "properties": {
                "mode": {"enum": _ADDRESS_MODES},
                "address": _ADDRESS,
                "direction": {"enum": [Direction.BEFORE.value, None]},
                "signatures": _NULL,
            },
        },
        {
            "required": ["address", "direction", "anchor"],
            "properties": {
                "mode": {"enum": _ADDRESS_MODES},
                "address": _ADDRESS,
                "direction": {"enum": [Direction.AFTER.value]},
                "anchor": _ANCHOR,
                "signatures": _NULL,
            },
        },
    ]
}


class BackfillRequest(JobBody):
    """Fetch and store transactions of the past: those of a list of signatures, or of an address's history.

    `before` searches what is older than the anchor, or from the newest on without one; `after` finds what
    lies next to the anchor on its newer side. What is stored already is not fetched again. A program, a pool
    and a token are searched alike: by the transactions that name the address, which plain transfers of a
    token do not.
    """

    model_config = ConfigDict(json_schema_extra=RULES)

    mode: Mode
    address: PublicKey | None = Field(default=None, validate_default=True)
    signatures: Annotated[list[Signature], Field(min_length=1, max_length=SIGNATURES_MAX)] | None = Field(
        default=None, validate_default=True, description="what is there twice counts once"
    )
    direction: Direction | None = Field(default=None, description="`before` unless said otherwise")
    anchor: Signature | None = Field(
        default=None,
        validate_default=True,
        description="the signature to start from; it is not part of what is found",
    )
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, strict=True), WHOLE] | None = None
    max_pages: Annotated[int, Field(ge=1, le=PAGES_MAX, strict=True), WHOLE] | None = Field(
        default=None, description="pages of up to 1,000 signatures"
    )
    commitment: Commitment = Field(
        default=Commitment.FINALIZED, description="one for all requests of the campaign"
    )
    include_failed: bool = Field(
        default=True, strict=True, description="whether transactions that failed on the chain are wanted"
    )
    role: Annotated[str, Field(pattern=ROLE_PATTERN)] | None = Field(
        default=None, description="which of the configured endpoints is asked"
    )
    dry_run: DryRun = False

    @field_validator("address")
    @classmethod
    def _check_address(cls, address: str | None, info: ValidationInfo) -> str | None:
        if address is None and info.data.get("mode") in (Mode.PROGRAM, Mode.TOKEN, Mode.POOL):
            raise ValueError("is required with this mode")
        return _only_of_addresses(address, info)

    @field_validator("signatures")
    @classmethod
    def _check_signatures(cls, signatures: list[str] | None, info: ValidationInfo) -> list[str] | None:
        mode = info.data.get("mode")
        if signatures is None and mode is Mode.SIGNATURES:
            raise ValueError("is required with the mode signatures")
        if signatures is not None and mode is not None and mode is not Mode.SIGNATURES:
            raise ValueError("goes with the mode signatures alone")
        return signatures

    @field_validator("anchor")
    @classmethod
    def _check_anchor(cls, anchor: str | None, info: ValidationInfo) -> str | None:
        if anchor is None and info.data.get("direction") is Direction.AFTER:
            raise ValueError("is required with the direction after")
        return _only_of_addresses(anchor, info)

    @field_validator("direction", "limit", "max_pages")
    @classmethod
    def _check_searched(cls, value: T, info: ValidationInfo) -> T:
        return _only_of_addresses(value, info)

    @field_validator("include_failed")
    @classmethod
    def _check_include_failed(cls, include_failed: bool, info: ValidationInfo) -> bool:
        if not include_failed and info.data.get("mode") is Mode.SIGNATURES:
            raise ValueError("must be true with the mode signatures: what is named is fetched")
        return include_failed

    def with_defaults(self, settings: Settings) -> CompleteBackfillRequest:
        """Fill in what the caller left out.

        Raises `BackfillNotConfigured` when no endpoint is, and `EndpointNotFound` when none has the role.
        """
        if settings.solana_endpoints is None:
            raise BackfillNotConfigured
        role = self.role or settings.solana_backfill_role
        if endpoint_of(settings.solana_endpoints, role) is None:
            raise EndpointNotFound(role)
        values = self.model_dump() | {"role": role}
        if self.signatures is not None:
            values["signatures"] = list(dict.fromkeys(self.signatures))
        else:
            values["direction"] = self.direction or Direction.BEFORE
            values["limit"] = self.limit or settings.solana_backfill_limit
            values["max_pages"] = self.max_pages or settings.solana_backfill_max_pages
        return CompleteBackfillRequest.model_validate(values)


class CompleteBackfillRequest(BackfillRequest):
    """A request with nothing left open. Of the mode `signatures`, what belongs to a search stays null."""

    role: Annotated[str, Field(pattern=ROLE_PATTERN)]


def _only_of_addresses(value: T, info: ValidationInfo) -> T:
    if value is not None and info.data.get("mode") is Mode.SIGNATURES:
        raise ValueError("does not go with the mode signatures")
    return value


BACKFILL = JobKind(
    name="solana.backfill",
    task="converge.solana_backfill.backfill",
    queue="jobs",
    lease="solana-backfill:campaign",
    request_model=CompleteBackfillRequest,
)
