"""The client of one RPC endpoint: makes single calls, paced, and says what an answer or a refusal is.

It never repeats a call and decides nothing about a transaction. One commitment and one encoding hold for all
calls of a client's session. No part of the endpoint's URL but its host leaves this module, and nothing that
the endpoint wrote into an error.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from workers.clock import Budget, Clock
from workers.errors import ConvergeError, FetchFailed
from workers.http.client import OutboundClient
from workers.http.messages import Destination, Request, Response
from workers.http.retry import PAID, retry_after_s
from workers.solana_backfill import rpc_failures
from workers.solana_backfill.observations import ReceivedBody
from workers.solana_backfill.pacer import Pacer, Permit
from workers.solana_backfill.rpc_failures import Failure, FailureKind
from workers.solana_backfill.signature_page import ListedSignature, read_page
from workers.solana_backfill.vocabulary import Commitment
from workers.solana_endpoints import GET_SIGNATURES, GET_TRANSACTION, SolanaEndpoint

# A page of 1,000 signatures has about 250 KB, the largest transactions with all their logs some hundred.
BODY_MAX_BYTES = 8_388_608
# getSignaturesForAddress takes 1 to 1,000 (https://solana.com/docs/rpc/http/getsignaturesforaddress).
PAGE_SIZE_MAX = 1000
ENCODING = "json"

Params: TypeAlias = list[object]


@dataclass(frozen=True, kw_only=True, slots=True)
class RPCAnswer:
    """The result of one call; None is a result as well."""

    result: object
    received: ReceivedBody
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class _Result:
    value: object
    received: ReceivedBody


class RPCFailed(ConvergeError):
    """One call without a result. `received` is the answer's body, None when there was no answer."""

    def __init__(
        self,
        failure: Failure,
        *,
        method: str,
        address: str,
        received: ReceivedBody | None,
        started_at: datetime,
        finished_at: datetime,
    ) -> None:
        super().__init__(f"{method} at {address}: {failure.reason}")
        self.failure = failure
        self.received = received
        self.started_at = started_at
        self.finished_at = finished_at

    @property
    def kind(self) -> FailureKind:
        """What a caller does next."""
        return self.failure.kind

    @property
    def reason(self) -> str:
        """The stable code."""
        return self.failure.reason


class RPCClient:
    """See the module docstring. One for a process and endpoint; safe for any number of threads."""

    def __init__(
        self,
        endpoint: SolanaEndpoint,
        http: OutboundClient,
        pacer: Pacer,
        clock: Clock,
        *,
        timeout_s: float,
        version_max: int,
    ) -> None:
        self.endpoint = endpoint
        self._http = http
        self._pacer = pacer
        self._clock = clock
        self._timeout_s = timeout_s
        self._version_max = version_max
        self._ids = itertools.count(1)

    def open_session(self, commitment: Commitment, halt: threading.Event) -> RPCSession:
        """The client for one session. When `halt` is set, all its calls that wait for their turn end."""
        return RPCSession(self, commitment, halt)

    def call(self, method: str, params: Params, halt: threading.Event) -> RPCAnswer:
        """Make one call.

        Raises `RPCFailed`; a rate limit has made everybody pause by then. `Halted` when the session has ended
        before the call was made, and `LockUnavailable` when nobody can tell whether it may be made.
        """
        received: ReceivedBody | None = None
        with self._pacer.permit(halt) as permit:
            started_at = self._clock.now()
            try:
                response = self._post(method, params, call_id := next(self._ids), permit)
            except FetchFailed as exc:
                # Its text has the URL. It must not even be kept as the cause of another error.
                read: Failure | _Result = rpc_failures.of_transport(exc.reason)
            else:
                received = ReceivedBody.of(response.body)
                read = _read(response, call_id, received)
                self._heed(response, read, permit)
        finished_at = self._clock.now()
        if isinstance(read, Failure):
            raise RPCFailed(
                read,
                method=method,
                address=self.endpoint.address,
                received=received,
                started_at=started_at,
                finished_at=finished_at,
            )
        return RPCAnswer(
            result=read.value, received=read.received, started_at=started_at, finished_at=finished_at
        )

    def odd_answer(self, method: str, answer: RPCAnswer) -> RPCFailed:
        """The error for a result that is not what the method's description says."""
        return RPCFailed(
            rpc_failures.of_odd_body("unexpected_shape"),
            method=method,
            address=self.endpoint.address,
            received=answer.received,
            started_at=answer.started_at,
            finished_at=answer.finished_at,
        )

    @property
    def version_max(self) -> int:
        """The highest transaction version that the node may send; only a ceiling, older nodes take it too."""
        return self._version_max

    def _post(self, method: str, params: Params, call_id: int, permit: Permit) -> Response:
        request = Request(
            source="solana_rpc",
            url=self.endpoint.url,
            destination=Destination.SERVICE,
            method="POST",
            json_body={"jsonrpc": "2.0", "id": call_id, "method": method, "params": params},
            # One try: repeating depends on what the answer says, which is decided above.
            retry=PAID,
            body_max_bytes=BODY_MAX_BYTES,
            timeout_s=self._timeout_s,
            read_timeout_s=self._timeout_s,
        )
        return self._http.fetch(request, Budget.of(self._clock, self._timeout_s), permit.start)

    def _heed(self, response: Response, read: Failure | _Result, permit: Permit) -> None:
        """Tell the pacer, while the request still has its place."""
        if isinstance(read, Failure) and read.kind is FailureKind.RATE_LIMITED:
            hint_s = retry_after_s(response.headers, response.received_at)
            self._pacer.refused(permit, hint_s or None)
        else:
            self._pacer.accepted(permit)


