"""The collection `transaction_observations`: one light row for each attempt to hydrate a signature.

It says who was asked, how, when and what came of it. It never holds the answer itself, only its size and
hash, and never a key: of an endpoint's URL only the origin is kept, because keys stand in paths and queries.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from workers.base58 import is_signature
from workers.errors import InvalidInput
from workers.mongo import Document, Filter, MongoDatabase
from workers.solana_backfill.indexes import TRANSACTION_OBSERVATIONS
from workers.solana_backfill.vocabulary import Commitment
from workers.store_errors import translated

# What every observation of this engine says about how it asked.
PROTOCOL = "solana_http_json_rpc"
METHOD = "getTransaction"
ORIGIN = "backfill"

WORD_MAX = 100
# A stable code of ours, never a node's own words.
_CODE = re.compile(r"[a-z][0-9a-z_]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ObservationStatus(StrEnum):
    """What came of one attempt."""

    PERSISTED = "persisted"  # the transaction is stored, by this attempt or before with the same content
    MISSING = "missing"  # the node does not have it now
    FAILED = "failed"  # no usable answer; the error code says why


@dataclass(frozen=True, kw_only=True, slots=True)
class ReceivedBody:
    """What is kept of an answer: its size and the SHA-256 of its bytes as they were received.

    This hash tells answers apart, the content hash of a transaction tells transactions apart; nodes write the
    same transaction in different bytes.
    """

    size_bytes: int
    sha256: str

    @classmethod
    def of(cls, body: bytes) -> ReceivedBody:
        """Measure a body."""
        return cls(size_bytes=len(body), sha256=hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One attempt. Build it with `of`.

    `attempt` counts the attempts of one signature within a session, from 1; `filter_code` says how the
    signature was found. `error_code` is there exactly when the status is `failed`; `content_hash` whenever
    the answer had a canonical form, also when that was not stored because the stored one differs.
    """

    signature: str
    session_id: str
    attempt: int
    filter_code: str
    commitment: Commitment
    provider: str
    endpoint: str
    started_at: datetime
    ended_at: datetime
    status: ObservationStatus
    error_code: str | None = None
    content_hash: str | None = None
    body: ReceivedBody | None = None
    protocol: str = PROTOCOL
    method: str = METHOD
    origin: str = ORIGIN

    @classmethod
    def of(
        cls,
        *,
        signature: str,
        session_id: str,
        attempt: int,
        filter_code: str,
        commitment: Commitment,
        provider: str,
        endpoint: str,
        started_at: datetime,
        ended_at: datetime,
        status: ObservationStatus,
        error_code: str | None = None,
        content_hash: str | None = None,
        body: ReceivedBody | None = None,
    ) -> Observation:
        """Check and build; `endpoint` may be the whole URL. Raises `InvalidInput` naming the field."""
        _require(is_signature(signature), "signature")
        _require(0 < len(session_id) <= WORD_MAX, "session_id")
        _require(attempt >= 1, "attempt")
        _require(_CODE.fullmatch(filter_code) is not None, "filter_code")
        _require(0 < len(provider) <= WORD_MAX, "provider")
        _require(started_at.utcoffset() is not None, "started_at")
        _require(ended_at.utcoffset() is not None, "ended_at")
        is_failed = status is ObservationStatus.FAILED
        is_coded = error_code is not None and _CODE.fullmatch(error_code) is not None
        _require(is_coded if is_failed else error_code is None, "error_code")
        is_hashed = content_hash is not None and _SHA256.fullmatch(content_hash) is not None
        is_without_hash_allowed = status is not ObservationStatus.PERSISTED
        _require(is_hashed or (content_hash is None and is_without_hash_allowed), "content_hash")
        return cls(
            signature=signature,
            session_id=session_id,
            attempt=attempt,
            filter_code=filter_code,
            commitment=commitment,
            provider=provider,
            endpoint=origin_of(endpoint),
            started_at=started_at,
            ended_at=ended_at,
            status=status,
            error_code=error_code,
            content_hash=content_hash,
            body=body,
        )

    def to_document(self) -> Document:
        """The stored form; what is not known is null, so every row has every field."""
        return {
            "signature": self.signature,
            "session_id": self.session_id,
            "attempt": self.attempt,
            "filter_code": self.filter_code,
            "commitment": self.commitment.value,
            "provider": self.provider,
            "endpoint": self.endpoint,
            "protocol": self.protocol,
            "method": self.method,
            "origin": self.origin,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "status": self.status.value,
            "error_code": self.error_code,
            "content_hash": self.content_hash,
            "body_bytes": None if self.body is None else self.body.size_bytes,
            "body_sha256": None if self.body is None else self.body.sha256,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Observation:
        """Read the stored form; fields of a newer version are left out."""
        size, sha256 = document["body_bytes"], document["body_sha256"]
        return cls(
            signature=document["signature"],
            session_id=document["session_id"],
            attempt=document["attempt"],
            filter_code=document["filter_code"],
            commitment=Commitment(document["commitment"]),
            provider=document["provider"],
            endpoint=document["endpoint"],
            protocol=document["protocol"],
            method=document["method"],
            origin=document["origin"],
            started_at=document["started_at"],
            ended_at=document["ended_at"],
            status=ObservationStatus(document["status"]),
            error_code=document["error_code"],
            content_hash=document["content_hash"],
            body=None if size is None else ReceivedBody(size_bytes=size, sha256=sha256),
        )


class ObservationRepository:
    """The collection. Rows are appended, never changed and never deleted."""

    def __init__(self, database: MongoDatabase) -> None:
        self._collection = database[TRANSACTION_OBSERVATIONS]

    def append(self, observation: Observation) -> None:
        """Store one attempt. Raises `RetryableError` when the store does not answer."""
        with translated(TRANSACTION_OBSERVATIONS):
            self._collection.insert_one(observation.to_document())

    def find_by_signature(self, signature: str, *, limit: int) -> list[Observation]:
        """The attempts for a signature in all sessions, oldest first, at most `limit`."""
        return self._find({"signature": signature}, limit)

    def find_by_session(
        self, session_id: str, *, limit: int, status: ObservationStatus | None = None
    ) -> list[Observation]:
        """The attempts of a session, or those with one status; oldest first, at most `limit`."""
        condition = {"session_id": session_id} | ({} if status is None else {"status": status.value})
        return self._find(condition, limit)

    def _find(self, condition: Filter, limit: int) -> list[Observation]:
        with translated(TRANSACTION_OBSERVATIONS):
            rows = list(self._collection.find(condition, limit=limit).sort("started_at", 1))
        return [Observation.from_document(row) for row in rows]


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL: what may be stored and logged of an endpoint.

    Raises `InvalidInput` for what is no such URL.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise InvalidInput("endpoint is no URL", field="endpoint") from exc
    _require(parts.scheme in ("http", "https") and bool(host), "endpoint")
    shown = f"[{host}]" if host and ":" in host else host
    return f"{parts.scheme}://{shown}{f':{port}' if port is not None else ''}"


def _require(is_right: bool, field: str) -> None:
    if not is_right:
        raise InvalidInput(f"{field} of an observation is not acceptable", field=field)
