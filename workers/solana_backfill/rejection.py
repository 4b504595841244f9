"""Why a node's answer is no transaction that can be stored: closed, stable words. Pure."""

from __future__ import annotations

from enum import StrEnum

from workers.errors import PermanentError


class RejectReason(StrEnum):
    """The stable code; it is stored with the observation."""

    MALFORMED_PAYLOAD = "malformed_payload"  # not JSON, or it contradicts itself or the method's description
    SIGNATURE_MISMATCH = "signature_mismatch"  # a transaction, but not the one that was asked for
    UNEXPECTED_ENCODING = "unexpected_encoding"  # another encoding than `json`, although that was asked for
    META_UNAVAILABLE = "meta_unavailable"  # the node has the transaction, but not what came of it
    UNSUPPORTED_VERSION = "unsupported_version"  # a version that the node may not send or that has no number
    NOT_FOUND = "not_found"  # the result is null: missing now, which is not the same as never there
    RPC_ERROR = "rpc_error"  # the answer is an error, so it says nothing about the transaction


class PayloadRejected(PermanentError):
    """The answer has no canonical form. `field` is its place, as a path from the result."""

    def __init__(self, reason: RejectReason, detail: str, *, field: str = "") -> None:
        super().__init__(f"{reason.value}: {field}{' ' if field else ''}{detail}")
        self.reason = reason
        self.field = field


def malformed(detail: str, *, field: str) -> PayloadRejected:
    """The rejection of a payload that is not built as the method's description says."""
    return PayloadRejected(RejectReason.MALFORMED_PAYLOAD, detail, field=field)