class RPCSession:
    """The two methods with what holds for all calls of one session. `calls` counts those made, by method."""

    def __init__(self, client: RPCClient, commitment: Commitment, halt: threading.Event) -> None:
        self._client = client
        self.endpoint = client.endpoint
        self.commitment = commitment
        self.halt = halt
        self.calls: Counter[str] = Counter()
        self.refusals = 0
        self._counting = threading.Lock()

    def get_signatures(
        self, address: str, *, limit: int, before: str | None = None, until: str | None = None
    ) -> tuple[ListedSignature, ...]:
        """One page, newest first; both bounds are exclusive, `limit` is 1 to 1,000. Raises as `call` does.

        The page may have fewer entries although there are more, and one more than was asked for.
        """
        options: dict[str, object] = {"limit": limit, "commitment": self.commitment.value}
        if before is not None:
            options["before"] = before
        if until is not None:
            options["until"] = until
        answer = self._call(GET_SIGNATURES, [address, options])
        page = read_page(answer.result)
        if page is None:
            raise self._client.odd_answer(GET_SIGNATURES, answer)
        return page

    def get_transaction(self, signature: str) -> RPCAnswer:
        """One transaction; its result is None when the node does not show it now. Raises as `call` does."""
        options: dict[str, object] = {
            "encoding": ENCODING,
            "commitment": self.commitment.value,
            "maxSupportedTransactionVersion": self._client.version_max,
        }
        return self._call(GET_TRANSACTION, [signature, options])

    def _call(self, method: str, params: Params) -> RPCAnswer:
        try:
            answer = self._client.call(method, params, self.halt)
        except RPCFailed as exc:
            self._count(method, is_refusal=exc.kind is FailureKind.RATE_LIMITED)
            raise
        self._count(method)
        return answer

    def _count(self, method: str, *, is_refusal: bool = False) -> None:
        with self._counting:
            self.calls[method] += 1
            self.refusals += is_refusal


def _read(response: Response, call_id: int, received: ReceivedBody) -> Failure | _Result:
    """What an answer says."""
    status = response.status
    try:
        document = response.json()
    except FetchFailed as exc:
        text = response.body[: rpc_failures.TEXT_CHARS_MAX].decode(errors="replace")
        return rpc_failures.of_answer(status, None, text) or rpc_failures.of_odd_body(exc.reason)
    if not isinstance(document, dict):
        return rpc_failures.of_answer(status, None, "") or rpc_failures.of_odd_body("unexpected_shape")
    code, text = _code_and_text(document.get("error"))
    failure = rpc_failures.of_answer(status, code, text)
    if failure is not None:
        return failure
    if document.get("id") != call_id:
        return rpc_failures.of_odd_body("other_answer")
    if "result" not in document:
        return rpc_failures.of_odd_body("unexpected_shape")
    return _Result(value=document["result"], received=received)


def _code_and_text(error: object) -> tuple[int | None, str]:
    """Code and message of a JSON-RPC error; some gateways write a text in its place. No code counts as 0."""
    if error is None:
        return None, ""
    if not isinstance(error, dict):
        return 0, error if isinstance(error, str) else ""
    code, message = error.get("code"), error.get("message")
    is_number = isinstance(code, int) and not isinstance(code, bool)
    return (code if is_number else 0), message if isinstance(message, str) else ""
